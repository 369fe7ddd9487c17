
/*
 * Calls of scripts on one connection, in a pipeline.
 */


#ifndef _NGX_HTTP_DSEM_SCRIPT_H_INCLUDED_
#define _NGX_HTTP_DSEM_SCRIPT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_scripts.h"


#define NGX_HTTP_DSEM_SHA_LEN  40

#define NGX_HTTP_DSEM_SERVER_LEN  64


/* of the last reply to INFO */
typedef struct {
    ngx_str_t                 server;      /* name and version */
    u_char                    server_buf[NGX_HTTP_DSEM_SERVER_LEN];
    ngx_str_t                 policy;      /* of eviction; or null */
    u_char                    policy_buf[NGX_HTTP_DSEM_SERVER_LEN];
    ngx_uint_t                version;     /* of Redis; 0: unknown, Valkey */
    uint32_t                  run;         /* of its run id; 0: unknown */
    unsigned                  replica:1;
} ngx_http_dsem_info_t;


typedef struct {
    ngx_queue_t                  queue;    /* unanswered, oldest first */
    ngx_uint_t                   n;

    ngx_http_dsem_keys_t        *keys;
    ngx_http_dsem_identity_t    *identity;
    uint64_t                     number;   /* of the last call */

    ngx_http_dsem_info_t         info;

    u_char                       sha[NGX_HTTP_DSEM_NSCRIPTS]
                                    [NGX_HTTP_DSEM_SHA_LEN];

    ngx_http_dsem_resp_t         command;  /* being composed */
    ngx_http_dsem_script_e       script;   /* that it calls */
    ngx_uint_t                   missing;  /* scripts, a bit for each */
    unsigned                     text:1;   /* its reply is text, for people */

    /* of the last reply that a handler was not called with */
    const char                  *fault;
    ngx_http_dsem_reply_e        status;
    unsigned                     verify:1; /* keys may have been lost */
} ngx_http_dsem_script_calls_t;


void ngx_http_dsem_script_init(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_keys_t *keys, ngx_http_dsem_identity_t *identity);
void ngx_http_dsem_script_free(ngx_http_dsem_script_calls_t *calls);

ngx_int_t ngx_http_dsem_script_exists(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn);
ngx_int_t ngx_http_dsem_script_load_missing(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_connection_t *conn);
ngx_int_t ngx_http_dsem_script_load(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_http_dsem_script_e script);
ngx_msec_t ngx_http_dsem_script_loading(ngx_http_dsem_script_calls_t *calls);
ngx_int_t ngx_http_dsem_script_role(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn);
ngx_int_t ngx_http_dsem_script_info(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_uint_t all);
ngx_int_t ngx_http_dsem_script_name(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn);
ngx_int_t ngx_http_dsem_script_ping(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn);
ngx_http_dsem_resp_t *ngx_http_dsem_script_begin(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_script_e script,
    ngx_str_t *keys, ngx_uint_t nkeys, int64_t *values, ngx_uint_t nvalues,
    ngx_uint_t nargs);
ngx_int_t ngx_http_dsem_script_call(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_http_dsem_reply_pt handler,
    void *data);

ngx_int_t ngx_http_dsem_script_reply(ngx_http_dsem_script_calls_t *calls,
    redisReply *reply);
void ngx_http_dsem_script_forget(ngx_http_dsem_script_calls_t *calls);

/* info: what a server reports about itself, and whether it suits */
void ngx_http_dsem_info_read(ngx_http_dsem_info_t *info, char *text);
void ngx_http_dsem_info_log(ngx_http_dsem_info_t *info, ngx_str_t *name,
    ngx_uint_t replicated);


#endif /* _NGX_HTTP_DSEM_SCRIPT_H_INCLUDED_ */
