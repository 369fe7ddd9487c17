
/*
 * Locate: the server to connect to, where other servers have to be asked.
 */


#ifndef _NGX_HTTP_DSEM_LOCATE_H_INCLUDED_
#define _NGX_HTTP_DSEM_LOCATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_peer.h"


ngx_http_dsem_peer_t *ngx_http_dsem_locate_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_keys_t *keys,
    ngx_http_dsem_peer_handlers_t *handlers, void *data);


#endif /* _NGX_HTTP_DSEM_LOCATE_H_INCLUDED_ */
