
/*
 * The end of an upstream's answer: permits go back, long before the client
 * has read it ("dsem_release response").
 *
 * When the header of an answer goes out, the upstream's finalize handler is
 * ours from then on: nginx calls it when it lets go of the upstream.  No
 * sooner, because until then the request may still be sent elsewhere, and
 * keeps what it has; and not at the last buffer, which waits for slow
 * readers.  Where nothing of this comes, the log phase is there.
 *
 * Called by: nginx, as a filter of headers; subrequest.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_refusal.h"
#include "ngx_http_dsem_release.h"


static ngx_int_t ngx_http_dsem_header_filter(ngx_http_request_t *r);
static void ngx_http_dsem_release_watch(ngx_http_dsem_ctx_t *ctx,
    ngx_http_request_t *r);
static void ngx_http_dsem_release_finalize(ngx_http_request_t *r,
    ngx_int_t rc);
static void ngx_http_dsem_release_answered(ngx_http_dsem_ctx_t *ctx);
static ngx_http_dsem_ctx_t *ngx_http_dsem_release_ctx(
    ngx_http_request_t *r);
static ngx_uint_t ngx_http_dsem_release_sliced(ngx_http_request_t *r);
static ngx_uint_t ngx_http_dsem_release_updating(ngx_http_request_t *r);


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;

/* the slice module's contexts, if nginx has it */
static ngx_module_t  *ngx_http_dsem_slice_module;


void
ngx_http_dsem_release_init(ngx_conf_t *cf)
{
    ngx_uint_t      i;
    ngx_module_t  **modules;

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_dsem_header_filter;

    ngx_http_dsem_slice_module = NULL;
    modules = cf->cycle->modules;

    for (i = 0; modules[i]; i++) {
        if (ngx_strcmp(modules[i]->name, "ngx_http_slice_filter_module") == 0)
        {
            ngx_http_dsem_slice_module = modules[i];
        }
    }
}


static ngx_int_t
ngx_http_dsem_header_filter(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_release_ctx(r);

    if (ctx == NULL) {
        return ngx_http_next_header_filter(r);
    }

    if (ctx->refused && r == r->main) {
        if (ngx_http_dsem_refusal_header(ctx) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (ngx_http_dsem_release_expected(ctx)
               || r != ctx->request)
    {
        ngx_http_dsem_release_watch(ctx, r);
    }

    return ngx_http_next_header_filter(r);
}


/* r is the request itself, or one that updates the cache in its place */

static void
ngx_http_dsem_release_watch(ngx_http_dsem_ctx_t *ctx,
    ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (ngx_http_dsem_release_updating(r)) {
        ctx->updating = 1;
        return;
    }

    if (u == NULL || u->peer.connection == NULL) {
        /* the cache has answered, or nginx in the place of the upstream */
        ngx_http_dsem_release_answered(ctx);
        return;
    }

    if (u->finalize_request != ngx_http_dsem_release_finalize) {
        ctx->finalize_request = u->finalize_request;
        u->finalize_request = ngx_http_dsem_release_finalize;
    }
}


/* nginx lets go of the upstream: its connection goes in this turn */

static void
ngx_http_dsem_release_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_release_ctx(r);

    r->upstream->finalize_request = ctx->finalize_request;
    r->upstream->finalize_request(r, rc);

    if (r->upstream == ctx->upstream) {
        /* it is of an earlier location, what there is now is not its own */
        return;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "dsem upstream answered");

    ngx_http_dsem_release_answered(ctx);
}


/* not yet where a subrequest relies on it: then when all of it is done */

static void
ngx_http_dsem_release_answered(ngx_http_dsem_ctx_t *ctx)
{
    if (!ctx->lent) {
        ngx_http_dsem_request_release_all(ctx);
    }
}


/* the record whose permits this request's upstream uses, or NULL */

static ngx_http_dsem_ctx_t *
ngx_http_dsem_release_ctx(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_request_ctx(r);

    if (ctx || !r->background || r->uri.data != r->parent->uri.data) {
        return ctx;
    }

    /* an update of the cache runs on after what it was started by */

    ctx = ngx_http_dsem_request_ctx(r->parent);

    return (ctx && ctx->updating) ? ctx : NULL;
}


/*
 * Whether the permits go back with the upstream's answer, whoever reads it.
 * False: not before the request is logged.
 */

ngx_uint_t
ngx_http_dsem_release_expected(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = ctx->request->upstream;

    /* an upstream may be left over from before a redirect */

    return ctx->conf->release == NGX_HTTP_DSEM_RELEASE_RESPONSE
           && u
           && u != ctx->upstream
           && !ngx_http_dsem_release_sliced(ctx->request);
}


/* one request is many to the upstream, one after the other */

static ngx_uint_t
ngx_http_dsem_release_sliced(ngx_http_request_t *r)
{
    return ngx_http_dsem_slice_module
           && r->ctx[ngx_http_dsem_slice_module->ctx_index];
}


/* it is answered from the cache, and a subrequest of its asks the upstream */

static ngx_uint_t
ngx_http_dsem_release_updating(ngx_http_request_t *r)
{
#if (NGX_HTTP_CACHE)
    return r->cached && r->cache && r->cache->background;
#else
    return 0;
#endif
}
