
/*
 * The body of a request, read before anything is asked for.
 */


#ifndef _NGX_HTTP_DSEM_BODY_H_INCLUDED_
#define _NGX_HTTP_DSEM_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_request.h"


ngx_uint_t ngx_http_dsem_body_awaited(ngx_http_dsem_ctx_t *ctx);
ngx_int_t ngx_http_dsem_body_read(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_BODY_H_INCLUDED_ */
