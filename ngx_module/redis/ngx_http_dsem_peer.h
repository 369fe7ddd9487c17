
/*
 * The peer: the server to connect to, whatever the topology.
 */


#ifndef _NGX_HTTP_DSEM_PEER_H_INCLUDED_
#define _NGX_HTTP_DSEM_PEER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_peer_s  ngx_http_dsem_peer_t;

/* addr is NULL: there is none, "reason" says why */
typedef void (*ngx_http_dsem_peer_pt)(void *data, ngx_addr_t *addr,
    const char *reason);


ngx_http_dsem_peer_t *ngx_http_dsem_peer_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_peer_pt handler,
    void *data);
void ngx_http_dsem_peer_destroy(ngx_http_dsem_peer_t *peer);

void ngx_http_dsem_peer_find(ngx_http_dsem_peer_t *peer);
void ngx_http_dsem_peer_good(ngx_http_dsem_peer_t *peer);
ngx_uint_t ngx_http_dsem_peer_failed(ngx_http_dsem_peer_t *peer);
ngx_msec_t ngx_http_dsem_peer_timeout(ngx_http_dsem_peer_t *peer);
ngx_addr_t *ngx_http_dsem_peer_addr(ngx_http_dsem_peer_t *peer);
ngx_str_t *ngx_http_dsem_peer_name(ngx_http_dsem_peer_t *peer);
const char *ngx_http_dsem_peer_pending(ngx_http_dsem_peer_t *peer);


#endif /* _NGX_HTTP_DSEM_PEER_H_INCLUDED_ */
