
/*
 * The header filter, and the end of the upstream: permits go back long
 * before the client has read the response ("dsem_release response").
 *
 * When the header of a response is sent, the upstream's finalize handler is
 * ours from then on: nginx calls it when it releases the upstream.  No
 * sooner, because until then the request may still be sent to another
 * upstream, and keeps its permits; and not at the last buffer, which waits
 * for slow readers.  Where none of this happens, the log phase releases.
 *
 * Called by: nginx, as a filter of headers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"
#include "ngx_http_dsem_filter.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_refusal.h"


typedef struct {
    ngx_http_output_header_filter_pt   next;
    ngx_module_t                      *slice;  /* NULL: nginx has it not */
} ngx_http_dsem_filter_t;


static ngx_int_t ngx_http_dsem_header_filter(ngx_http_request_t *r);
static void ngx_http_dsem_filter_watch(ngx_http_dsem_ctx_t *ctx,
    ngx_http_request_t *r);
static void ngx_http_dsem_filter_finalize(ngx_http_request_t *r,
    ngx_int_t rc);
static ngx_http_dsem_ctx_t *ngx_http_dsem_filter_ctx(ngx_http_request_t *r);
static ngx_uint_t ngx_http_dsem_filter_expected(ngx_http_dsem_ctx_t *ctx);
static ngx_uint_t ngx_http_dsem_filter_sliced(ngx_http_request_t *r);
static ngx_uint_t ngx_http_dsem_filter_updating(ngx_http_request_t *r);


static ngx_http_dsem_filter_t  ngx_http_dsem_filter;


void
ngx_http_dsem_filter_init(ngx_conf_t *cf)
{
    ngx_uint_t      i;
    ngx_module_t  **modules;

    ngx_http_dsem_filter.next = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_dsem_header_filter;

    ngx_http_dsem_filter.slice = NULL;
    modules = cf->cycle->modules;

    for (i = 0; modules[i]; i++) {
        if (ngx_strcmp(modules[i]->name, "ngx_http_slice_filter_module") == 0)
        {
            ngx_http_dsem_filter.slice = modules[i];
        }
    }
}


static ngx_int_t
ngx_http_dsem_header_filter(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_filter_ctx(r);

    if (ctx == NULL) {
        return ngx_http_dsem_filter.next(r);
    }

    if (ctx->refused && r == r->main) {
        if (ngx_http_dsem_refusal_header(ctx) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (ngx_http_dsem_filter_expected(ctx)
               || r != ctx->request)
    {
        ngx_http_dsem_filter_watch(ctx, r);
    }

    return ngx_http_dsem_filter.next(r);
}


/* r is the request itself, or one that updates the cache in its place */

static void
ngx_http_dsem_filter_watch(ngx_http_dsem_ctx_t *ctx,
    ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    if (ngx_http_dsem_filter_updating(r)) {
        ctx->updating = 1;
        return;
    }

    if (u == NULL || u->peer.connection == NULL) {
        /* a response from the cache, or of nginx itself */
        ngx_http_dsem_ctx_release_all(ctx);
        return;
    }

    if (u->finalize_request != ngx_http_dsem_filter_finalize) {
        ctx->finalize_request = u->finalize_request;
        u->finalize_request = ngx_http_dsem_filter_finalize;
    }
}


/* nginx releases the upstream: its connection is closed in this turn */

static void
ngx_http_dsem_filter_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_filter_ctx(r);

    r->upstream->finalize_request = ctx->finalize_request;
    r->upstream->finalize_request(r, rc);

    if (r->upstream == ctx->upstream) {
        /* of an earlier location: the permits are not its own */
        return;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "dsem upstream finalized");

    ngx_http_dsem_ctx_release_all(ctx);
}


/* the context whose permits this request's upstream uses, or NULL */

static ngx_http_dsem_ctx_t *
ngx_http_dsem_filter_ctx(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_dsem_module);

    if (ctx == NULL) {
        ctx = ngx_http_dsem_ctx_find(r);
    }

    if (ctx || !r->background) {
        return ctx;
    }

    /* an update of the cache outlives the request that started it */

    ctx = ngx_http_dsem_ctx_find(r->parent);

    if (ctx == NULL) {
        return NULL;
    }

    /* a redirect changes the uri of the update later */

    if (ctx->updating && r->uri.data == r->parent->uri.data) {
        ctx->updating = 0;
        ctx->update = r;
    }

    return (ctx->update == r) ? ctx : NULL;
}


/*
 * Whether the permits go back at the end of the upstream response, however
 * slowly it is read.  False: not before the request is logged.
 */

static ngx_uint_t
ngx_http_dsem_filter_expected(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = ctx->request->upstream;

    /* an upstream may be left over from before a redirect */

    return ctx->conf->release == NGX_HTTP_DSEM_RELEASE_RESPONSE
           && u
           && u != ctx->upstream
           && !ngx_http_dsem_filter_sliced(ctx->request);
}


/* one request makes many to the upstream, one after the other */

static ngx_uint_t
ngx_http_dsem_filter_sliced(ngx_http_request_t *r)
{
    return ngx_http_dsem_filter.slice
           && r->ctx[ngx_http_dsem_filter.slice->ctx_index];
}


/* a response from the cache, which a subrequest updates */

static ngx_uint_t
ngx_http_dsem_filter_updating(ngx_http_request_t *r)
{
#if (NGX_HTTP_CACHE)
    return r->cached && r->cache && r->cache->background;
#else
    return 0;
#endif
}
