
/*
 * A connection to Redis: hiredis's async API on nginx's events.
 */


#ifndef _NGX_HTTP_DSEM_CONNECTION_H_INCLUDED_
#define _NGX_HTTP_DSEM_CONNECTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <hiredis/hiredis.h>
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_connection_s  ngx_http_dsem_connection_t;

/*
 * Reports to the owner.  "reason" is owned by the connection;
 * "protocol_error": the peer is there, but does not speak as Redis does;
 * "securing", or NULL: the handshake of TLS begins, nothing may be done then
 */
typedef struct {
    void             (*connected)(void *data);
    void             (*reply)(void *data, redisReply *reply);
    void             (*failed)(void *data, const char *reason,
                               ngx_uint_t protocol_error);
    void             (*securing)(void *data);
} ngx_http_dsem_connection_handlers_t;


ngx_http_dsem_connection_t *ngx_http_dsem_connection_create(ngx_addr_t *addr,
    ngx_msec_t timeout, ngx_http_dsem_login_t *login,
    ngx_http_dsem_connection_handlers_t *handlers, void *data, char *reason);
ngx_int_t ngx_http_dsem_connection_send(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_resp_t *command);
ngx_int_t ngx_http_dsem_connection_subscribe(ngx_http_dsem_connection_t *conn,
    ngx_str_t *channel);
ngx_int_t ngx_http_dsem_connection_drain(ngx_http_dsem_connection_t *conn,
    ngx_msec_t end);
void ngx_http_dsem_connection_close(ngx_http_dsem_connection_t *conn);


#endif /* _NGX_HTTP_DSEM_CONNECTION_H_INCLUDED_ */
