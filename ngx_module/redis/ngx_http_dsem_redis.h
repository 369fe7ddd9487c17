
/*
 * Redis as the rest of the module sees it.
 */


#ifndef _NGX_HTTP_DSEM_REDIS_H_INCLUDED_
#define _NGX_HTTP_DSEM_REDIS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_scripts.h"
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_redis_s  ngx_http_dsem_redis_t;


typedef struct {
    /* scripts can be called; all earlier calls are void: say hello */
    void                    (*up)(void *data);
    /* no calls are accepted until the next "up" */
    void                    (*down)(void *data);
    /* a reply in the current epoch, which its caller cannot use; "verify":
       keys of a semaphore may have been lost */
    void                    (*unusable)(void *data,
                                        ngx_http_dsem_reply_e status,
                                        ngx_uint_t verify);
    /* the breaker has opened: no request should wait for Redis */
    void                    (*unavailable)(void *data);
    /* after redis_probe(), redis_await(): a reply has come, or is late */
    void                    (*replied)(void *data);
    /* one message to the session's channel */
    void                    (*message)(void *data, ngx_str_t *text);
} ngx_http_dsem_redis_handlers_t;


ngx_http_dsem_redis_t *ngx_http_dsem_redis_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_str_t *prefix,
    ngx_uint_t shard, ngx_http_dsem_identity_t *identity,
    ngx_http_dsem_redis_handlers_t *handlers, void *data);
void ngx_http_dsem_redis_destroy(ngx_http_dsem_redis_t *redis);

void ngx_http_dsem_redis_start(ngx_http_dsem_redis_t *redis);
void ngx_http_dsem_redis_stop(ngx_http_dsem_redis_t *redis);
ngx_int_t ngx_http_dsem_redis_drain(ngx_http_dsem_redis_t *redis,
    ngx_msec_t end);

ngx_int_t ngx_http_dsem_redis_subscribe(ngx_http_dsem_redis_t *redis);
ngx_int_t ngx_http_dsem_redis_load(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_script_e script);
void ngx_http_dsem_redis_accepted(ngx_http_dsem_redis_t *redis);
void ngx_http_dsem_redis_reconnect(ngx_http_dsem_redis_t *redis,
    const char *reason);
void ngx_http_dsem_redis_drop(ngx_http_dsem_redis_t *redis,
    const char *reason);

ngx_uint_t ngx_http_dsem_redis_unavailable(ngx_http_dsem_redis_t *redis);
ngx_uint_t ngx_http_dsem_redis_handled(ngx_http_dsem_redis_t *redis,
    ngx_uint_t passed);
void ngx_http_dsem_redis_published(ngx_http_dsem_redis_t *redis,
    ngx_uint_t published);
ngx_uint_t ngx_http_dsem_redis_late(ngx_http_dsem_redis_t *redis);
ngx_int_t ngx_http_dsem_redis_probe(ngx_http_dsem_redis_t *redis,
    ngx_msec_t worth);
void ngx_http_dsem_redis_await(ngx_http_dsem_redis_t *redis);
ngx_http_dsem_keys_t *ngx_http_dsem_redis_keys(ngx_http_dsem_redis_t *redis);

ngx_uint_t ngx_http_dsem_redis_is_up(ngx_http_dsem_redis_t *redis);
ngx_http_dsem_resp_t *ngx_http_dsem_redis_begin(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_script_e script, ngx_str_t *keys, ngx_uint_t nkeys,
    ngx_uint_t nargs);
ngx_http_dsem_resp_t *ngx_http_dsem_redis_begin_packed(
    ngx_http_dsem_redis_t *redis, ngx_http_dsem_script_e script,
    ngx_str_t *keys, ngx_uint_t nkeys, int64_t *values, ngx_uint_t nvalues,
    ngx_uint_t nargs);
ngx_int_t ngx_http_dsem_redis_call(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_reply_pt handler, void *data);

ngx_str_t *ngx_http_dsem_redis_address(ngx_http_dsem_redis_t *redis);
void ngx_http_dsem_redis_reason(ngx_http_dsem_redis_t *redis,
    ngx_str_t *reason);


#endif /* _NGX_HTTP_DSEM_REDIS_H_INCLUDED_ */
