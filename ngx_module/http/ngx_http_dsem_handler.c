
/*
 * The phase handlers: a request comes into a location, is redirected, and ends.
 *
 * The access handler acts only where it has the last word on access, the
 * precontent handler everywhere else; whichever comes first acquires, once
 * per location.
 *
 * Called by: nginx, through the phases that module registers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_acquire.h"
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_body.h"
#include "ngx_http_dsem_cached.h"
#include "ngx_http_dsem_hold.h"
#include "ngx_http_dsem_http.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_pool.h"
#include "ngx_http_dsem_shutdown.h"


static void ngx_http_dsem_redirect_event_handler(ngx_event_t *ev);
static ngx_uint_t ngx_http_dsem_redirect_busy(ngx_http_dsem_ctx_t *ctx);
static ngx_int_t ngx_http_dsem_handler_limit(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_loc_conf_t *dlcf);
static ngx_int_t ngx_http_dsem_handler_acquire(ngx_http_dsem_ctx_t *ctx);
static ngx_int_t ngx_http_dsem_handler_claim(ngx_http_dsem_ctx_t *ctx,
    ngx_uint_t pending);
static ngx_int_t ngx_http_dsem_handler_evaluate(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t *nclaims, ngx_uint_t pending);
static void ngx_http_dsem_handler_values(ngx_http_request_t *r);
static void ngx_http_dsem_handler_resume(ngx_http_request_t *r);


/*
 * In the earliest phase that knows the location: a request on the way to
 * another one, with nothing at the upstream.
 *
 * A redirected request brings its permits along, because the new location may
 * want the same ones.  It keeps them only if it gets there at once: where it
 * is suspended on the way (auth_request, limit_req, lua) it releases them, and
 * acquires again when it arrives; a subrequest that uses a permit of a pool
 * keeps them.  A request that runs its post_action has had its response, or has
 * lost its client.
 */

ngx_int_t
ngx_http_dsem_redirect_handler(ngx_http_request_t *r)
{
    ngx_event_t          *ev;
    ngx_http_dsem_ctx_t  *ctx;

    if (!r->internal || r != r->main) {
        return NGX_DECLINED;
    }

    if (r->post_action) {
        ngx_http_dsem_answer_abandon(r);
    }

    ctx = ngx_http_dsem_ctx_find(r);

    if (ctx == NULL || ctx->released) {
        return NGX_DECLINED;
    }

    if (!ctx->decided) {

        /* a post_action is to come: the request itself has ended */

        if (r->post_action) {
            ngx_http_dsem_acquire_abort(ctx);
        }

    } else if (!r->post_action) {

        /* decides when nginx has done for it what it can at once */

        ev = ngx_http_dsem_ctx_event(ctx, &ctx->redirect,
                                     ngx_http_dsem_redirect_event_handler);

        if (ev == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        ngx_post_event(ev, &ngx_posted_events);

    } else if (ctx->conf->release == NGX_HTTP_DSEM_RELEASE_RESPONSE
               && !ngx_http_dsem_redirect_busy(ctx))
    {
        ngx_http_dsem_ctx_release_all(ctx);
    }

    return NGX_DECLINED;
}


static void
ngx_http_dsem_redirect_event_handler(ngx_event_t *ev)
{
    ngx_http_dsem_ctx_t *ctx = ev->data;

    ngx_http_request_t  *r;

    r = ctx->request;

    if (ngx_http_get_module_ctx(r, ngx_http_dsem_module)
        || ngx_http_dsem_redirect_busy(ctx))
    {
        return;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "dsem redirected request suspended");

    ngx_http_dsem_ctx_release_all(ctx);
}


/* something of it is at the upstream still; of a pool, maybe a subrequest */

static ngx_uint_t
ngx_http_dsem_redirect_busy(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t            i;
    ngx_http_upstream_t  *u;

    u = ctx->request->upstream;

    for (i = 0; i < ctx->nclaims; i++) {
        if (ctx->claims[i].busy) {
            return 1;
        }
    }

    return ctx->updating || ctx->update || (u && u->peer.connection);
}


/*
 * Acts only if it is the last handler of the phase and all must agree: then
 * access has been granted.
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

    return ngx_http_dsem_handler(r);
}


/* in PRECONTENT for "satisfy any", and for a late access handler of lua */

ngx_int_t
ngx_http_dsem_handler(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t       *ctx;
    ngx_http_dsem_loc_conf_t  *dlcf;

    /* subrequests are not counted, as with limit_conn */

    if (r != r->main || r->post_action) {
        return NGX_DECLINED;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_http_dsem_module);

    if (ctx) {
        /* the other phase has acquired, or the request was resumed */
        return (ctx->decided || ctx->conf->dry_run) ? ctx->rc : NGX_AGAIN;
    }

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    ctx = dlcf->limits ? ngx_http_dsem_ctx_get(r) : ngx_http_dsem_ctx_find(r);

    if (ctx == NULL) {
        return dlcf->limits ? NGX_HTTP_INTERNAL_SERVER_ERROR : NGX_DECLINED;
    }

    ngx_http_set_ctx(r, ctx, ngx_http_dsem_module);

    if (ctx->refused) {
        /* its error page is not limited once more */
        ctx->rc = NGX_DECLINED;
        return NGX_DECLINED;
    }

    if (dlcf->limits == NULL
        && ctx->conf
        && ctx->conf->dry_run
        && !ctx->decided)
    {
        /* redirected before the reply: its ticket is still of interest */
        return NGX_DECLINED;
    }

    return ngx_http_dsem_handler_limit(ctx, dlcf);
}


/* once per location */

static ngx_int_t
ngx_http_dsem_handler_limit(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_int_t   rc;
    ngx_uint_t  pending;

    if (!ctx->decided
        && (ctx->status != NGX_HTTP_DSEM_STATUS_QUEUED || ctx->dry_run))
    {
        /* the verdict of the last location, a dry run, never came */
        ctx->status = NGX_HTTP_DSEM_STATUS_NONE;
    }

    ctx->conf = dlcf;
    ctx->upstream = ctx->request->upstream;
    ctx->decided = 0;
    ctx->patience = 0;
    ctx->worker_full = 0;
    ctx->local = 0;
    ctx->invalid = 0;

    pending = ngx_http_dsem_body_pending(ctx->request);

    if (pending && ngx_http_dsem_body_first(ctx)) {
        return ngx_http_dsem_body_read(ctx, ngx_http_dsem_handler_values);
    }

    rc = ngx_http_dsem_handler_claim(ctx, pending);

    if (rc != NGX_OK) {

        if (rc == NGX_AGAIN) {
            return ngx_http_dsem_body_read(ctx, ngx_http_dsem_handler_values);
        }

        ngx_http_dsem_ctx_release_all(ctx);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (pending && !ctx->decided && ngx_http_dsem_body_expected(ctx)) {

        ngx_http_dsem_acquire_reject_early(ctx);

        if (!ctx->decided) {
            return ngx_http_dsem_body_read(ctx, ngx_http_dsem_handler_resume);
        }
    }

    return ngx_http_dsem_handler_acquire(ctx);
}


static ngx_int_t
ngx_http_dsem_handler_acquire(ngx_http_dsem_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (ctx->conf->hold) {
        ngx_http_dsem_hold_ask(ctx);
    }

    rc = ngx_http_dsem_acquire(ctx);

    if (rc == NGX_AGAIN) {
        ngx_http_dsem_shutdown_suspended(ctx);

        if (ctx->conf->hold) {
            ngx_http_dsem_hold_suspended(ctx);
        }
    }

    return rc;
}


/*
 * Enters the location with the claims of its values.  NGX_AGAIN: they need
 * the pending body; NGX_ERROR: no memory.
 */

static ngx_int_t
ngx_http_dsem_handler_claim(ngx_http_dsem_ctx_t *ctx, ngx_uint_t pending)
{
    ngx_int_t               rc;
    ngx_uint_t              i, nclaims;
    ngx_http_dsem_claim_t  *claims;

    rc = NGX_OK;
    claims = NULL;
    nclaims = 0;

    if (ctx->conf->limits) {
        claims = ngx_http_dsem_ctx_claims(ctx, ctx->conf->limits->nelts);
        if (claims == NULL) {
            return NGX_ERROR;
        }

        rc = ngx_http_dsem_handler_evaluate(ctx, claims, &nclaims, pending);
        if (rc == NGX_ERROR || rc == NGX_AGAIN) {
            return rc;
        }

        if (ctx->conf->hold) {
            ctx->patience = ngx_http_dsem_hold_prefer(ctx->request, claims,
                                                      nclaims);
        }
    }

    /* the time waited before a redirect counts */
    ctx->started = ngx_current_msec - ctx->wait_time;

    if (rc == NGX_DECLINED) {
        ngx_http_dsem_acquire_invalid(ctx, &claims[nclaims]);
        return NGX_OK;
    }

    ngx_http_dsem_pool_spend(ctx);
    ngx_http_dsem_ctx_enter(ctx, claims, nclaims);

    if (nclaims && ctx->status != NGX_HTTP_DSEM_STATUS_QUEUED) {
        ctx->status = NGX_HTTP_DSEM_STATUS_PASSED;
        ctx->dry_run = 0;
    }

    /* those that it has kept */

    for (i = 0; i < ctx->current; i++) {
        if (ctx->claims[i].ticket->answer.local) {
            ctx->status = NGX_HTTP_DSEM_STATUS_DEGRADED;
        }
    }

    return NGX_OK;
}


/*
 * NGX_DECLINED: a value is not valid, which has been logged.  What is made of
 * a body that is still to be read is neither valid nor not: NGX_AGAIN, and
 * nginx has cached nothing of it.  Where it is not read the values stay cached,
 * as they are those of the permits.
 */

static ngx_int_t
ngx_http_dsem_handler_evaluate(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t *nclaims, ngx_uint_t pending)
{
    ngx_int_t                rc;
    ngx_http_request_t      *r;
    ngx_http_dsem_fault_t    fault;
    ngx_http_dsem_cached_t   cached;

    r = ctx->request;

    if (pending && ngx_http_dsem_cached_save(r, &cached) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_dsem_claims_evaluate(r, ctx->conf->limits, claims, nclaims,
                                       &fault);

    if (pending && cached.variables && ngx_http_dsem_cached_body(r)) {

        if (rc != NGX_ERROR && ngx_http_dsem_body_asked(ctx)) {
            ngx_http_dsem_cached_restore(r, &cached);
            return NGX_AGAIN;
        }

        if (r->content_handler) {
            /* a server that was drawn for the permit's name is drawn once */
            ngx_http_dsem_cached_forget_body(r);

        } else {
            /* another location evaluates its own values, with the body */
            ngx_http_dsem_cached_restore(r, &cached);
        }
    }

    if (rc == NGX_DECLINED) {
        ngx_http_dsem_claim_log(r, &claims[*nclaims], &fault);
    }

    return rc;
}


/* the body is there, and so are the values that are made of it */

static void
ngx_http_dsem_handler_values(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_dsem_module);

    ngx_http_dsem_cached_forget_body(r);

    if (ngx_http_dsem_handler_claim(ctx, 0) != NGX_OK) {
        ngx_http_dsem_ctx_release_all(ctx);

        ctx->decided = 1;
        ctx->rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_dsem_handler_resume(r);
}


/* the body is there */

static void
ngx_http_dsem_handler_resume(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_dsem_module);

    if (ngx_http_dsem_handler_acquire(ctx) == NGX_AGAIN) {
        return;
    }

    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}


/* the latest moment; the cleanup is for requests that never get here */

ngx_int_t
ngx_http_dsem_log_handler(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    if (r != r->main) {
        return NGX_OK;
    }

    ctx = ngx_http_get_module_ctx(r, ngx_http_dsem_module);

    if (ctx == NULL) {
        ctx = ngx_http_dsem_ctx_find(r);
    }

    if (ctx) {
        ngx_http_dsem_acquire_end(ctx);
    }

    return NGX_OK;
}
