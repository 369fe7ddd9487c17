
/*
 * The body of a request, read before anything is asked for, so that a slow
 * upload holds no permit ("dsem_wait_body").
 *
 * Only a body whose length is known is waited for: a streamed one may never
 * end, and is passed on while it comes.
 *
 * Called by: request, before it asks; goes on with the phases as the mirror
 * module of nginx does.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_body.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_verdict.h"


static void ngx_http_dsem_body_handler(ngx_http_request_t *r);


/* whether there is a body to be read before this request asks */

ngx_uint_t
ngx_http_dsem_body_awaited(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_request_t  *r;

    r = ctx->request;

    return ctx->conf->wait_body
           && ctx->current < ctx->nclaims
           && r == r->main
           && r->headers_in.content_length_n > 0
           && !r->headers_in.chunked
           && r->request_body == NULL
           && !r->discard_body;
}


/*
 * Reads it; then the request asks, and runs the phases when it need not
 * wait.  What is returned is for the phase engine.
 */

ngx_int_t
ngx_http_dsem_body_read(ngx_http_dsem_ctx_t *ctx)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = ctx->request;

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "dsem reads the body first");

    rc = ngx_http_read_client_request_body(r, ngx_http_dsem_body_handler);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}


static void
ngx_http_dsem_body_handler(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_dsem_module);

    if (ngx_http_dsem_verdict_acquire(ctx) == NGX_AGAIN) {
        return;
    }

    r->write_event_handler = ngx_http_core_run_phases;
    ngx_http_core_run_phases(r);
}
