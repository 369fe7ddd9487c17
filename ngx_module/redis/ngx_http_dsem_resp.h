
/*
 * RESP: commands as they are sent, replies as they are decoded.
 */


#ifndef _NGX_HTTP_DSEM_RESP_H_INCLUDED_
#define _NGX_HTTP_DSEM_RESP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* <node>:<worker>:<16 hex digits>, a node has at most 64 bytes */
#define NGX_HTTP_DSEM_SESSION_LEN  128

/* numbers in one argument */
#define NGX_HTTP_DSEM_RESP_NUMBERS  10


/* under which calls are made; owned by the session */
typedef struct {
    ngx_str_t                 name;
    uint64_t                  epoch;
    u_char                    buf[NGX_HTTP_DSEM_SESSION_LEN];

    ngx_str_t                 client;      /* name of its connections */
    u_char                    client_buf[NGX_HTTP_DSEM_SESSION_LEN];
} ngx_http_dsem_identity_t;


/* one command at a time; all zero: no memory yet */
typedef struct {
    u_char                   *data;
    size_t                    len;
    size_t                    size;
    ngx_uint_t                missing;    /* arguments still to come */
    unsigned                  failed:1;   /* no memory for all of it */
} ngx_http_dsem_resp_t;


/* status of a reply; the same table as in lua/include/status.lua */
typedef enum {
    /* R15: codes in replies */
    NGX_HTTP_DSEM_REPLY_OK = 0,
    NGX_HTTP_DSEM_REPLY_RESYNC,
    NGX_HTTP_DSEM_REPLY_STALE,
    NGX_HTTP_DSEM_REPLY_GONE,
    NGX_HTTP_DSEM_REPLY_BROKEN,
    NGX_HTTP_DSEM_REPLY_LAYOUT,
    NGX_HTTP_DSEM_REPLY_UNLISTED,
    NGX_HTTP_DSEM_REPLY_MIXED,
    NGX_HTTP_DSEM_NREPLIES,
    /* not in the table: an error in place of text, which is in "text" */
    NGX_HTTP_DSEM_REPLY_ERROR
} ngx_http_dsem_reply_e;


/* a reply that fits its call, without session, epoch and number */
typedef struct {
    ngx_http_dsem_reply_e     status;
    ngx_uint_t                nvalues;
    int64_t                  *values;
    ngx_str_t                 text;      /* of a reply of text, the rest */
    uint64_t                  sent;      /* its command, monotonic ms */
} ngx_http_dsem_reply_t;


/*
 * Called exactly once for each call that was accepted.  reply is NULL when
 * it will never come; the command may have been executed all the same, and
 * the handler may then do no more than free its data.
 */
typedef void (*ngx_http_dsem_reply_pt)(void *data,
    ngx_http_dsem_reply_t *reply);


void ngx_http_dsem_resp_begin(ngx_http_dsem_resp_t *resp, ngx_uint_t argc);
void ngx_http_dsem_resp_bytes(ngx_http_dsem_resp_t *resp, const void *data,
    size_t len);
void ngx_http_dsem_resp_string(ngx_http_dsem_resp_t *resp, ngx_str_t *value);
void ngx_http_dsem_resp_number(ngx_http_dsem_resp_t *resp, int64_t value);
void ngx_http_dsem_resp_numbers(ngx_http_dsem_resp_t *resp, int64_t *values,
    ngx_uint_t n);
void ngx_http_dsem_resp_numbers_name(ngx_http_dsem_resp_t *resp,
    int64_t *values, ngx_uint_t n, ngx_str_t *name);
void ngx_http_dsem_resp_client_name(ngx_http_dsem_resp_t *resp,
    ngx_http_dsem_identity_t *identity, const char *suffix);
ngx_int_t ngx_http_dsem_resp_end(ngx_http_dsem_resp_t *resp);
void ngx_http_dsem_resp_free(ngx_http_dsem_resp_t *resp);
ngx_str_t *ngx_http_dsem_resp_broken_key(ngx_http_dsem_reply_t *reply,
    ngx_str_t *semaphore, ngx_str_t *queue, ngx_str_t *other);


#endif /* _NGX_HTTP_DSEM_RESP_H_INCLUDED_ */
