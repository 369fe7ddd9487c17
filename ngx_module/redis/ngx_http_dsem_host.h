
/*
 * A host: the addresses of one server of the directive.
 */


#ifndef _NGX_HTTP_DSEM_HOST_H_INCLUDED_
#define _NGX_HTTP_DSEM_HOST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_host_s  ngx_http_dsem_host_t;

/* reason is NULL: there are addresses; else why there is none */
typedef void (*ngx_http_dsem_host_pt)(void *data, const char *reason);


ngx_http_dsem_host_t *ngx_http_dsem_host_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_server_t *server,
    ngx_http_dsem_host_pt handler, void *data);
void ngx_http_dsem_host_destroy(ngx_http_dsem_host_t *host);

ngx_int_t ngx_http_dsem_host_find(ngx_http_dsem_host_t *host);
void ngx_http_dsem_host_cancel(ngx_http_dsem_host_t *host);
void ngx_http_dsem_host_next(ngx_http_dsem_host_t *host);
ngx_uint_t ngx_http_dsem_host_naddrs(ngx_http_dsem_host_t *host);
ngx_addr_t *ngx_http_dsem_host_addr(ngx_http_dsem_host_t *host);
ngx_str_t *ngx_http_dsem_host_name(ngx_http_dsem_host_t *host);

/* a pool cleanup */
void ngx_http_dsem_host_forget(void *resolver);


#endif /* _NGX_HTTP_DSEM_HOST_H_INCLUDED_ */
