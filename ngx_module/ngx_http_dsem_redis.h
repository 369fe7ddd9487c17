
/*
 * Redis as the rest of the module sees it: a connection that comes and
 * goes, scripts that can be called on it, messages that arrive.
 */


#ifndef _NGX_HTTP_DSEM_REDIS_H_INCLUDED_
#define _NGX_HTTP_DSEM_REDIS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_scripts.h"


/* <node>:<worker>:<16 hex digits>, a node has at most 64 bytes */
#define NGX_HTTP_DSEM_SESSION_LEN  128


typedef struct ngx_http_dsem_redis_s  ngx_http_dsem_redis_t;


/* how a command ended; the same table as in lua/include/status.lua */
typedef enum {
    NGX_HTTP_DSEM_REPLY_OK = 0,
    NGX_HTTP_DSEM_REPLY_RESYNC,
    NGX_HTTP_DSEM_REPLY_STALE,
    NGX_HTTP_DSEM_REPLY_GONE,
    NGX_HTTP_DSEM_REPLY_BROKEN,
    NGX_HTTP_DSEM_NREPLIES
} ngx_http_dsem_status_e;


/* a reply that fits its command: what follows session, epoch and number */
typedef struct {
    ngx_http_dsem_status_e    status;
    ngx_uint_t                nvalues;
    int64_t                  *values;
} ngx_http_dsem_reply_t;


/*
 * Called exactly once for each call that was accepted.  reply is NULL when
 * it will never come; the command may have been executed all the same, and
 * the handler may then do no more than free what it was given.
 */
typedef void (*ngx_http_dsem_reply_pt)(void *data,
    ngx_http_dsem_reply_t *reply);


typedef struct {
    /* scripts can be called; everything before is forgotten: say hello */
    void                    (*up)(void *data);
    /* no calls are accepted until the next "up" */
    void                    (*down)(void *data);
    /* the breaker has opened: nobody should wait for Redis any more */
    void                    (*away)(void *data);
    /* one message to the session's channel */
    void                    (*message)(void *data, ngx_str_t *text);
} ngx_http_dsem_redis_handlers_t;


/* none of it may point into a configuration cycle: the worker outlives it */
typedef struct {
    ngx_addr_t                addr;
    ngx_msec_t                connect_timeout;
    ngx_msec_t                timeout;
    ngx_msec_t                backoff;     /* longest pause */
    ngx_msec_t                heartbeat;
    ngx_str_t                 key;         /* "<prefix>:{0}" */
} ngx_http_dsem_redis_settings_t;


ngx_http_dsem_redis_t *ngx_http_dsem_redis_create(
    ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_redis_handlers_t *handlers, void *data);
ngx_int_t ngx_http_dsem_redis_destroy(ngx_http_dsem_redis_t *redis,
    ngx_msec_t drain);

ngx_int_t ngx_http_dsem_redis_identify(ngx_http_dsem_redis_t *redis,
    ngx_str_t *session, uint64_t epoch);
void ngx_http_dsem_redis_heard(ngx_http_dsem_redis_t *redis);
void ngx_http_dsem_redis_ready(ngx_http_dsem_redis_t *redis);
void ngx_http_dsem_redis_reconnect(ngx_http_dsem_redis_t *redis,
    const char *reason);
void ngx_http_dsem_redis_drop(ngx_http_dsem_redis_t *redis,
    const char *reason);
ngx_str_t *ngx_http_dsem_redis_run_id(ngx_http_dsem_redis_t *redis);
ngx_uint_t ngx_http_dsem_redis_away(ngx_http_dsem_redis_t *redis);

ngx_int_t ngx_http_dsem_redis_begin(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_script_e script, ngx_str_t *key, ngx_uint_t nkeys,
    ngx_uint_t nargs);
void ngx_http_dsem_redis_string(ngx_http_dsem_redis_t *redis,
    ngx_str_t *value);
void ngx_http_dsem_redis_number(ngx_http_dsem_redis_t *redis, int64_t value);
ngx_int_t ngx_http_dsem_redis_call(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_reply_pt handler, void *data);


#endif /* _NGX_HTTP_DSEM_REDIS_H_INCLUDED_ */
