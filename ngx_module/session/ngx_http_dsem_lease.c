
/*
 * The lease: how long Redis counts this worker without a heartbeat.
 *
 * Only arithmetic on a monotonic clock.  A lease counts from the moment at
 * which it was asked for, not from the reply, and as three quarters of its
 * length: the worker stops before Redis, whose clock may be a little faster,
 * gives its permits to other sessions.
 *
 * Called by: session, handshake (renewal), account and ticket (before a
 * request is admitted), local.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_lease.h"


#define NGX_HTTP_DSEM_MAX_HEARTBEAT  1000


ngx_http_dsem_lease_t  ngx_http_dsem_lease;


/*
 * length in ms; the lease has not begun.  node_renewed is when the last
 * worker of this node renewed its own, 0: never.
 */

void
ngx_http_dsem_lease_init(ngx_msec_t length, uint64_t node_renewed)
{
    ngx_http_dsem_lease.length = length;
    ngx_http_dsem_lease.renewed = 0;
    ngx_http_dsem_lease.node_renewed = node_renewed;
    ngx_http_dsem_lease.fence = 0;
    ngx_http_dsem_lease.own_fence = 0;
}


/*
 * "sent" is when the hello or the beat was sent that has its reply now;
 * "declared": Redis counts what this worker has.
 */

void
ngx_http_dsem_lease_renew(uint64_t sent, ngx_uint_t declared)
{
    ngx_http_dsem_lease.renewed = sent;
    ngx_http_dsem_lease.fence = sent + ngx_http_dsem_lease.length / 4 * 3;

    if (declared) {
        ngx_http_dsem_lease_declared();
    }
}


/* Redis counts what this worker has, from the last renewal on */

void
ngx_http_dsem_lease_declared(void)
{
    ngx_http_dsem_lease.own_fence = ngx_http_dsem_lease.fence;
}


ngx_msec_t
ngx_http_dsem_lease_length(void)
{
    return ngx_http_dsem_lease.length;
}


/* the interval of renewals, in ms; as in lua/include/registry.lua */

ngx_msec_t
ngx_http_dsem_lease_heartbeat(void)
{
    return ngx_min(ngx_http_dsem_lease.length / 5,
                   NGX_HTTP_DSEM_MAX_HEARTBEAT);
}


/* ms since the last renewal by this worker */

uint64_t
ngx_http_dsem_lease_age(void)
{
    return ngx_http_dsem_lease_now() - ngx_http_dsem_lease.renewed;
}


/*
 * True if the leases of all workers that lost Redis with this one have
 * expired: their last replies are up to a heartbeat apart.
 */

ngx_uint_t
ngx_http_dsem_lease_over(void)
{
    uint64_t  renewed;

    renewed = ngx_max(ngx_http_dsem_lease.renewed,
                      ngx_http_dsem_lease.node_renewed);

    return ngx_http_dsem_lease_now()
           >= renewed + ngx_http_dsem_lease.length
              + ngx_http_dsem_lease_heartbeat();
}
