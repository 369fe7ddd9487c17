
/*
 * The lease: how long Redis counts this worker without a heartbeat.
 */


#ifndef _NGX_HTTP_DSEM_LEASE_H_INCLUDED_
#define _NGX_HTTP_DSEM_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_monotonic.h"


/* of one session; for reading only, outside of lease */
typedef struct {
    ngx_msec_t  length;
    ngx_msec_t  longest;        /* of the whole fleet, in replies so far */
    uint64_t    renewed;        /* by this worker; 0: never */
    uint64_t    node_renewed;   /* or seen, before the session started */
    uint64_t    fence;
    uint64_t    own_fence;      /* of permits that are not granted anew */
} ngx_http_dsem_lease_t;


/*
 * True if no request may be admitted on a permit, as Redis may have ended
 * the lease.  A worker that was stopped finds out here, before it acts on
 * replies that are old.
 */

#define ngx_http_dsem_lease_fenced(lease)                                     \
    (ngx_http_dsem_monotonic() >= (lease)->fence)


/*
 * True if no request may be admitted on a permit that the worker had before:
 * while a new state waits for its declaration it counts nothing for this
 * worker.
 */

#define ngx_http_dsem_lease_own_fenced(lease)                                 \
    (ngx_http_dsem_monotonic() >= (lease)->own_fence)


void ngx_http_dsem_lease_init(ngx_http_dsem_lease_t *lease,
    ngx_msec_t length, ngx_msec_t longest, uint64_t node_renewed);
void ngx_http_dsem_lease_renew(ngx_http_dsem_lease_t *lease, uint64_t sent,
    ngx_msec_t longest, ngx_uint_t declared);
void ngx_http_dsem_lease_declared(ngx_http_dsem_lease_t *lease);

ngx_msec_t ngx_http_dsem_lease_heartbeat(ngx_http_dsem_lease_t *lease);
uint64_t ngx_http_dsem_lease_age(ngx_http_dsem_lease_t *lease);
ngx_uint_t ngx_http_dsem_lease_over(ngx_http_dsem_lease_t *lease);


#endif /* _NGX_HTTP_DSEM_LEASE_H_INCLUDED_ */
