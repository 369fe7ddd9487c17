
/*
 * Subrequests that are counted.
 */


#ifndef _NGX_HTTP_DSEM_SUBREQUEST_H_INCLUDED_
#define _NGX_HTTP_DSEM_SUBREQUEST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_ctx.h"


ngx_int_t ngx_http_dsem_subrequest_watch(ngx_http_dsem_ctx_t *ctx);
void ngx_http_dsem_subrequest_share(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t *nclaims);


#endif /* _NGX_HTTP_DSEM_SUBREQUEST_H_INCLUDED_ */
