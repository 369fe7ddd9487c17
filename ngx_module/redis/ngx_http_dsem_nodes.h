
/*
 * The known nodes of a Cluster.
 */


#ifndef _NGX_HTTP_DSEM_NODES_H_INCLUDED_
#define _NGX_HTTP_DSEM_NODES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_settings.h"


typedef struct {
    ngx_http_dsem_addr_t             at;

    ngx_uint_t                       search;  /* it was last asked in */
    ngx_msec_t                       asked;   /* when */
    ngx_uint_t                       kept;    /* pointers: not replaced */
    unsigned                         asking:1;
} ngx_http_dsem_node_t;


typedef struct {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_node_t            *elts;    /* those configured are first */
    ngx_uint_t                       n;
    ngx_uint_t                       nconfigured;
    ngx_uint_t                       size;
} ngx_http_dsem_nodes_t;


ngx_int_t ngx_http_dsem_nodes_create(ngx_http_dsem_nodes_t *nodes,
    ngx_http_dsem_redis_settings_t *settings);
void ngx_http_dsem_nodes_free(ngx_http_dsem_nodes_t *nodes);

ngx_http_dsem_node_t *ngx_http_dsem_nodes_get(ngx_http_dsem_nodes_t *nodes,
    ngx_str_t *host, in_port_t port, ngx_http_dsem_node_t *from);
ngx_http_dsem_node_t *ngx_http_dsem_nodes_oldest(
    ngx_http_dsem_nodes_t *nodes, ngx_uint_t search);


#endif /* _NGX_HTTP_DSEM_NODES_H_INCLUDED_ */
