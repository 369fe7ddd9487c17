
/*
 * Subrequests that are counted ("dsem_subrequests on").
 *
 * Each has a context and permits of its own, which go back when it is done:
 * the log phase is not run for it.  A subrequest never waits for permits that
 * its own parents keep until it is done.
 *
 * Called by: handler, when a subrequest enters a limited location.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_filter.h"
#include "ngx_http_dsem_subrequest.h"


static ngx_int_t ngx_http_dsem_subrequest_done(ngx_http_request_t *r,
    void *data, ngx_int_t rc);
static ngx_uint_t ngx_http_dsem_subrequest_shared(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claim);
static ngx_uint_t ngx_http_dsem_subrequest_awaited(
    ngx_http_dsem_ctx_t *ctx);


/* its permits go back when it is done; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_subrequest_watch(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_request_t          *r;
    ngx_http_post_subrequest_t  *ps;

    r = ctx->request;

    ps = ngx_palloc(r->pool, sizeof(ngx_http_post_subrequest_t));
    if (ps == NULL) {
        return NGX_ERROR;
    }

    ps->handler = ngx_http_dsem_subrequest_done;
    ps->data = ctx;

    ctx->post_subrequest = r->post_subrequest;
    r->post_subrequest = ps;

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_subrequest_done(ngx_http_request_t *r, void *data,
    ngx_int_t rc)
{
    ngx_http_dsem_ctx_t *ctx = data;

    ngx_http_post_subrequest_t  *ps;

    /* it is called again when those that rely on it are done */

    if (!ctx->lent || r->postponed == NULL) {
        ngx_http_dsem_ctx_release_all(ctx);
    }

    ps = ctx->post_subrequest;

    return ps ? ps->handler(r, ps->data, rc) : rc;
}


/*
 * Takes out the claims for which a parent holds permits until this
 * subrequest is done: to wait for those would be to wait for itself.
 */

void
ngx_http_dsem_subrequest_share(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t *nclaims)
{
    ngx_uint_t  i, n;

    n = 0;

    for (i = 0; i < *nclaims; i++) {
        if (!ngx_http_dsem_subrequest_shared(ctx->request, &claims[i])) {
            claims[n++] = claims[i];
        }
    }

    *nclaims = n;
}


static ngx_uint_t
ngx_http_dsem_subrequest_shared(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claim)
{
    ngx_uint_t               i;
    ngx_http_dsem_claim_t    *has;
    ngx_http_dsem_ctx_t  *ctx;

    for (r = r->parent; r; r = r->parent) {
        ctx = ngx_http_dsem_ctx_find(r);

        if (ctx == NULL || !ngx_http_dsem_subrequest_awaited(ctx)) {
            continue;
        }

        for (i = 0; i < ctx->nclaims; i++) {
            has = &ctx->claims[i];

            if (has->ticket && ngx_http_dsem_claim_same(has, claim)) {
                ctx->lent = 1;
                return 1;
            }
        }
    }

    return 0;
}


/*
 * True if a parent holds its permits until its subrequests are done: a
 * response that is not buffered is read as fast as theirs are sent.
 */

static ngx_uint_t
ngx_http_dsem_subrequest_awaited(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_upstream_t  *u;

    u = ctx->request->upstream;

    return !ngx_http_dsem_filter_expected(ctx)
           || !u->buffering
           || u->conf->max_temp_file_size == 0;
}
