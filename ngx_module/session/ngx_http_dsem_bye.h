
/*
 * Bye: sessions that leave Redis at once, whatever they have there.
 */


#ifndef _NGX_HTTP_DSEM_BYE_H_INCLUDED_
#define _NGX_HTTP_DSEM_BYE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


/* what became of a session that was to be removed, as lua/bye.lua replies */
typedef enum {
    NGX_HTTP_DSEM_REMOVED_UNKNOWN = 0,
    NGX_HTTP_DSEM_REMOVED,
    NGX_HTTP_DSEM_REMOVED_NOT
} ngx_http_dsem_removed_e;


ngx_int_t ngx_http_dsem_bye_exit(ngx_http_dsem_session_t *session);
ngx_int_t ngx_http_dsem_bye_drain(ngx_http_dsem_session_t *session,
    ngx_msec_t end);
ngx_int_t ngx_http_dsem_bye_send(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_http_dsem_reply_pt handler, void *data);
ngx_int_t ngx_http_dsem_bye_remove(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_uint_t force, ngx_http_dsem_reply_pt handler,
    void *data);
void ngx_http_dsem_bye_dead(ngx_http_dsem_session_t *session);


#endif /* _NGX_HTTP_DSEM_BYE_H_INCLUDED_ */
