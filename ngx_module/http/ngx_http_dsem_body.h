
/*
 * Request bodies that are read before permits are acquired.
 */


#ifndef _NGX_HTTP_DSEM_BODY_H_INCLUDED_
#define _NGX_HTTP_DSEM_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"


ngx_int_t ngx_http_dsem_body_init(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
ngx_uint_t ngx_http_dsem_body_expected(ngx_http_dsem_ctx_t *ctx);
ngx_int_t ngx_http_dsem_body_read(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_BODY_H_INCLUDED_ */
