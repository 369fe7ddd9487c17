
/*
 * Refusals: status code and headers for the client, a log line for the
 * operator.
 */


#ifndef _NGX_HTTP_DSEM_REFUSAL_H_INCLUDED_
#define _NGX_HTTP_DSEM_REFUSAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_ctx.h"


/* of a location with "dsem_hold": its words are those of $dsem_status */
#define NGX_HTTP_DSEM_REFUSAL_HEADER  "Dsem-Status"
#define NGX_HTTP_DSEM_REFUSAL_ERROR   "ERROR"


ngx_int_t ngx_http_dsem_refusal_code(ngx_http_dsem_ctx_t *ctx);
ngx_int_t ngx_http_dsem_refusal_headers(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_refusal_log(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_REFUSAL_H_INCLUDED_ */
