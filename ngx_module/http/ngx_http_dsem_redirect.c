
/*
 * Requests on the way to another location, with nothing at the upstream.
 *
 * A redirected request brings its permits along, because the new location may
 * want the same ones.  It keeps them only if it gets there at once: where it
 * is suspended on the way (auth_request, limit_req, lua) it releases them, and
 * acquires again when it arrives; a subrequest that uses a permit of a pool
 * keeps them.  A request that runs its post_action has had its response, or has
 * lost its client.
 *
 * Called by: nginx, in the earliest phase that knows the location.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_acquire.h"
#include "ngx_http_dsem_http.h"
#include "ngx_http_dsem_module.h"


static ngx_int_t ngx_http_dsem_redirect_watch(ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_redirect_event_handler(ngx_event_t *ev);
static ngx_uint_t ngx_http_dsem_redirect_busy(ngx_http_dsem_ctx_t *ctx);


ngx_int_t
ngx_http_dsem_redirect_handler(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    if (!r->internal || r != r->main) {
        return NGX_DECLINED;
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

        if (ngx_http_dsem_redirect_watch(ctx) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

    } else if (ctx->conf->release == NGX_HTTP_DSEM_RELEASE_RESPONSE
               && !ngx_http_dsem_redirect_busy(ctx))
    {
        ngx_http_dsem_ctx_release_all(ctx);
    }

    return NGX_DECLINED;
}


/* decides when nginx has done for it what it can at once */

static ngx_int_t
ngx_http_dsem_redirect_watch(ngx_http_dsem_ctx_t *ctx)
{
    ngx_event_t         *ev;
    ngx_http_request_t  *r;

    r = ctx->request;
    ev = ctx->redirect;

    if (ev == NULL) {
        ev = ngx_pcalloc(r->pool, sizeof(ngx_event_t));
        if (ev == NULL) {
            return NGX_ERROR;
        }

        ev->handler = ngx_http_dsem_redirect_event_handler;
        ev->data = ctx;
        ev->log = r->connection->log;

        ctx->redirect = ev;
    }

    ngx_post_event(ev, &ngx_posted_events);

    return NGX_OK;
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
