
/*
 * A host: the addresses of a single server.
 */


#ifndef _NGX_HTTP_DSEM_HOST_H_INCLUDED_
#define _NGX_HTTP_DSEM_HOST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_peer.h"


ngx_http_dsem_peer_t *ngx_http_dsem_host_create(
    ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_peer_handlers_t *handlers, void *data);

/* a pool cleanup */
void ngx_http_dsem_host_forget(void *resolver);


#endif /* _NGX_HTTP_DSEM_HOST_H_INCLUDED_ */
