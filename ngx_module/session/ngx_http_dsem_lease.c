
/*
 * The lease: how long Redis counts this worker without a heartbeat.
 *
 * Only arithmetic on a monotonic clock, for the session that has the lease.
 * A lease counts from the moment at which it was asked for, not from the
 * reply, and as three quarters of its length: the worker stops before Redis,
 * whose clock may be a little faster, gives its permits to other sessions.
 *
 * Called by: session, handshake (renewal), ledger and ticket (before a
 * request is admitted), local.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


#define NGX_HTTP_DSEM_MAX_HEARTBEAT  1000


static ngx_msec_t ngx_http_dsem_lease_interval(ngx_msec_t length);


/*
 * length in ms; the lease has not begun.  node_renewed is when the last
 * worker of this node renewed its own, or this one saw the fleet elsewhere, 0:
 * never; longest is that of the fleet then, as far as it was seen.
 */

void
ngx_http_dsem_lease_init(ngx_http_dsem_lease_t *lease, ngx_msec_t length,
    ngx_msec_t longest, uint64_t node_renewed)
{
    lease->length = length;
    lease->longest = ngx_max(length, longest);
    lease->renewed = 0;
    lease->node_renewed = node_renewed;
    lease->fence = 0;
    lease->own_fence = 0;
}


/*
 * "sent" is when the hello or the beat was sent that has its reply now;
 * "declared": Redis counts what this worker has.
 */

void
ngx_http_dsem_lease_renew(ngx_http_dsem_lease_t *lease, uint64_t sent,
    ngx_msec_t longest, ngx_uint_t declared)
{
    lease->renewed = sent;
    lease->longest = ngx_max(lease->length, longest);
    /* R3: fence */
    lease->fence = sent + lease->length / 4 * 3;

    if (declared) {
        ngx_http_dsem_lease_declared(lease);
    }
}


/* Redis counts what this worker has, from the last renewal on */

void
ngx_http_dsem_lease_declared(ngx_http_dsem_lease_t *lease)
{
    lease->own_fence = lease->fence;
}


/* the interval of renewals, in ms */

ngx_msec_t
ngx_http_dsem_lease_heartbeat(ngx_http_dsem_lease_t *lease)
{
    return ngx_http_dsem_lease_interval(lease->length);
}


/* of leases of this length; as in lua/include/shard.lua */

static ngx_msec_t
ngx_http_dsem_lease_interval(ngx_msec_t length)
{
    /* R5: heartbeat */
    return ngx_min(length / 5, NGX_HTTP_DSEM_MAX_HEARTBEAT);
}


/* ms since the last renewal by this worker */

uint64_t
ngx_http_dsem_lease_age(ngx_http_dsem_lease_t *lease)
{
    return ngx_http_dsem_monotonic() - lease->renewed;
}


/* or since the last one by its node, before it started */

uint64_t
ngx_http_dsem_lease_node_age(ngx_http_dsem_lease_t *lease)
{
    return ngx_http_dsem_monotonic()
           - ngx_max(lease->renewed, lease->node_renewed);
}


/*
 * True if the leases of all workers that lost Redis with this one have
 * expired: their last replies are up to a heartbeat apart, and one may have a
 * longer lease than this one.
 */

ngx_uint_t
ngx_http_dsem_lease_over(ngx_http_dsem_lease_t *lease)
{
    return ngx_http_dsem_lease_node_age(lease)
           >= lease->longest + ngx_http_dsem_lease_interval(lease->longest);
}
