
/*
 * Figures: what this node has counted and what Redis has of the fleet, joined
 * by the names of the semaphores.
 */


#ifndef _NGX_HTTP_DSEM_API_FIGURES_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_FIGURES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_pool.h"
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_limits.h"
#include "ngx_http_dsem_survey.h"


typedef struct {
    ngx_str_t                           name;
    ngx_http_dsem_figures_t            *local;  /* zeros: not counted here */
    ngx_http_dsem_survey_semaphore_t   *fleet;  /* NULL: unknown */
    ngx_http_dsem_api_pool_t           *pool;   /* NULL: it is none */
    ngx_http_dsem_limits_pair_t        *literal;    /* in this configuration;
                                                       NULL: it has variables */
} ngx_http_dsem_api_row_t;


/* redis is valid until control goes back to the event loop */
typedef struct {
    ngx_http_dsem_counters_reader_t     reader; /* other: names without a row */
    ngx_array_t                        *literals;
    ngx_array_t                         rows;   /* ngx_http_dsem_api_row_t */
    ngx_http_dsem_survey_t             *survey; /* NULL: never read */
    int64_t                             age;    /* ms; -1: never read */
    ngx_http_dsem_survey_redis_t        redis;
    ngx_uint_t                          partial;    /* unsigned:1 */
} ngx_http_dsem_api_figures_t;


/* the holders of one node; held etc. are sums */
typedef struct {
    ngx_str_t                           node;
    ngx_int_t                           in_use;
    ngx_int_t                           idle;
    ngx_int_t                           waiting;
    ngx_uint_t                          sessions;
} ngx_http_dsem_api_node_t;


/* the word of each count, in the order of ngx_http_dsem_count_e */
extern const char *const  ngx_http_dsem_api_counts[NGX_HTTP_DSEM_NCOUNTS];

/* why a limit that is found is what it is: numbers that have a word */
#define NGX_HTTP_DSEM_API_REASONS  6


ngx_int_t ngx_http_dsem_api_figures_begin(ngx_pool_t *pool,
    ngx_array_t *literals, ngx_http_dsem_api_figures_t *figures);
ngx_int_t ngx_http_dsem_api_figures_read(
    ngx_http_dsem_api_figures_t *figures);
ngx_int_t ngx_http_dsem_api_figures_one(ngx_pool_t *pool,
    ngx_array_t *literals, ngx_str_t *name,
    ngx_http_dsem_api_figures_t *figures);

ngx_int_t ngx_http_dsem_api_figures_idle(
    ngx_http_dsem_survey_semaphore_t *fleet);
ngx_int_t ngx_http_dsem_api_figures_nodes(ngx_pool_t *pool,
    ngx_array_t *holders, ngx_array_t *nodes);

const char *ngx_http_dsem_api_figures_reason(ngx_int_t reason);


#endif /* _NGX_HTTP_DSEM_API_FIGURES_H_INCLUDED_ */
