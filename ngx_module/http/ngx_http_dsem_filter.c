
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
 * The handler sees whether the upstream failed after its header, which no
 * status shows.  "limit=auto" needs that, so there it is ours in any case.
 *
 * Called by: nginx, as a filter of headers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_acquire.h"
#include "ngx_http_dsem_http.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_pool.h"
#include "ngx_http_dsem_refusal.h"


typedef struct {
    ngx_http_output_header_filter_pt   next;
    ngx_module_t                      *slice;  /* NULL: nginx has it not */
} ngx_http_dsem_filter_t;


static ngx_int_t ngx_http_dsem_header_filter(ngx_http_request_t *r);
static void ngx_http_dsem_filter_watch(ngx_http_dsem_ctx_t *ctx,
    ngx_http_request_t *r);
static void ngx_http_dsem_filter_hook(ngx_http_dsem_ctx_t *ctx,
    ngx_http_upstream_t *u);
static void ngx_http_dsem_filter_finalize(ngx_http_request_t *r,
    ngx_int_t rc);
static void ngx_http_dsem_filter_end(ngx_http_dsem_ctx_t *ctx,
    ngx_http_upstream_t *u);
static ngx_http_dsem_ctx_t *ngx_http_dsem_filter_ctx(ngx_http_request_t *r);
static ngx_uint_t ngx_http_dsem_filter_expected(ngx_http_dsem_ctx_t *ctx);
static ngx_uint_t ngx_http_dsem_filter_sampled(ngx_http_dsem_ctx_t *ctx);


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
        if (ngx_http_dsem_refusal_headers(ctx) != NGX_OK) {
            return NGX_ERROR;
        }

    } else if (ngx_http_dsem_filter_expected(ctx)
               || r != ctx->request)
    {
        ngx_http_dsem_filter_watch(ctx, r);

    } else if (ngx_http_dsem_filter_sampled(ctx)) {
        ngx_http_dsem_filter_hook(ctx, r->upstream);
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

#if (NGX_HTTP_CACHE)

    /* a response from the cache, which a subrequest updates */

    if (r->cached && r->cache && r->cache->background) {
        ctx->updating = 1;
        return;
    }

#endif

    if (u == NULL || u->peer.connection == NULL) {
        /* a response from the cache, or of nginx itself */
        ngx_http_dsem_filter_end(ctx, u);
        return;
    }

    ctx->releases = 1;
    ngx_http_dsem_filter_hook(ctx, u);
}


static void
ngx_http_dsem_filter_hook(ngx_http_dsem_ctx_t *ctx, ngx_http_upstream_t *u)
{
    if (u->finalize_request != ngx_http_dsem_filter_finalize) {
        ctx->finalize_request = u->finalize_request;
        u->finalize_request = ngx_http_dsem_filter_finalize;
    }
}


/* nginx releases the upstream: its connection is closed in this turn */

static void
ngx_http_dsem_filter_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_uint_t            i, releases;
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_filter_ctx(r);

    releases = ctx->releases;
    ctx->releases = 0;

    r->upstream->finalize_request = ctx->finalize_request;
    r->upstream->finalize_request(r, rc);

    if (r->upstream == ctx->upstream) {
        /* of an earlier location: the permits are not its own */
        return;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "dsem upstream finalized: %i", rc);

    /*
     * its connection was closed too early, or reset, or it was silent; or its
     * stream was reset, or the response is no valid one, where neither the
     * client is gone nor another filter has failed
     */

    if (rc == NGX_HTTP_BAD_GATEWAY
        || rc == NGX_HTTP_GATEWAY_TIME_OUT
        || (rc == NGX_ERROR
            && !r->connection->error && !r->connection->timedout
            && !(r->upstream->pipe && r->upstream->pipe->downstream_error)))
    {
        ctx->failed = 1;
    }

    if (!releases) {
        return;
    }

    /*
     * a failure of its server: no permit stays for the next request there; the
     * pool has not been called for the end of the try yet
     */

    if (ngx_http_dsem_pool_failed(r->upstream)) {
        for (i = 0; i < ctx->nclaims; i++) {
            if (ctx->claims[i].busy == r->upstream) {
                ctx->claims[i].spent = 1;
            }
        }
    }

    ngx_http_dsem_filter_end(ctx, r->upstream);
}


/*
 * The permits go back.  Where a mirror, or a part of the page, is at the server
 * of a pool's permit the update of the cache has none, and may end first: then
 * the pool does it when that has left its server.
 */

static void
ngx_http_dsem_filter_end(ngx_http_dsem_ctx_t *ctx, ngx_http_upstream_t *u)
{
    ngx_uint_t              i;
    ngx_http_dsem_claim_t  *claim;

    for (i = 0; i < ctx->nclaims; i++) {
        claim = &ctx->claims[i];

        if (claim->busy && claim->busy != u) {
            claim->ends = 1;
            return;
        }
    }

    ngx_http_dsem_acquire_end(ctx);
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
    ngx_module_t         *slice;
    ngx_http_upstream_t  *u;

    u = ctx->request->upstream;
    slice = ngx_http_dsem_filter.slice;

    /*
     * An upstream may be left over from before a redirect.  A sliced request
     * makes many to the upstream, one after the other.
     */

    return ctx->conf->release == NGX_HTTP_DSEM_RELEASE_RESPONSE
           && u
           && u != ctx->upstream
           && !(slice && ctx->request->ctx[slice->ctx_index]);
}


/* a limit is to be found, and the upstream sends the response */

static ngx_uint_t
ngx_http_dsem_filter_sampled(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t            i;
    ngx_http_upstream_t  *u;

    u = ctx->request->upstream;

    for (i = 0; i < ctx->nclaims; i++) {
        if (ctx->claims[i].ask.auto_limit) {
            return u && u != ctx->upstream && u->peer.connection;
        }
    }

    return 0;
}
