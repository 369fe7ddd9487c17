
/*
 * Pools: the server of a pool's permit is the one that a request gets.
 */


#ifndef _NGX_HTTP_DSEM_POOL_H_INCLUDED_
#define _NGX_HTTP_DSEM_POOL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"
#include "ngx_http_dsem_servers.h"


ngx_int_t ngx_http_dsem_pool_init_upstream(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);
uint64_t ngx_http_dsem_pool_usable(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers);
void ngx_http_dsem_pool_spend(ngx_http_dsem_ctx_t *ctx);
ngx_http_dsem_srv_conf_t *ngx_http_dsem_pool_conf(ngx_str_t *semaphore);
ngx_uint_t ngx_http_dsem_pool_failed(ngx_http_upstream_t *u);


#endif /* _NGX_HTTP_DSEM_POOL_H_INCLUDED_ */
