
/*
 * Calls of scripts on one connection: what was called, in which order, and
 * what the replies say.  For redis only.
 */


#ifndef _NGX_HTTP_DSEM_CALL_H_INCLUDED_
#define _NGX_HTTP_DSEM_CALL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_hiredis.h"
#include "ngx_http_dsem_redis.h"


#define NGX_HTTP_DSEM_SHARD_KEYS  3
#define NGX_HTTP_DSEM_SHA_LEN     40
#define NGX_HTTP_DSEM_RUN_ID_LEN  40


typedef struct {
    ngx_queue_t                  queue;    /* unanswered, oldest first */
    ngx_uint_t                   n;

    ngx_str_t                    session;  /* in name */
    u_char                       name[NGX_HTTP_DSEM_SESSION_LEN];
    uint64_t                     epoch;
    uint64_t                     number;   /* of the last call */
    ngx_str_t                    run_id;   /* of the Redis process */
    u_char                       run_id_buf[NGX_HTTP_DSEM_RUN_ID_LEN];
    ngx_uint_t                   loads;    /* how often scripts were loaded */
    u_char                      *missing;  /* SHA of one that Redis had not,
                                              until a call of it is answered */

    ngx_str_t                    keys[NGX_HTTP_DSEM_SHARD_KEYS];
    u_char                       sha[NGX_HTTP_DSEM_NSCRIPTS]
                                    [NGX_HTTP_DSEM_SHA_LEN];

    /* the command that is being put together */
    u_char                      *script;
    const char                 **argv;
    size_t                      *argvlen;
    u_char                      *digits;
    u_char                      *digits_last;
    ngx_uint_t                   argc;
    ngx_uint_t                   nargs;    /* room for so many */
} ngx_http_dsem_calls_t;


ngx_int_t ngx_http_dsem_calls_init(ngx_http_dsem_calls_t *calls,
    ngx_str_t *key);
void ngx_http_dsem_calls_free(ngx_http_dsem_calls_t *calls);
void ngx_http_dsem_calls_forget(ngx_http_dsem_calls_t *calls);

ngx_int_t ngx_http_dsem_calls_load(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_hiredis_t *hiredis);
ngx_int_t ngx_http_dsem_calls_identify(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_hiredis_t *hiredis);
ngx_int_t ngx_http_dsem_calls_begin(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_script_e script, ngx_str_t *key, ngx_uint_t nkeys,
    ngx_uint_t nargs);
void ngx_http_dsem_calls_string(ngx_http_dsem_calls_t *calls,
    ngx_str_t *value);
void ngx_http_dsem_calls_number(ngx_http_dsem_calls_t *calls, int64_t value);
ngx_int_t ngx_http_dsem_calls_send(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_hiredis_t *hiredis, ngx_http_dsem_reply_pt handler,
    void *data);

ngx_int_t ngx_http_dsem_calls_reply(ngx_http_dsem_calls_t *calls,
    redisReply *reply);


#endif /* _NGX_HTTP_DSEM_CALL_H_INCLUDED_ */
