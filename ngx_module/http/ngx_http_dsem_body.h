
/*
 * Request bodies that are read before permits are acquired.
 */


#ifndef _NGX_HTTP_DSEM_BODY_H_INCLUDED_
#define _NGX_HTTP_DSEM_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"


/* whether there is a body that has not been read, by any module */
#define ngx_http_dsem_body_pending(r)                                         \
    (((r)->headers_in.content_length_n > 0 || (r)->headers_in.chunked)        \
     && (r)->request_body == NULL                                             \
     && !(r)->filter_finalize                                                 \
     && !(r)->discard_body)


ngx_int_t ngx_http_dsem_body_init(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
void ngx_http_dsem_body_warn(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf);
ngx_uint_t ngx_http_dsem_body_first(ngx_http_dsem_ctx_t *ctx);
ngx_uint_t ngx_http_dsem_body_asked(ngx_http_dsem_ctx_t *ctx);
ngx_uint_t ngx_http_dsem_body_expected(ngx_http_dsem_ctx_t *ctx);
ngx_int_t ngx_http_dsem_body_read(ngx_http_dsem_ctx_t *ctx,
    ngx_http_client_body_handler_pt handler);


#endif /* _NGX_HTTP_DSEM_BODY_H_INCLUDED_ */
