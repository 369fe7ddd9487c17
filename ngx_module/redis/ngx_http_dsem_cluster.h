
/*
 * Redis Cluster: which node has the keys.
 */


#ifndef _NGX_HTTP_DSEM_CLUSTER_H_INCLUDED_
#define _NGX_HTTP_DSEM_CLUSTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_cluster_s  ngx_http_dsem_cluster_t;

/* as ngx_http_dsem_peer_pt */
typedef void (*ngx_http_dsem_cluster_pt)(void *data, ngx_addr_t *addr,
    const char *reason);


ngx_http_dsem_cluster_t *ngx_http_dsem_cluster_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_keys_t *keys,
    ngx_http_dsem_cluster_pt handler, void *data);
void ngx_http_dsem_cluster_destroy(ngx_http_dsem_cluster_t *cluster);

void ngx_http_dsem_cluster_find(ngx_http_dsem_cluster_t *cluster);
void ngx_http_dsem_cluster_stop(ngx_http_dsem_cluster_t *cluster);
void ngx_http_dsem_cluster_good(ngx_http_dsem_cluster_t *cluster);
ngx_uint_t ngx_http_dsem_cluster_moved(ngx_http_dsem_cluster_t *cluster,
    const char *error);
ngx_addr_t *ngx_http_dsem_cluster_addr(ngx_http_dsem_cluster_t *cluster);
const char *ngx_http_dsem_cluster_reason(ngx_http_dsem_cluster_t *cluster);
ngx_msec_t ngx_http_dsem_cluster_followed(ngx_http_dsem_cluster_t *cluster);


#endif /* _NGX_HTTP_DSEM_CLUSTER_H_INCLUDED_ */
