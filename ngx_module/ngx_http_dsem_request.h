
/*
 * A request that is capped: what it has asked for and what it was told.
 */


#ifndef _NGX_HTTP_DSEM_REQUEST_H_INCLUDED_
#define _NGX_HTTP_DSEM_REQUEST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_claim.h"


/* in the order of the table of words in variables */
typedef enum {
    NGX_HTTP_DSEM_STATUS_NONE = 0,      /* not limited */
    NGX_HTTP_DSEM_STATUS_PASSED,
    NGX_HTTP_DSEM_STATUS_QUEUED,        /* waited and passed */
    NGX_HTTP_DSEM_STATUS_REJECTED,
    NGX_HTTP_DSEM_STATUS_TIMEOUT,
    NGX_HTTP_DSEM_STATUS_DEGRADED,
    NGX_HTTP_DSEM_STATUS_ERROR
} ngx_http_dsem_request_status_e;


/*
 * One per request, and per subrequest that is counted; found through the
 * pool's cleanups, because an internal redirect forgets the contexts.
 */
typedef struct {
    ngx_http_request_t               *request;
    ngx_http_dsem_loc_conf_t         *conf;

    ngx_http_dsem_claim_t             *claims;
    ngx_uint_t                        nclaims;
    ngx_uint_t                        current;    /* is being asked for */

    ngx_event_t                       timer;
    ngx_msec_t                        started;

    ngx_int_t                         rc;         /* for the phase engine */

    ngx_http_dsem_request_status_e    status;
    ngx_str_t                         name;       /* that decided */
    ngx_msec_t                        wait_time;
    ngx_int_t                         position;   /* 0: never queued */
    ngx_int_t                         limit;      /* -1: not known */
    ngx_int_t                         in_use;     /* -1: not known */
    ngx_int_t                         weight;

    ngx_http_upstream_t              *upstream;   /* of an earlier location */
    void                            (*finalize_request)(
                                          ngx_http_request_t *r,
                                          ngx_int_t rc);
    ngx_http_post_subrequest_t       *post_subrequest;

    unsigned                          decided:1;
    unsigned                          refused:1;  /* for good, really */
    unsigned                          dry_run:1;  /* nothing was enforced */
    unsigned                          worker_full:1;  /* by dsem_max_waiting */
    unsigned                          invalid:1;  /* a value is no number */
    unsigned                          updating:1; /* a subrequest updates the
                                                     cache for it */
    unsigned                          lent:1;     /* a subrequest relies on
                                                     what this one has */
} ngx_http_dsem_ctx_t;


ngx_int_t ngx_http_dsem_access_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_dsem_precontent_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_dsem_log_handler(ngx_http_request_t *r);

ngx_http_dsem_ctx_t *ngx_http_dsem_request_ctx(ngx_http_request_t *r);
void ngx_http_dsem_request_release_all(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_REQUEST_H_INCLUDED_ */
