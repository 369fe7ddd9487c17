
/*
 * The shards: the sessions of this worker, one for each.
 */


#ifndef _NGX_HTTP_DSEM_SHARDS_H_INCLUDED_
#define _NGX_HTTP_DSEM_SHARDS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


ngx_int_t ngx_http_dsem_shards_start(
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers);

void ngx_http_dsem_shards_stop(void);

ngx_http_dsem_session_t *ngx_http_dsem_shards_session(ngx_str_t *name);
ngx_http_dsem_session_t *ngx_http_dsem_shards_use(ngx_str_t *name);
ngx_http_dsem_session_t *ngx_http_dsem_shards_next(
    ngx_http_dsem_session_t *session);
void ngx_http_dsem_shards_wake(ngx_http_dsem_session_t *session);
ngx_uint_t ngx_http_dsem_shards_over(ngx_http_dsem_session_t *session);
ngx_uint_t ngx_http_dsem_shards_fleet(void);


#endif /* _NGX_HTTP_DSEM_SHARDS_H_INCLUDED_ */
