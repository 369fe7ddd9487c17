
/*
 * The handshake: hello, declare, declared; then the beat, and the bye.
 */


#ifndef _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_
#define _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


/* what became of a session that was to be removed, as lua/bye.lua replies */
typedef enum {
    NGX_HTTP_DSEM_REMOVED_UNKNOWN = 0,
    NGX_HTTP_DSEM_REMOVED,
    NGX_HTTP_DSEM_REMOVED_NOT
} ngx_http_dsem_removed_e;


ngx_int_t ngx_http_dsem_handshake_create(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers);
void ngx_http_dsem_handshake_destroy(ngx_http_dsem_session_t *session);
ngx_int_t ngx_http_dsem_handshake_start(ngx_http_dsem_session_t *session);
ngx_int_t ngx_http_dsem_handshake_exit(ngx_http_dsem_session_t *session);
ngx_int_t ngx_http_dsem_handshake_drain(ngx_http_dsem_session_t *session,
    ngx_msec_t end);
ngx_int_t ngx_http_dsem_handshake_remove(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_uint_t force, ngx_http_dsem_reply_pt handler,
    void *data);
void ngx_http_dsem_handshake_resync(ngx_http_dsem_session_t *session,
    const char *reason, ngx_uint_t verify);
void ngx_http_dsem_handshake_declared(ngx_http_dsem_session_t *session,
    ngx_http_dsem_reply_t *reply);
void ngx_http_dsem_handshake_recovering(ngx_http_dsem_session_t *session,
    ngx_msec_t left);
void ngx_http_dsem_handshake_recovered(ngx_http_dsem_session_t *session);
void ngx_http_dsem_handshake_sessions(ngx_http_dsem_session_t *session,
    int64_t n);


#endif /* _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_ */
