
/*
 * The handshake: hello, declare, declared.
 */


#ifndef _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_
#define _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


/* a hello, declared or beat that is sent */
typedef struct {
    ngx_http_dsem_session_t  *session;
    uint64_t                  sent;        /* ms, monotonic */
} ngx_http_dsem_handshake_call_t;


ngx_int_t ngx_http_dsem_handshake_start(ngx_http_dsem_session_t *session);
void ngx_http_dsem_handshake_begin(void *data);
void ngx_http_dsem_handshake_down(void *data);
void ngx_http_dsem_handshake_resync(ngx_http_dsem_session_t *session,
    const char *reason, ngx_uint_t verify);
void ngx_http_dsem_handshake_unusable(void *data,
    ngx_http_dsem_reply_e status, ngx_uint_t verify);
void ngx_http_dsem_handshake_declared(ngx_http_dsem_session_t *session);
void ngx_http_dsem_handshake_renew(ngx_http_dsem_session_t *session,
    uint64_t sent, ngx_uint_t fleet, ngx_msec_t longest);

ngx_int_t ngx_http_dsem_handshake_call(ngx_http_dsem_session_t *session,
    ngx_http_dsem_reply_pt handler);


#endif /* _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_ */
