
/*
 * The servers of a pool, for the API.
 */


#ifndef _NGX_HTTP_DSEM_API_POOL_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_POOL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_fleet.h"


/* limits are of one server; -1: unknown */
typedef struct {
    ngx_str_t     name;         /* first, for text_order(); as nginx prints the
                                   address */
    ngx_str_t     encoded;
    ngx_int_t     in_use;
    ngx_int_t     limit;        /* in force */
    ngx_int_t     configured;   /* without an order */
    ngx_int_t     ordered;      /* for this server; -1: none */
    ngx_int_t     usable;       /* 1, 0; -1: unknown */
} ngx_http_dsem_api_server_t;


/* limits are the sums of those servers that are usable, with what is in use of
   others; -1: unknown */
typedef struct {
    ngx_array_t   servers;      /* ngx_http_dsem_api_server_t, by name */
    ngx_int_t     limit;
    ngx_int_t     configured;
    ngx_int_t     own;          /* highest limit that a server itself has */
    ngx_int_t     each;         /* in force, of each server; -1: its own */
    unsigned      used:1;       /* not at rest: sessions state servers, or
                                   one has permits out */
    unsigned      stated:1;     /* by sessions, at least one server */
} ngx_http_dsem_api_pool_t;


ngx_int_t ngx_http_dsem_api_pool(ngx_pool_t *pool,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_api_pool_t **result);
ngx_int_t ngx_http_dsem_api_pool_configured(ngx_pool_t *pool,
    ngx_str_t *semaphore, ngx_str_t *server, ngx_int_t *in_force);
ngx_int_t ngx_http_dsem_api_pool_own(ngx_pool_t *pool,
    ngx_http_dsem_srv_conf_t *dscf);
ngx_int_t ngx_http_dsem_api_pool_each(ngx_int_t limit);
ngx_int_t ngx_http_dsem_api_pool_lower(ngx_int_t one, ngx_int_t two);
void ngx_http_dsem_api_pool_decode(ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_API_POOL_H_INCLUDED_ */
