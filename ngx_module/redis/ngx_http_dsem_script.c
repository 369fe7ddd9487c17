
/*
 * Calls of scripts on one connection, in a pipeline.
 *
 * Owns the queue of unanswered calls and the form of calls and replies.  A
 * reply reaches its caller only if it carries the session, the epoch and the
 * number of the call, and has what the table of scripts asks for: a stray,
 * late, short or foreign one never does.
 *
 * Called by: redis, which owns the connection and decides what an error
 * means.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_http_dsem_guard.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_script.h"
#include "ngx_http_dsem_text.h"


/* EVALSHA, its digest, the number of keys; the shard, the session */
#define NGX_HTTP_DSEM_SCRIPT_ARGS     5

/* values of every reply: session, epoch, number, status */
#define NGX_HTTP_DSEM_SCRIPT_EPOCH    1
#define NGX_HTTP_DSEM_SCRIPT_NUMBER   2
#define NGX_HTTP_DSEM_SCRIPT_STATUS   3
#define NGX_HTTP_DSEM_SCRIPT_VALUES   4


/* bytes a ms: the slowest link over which a script can be loaded */
#define NGX_HTTP_DSEM_SCRIPT_RATE     8


typedef enum {
    NGX_HTTP_DSEM_CALL_PING = 0,
    NGX_HTTP_DSEM_CALL_LOAD,
    NGX_HTTP_DSEM_CALL_EXISTS,
    NGX_HTTP_DSEM_CALL_ROLE,
    NGX_HTTP_DSEM_CALL_INFO,
    NGX_HTTP_DSEM_CALL_NAME,
    NGX_HTTP_DSEM_CALL_SCRIPT,
    NGX_HTTP_DSEM_CALL_TEXT
} ngx_http_dsem_call_e;


/* freed when its reply has come or never will */
typedef struct {
    ngx_queue_t               queue;
    ngx_http_dsem_reply_pt    handler;     /* NULL: none */
    void                     *data;
    uint64_t                  epoch;
    uint64_t                  number;
    uint64_t                  sent;        /* monotonic ms */
    ngx_http_dsem_call_e      kind;
    ngx_http_dsem_script_e    script;      /* called, or loaded */
} ngx_http_dsem_call_t;


/* what a reply must have, before its handler reads it */
typedef struct {
    ngx_uint_t                nvalues;     /* behind the status, at least */
    unsigned                  broken:1;    /* the handler reads that status,
                                              and "mixed" */
    unsigned                  verify:1;    /* a lack of it may have a cause in
                                              the keys of a semaphore */
    unsigned                  any_epoch:1; /* also of an older epoch */
} ngx_http_dsem_script_rule_t;


static ngx_http_dsem_call_t *ngx_http_dsem_script_send(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_call_e kind);
static ngx_int_t ngx_http_dsem_script_ask(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_call_e kind, const char *section);
static ngx_int_t ngx_http_dsem_script_existing(
    ngx_http_dsem_script_calls_t *calls, redisReply *reply);
static ngx_int_t ngx_http_dsem_script_server(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_call_t *call,
    redisReply *reply);
static ngx_int_t ngx_http_dsem_script_error(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_call_t *call,
    redisReply *reply);
static void ngx_http_dsem_script_denied(ngx_http_dsem_call_t *call,
    redisReply *reply);
static ngx_int_t ngx_http_dsem_script_deliver(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_call_t *call,
    ngx_http_dsem_reply_t *decoded);
static ngx_int_t ngx_http_dsem_script_decode(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_call_t *call,
    redisReply *reply, ngx_http_dsem_reply_t *decoded);
static ngx_int_t ngx_http_dsem_script_decode_text(
    ngx_http_dsem_script_calls_t *calls, ngx_http_dsem_call_t *call,
    redisReply *reply, ngx_http_dsem_reply_t *decoded);


/*
 * By ngx_http_dsem_script_e.  Figures, and what an operator has asked for, are
 * good in any epoch: their owners find out whether they still wait for them.
 */
static ngx_http_dsem_script_rule_t  ngx_http_dsem_script_rules[] = {
    { 9, 0, 0, 0 },     /* hello */
    { 1, 1, 0, 0 },     /* declare */
    { 1, 0, 0, 0 },     /* declared */
    { 10, 0, 0, 0 },    /* beat */
    { 8, 1, 1, 0 },     /* sync */
    { 1, 0, 0, 1 },     /* bye */
    { 0, 0, 0, 0 },     /* configure */
    { 0, 0, 0, 1 },     /* inspect */
    { 0, 0, 0, 1 },     /* names */
    { 11, 1, 1, 1 },    /* order */
    { 7, 1, 1, 0 }      /* adjust */
};


/* calls must be zeroed; keys and identity must outlive it */

void
ngx_http_dsem_script_init(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_keys_t *keys, ngx_http_dsem_identity_t *identity)
{
    u_char       digest[20];
    ngx_str_t   *text;
    ngx_uint_t   i;
    ngx_sha1_t   sha1;

    ngx_queue_init(&calls->queue);

    calls->keys = keys;
    calls->identity = identity;

    for (i = 0; i < NGX_HTTP_DSEM_NSCRIPTS; i++) {
        text = &ngx_http_dsem_scripts[i];

        ngx_sha1_init(&sha1);
        ngx_sha1_update(&sha1, text->data, text->len);
        ngx_sha1_final(digest, &sha1);

        ngx_hex_dump(calls->sha[i], digest, sizeof(digest));
    }
}


/* after ngx_http_dsem_script_forget() */

void
ngx_http_dsem_script_free(ngx_http_dsem_script_calls_t *calls)
{
    ngx_http_dsem_resp_free(&calls->command);
}


/*
 * Asks which scripts the server has: all of them are too much for each
 * connection of each worker.  That may be denied.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_script_exists(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn)
{
    ngx_uint_t             i;
    ngx_http_dsem_resp_t  *command;

    command = &calls->command;

    ngx_http_dsem_resp_begin(command, 2 + NGX_HTTP_DSEM_NSCRIPTS);
    ngx_http_dsem_resp_bytes(command, "SCRIPT", sizeof("SCRIPT") - 1);
    ngx_http_dsem_resp_bytes(command, "EXISTS", sizeof("EXISTS") - 1);

    for (i = 0; i < NGX_HTTP_DSEM_NSCRIPTS; i++) {
        ngx_http_dsem_resp_bytes(command, calls->sha[i],
                                 NGX_HTTP_DSEM_SHA_LEN);
    }

    return ngx_http_dsem_script_send(calls, conn, NGX_HTTP_DSEM_CALL_EXISTS)
           ? NGX_OK : NGX_ERROR;
}


/* those that are missing, before the calls; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_script_load_missing(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_DSEM_NSCRIPTS; i++) {

        if ((calls->missing & ((ngx_uint_t) 1 << i))
            && ngx_http_dsem_script_load(calls, conn, i) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    calls->missing = 0;

    return NGX_OK;
}


/* one of them; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_script_load(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_http_dsem_script_e script)
{
    ngx_http_dsem_call_t  *call;
    ngx_http_dsem_resp_t  *command;

    command = &calls->command;

    ngx_http_dsem_resp_begin(command, 3);
    ngx_http_dsem_resp_bytes(command, "SCRIPT", sizeof("SCRIPT") - 1);
    ngx_http_dsem_resp_bytes(command, "LOAD", sizeof("LOAD") - 1);
    ngx_http_dsem_resp_string(command, &ngx_http_dsem_scripts[script]);

    call = ngx_http_dsem_script_send(calls, conn, NGX_HTTP_DSEM_CALL_LOAD);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->script = script;

    return NGX_OK;
}


/*
 * ms that the next reply may take beyond the time of any command: a script
 * has its reply when all of it has passed a slow network, whatever buffers
 * there are on its way.
 */

ngx_msec_t
ngx_http_dsem_script_loading(ngx_http_dsem_script_calls_t *calls)
{
    ngx_http_dsem_call_t  *call;

    if (ngx_queue_empty(&calls->queue)) {
        return 0;
    }

    call = ngx_queue_data(ngx_queue_head(&calls->queue), ngx_http_dsem_call_t,
                          queue);

    if (call->kind != NGX_HTTP_DSEM_CALL_LOAD) {
        return 0;
    }

    return ngx_http_dsem_scripts[call->script].len
           / NGX_HTTP_DSEM_SCRIPT_RATE;
}


/*
 * Asks whether the server is a master; that may be denied.  Before all else,
 * so that a server that is none is never used.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_script_role(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn)
{
    return ngx_http_dsem_script_ask(calls, conn, NGX_HTTP_DSEM_CALL_ROLE,
                                    "replication");
}


/*
 * Asks the server about itself, for the log; that may be denied.  "all": more
 * than its version, at a higher price.  It is a short command, whose error
 * names the cause where all are rejected.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_script_info(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_uint_t all)
{
    return ngx_http_dsem_script_ask(calls, conn, NGX_HTTP_DSEM_CALL_INFO,
                                    all ? NULL : "server");
}


static ngx_int_t
ngx_http_dsem_script_ask(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_http_dsem_call_e kind,
    const char *section)
{
    ngx_http_dsem_resp_t  *command;

    command = &calls->command;

    ngx_http_dsem_resp_begin(command, section ? 2 : 1);
    ngx_http_dsem_resp_bytes(command, "INFO", sizeof("INFO") - 1);

    if (section) {
        ngx_http_dsem_resp_bytes(command, section, ngx_strlen(section));
    }

    return ngx_http_dsem_script_send(calls, conn, kind) ? NGX_OK : NGX_ERROR;
}


/* asks for a reply of any kind; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_script_ping(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn)
{
    ngx_http_dsem_resp_t  *command;

    command = &calls->command;

    ngx_http_dsem_resp_begin(command, 1);
    ngx_http_dsem_resp_bytes(command, "PING", sizeof("PING") - 1);

    return ngx_http_dsem_script_send(calls, conn, NGX_HTTP_DSEM_CALL_PING)
           ? NGX_OK : NGX_ERROR;
}


/*
 * Names the connection for CLIENT LIST; that may be denied.  After the
 * others: a server that rejects the connection replies to the first command.
 * NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_script_name(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn)
{
    ngx_http_dsem_resp_client_name(&calls->command, calls->identity, "");

    return ngx_http_dsem_script_send(calls, conn, NGX_HTTP_DSEM_CALL_NAME)
           ? NGX_OK : NGX_ERROR;
}


/*
 * Begins a call: the shard's key, "nkeys" more, the session, its epoch and the
 * number of the call.  With values, these share an argument with epoch and
 * number.  The caller writes exactly "nargs" arguments to the result; nothing
 * can fail before the call is made.
 */

ngx_http_dsem_resp_t *
ngx_http_dsem_script_begin(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_script_e script, ngx_str_t *keys, ngx_uint_t nkeys,
    int64_t *values, ngx_uint_t nvalues, ngx_uint_t nargs)
{
    int64_t                packed[NGX_HTTP_DSEM_RESP_NUMBERS];
    ngx_uint_t             i;
    ngx_http_dsem_resp_t  *command;

    command = &calls->command;
    calls->number++;
    calls->script = script;
    calls->text = (script == NGX_HTTP_DSEM_SCRIPT_INSPECT
                   || script == NGX_HTTP_DSEM_SCRIPT_NAMES);

    ngx_http_dsem_resp_begin(command, NGX_HTTP_DSEM_SCRIPT_ARGS + nkeys
                                      + (nvalues ? 1 : 2) + nargs);

    ngx_http_dsem_resp_bytes(command, "EVALSHA", sizeof("EVALSHA") - 1);
    ngx_http_dsem_resp_bytes(command, calls->sha[script],
                             NGX_HTTP_DSEM_SHA_LEN);
    ngx_http_dsem_resp_number(command, 1 + nkeys);

    ngx_http_dsem_resp_string(command, &calls->keys->shard);

    for (i = 0; i < nkeys; i++) {
        ngx_http_dsem_resp_string(command, &keys[i]);
    }

    ngx_http_dsem_resp_string(command, &calls->identity->name);

    packed[0] = calls->identity->epoch;
    packed[1] = calls->number;

    if (nvalues) {
        ngx_memcpy(&packed[2], values, nvalues * sizeof(int64_t));
        ngx_http_dsem_resp_numbers(command, packed, 2 + nvalues);

    } else {
        ngx_http_dsem_resp_number(command, packed[0]);
        ngx_http_dsem_resp_number(command, packed[1]);
    }

    return command;
}


/* NGX_OK: handler is called once; NGX_ERROR: no memory, it is not called */

ngx_int_t
ngx_http_dsem_script_call(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_http_dsem_reply_pt handler,
    void *data)
{
    ngx_http_dsem_call_t  *call;

    call = ngx_http_dsem_script_send(calls, conn,
                                     calls->text ? NGX_HTTP_DSEM_CALL_TEXT
                                                 : NGX_HTTP_DSEM_CALL_SCRIPT);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->handler = handler;
    call->data = data;
    call->script = calls->script;

    return NGX_OK;
}


static ngx_http_dsem_call_t *
ngx_http_dsem_script_send(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_connection_t *conn, ngx_http_dsem_call_e kind)
{
    ngx_http_dsem_call_t  *call;

    call = ngx_calloc(sizeof(ngx_http_dsem_call_t), ngx_cycle->log);
    if (call == NULL) {
        return NULL;
    }

    /* a lease that began later than Redis counts it would end too late */
    call->sent = ngx_http_dsem_monotonic();

    if (ngx_http_dsem_connection_send(conn, &calls->command) != NGX_OK) {
        ngx_free(call);
        return NULL;
    }

    call->kind = kind;
    call->epoch = calls->identity->epoch;
    call->number = calls->number;

    ngx_queue_insert_tail(&calls->queue, &call->queue);
    calls->n++;

    return call;
}


/*
 * One reply to the oldest call.
 *
 * NGX_OK        the caller's handler has been called
 * NGX_DONE      the server has reported which scripts are missing
 * NGX_ABORT     the server is a replica
 * NGX_AGAIN     the scripts are missing, the call was not executed
 * NGX_DECLINED  an error reply; the handler has been called with NULL
 * NGX_BUSY      a status that calls->status has; as above
 * NGX_ERROR     it fits no call, or is too short: calls->fault
 */

ngx_int_t
ngx_http_dsem_script_reply(ngx_http_dsem_script_calls_t *calls,
    redisReply *reply)
{
    ngx_int_t               rc;
    ngx_queue_t            *q;
    ngx_http_dsem_call_t   *call;
    ngx_http_dsem_reply_t   decoded;

    calls->fault = "unexpected reply";

    if (ngx_queue_empty(&calls->queue)) {
        return NGX_ERROR;
    }

    q = ngx_queue_head(&calls->queue);
    call = ngx_queue_data(q, ngx_http_dsem_call_t, queue);

    if (reply->type != REDIS_REPLY_ERROR
        && call->kind >= NGX_HTTP_DSEM_CALL_SCRIPT
        && ngx_http_dsem_script_decode(calls, call, reply, &decoded)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_queue_remove(q);
    calls->n--;

    rc = NGX_OK;

    if (reply->type == REDIS_REPLY_ERROR) {
        rc = ngx_http_dsem_script_error(calls, call, reply);

    } else if (call->kind == NGX_HTTP_DSEM_CALL_INFO
               || call->kind == NGX_HTTP_DSEM_CALL_ROLE)
    {
        rc = ngx_http_dsem_script_server(calls, call, reply);

    } else if (call->kind == NGX_HTTP_DSEM_CALL_EXISTS) {
        rc = ngx_http_dsem_script_existing(calls, reply);

    } else if (call->kind >= NGX_HTTP_DSEM_CALL_SCRIPT && call->handler) {
        rc = ngx_http_dsem_script_deliver(calls, call, &decoded);
    }

    ngx_free(call);

    return rc;
}


/* calls the handler, with NULL if the reply is not what it needs */

static ngx_int_t
ngx_http_dsem_script_deliver(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_call_t *call, ngx_http_dsem_reply_t *decoded)
{
    ngx_int_t                     rc;
    ngx_http_dsem_script_rule_t  *rule;

    rule = &ngx_http_dsem_script_rules[call->script];

    rc = NGX_OK;
    decoded->sent = call->sent;

    if (call->epoch != calls->identity->epoch && !rule->any_epoch) {
        decoded = NULL;

    } else if (decoded->status == NGX_HTTP_DSEM_REPLY_OK) {

        if (decoded->nvalues < rule->nvalues) {
            decoded = NULL;
            calls->fault = "reply too short";
            rc = NGX_ERROR;
        }

    } else if (call->kind != NGX_HTTP_DSEM_CALL_TEXT
               && !(rule->broken
                    && (decoded->status == NGX_HTTP_DSEM_REPLY_BROKEN
                        || decoded->status == NGX_HTTP_DSEM_REPLY_MIXED)))
    {
        calls->status = decoded->status;
        calls->verify = rule->verify;
        decoded = NULL;
        rc = (call->epoch == calls->identity->epoch) ? NGX_BUSY : NGX_OK;
    }

    call->handler(call->data, decoded);

    return rc;
}


/* a script that was missing is loaded, whatever another server has */

static ngx_int_t
ngx_http_dsem_script_existing(ngx_http_dsem_script_calls_t *calls,
    redisReply *reply)
{
    ngx_uint_t                     i;
    ngx_http_dsem_guard_values_t  *values;

    if (reply->type != REDIS_REPLY_ARRAY
        || reply->elements != NGX_HTTP_DSEM_NSCRIPTS)
    {
        return NGX_ERROR;
    }

    values = (ngx_http_dsem_guard_values_t *) reply;

    if (values->len) {
        /* the reply of a script, whose first element is a string */
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_HTTP_DSEM_NSCRIPTS; i++) {
        if (values->values[i] == 0) {
            calls->missing |= (ngx_uint_t) 1 << i;
        }
    }

    return NGX_DONE;
}


/* a reply to INFO; a server without a role may be a master */

static ngx_int_t
ngx_http_dsem_script_server(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply)
{
    ngx_http_dsem_info_t  info;

    if (reply->type != REDIS_REPLY_STRING) {
        return NGX_ERROR;
    }

    if (call->kind == NGX_HTTP_DSEM_CALL_INFO) {
        ngx_http_dsem_info_read(&calls->info, reply->str);
        return NGX_OK;
    }

    ngx_http_dsem_info_read(&info, reply->str);

    return info.replica ? NGX_ABORT : NGX_OK;
}


/* later calls of the same epoch lack the scripts as well: reported once */

static ngx_int_t
ngx_http_dsem_script_error(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply)
{
    ngx_uint_t  noscript;

    if (call->kind == NGX_HTTP_DSEM_CALL_NAME) {
        return NGX_OK;
    }

    if ((call->kind == NGX_HTTP_DSEM_CALL_INFO
         || call->kind == NGX_HTTP_DSEM_CALL_ROLE)
        && (ngx_strncmp(reply->str, "NOPERM ", sizeof("NOPERM ") - 1) == 0
            || ngx_strncmp(reply->str, "ERR unknown command",
                           sizeof("ERR unknown command") - 1) == 0))
    {
        if (call->kind == NGX_HTTP_DSEM_CALL_INFO) {
            ngx_http_dsem_info_read(&calls->info, "");
        }

        return NGX_OK;
    }

    if (call->kind == NGX_HTTP_DSEM_CALL_EXISTS
        && (ngx_strncmp(reply->str, "NOPERM ", sizeof("NOPERM ") - 1) == 0
            || ngx_strncmp(reply->str, "ERR ", sizeof("ERR ") - 1) == 0))
    {
        calls->missing = ((ngx_uint_t) 1 << NGX_HTTP_DSEM_NSCRIPTS) - 1;
        return NGX_DONE;
    }

    noscript = ngx_strncmp(reply->str, "NOSCRIPT ", sizeof("NOSCRIPT ") - 1)
               == 0;

    if (call->kind == NGX_HTTP_DSEM_CALL_TEXT && !noscript) {
        ngx_http_dsem_script_denied(call, reply);
        return NGX_OK;
    }

    if (call->handler) {
        call->handler(call->data, NULL);
    }

    if (!noscript) {
        return NGX_DECLINED;
    }

    if (call->epoch != calls->identity->epoch) {
        return NGX_OK;
    }

    calls->missing |= (ngx_uint_t) 1 << call->script;

    return NGX_AGAIN;
}


/*
 * Redis rejects what people have asked for.  Requests need the connection; if
 * the cause concerns them too, the next heartbeat is rejected as well.
 */

static void
ngx_http_dsem_script_denied(ngx_http_dsem_call_t *call, redisReply *reply)
{
    char                   *error;
    ngx_http_dsem_reply_t   denied;

    if (call->handler == NULL) {
        return;
    }

    ngx_memzero(&denied, sizeof(ngx_http_dsem_reply_t));

    error = ngx_http_dsem_reason_error(reply->str);

    denied.status = NGX_HTTP_DSEM_REPLY_ERROR;
    denied.text.data = (u_char *) error;
    denied.text.len = ngx_strlen(error);

    call->handler(call->data, &denied);
}


/* decoded is valid until the next reply is read */

static ngx_int_t
ngx_http_dsem_script_decode(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply,
    ngx_http_dsem_reply_t *decoded)
{
    int64_t                       *value;
    ngx_str_t                     *session;
    ngx_http_dsem_guard_values_t  *values;

    if (call->kind == NGX_HTTP_DSEM_CALL_TEXT) {
        return ngx_http_dsem_script_decode_text(calls, call, reply, decoded);
    }

    if (reply->type != REDIS_REPLY_ARRAY
        || reply->elements < NGX_HTTP_DSEM_SCRIPT_VALUES)
    {
        return NGX_ERROR;
    }

    /* the guard lets in no other array */

    values = (ngx_http_dsem_guard_values_t *) reply;
    value = values->values;
    session = &calls->identity->name;

    if (values->len != session->len
        || ngx_memcmp(values->session, session->data, session->len) != 0
        || (uint64_t) value[NGX_HTTP_DSEM_SCRIPT_EPOCH] != call->epoch
        || (uint64_t) value[NGX_HTTP_DSEM_SCRIPT_NUMBER] != call->number
        || value[NGX_HTTP_DSEM_SCRIPT_STATUS] < 0
        || value[NGX_HTTP_DSEM_SCRIPT_STATUS] >= NGX_HTTP_DSEM_NREPLIES)
    {
        return NGX_ERROR;
    }

    decoded->status = value[NGX_HTTP_DSEM_SCRIPT_STATUS];
    decoded->nvalues = reply->elements - NGX_HTTP_DSEM_SCRIPT_VALUES;
    decoded->values = value + NGX_HTTP_DSEM_SCRIPT_VALUES;
    ngx_str_null(&decoded->text);

    return NGX_OK;
}


/* the first line is "<session> <epoch> <number> <status>" */

static ngx_int_t
ngx_http_dsem_script_decode_text(ngx_http_dsem_script_calls_t *calls,
    ngx_http_dsem_call_t *call, redisReply *reply,
    ngx_http_dsem_reply_t *decoded)
{
    int64_t     epoch, number, status;
    ngx_str_t   line, word, *session;

    if (reply->type != REDIS_REPLY_STRING) {
        return NGX_ERROR;
    }

    decoded->text.len = reply->len;
    decoded->text.data = (u_char *) reply->str;

    if (ngx_http_dsem_text_line(&decoded->text, &line) != NGX_OK) {
        return NGX_ERROR;
    }

    word = ngx_http_dsem_text_word(&line);
    session = &calls->identity->name;

    if (word.len != session->len
        || ngx_memcmp(word.data, session->data, session->len) != 0
        || ngx_http_dsem_text_number(&line, &epoch) != NGX_OK
        || ngx_http_dsem_text_number(&line, &number) != NGX_OK
        || ngx_http_dsem_text_number(&line, &status) != NGX_OK
        || line.len
        || (uint64_t) epoch != call->epoch
        || (uint64_t) number != call->number
        || status < 0
        || status >= NGX_HTTP_DSEM_NREPLIES)
    {
        return NGX_ERROR;
    }

    decoded->status = status;
    decoded->nvalues = 0;
    decoded->values = NULL;

    return NGX_OK;
}


/* no more replies come on this connection: all handlers are called */

void
ngx_http_dsem_script_forget(ngx_http_dsem_script_calls_t *calls)
{
    ngx_queue_t           *q;
    ngx_http_dsem_call_t  *call;

    calls->missing = 0;

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
