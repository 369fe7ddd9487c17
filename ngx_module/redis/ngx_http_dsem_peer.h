
/*
 * The peer: the server to connect to, whatever the topology.
 */


#ifndef _NGX_HTTP_DSEM_PEER_H_INCLUDED_
#define _NGX_HTTP_DSEM_PEER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_peer_s  ngx_http_dsem_peer_t;

/* "reason" is valid during the call only */
typedef struct {
    /* after a find; addr is NULL: there is none, for this reason */
    void                    (*found)(void *data, ngx_addr_t *addr,
                                     const char *reason);
    /* the server in use is not the one to connect to any more: find again */
    void                    (*moved)(void *data, const char *reason);
} ngx_http_dsem_peer_handlers_t;


ngx_http_dsem_peer_t *ngx_http_dsem_peer_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_keys_t *keys,
    ngx_http_dsem_peer_handlers_t *handlers, void *data);
void ngx_http_dsem_peer_destroy(ngx_http_dsem_peer_t *peer);

void ngx_http_dsem_peer_find(ngx_http_dsem_peer_t *peer);
void ngx_http_dsem_peer_good(ngx_http_dsem_peer_t *peer);
ngx_uint_t ngx_http_dsem_peer_failed(ngx_http_dsem_peer_t *peer);
ngx_uint_t ngx_http_dsem_peer_redirected(ngx_http_dsem_peer_t *peer,
    const char *error);
ngx_msec_t ngx_http_dsem_peer_timeout(ngx_http_dsem_peer_t *peer);
ngx_addr_t *ngx_http_dsem_peer_addr(ngx_http_dsem_peer_t *peer);
ngx_str_t *ngx_http_dsem_peer_name(ngx_http_dsem_peer_t *peer);
const char *ngx_http_dsem_peer_pending(ngx_http_dsem_peer_t *peer);
const char *ngx_http_dsem_peer_reason(ngx_http_dsem_peer_t *peer);
ngx_msec_t ngx_http_dsem_peer_followed(ngx_http_dsem_peer_t *peer);


#endif /* _NGX_HTTP_DSEM_PEER_H_INCLUDED_ */
