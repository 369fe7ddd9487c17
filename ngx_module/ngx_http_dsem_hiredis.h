
/*
 * The hiredis adapter: one connection that speaks RESP on nginx's event
 * loop.
 */


#ifndef _NGX_HTTP_DSEM_HIREDIS_H_INCLUDED_
#define _NGX_HTTP_DSEM_HIREDIS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <hiredis/hiredis.h>


typedef struct ngx_http_dsem_hiredis_s  ngx_http_dsem_hiredis_t;

/*
 * What the owner is told.  "reason" is a static or connection-owned text;
 * "protocol_error": the connection is there, but what came is not RESP
 */
typedef struct {
    void             (*connected)(void *data);
    void             (*reply)(void *data, redisReply *reply);
    void             (*failed)(void *data, const char *reason,
                               ngx_uint_t protocol_error);
} ngx_http_dsem_hiredis_handlers_t;


ngx_http_dsem_hiredis_t *ngx_http_dsem_hiredis_connect(ngx_addr_t *addr,
    ngx_msec_t timeout, ngx_http_dsem_hiredis_handlers_t *handlers,
    void *data);
ngx_int_t ngx_http_dsem_hiredis_send(ngx_http_dsem_hiredis_t *hiredis,
    ngx_uint_t argc, const char **argv, size_t *argvlen);
ngx_int_t ngx_http_dsem_hiredis_subscribe(ngx_http_dsem_hiredis_t *hiredis,
    ngx_str_t *channel);
ngx_int_t ngx_http_dsem_hiredis_drain(ngx_http_dsem_hiredis_t *hiredis,
    ngx_msec_t timeout);
void ngx_http_dsem_hiredis_close(ngx_http_dsem_hiredis_t *hiredis);


#endif /* _NGX_HTTP_DSEM_HIREDIS_H_INCLUDED_ */
