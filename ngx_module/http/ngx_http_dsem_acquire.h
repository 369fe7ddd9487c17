
/*
 * Acquiring: claim after claim, wait, decide.
 */


#ifndef _NGX_HTTP_DSEM_ACQUIRE_H_INCLUDED_
#define _NGX_HTTP_DSEM_ACQUIRE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_ctx.h"


ngx_int_t ngx_http_dsem_acquire(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_acquire_reject_early(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_acquire_invalid(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim);
void ngx_http_dsem_acquire_exit(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_acquire_resume(ngx_http_request_t *r);
void ngx_http_dsem_acquire_end(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_acquire_abort(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_ACQUIRE_H_INCLUDED_ */
