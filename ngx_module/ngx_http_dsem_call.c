
/*
 * Calls of scripts on one connection: what was called, in which order, and
 * what the replies say.
 *
 * Owns the queue of unanswered calls and the shapes on the wire.  A reply
 * reaches its caller only when it carries the session, the epoch and the
 * number of the call and is made of integers, as every script of ours
 * answers: a stray, late or foreign one never does.
 *
 * Called by: redis, which owns the connection and says what an error means.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_http_dsem_call.h"
#include "ngx_http_dsem_guard.h"


/* EVALSHA, its digest, the number of keys; session, epoch, number */
#define NGX_HTTP_DSEM_CALL_ARGS   (NGX_HTTP_DSEM_SHARD_KEYS + 6)

/* SCRIPT LOAD <text>, INFO server */
#define NGX_HTTP_DSEM_LOAD_ARGS   3
#define NGX_HTTP_DSEM_INFO_ARGS   2

/* session, epoch, number, status */
#define NGX_HTTP_DSEM_REPLY_HEAD  4


typedef enum {
    NGX_HTTP_DSEM_CALL_LOAD = 0,
    NGX_HTTP_DSEM_CALL_INFO,
    NGX_HTTP_DSEM_CALL_SCRIPT
} ngx_http_dsem_call_e;


/* freed when it is answered or given up */
typedef struct {
    ngx_queue_t               queue;
    ngx_http_dsem_reply_pt    handler;     /* NULL: nobody wants to know */
    void                     *data;
    uint64_t                  epoch;
    uint64_t                  number;
    u_char                   *script;      /* its SHA */
    ngx_uint_t                load;        /* which loading it relied on */
    ngx_http_dsem_call_e      kind;
} ngx_http_dsem_call_t;


static ngx_int_t ngx_http_dsem_calls_room(ngx_http_dsem_calls_t *calls,
    ngx_uint_t nargs);
static void ngx_http_dsem_calls_bytes(ngx_http_dsem_calls_t *calls,
    const void *data, size_t len);
static ngx_http_dsem_call_t *ngx_http_dsem_calls_push(
    ngx_http_dsem_calls_t *calls, ngx_http_dsem_hiredis_t *hiredis);
static ngx_int_t ngx_http_dsem_calls_identified(
    ngx_http_dsem_calls_t *calls, redisReply *reply);
static ngx_int_t ngx_http_dsem_calls_error(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply);
static ngx_int_t ngx_http_dsem_calls_decode(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply,
    ngx_http_dsem_reply_t *decoded);


/* key is the shard's, "<prefix>:{0}"; NGX_ERROR: no memory, free it all */

ngx_int_t
ngx_http_dsem_calls_init(ngx_http_dsem_calls_t *calls, ngx_str_t *key)
{
    u_char      *p, digest[20];
    ngx_str_t   *text;
    ngx_uint_t   i;
    ngx_sha1_t   sha1;

    /* every script begins with these */
    static ngx_str_t  suffixes[NGX_HTTP_DSEM_SHARD_KEYS] = {
        ngx_string(""), ngx_string(":sessions"), ngx_string(":epochs")
    };

    ngx_queue_init(&calls->queue);

    for (i = 0; i < NGX_HTTP_DSEM_SHARD_KEYS; i++) {
        p = ngx_alloc(key->len + suffixes[i].len, ngx_cycle->log);
        if (p == NULL) {
            return NGX_ERROR;
        }

        calls->keys[i].data = p;
        calls->keys[i].len = key->len + suffixes[i].len;

        p = ngx_cpymem(p, key->data, key->len);
        ngx_memcpy(p, suffixes[i].data, suffixes[i].len);
    }

    for (i = 0; i < NGX_HTTP_DSEM_NSCRIPTS; i++) {
        text = &ngx_http_dsem_scripts[i].text;

        ngx_sha1_init(&sha1);
        ngx_sha1_update(&sha1, text->data, text->len);
        ngx_sha1_final(digest, &sha1);

        ngx_hex_dump(calls->sha[i], digest, sizeof(digest));
    }

    return NGX_OK;
}


void
ngx_http_dsem_calls_free(ngx_http_dsem_calls_t *calls)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_DSEM_SHARD_KEYS; i++) {
        ngx_free(calls->keys[i].data);
    }

    ngx_free(calls->argv);
    ngx_free(calls->argvlen);
    ngx_free(calls->digits);
}


/* no more replies come on this connection: all callers are told NULL */

void
ngx_http_dsem_calls_forget(ngx_http_dsem_calls_t *calls)
{
    ngx_queue_t           *q;
    ngx_http_dsem_call_t  *call;

    while (!ngx_queue_empty(&calls->queue)) {
        q = ngx_queue_head(&calls->queue);
        ngx_queue_remove(q);
        calls->n--;

        call = ngx_queue_data(q, ngx_http_dsem_call_t, queue);

        if (call->handler) {
            call->handler(call->data, NULL);
        }

        ngx_free(call);
    }
}


/* loads all scripts, ahead of the calls that need them */

ngx_int_t
ngx_http_dsem_calls_load(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_hiredis_t *hiredis)
{
    ngx_str_t   *text;
    ngx_uint_t   i;

    calls->loads++;

    for (i = 0; i < NGX_HTTP_DSEM_NSCRIPTS; i++) {

        if (ngx_http_dsem_calls_room(calls, NGX_HTTP_DSEM_LOAD_ARGS)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        text = &ngx_http_dsem_scripts[i].text;

        ngx_http_dsem_calls_bytes(calls, "SCRIPT", sizeof("SCRIPT") - 1);
        ngx_http_dsem_calls_bytes(calls, "LOAD", sizeof("LOAD") - 1);
        ngx_http_dsem_calls_bytes(calls, text->data, text->len);

        if (ngx_http_dsem_calls_push(calls, hiredis) == NULL) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Asks which process Redis is: after a failover, or a restart from disk, it
 * is another one, which may have missed the last writes.
 */

ngx_int_t
ngx_http_dsem_calls_identify(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_hiredis_t *hiredis)
{
    ngx_http_dsem_call_t  *call;

    if (ngx_http_dsem_calls_room(calls, NGX_HTTP_DSEM_INFO_ARGS) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_dsem_calls_bytes(calls, "INFO", sizeof("INFO") - 1);
    ngx_http_dsem_calls_bytes(calls, "server", sizeof("server") - 1);

    call = ngx_http_dsem_calls_push(calls, hiredis);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->kind = NGX_HTTP_DSEM_CALL_INFO;

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_calls_identified(ngx_http_dsem_calls_t *calls,
    redisReply *reply)
{
    char  *p;

    static char  field[] = "run_id:";

    if (reply->type != REDIS_REPLY_STRING) {
        return NGX_ERROR;
    }

    p = ngx_strstr(reply->str, field);

    if (p == NULL) {
        return NGX_ERROR;
    }

    p += sizeof(field) - 1;

    calls->run_id.data = calls->run_id_buf;
    calls->run_id.len = ngx_min(strspn(p, "0123456789abcdef"),
                                NGX_HTTP_DSEM_RUN_ID_LEN);
    ngx_memcpy(calls->run_id.data, p, calls->run_id.len);

    return calls->run_id.len ? NGX_DONE : NGX_ERROR;
}


/*
 * Begins a call: the shard's keys come first, then "nkeys" more, then the
 * session, its epoch and the number of the call; "nargs" arguments follow.
 */

ngx_int_t
ngx_http_dsem_calls_begin(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_script_e script, ngx_str_t *key, ngx_uint_t nkeys,
    ngx_uint_t nargs)
{
    ngx_uint_t  i;

    if (ngx_http_dsem_calls_room(calls,
                                 NGX_HTTP_DSEM_CALL_ARGS + nkeys + nargs)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    calls->script = calls->sha[script];

    ngx_http_dsem_calls_bytes(calls, "EVALSHA", sizeof("EVALSHA") - 1);
    ngx_http_dsem_calls_bytes(calls, calls->script, NGX_HTTP_DSEM_SHA_LEN);
    ngx_http_dsem_calls_number(calls, NGX_HTTP_DSEM_SHARD_KEYS + nkeys);

    for (i = 0; i < NGX_HTTP_DSEM_SHARD_KEYS; i++) {
        ngx_http_dsem_calls_string(calls, &calls->keys[i]);
    }

    for (i = 0; i < nkeys; i++) {
        ngx_http_dsem_calls_string(calls, &key[i]);
    }

    ngx_http_dsem_calls_string(calls, &calls->session);
    ngx_http_dsem_calls_number(calls, calls->epoch);
    ngx_http_dsem_calls_number(calls, ++calls->number);

    return NGX_OK;
}


/* room for a command of so many arguments; numbers have theirs beside it */

static ngx_int_t
ngx_http_dsem_calls_room(ngx_http_dsem_calls_t *calls, ngx_uint_t nargs)
{
    calls->argc = 0;
    calls->digits_last = calls->digits;

    if (nargs <= calls->nargs) {
        return NGX_OK;
    }

    ngx_free(calls->argv);
    ngx_free(calls->argvlen);
    ngx_free(calls->digits);

    calls->nargs = 0;
    nargs = ngx_max(2 * nargs, 64);

    calls->argv = ngx_alloc(nargs * sizeof(char *), ngx_cycle->log);
    calls->argvlen = ngx_alloc(nargs * sizeof(size_t), ngx_cycle->log);
    calls->digits = ngx_alloc(nargs * NGX_INT64_LEN, ngx_cycle->log);

    if (calls->argv == NULL
        || calls->argvlen == NULL
        || calls->digits == NULL)
    {
        return NGX_ERROR;
    }

    calls->digits_last = calls->digits;
    calls->nargs = nargs;

    return NGX_OK;
}


static void
ngx_http_dsem_calls_bytes(ngx_http_dsem_calls_t *calls, const void *data,
    size_t len)
{
    calls->argv[calls->argc] = data;
    calls->argvlen[calls->argc] = len;
    calls->argc++;
}


/* the text must stay until the call is sent */

void
ngx_http_dsem_calls_string(ngx_http_dsem_calls_t *calls, ngx_str_t *value)
{
    ngx_http_dsem_calls_bytes(calls, value->data, value->len);
}


void
ngx_http_dsem_calls_number(ngx_http_dsem_calls_t *calls, int64_t value)
{
    u_char  *p;

    p = calls->digits_last;
    calls->digits_last = ngx_sprintf(p, "%L", value);

    ngx_http_dsem_calls_bytes(calls, p, calls->digits_last - p);
}


/* NGX_OK: handler will be told, once; NGX_ERROR: no memory, it will not */

ngx_int_t
ngx_http_dsem_calls_send(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_hiredis_t *hiredis, ngx_http_dsem_reply_pt handler,
    void *data)
{
    ngx_http_dsem_call_t  *call;

    call = ngx_http_dsem_calls_push(calls, hiredis);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->handler = handler;
    call->data = data;
    call->kind = NGX_HTTP_DSEM_CALL_SCRIPT;
    call->script = calls->script;

    return NGX_OK;
}


static ngx_http_dsem_call_t *
ngx_http_dsem_calls_push(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_hiredis_t *hiredis)
{
    ngx_http_dsem_call_t  *call;

    call = ngx_calloc(sizeof(ngx_http_dsem_call_t), ngx_cycle->log);
    if (call == NULL) {
        return NULL;
    }

    if (ngx_http_dsem_hiredis_send(hiredis, calls->argc, calls->argv,
                                   calls->argvlen)
        != NGX_OK)
    {
        ngx_free(call);
        return NULL;
    }

    call->epoch = calls->epoch;
    call->number = calls->number;
    call->load = calls->loads;

    ngx_queue_insert_tail(&calls->queue, &call->queue);
    calls->n++;

    return call;
}


/*
 * One reply to the oldest call.
 *
 * NGX_OK        the caller has been told
 * NGX_DONE      Redis has said which process it is
 * NGX_AGAIN     Redis had forgotten the scripts, nothing was executed; said
 *               once for all calls that relied on the same loading
 * NGX_DECLINED  an error reply; the caller has been told NULL
 * NGX_ERROR     it fits no call, which stays unanswered
 */

ngx_int_t
ngx_http_dsem_calls_reply(ngx_http_dsem_calls_t *calls, redisReply *reply)
{
    ngx_int_t               rc;
    ngx_queue_t            *q;
    ngx_http_dsem_call_t   *call;
    ngx_http_dsem_reply_t   decoded;

    if (ngx_queue_empty(&calls->queue)) {
        return NGX_ERROR;
    }

    q = ngx_queue_head(&calls->queue);
    call = ngx_queue_data(q, ngx_http_dsem_call_t, queue);

    if (reply->type != REDIS_REPLY_ERROR
        && call->kind == NGX_HTTP_DSEM_CALL_SCRIPT
        && ngx_http_dsem_calls_decode(calls, call, reply, &decoded) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_queue_remove(q);
    calls->n--;

    rc = NGX_OK;

    if (reply->type == REDIS_REPLY_ERROR) {
        rc = ngx_http_dsem_calls_error(calls, call, reply);

    } else if (call->kind == NGX_HTTP_DSEM_CALL_INFO) {
        rc = ngx_http_dsem_calls_identified(calls, reply);

    } else if (call->kind == NGX_HTTP_DSEM_CALL_SCRIPT) {

        if (call->script == calls->missing) {
            calls->missing = NULL;
        }

        if (call->handler) {
            call->handler(call->data, &decoded);
        }
    }

    ngx_free(call);

    return rc;
}


static ngx_int_t
ngx_http_dsem_calls_error(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply)
{
    if (call->handler) {
        call->handler(call->data, NULL);
    }

    if (ngx_strncmp(reply->str, "NOSCRIPT ", sizeof("NOSCRIPT ") - 1) != 0) {
        return NGX_DECLINED;
    }

    if (call->load != calls->loads) {
        return NGX_OK;
    }

    calls->missing = call->script;

    return NGX_AGAIN;
}


/* session, epoch, number as called, a status, and nothing but integers */

static ngx_int_t
ngx_http_dsem_calls_decode(ngx_http_dsem_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply,
    ngx_http_dsem_reply_t *decoded)
{
    int64_t                 *v;
    ngx_http_dsem_values_t  *values;

    if (reply->type != REDIS_REPLY_ARRAY
        || reply->elements < NGX_HTTP_DSEM_REPLY_HEAD)
    {
        return NGX_ERROR;
    }

    values = (ngx_http_dsem_values_t *) reply;
    v = values->values;

    if (values->len != calls->session.len
        || ngx_memcmp(values->name, calls->session.data, values->len) != 0
        || (uint64_t) v[1] != call->epoch
        || (uint64_t) v[2] != call->number
        || v[3] < 0
        || v[3] >= NGX_HTTP_DSEM_NREPLIES)
    {
        return NGX_ERROR;
    }

    decoded->status = v[3];
    decoded->nvalues = reply->elements - NGX_HTTP_DSEM_REPLY_HEAD;
    decoded->values = v + NGX_HTTP_DSEM_REPLY_HEAD;

    return NGX_OK;
}
