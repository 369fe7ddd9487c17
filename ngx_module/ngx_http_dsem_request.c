
/*
 * A request that is capped: comes into locations, takes permits along, gives
 * them back.
 *
 * Owns the record of the request: what the location's lines want and which
 * tickets it has; what it is told is for the verdict to find.  The record's
 * cleanup is there before anything is asked for, and giving back is
 * idempotent, so every way in which a request can end gives back once.
 *
 * Called by: module (phase handlers), verdict (a refusal), release and
 * subrequest (the end of what the permits are for), variables.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_body.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_request.h"
#include "ngx_http_dsem_subrequest.h"
#include "ngx_http_dsem_verdict.h"


static ngx_int_t ngx_http_dsem_request_handler(ngx_http_request_t *r);
static ngx_int_t ngx_http_dsem_request_limit(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_loc_conf_t *dlcf);
static void ngx_http_dsem_request_abandon(ngx_http_request_t *r);
static ngx_http_dsem_ctx_t *ngx_http_dsem_request_create(
    ngx_http_request_t *r);
static void ngx_http_dsem_request_cleanup(void *data);
static ngx_int_t ngx_http_dsem_request_enter(ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_request_keep(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t nclaims);


/*
 * Acts only where it has the last word on access: everything registered for
 * this phase has run and all must agree.  Elsewhere the precontent handler
 * does the work.
 */

ngx_int_t
ngx_http_dsem_access_handler(ngx_http_request_t *r)
{
    ngx_http_phase_handler_t   *next;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_core_main_conf_t  *cmcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    next = &cmcf->phase_engine.handlers[r->phase_handler + 1];

    if (clcf->satisfy != NGX_HTTP_SATISFY_ALL
        || next->checker != ngx_http_core_post_access_phase)
    {
        return NGX_DECLINED;
    }

    return ngx_http_dsem_request_handler(r);
}


ngx_int_t
ngx_http_dsem_precontent_handler(ngx_http_request_t *r)
{
    return ngx_http_dsem_request_handler(r);
}


static ngx_int_t
ngx_http_dsem_request_handler(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t    *ctx;
    ngx_http_dsem_loc_conf_t  *dlcf;

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    if (r != r->main && !dlcf->subrequests) {
        return NGX_DECLINED;
    }

    if (r->post_action) {
        ngx_http_dsem_request_abandon(r);
        return NGX_DECLINED;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_http_dsem_module);

    if (ctx) {
        /* the other phase has seen to it, or the request goes on */
        return ctx->decided ? ctx->rc : NGX_AGAIN;
    }

    ctx = ngx_http_dsem_request_ctx(r);

    if (ctx == NULL) {

        if (dlcf->limits == NULL) {
            return NGX_DECLINED;
        }

        ctx = ngx_http_dsem_request_create(r);
        if (ctx == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    ngx_http_set_ctx(r, ctx, ngx_http_dsem_module);

    if (ctx->refused) {
        /* its error page is not limited once more */
        ctx->rc = NGX_DECLINED;
        return NGX_DECLINED;
    }

    return ngx_http_dsem_request_limit(ctx, dlcf);
}


/* the first time in this location */

static ngx_int_t
ngx_http_dsem_request_limit(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_loc_conf_t *dlcf)
{
    ctx->conf = dlcf;
    ctx->upstream = ctx->request->upstream;
    ctx->decided = 0;
    ctx->dry_run = 0;

    if (ngx_http_dsem_request_enter(ctx) != NGX_OK) {
        ngx_http_dsem_request_release_all(ctx);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (!ctx->decided && ngx_http_dsem_body_awaited(ctx)) {

        ngx_http_dsem_verdict_reject_early(ctx);

        if (!ctx->decided) {
            return ngx_http_dsem_body_read(ctx);
        }
    }

    return ngx_http_dsem_verdict_acquire(ctx);
}


/* the client has left while it waited: what goes on is not for it */

static void
ngx_http_dsem_request_abandon(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_request_ctx(r);

    if (ctx && !ctx->decided) {
        ngx_http_dsem_request_release_all(ctx);
        ctx->status = NGX_HTTP_DSEM_STATUS_NONE;
        ctx->rc = NGX_DECLINED;
        ctx->decided = 1;
    }
}


/* the record of this request, wherever it has been redirected; or NULL */

ngx_http_dsem_ctx_t *
ngx_http_dsem_request_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_dsem_ctx_t  *ctx;

    /* subrequests share the pool */

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_dsem_request_cleanup) {
            continue;
        }

        ctx = cln->data;

        if (ctx->request == r) {
            return ctx;
        }
    }

    return NULL;
}


static ngx_http_dsem_ctx_t *
ngx_http_dsem_request_create(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_dsem_ctx_t  *ctx;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_dsem_ctx_t));
    if (cln == NULL) {
        return NULL;
    }

    ctx = cln->data;
    ngx_memzero(ctx, sizeof(ngx_http_dsem_ctx_t));

    ctx->request = r;
    ngx_http_dsem_verdict_init(ctx);

    cln->handler = ngx_http_dsem_request_cleanup;

    if (r != r->main && ngx_http_dsem_subrequest_watch(ctx) != NGX_OK) {
        return NULL;
    }

    return ctx;
}


static void
ngx_http_dsem_request_cleanup(void *data)
{
    ngx_http_dsem_request_release_all(data);
}


/* the latest moment; the cleanup is for what never gets here */

ngx_int_t
ngx_http_dsem_log_handler(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    if (r == r->main) {
        ctx = ngx_http_dsem_request_ctx(r);

        if (ctx) {
            ngx_http_dsem_request_release_all(ctx);
        }
    }

    return NGX_OK;
}


/*
 * Into a location: keeps the permits that its list begins with and gives
 * back all others, before it takes the rest.  So a request that is
 * redirected never holds what it does not need while it waits.
 */

static ngx_int_t
ngx_http_dsem_request_enter(ngx_http_dsem_ctx_t *ctx)
{
    ngx_int_t              rc;
    ngx_uint_t             nclaims;
    ngx_http_dsem_claim_t  *claims;

    rc = ngx_http_dsem_claims_evaluate(ctx->request, ctx->conf, &claims,
                                      &nclaims);

    if (rc == NGX_ERROR) {
        return NGX_ERROR;
    }

    /* what it has waited before it was redirected counts */
    ctx->started = ngx_current_msec - ctx->wait_time;

    if (rc == NGX_DECLINED) {
        ngx_http_dsem_verdict_invalid(ctx, &claims[nclaims]);
        return NGX_OK;
    }

    if (ctx->request != ctx->request->main) {
        ngx_http_dsem_subrequest_share(ctx, claims, &nclaims);
    }

    ngx_http_dsem_request_keep(ctx, claims, nclaims);

    if (nclaims && ctx->status != NGX_HTTP_DSEM_STATUS_QUEUED) {
        ctx->status = NGX_HTTP_DSEM_STATUS_PASSED;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_request_keep(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t nclaims)
{
    ngx_uint_t             i, n;
    ngx_http_dsem_claim_t  *has;

    n = ngx_min(nclaims, ctx->nclaims);

    for (i = 0; i < n; i++) {
        has = &ctx->claims[i];

        if (has->ticket == NULL
            || ngx_http_dsem_ticket_answer(has->ticket)->verdict
               != NGX_HTTP_DSEM_VERDICT_GRANTED
            || !ngx_http_dsem_claim_same(has, &claims[i])
            || has->ask.weight < claims[i].ask.weight)
        {
            break;
        }

        claims[i].ticket = has->ticket;
        has->ticket = NULL;
    }

    ngx_http_dsem_request_release_all(ctx);

    ctx->claims = claims;
    ctx->nclaims = nclaims;
    ctx->current = i;
}


/* gives back whatever there is, the last taken first; idempotent */

void
ngx_http_dsem_request_release_all(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t  i;

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }

    for (i = ctx->nclaims; i > 0; i--) {
        ngx_http_dsem_claim_release(&ctx->claims[i - 1]);
    }
}
