
/*
 * The context of a request: what it claims, what it holds, its verdict.
 */


#ifndef _NGX_HTTP_DSEM_CTX_H_INCLUDED_
#define _NGX_HTTP_DSEM_CTX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_claim.h"
#include "ngx_http_dsem_conf.h"


/* in the order of the words of $dsem_status */
typedef enum {
    NGX_HTTP_DSEM_STATUS_NONE = 0,      /* not limited */
    NGX_HTTP_DSEM_STATUS_PASSED,
    NGX_HTTP_DSEM_STATUS_QUEUED,        /* waited and passed */
    NGX_HTTP_DSEM_STATUS_REJECTED,
    NGX_HTTP_DSEM_STATUS_TIMEOUT,
    NGX_HTTP_DSEM_STATUS_DEGRADED,
    NGX_HTTP_DSEM_STATUS_ERROR,
    NGX_HTTP_DSEM_STATUS_ABORTED        /* the client left while it waited */
} ngx_http_dsem_status_e;


/* the claims of most locations; more are in the pool of the request */
#define NGX_HTTP_DSEM_CTX_CLAIMS  1


typedef struct ngx_http_dsem_ctx_s  ngx_http_dsem_ctx_t;


/*
 * One per request; found through the pool's cleanups, because an internal
 * redirect clears the contexts.  Not in the pool, which would need one block
 * more for it: the cleanup frees it.
 */
struct ngx_http_dsem_ctx_s {
    ngx_http_request_t         *request;
    ngx_http_dsem_loc_conf_t   *conf;

    ngx_http_dsem_claim_t      *claims;
    ngx_uint_t                  nclaims;
    ngx_uint_t                  current;    /* the next to be acquired */

    ngx_event_t                *redirect;   /* NULL: never redirected */
    ngx_event_t                *overdue;    /* NULL: not watched */
    ngx_event_t                *left;       /* a server of a pool; NULL: it
                                               has none */
    ngx_msec_t                  started;
    ngx_msec_t                  patience;   /* ms for all claims; 0: that of
                                               each */

    ngx_int_t                   rc;         /* for the phase engine */

    ngx_http_dsem_status_e      status;
    ngx_str_t                   name;       /* of the deciding semaphore */
    ngx_str_t                   key;        /* of "fair", encoded; or empty */
    ngx_str_t                   server;     /* of a pool's permit; or empty */
    ngx_msec_t                  wait_time;
    ngx_int_t                   position;   /* 0: never queued */
    ngx_int_t                   limit;      /* -1: unknown */
    ngx_int_t                   in_use;     /* -1: unknown */
    ngx_int_t                   weight;

    ngx_http_upstream_t        *upstream;   /* of an earlier location */
    ngx_http_request_t         *update;     /* of the cache, in background */
    ngx_queue_t                 suspended;  /* next NULL: it is not */
    void                      (*finalize_request)(ngx_http_request_t *r,
                                                  ngx_int_t rc);

    unsigned                    released:1; /* it holds nothing, and none of
                                               its events will come */
    unsigned                    decided:1;
    unsigned                    counted:1;  /* passed in an outage, for the
                                               log */
    unsigned                    refused:1;  /* its answer is a refusal */
    unsigned                    dry_run:1;  /* nothing was enforced */
    unsigned                    worker_full:1;  /* "dsem_max_waiting" */
    unsigned                    local:1;    /* the verdict is of this node */
    unsigned                    heavy:1;    /* its weight exceeds the limit */
    unsigned                    invalid:1;  /* a value is not a number */
    unsigned                    mixed:1;    /* it is a pool elsewhere only, or
                                               here only */
    unsigned                    broken:1;   /* a key of it, not Redis */
    unsigned                    exiting:1;  /* refused, as the worker exits */
    unsigned                    updating:1; /* an update is expected */
    unsigned                    releases:1; /* the end of the upstream does */
    unsigned                    failed:1;   /* the upstream, in the body */
    unsigned                    warned:1;   /* of "dsem_hold_warn" */

    /* not zeroed for each request */
    ngx_event_t                 timer;      /* of the current claim */
    ngx_http_dsem_ctx_t        *next;       /* while spare */
    ngx_http_dsem_claim_t       first[NGX_HTTP_DSEM_CTX_CLAIMS];
};


ngx_http_dsem_ctx_t *ngx_http_dsem_ctx_find(ngx_http_request_t *r);
ngx_http_dsem_ctx_t *ngx_http_dsem_ctx_get(ngx_http_request_t *r);
ngx_http_dsem_claim_t *ngx_http_dsem_ctx_claims(ngx_http_dsem_ctx_t *ctx,
    ngx_uint_t n);
void ngx_http_dsem_ctx_enter(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t nclaims);
ngx_event_t *ngx_http_dsem_ctx_event(ngx_http_dsem_ctx_t *ctx,
    ngx_event_t **event, ngx_event_handler_pt handler);
void ngx_http_dsem_ctx_watch(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_ctx_restart(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_ctx_release(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim);
void ngx_http_dsem_ctx_release_all(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_CTX_H_INCLUDED_ */
