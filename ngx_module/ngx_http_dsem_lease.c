
/*
 * The lease: how long Redis believes this worker without hearing from it.
 *
 * Only arithmetic on a monotonic clock.  A lease is counted from when it was
 * asked for, not from the answer, and as three quarters of its length, so
 * that the worker stops before Redis, whose clock may be a little faster,
 * gives to others what was its.
 *
 * Called by: session, handshake (renewal), ticket (before anybody is admitted),
 * idle, local.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_lease.h"


#define NGX_HTTP_DSEM_MAX_HEARTBEAT  1000


static ngx_msec_t  ngx_http_dsem_lease;
static uint64_t    ngx_http_dsem_lease_renewed;      /* 0: never */
static uint64_t    ngx_http_dsem_lease_heard;        /* by this node */


/*
 * length in ms; the lease has not begun.  "heard" is when another worker of
 * this node was last answered, 0: never.
 */

void
ngx_http_dsem_lease_init(ngx_msec_t length, uint64_t heard)
{
    ngx_http_dsem_lease = length;
    ngx_http_dsem_lease_renewed = 0;
    ngx_http_dsem_lease_heard = heard;
}


/* "sent" is when the hello or the beat was sent that has been answered */

void
ngx_http_dsem_lease_renew(uint64_t sent)
{
    ngx_http_dsem_lease_renewed = sent;
    ngx_http_dsem_lease_heard = sent;
}


ngx_msec_t
ngx_http_dsem_lease_length(void)
{
    return ngx_http_dsem_lease;
}


/* how often it is renewed, in ms; lua/include/registry.lua says the same */

ngx_msec_t
ngx_http_dsem_lease_heartbeat(void)
{
    return ngx_min(ngx_http_dsem_lease / 5, NGX_HTTP_DSEM_MAX_HEARTBEAT);
}


/*
 * True when the worker must admit nobody on a permit: it cannot be sure
 * that Redis still counts it among the living.  A worker that was stopped
 * finds out here, before it acts on what it reads.
 */

ngx_uint_t
ngx_http_dsem_lease_fenced(void)
{
    return ngx_http_dsem_lease_now()
           >= ngx_http_dsem_lease_renewed + ngx_http_dsem_lease / 4 * 3;
}


/*
 * True when the leases of all workers that lost Redis with this one are
 * over: their last answers are up to a heartbeat apart.
 */

ngx_uint_t
ngx_http_dsem_lease_over(void)
{
    return ngx_http_dsem_lease_now()
           >= ngx_http_dsem_lease_heard + ngx_http_dsem_lease
              + ngx_http_dsem_lease_heartbeat();
}


/*
 * Monotonic ms.  Not nginx's cached time: that of a process that was
 * stopped is as old as its stop.
 */

uint64_t
ngx_http_dsem_lease_now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
