
/*
 * The handshake: hello, declare, declared; and the beat.
 */


#ifndef _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_
#define _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_session.h"


ngx_int_t ngx_http_dsem_handshake_start(ngx_http_dsem_session_t *session);
void ngx_http_dsem_handshake_begin(void *data);
void ngx_http_dsem_handshake_down(void *data);
void ngx_http_dsem_handshake_resync(ngx_http_dsem_session_t *session,
    const char *reason, ngx_uint_t verify);
void ngx_http_dsem_handshake_unusable(void *data,
    ngx_http_dsem_reply_e status, ngx_uint_t verify);
void ngx_http_dsem_handshake_declared(ngx_http_dsem_session_t *session);
void ngx_http_dsem_handshake_beat(ngx_event_t *ev);


#endif /* _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_ */
