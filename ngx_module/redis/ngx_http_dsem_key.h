
/*
 * Names of semaphores, and every key and channel in Redis.
 */


#ifndef _NGX_HTTP_DSEM_KEY_H_INCLUDED_
#define _NGX_HTTP_DSEM_KEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* the longest encoded name; longer ones are replaced by a digest */
#define NGX_HTTP_DSEM_MAX_NAME  200

/* of a digest, the bytes before "~"; and all of it */
#define NGX_HTTP_DSEM_KEY_HEAD    64
#define NGX_HTTP_DSEM_KEY_DIGEST  (NGX_HTTP_DSEM_KEY_HEAD + 1 + 40)


/* of a Cluster */
#define NGX_HTTP_DSEM_SLOTS     16384


/* in a Cluster; part of the state: all workers must have the same number */
#define NGX_HTTP_DSEM_SHARDS    4


/* keys that a shard has once */
typedef enum {
    NGX_HTTP_DSEM_KEY_SESSIONS = 0,
    NGX_HTTP_DSEM_KEY_CENSUS,
    NGX_HTTP_DSEM_KEY_IDLE,
    NGX_HTTP_DSEM_NKEYS
} ngx_http_dsem_key_e;


/* of one shard, in one allocation */
typedef struct {
    ngx_str_t   shard;        /* "<prefix>:{<number>}" */
    ngx_str_t   registry[NGX_HTTP_DSEM_NKEYS];
    ngx_uint_t  slot;         /* of all keys, in a Cluster */
} ngx_http_dsem_keys_t;


ngx_int_t ngx_http_dsem_keys_create(ngx_http_dsem_keys_t *keys,
    ngx_str_t *prefix, ngx_uint_t shard);
void ngx_http_dsem_keys_free(ngx_http_dsem_keys_t *keys);

ngx_uint_t ngx_http_dsem_key_shard(ngx_str_t *name);

size_t ngx_http_dsem_key_len(ngx_http_dsem_keys_t *keys, ngx_str_t *name);
u_char *ngx_http_dsem_key_parts(ngx_http_dsem_keys_t *keys,
    const char *parts, ngx_str_t *name, ngx_str_t *key, u_char *p);

ngx_int_t ngx_http_dsem_key_encode(ngx_pool_t *pool, ngx_str_t *name,
    ngx_str_t *encoded);
ngx_int_t ngx_http_dsem_key_read(ngx_pool_t *pool, ngx_str_t *name);
u_char *ngx_http_dsem_key_escape(u_char *dst, u_char *src, size_t len);
ngx_uint_t ngx_http_dsem_key_plain(u_char ch);


#endif /* _NGX_HTTP_DSEM_KEY_H_INCLUDED_ */
