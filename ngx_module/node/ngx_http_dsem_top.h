
/*
 * Top keys: what the busiest keys of "fair" have at this node.
 */


#ifndef _NGX_HTTP_DSEM_TOP_H_INCLUDED_
#define _NGX_HTTP_DSEM_TOP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* of a worker and a semaphore; of the node and a semaphore */
#define NGX_HTTP_DSEM_TOP_KEYS   10
#define NGX_HTTP_DSEM_TOP_SHOWN  20


/* a key, and the figures of one worker */
typedef struct {
    ngx_str_t                   key;       /* encoded */
    ngx_int_t                   in_use;    /* permits */
    ngx_int_t                   waiting;   /* requests */
} ngx_http_dsem_top_key_t;


typedef struct ngx_http_dsem_top_block_s  ngx_http_dsem_top_block_t;


/* the block of an account; changed only by top */
typedef struct {
    ngx_http_dsem_top_block_t  *block;     /* NULL: none */
    ngx_atomic_uint_t           number;
} ngx_http_dsem_top_own_t;


size_t ngx_http_dsem_tops_size(void);
ngx_int_t ngx_http_dsem_tops_init(void *shared);

void ngx_http_dsem_top_show(ngx_http_dsem_top_own_t *own, ngx_str_t *name,
    uint32_t hash, ngx_http_dsem_top_key_t *keys, ngx_uint_t n);
void ngx_http_dsem_top_hide(ngx_http_dsem_top_own_t *own);

ngx_int_t ngx_http_dsem_tops_read(ngx_pool_t *pool, ngx_str_t *name,
    uint32_t hash, ngx_array_t *keys);


#endif /* _NGX_HTTP_DSEM_TOP_H_INCLUDED_ */
