
/*
 * The content handler of "dsem_hold": a permit for as long as a client holds
 * its connection.
 */


#ifndef _NGX_HTTP_DSEM_HOLD_H_INCLUDED_
#define _NGX_HTTP_DSEM_HOLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"


ngx_int_t ngx_http_dsem_hold_handler(ngx_http_request_t *r);
ngx_msec_t ngx_http_dsem_hold_prefer(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claims, ngx_uint_t nclaims);
void ngx_http_dsem_hold_ask(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_hold_suspended(ngx_http_dsem_ctx_t *ctx);
ngx_int_t ngx_http_dsem_hold_init(ngx_cycle_t *cycle);
void ngx_http_dsem_hold_exit(void);


#endif /* _NGX_HTTP_DSEM_HOLD_H_INCLUDED_ */
