
/*
 * GET /: the page for people.
 *
 * page.html is embedded when the module is built.  Its style and script run
 * because of a nonce, new in each answer, and nothing else does: a name that
 * got into the page as HTML would not run either.
 *
 * Called by: api.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <sys/random.h>
#include "ngx_http_dsem_api.h"
#include "ngx_http_dsem_api_answer.h"


#define NGX_HTTP_DSEM_NONCE_LEN  16


static ngx_int_t ngx_http_dsem_page_nonce(ngx_http_request_t *r,
    ngx_str_t *nonce);
static ngx_int_t ngx_http_dsem_page_headers(ngx_http_request_t *r,
    ngx_str_t *nonce);


ngx_int_t
ngx_http_dsem_api_page(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_str_t                  nonce, *piece;
    ngx_http_dsem_api_text_t   text;

    if (ngx_http_dsem_page_nonce(r, &nonce) != NGX_OK
        || ngx_http_dsem_page_headers(r, &nonce) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_dsem_api_text_init(&text, r->pool);

    for (piece = ngx_http_dsem_page; piece->len; piece++) {

        if (piece != ngx_http_dsem_page) {
            ngx_http_dsem_api_text_string(&text, &nonce);
        }

        ngx_http_dsem_api_text_static(&text, piece);
    }

    return ngx_http_dsem_answer_send(r, NGX_HTTP_OK, "text/html; charset=utf-8",
                                     &text);
}


static ngx_int_t
ngx_http_dsem_page_nonce(ngx_http_request_t *r, ngx_str_t *nonce)
{
    u_char  bytes[NGX_HTTP_DSEM_NONCE_LEN];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, ngx_errno,
                      "dsem: getrandom() failed");
        return NGX_ERROR;
    }

    nonce->len = 2 * sizeof(bytes);

    nonce->data = ngx_pnalloc(r->pool, nonce->len);
    if (nonce->data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_hex_dump(nonce->data, bytes, sizeof(bytes));

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_page_headers(ngx_http_request_t *r, ngx_str_t *nonce)
{
    u_char     *p;
    ngx_str_t   policy;

    static ngx_str_t  referrer = ngx_string("no-referrer");

    static char  format[] =
        "default-src 'none'; script-src 'nonce-%V'; style-src 'nonce-%V'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'";

    p = ngx_pnalloc(r->pool, sizeof(format) + 2 * nonce->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    policy.data = p;
    policy.len = ngx_sprintf(p, format, nonce, nonce) - p;

    if (ngx_http_dsem_answer_header(r, "Content-Security-Policy", &policy)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_dsem_answer_header(r, "Referrer-Policy", &referrer);
}
