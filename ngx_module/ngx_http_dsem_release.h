
/*
 * The end of an upstream's answer: permits go back.
 */


#ifndef _NGX_HTTP_DSEM_RELEASE_H_INCLUDED_
#define _NGX_HTTP_DSEM_RELEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_request.h"


void ngx_http_dsem_release_init(ngx_conf_t *cf);
ngx_uint_t ngx_http_dsem_release_expected(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_RELEASE_H_INCLUDED_ */
