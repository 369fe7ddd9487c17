
/*
 * The guard: which replies hiredis may see.
 *
 * hiredis calls assert() on a reply to no command and on a message of an
 * unexpected shape, and allocates an array as long as the peer announces.
 * The functions that create its replies are therefore wrapped here.  NULL
 * from any of them ends the connection, as a lack of memory would.
 *
 * The integers of a script's reply are decoded here as well, into one array
 * that is used again: an object for each of them was a sixth of all
 * instructions of a queued request.
 *
 * Called by: hiredis, for each element that it has read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_guard.h"


/* no script of ours comes near it */
#define NGX_HTTP_DSEM_GUARD_MAX_ELEMENTS  (128 * 1024)

/* values that stay allocated for the next reply: a usual reply has fewer */
#define NGX_HTTP_DSEM_GUARD_KEPT_VALUES   2048

/* "message" or "subscribe", the channel, the text or a number */
#define NGX_HTTP_DSEM_GUARD_MESSAGE       3

/* a host and a port, and the longest of them */
#define NGX_HTTP_DSEM_GUARD_PAIR          2
#define NGX_HTTP_DSEM_GUARD_MAX_HOST      255


static void *ngx_http_dsem_guard_reject(const redisReadTask *task);
static ngx_uint_t ngx_http_dsem_guard_subscribed(const redisReadTask *task);
static ngx_uint_t ngx_http_dsem_guard_root(const redisReadTask *task,
    size_t elements);
static ngx_uint_t ngx_http_dsem_guard_message(const redisReadTask *task,
    const char *str, size_t len);
static ngx_uint_t ngx_http_dsem_guard_is(ngx_str_t *text, const char *str,
    size_t len);
static void *ngx_http_dsem_guard_string(const redisReadTask *task, char *str,
    size_t len);
static void *ngx_http_dsem_guard_integer(const redisReadTask *task,
    long long value);
static void *ngx_http_dsem_guard_values(ngx_http_dsem_guard_t *guard,
    size_t elements);
static void *ngx_http_dsem_guard_nil(const redisReadTask *task);
static void ngx_http_dsem_guard_free_reply(void *data);
#if (HIREDIS_MAJOR > 0)
static void *ngx_http_dsem_guard_array(const redisReadTask *task,
    size_t elements);
static void *ngx_http_dsem_guard_double(const redisReadTask *task,
    double value, char *str, size_t len);
static void *ngx_http_dsem_guard_bool(const redisReadTask *task, int value);
#else
static void *ngx_http_dsem_guard_array(const redisReadTask *task,
    int elements);
#endif


/* of hiredis, as it sets them itself */
static redisReplyObjectFunctions  *ngx_http_dsem_guard_defaults;


static redisReplyObjectFunctions  ngx_http_dsem_guard_functions = {
    ngx_http_dsem_guard_string,
    ngx_http_dsem_guard_array,
    ngx_http_dsem_guard_integer,
#if (HIREDIS_MAJOR > 0)
    /* called whether they are there or not */
    ngx_http_dsem_guard_double,
    ngx_http_dsem_guard_nil,
    ngx_http_dsem_guard_bool,
#else
    ngx_http_dsem_guard_nil,
#endif
    ngx_http_dsem_guard_free_reply
};


/* no reply of this context passes by the guard, which must be zeroed */

void
ngx_http_dsem_guard_set(ngx_http_dsem_guard_t *guard, redisAsyncContext *ac)
{
    ngx_http_dsem_guard_defaults = ac->c.reader->fn;

    guard->ac = ac;

    ac->c.reader->fn = &ngx_http_dsem_guard_functions;
    ac->c.reader->privdata = guard;
}


/* the context is gone */

void
ngx_http_dsem_guard_free(ngx_http_dsem_guard_t *guard)
{
    ngx_free(guard->values.values);
}


/* the connection ends, and its log line is not about memory */

static void *
ngx_http_dsem_guard_reject(const redisReadTask *task)
{
    ngx_http_dsem_guard_t  *guard;

    guard = task->privdata;
    guard->rejected = 1;

    return NULL;
}


/*
 * Decided once, for the outermost element: a SUBSCRIBE that is sent while a
 * reply is half read must not change the form of the rest.
 */

static ngx_uint_t
ngx_http_dsem_guard_subscribed(const redisReadTask *task)
{
    ngx_http_dsem_guard_t  *guard;

    guard = task->privdata;

    if (task->parent == NULL) {
        guard->subscribed = (guard->ac->c.flags & REDIS_SUBSCRIBED) != 0;
    }

    return guard->subscribed;
}


/*
 * The outermost element: a reply to a pending command, or a message.  An
 * error is let in always: hiredis ends the connection where it belongs to no
 * command, and keeps its text as the reason.
 */

static ngx_uint_t
ngx_http_dsem_guard_root(const redisReadTask *task, size_t elements)
{
    ngx_http_dsem_guard_t  *guard;

    guard = task->privdata;

    if (task->type == REDIS_REPLY_ERROR) {
        return 1;
    }

    if (ngx_http_dsem_guard_subscribed(task)) {
        return task->type == REDIS_REPLY_ARRAY
               && elements == NGX_HTTP_DSEM_GUARD_MESSAGE;
    }

    /* later types are those of RESP3, which no connection of ours speaks */

    if (guard->pairs
        && task->type == REDIS_REPLY_ARRAY
        && elements != NGX_HTTP_DSEM_GUARD_PAIR)
    {
        return 0;
    }

    return guard->ac->replies.head != NULL
           && elements <= NGX_HTTP_DSEM_GUARD_MAX_ELEMENTS
           && task->type <= REDIS_REPLY_ERROR;
}


/* an element of a message; hiredis searches for the channel, and trusts both */

static ngx_uint_t
ngx_http_dsem_guard_message(const redisReadTask *task, const char *str,
    size_t len)
{
    ngx_http_dsem_guard_t  *guard;

    static ngx_str_t  message = ngx_string("message");
    static ngx_str_t  subscribe = ngx_string("subscribe");

    guard = task->privdata;

    if (task->type != REDIS_REPLY_STRING) {
        return 0;
    }

    switch (task->idx) {

    case 0:
        return ngx_http_dsem_guard_is(&message, str, len)
               || ngx_http_dsem_guard_is(&subscribe, str, len);

    case 1:
        return ngx_http_dsem_guard_is(&guard->channel, str, len);

    default: /* 2 */
        return 1;
    }
}


static ngx_uint_t
ngx_http_dsem_guard_is(ngx_str_t *text, const char *str, size_t len)
{
    return len == text->len && ngx_memcmp(str, text->data, len) == 0;
}


/* strings, simple strings, errors */

static void *
ngx_http_dsem_guard_string(const redisReadTask *task, char *str, size_t len)
{
    ngx_http_dsem_guard_t  *guard;

    guard = task->privdata;

    if (task->parent == NULL) {

        if (!ngx_http_dsem_guard_root(task, 0)) {
            return ngx_http_dsem_guard_reject(task);
        }

    } else if (guard->pairs) {

        if (task->type != REDIS_REPLY_STRING
            || len > NGX_HTTP_DSEM_GUARD_MAX_HOST)
        {
            return ngx_http_dsem_guard_reject(task);
        }

    } else if (!ngx_http_dsem_guard_subscribed(task)) {

        /* the first element of a script's reply, the only string of it */

        if (task->type != REDIS_REPLY_STRING
            || task->idx != 0
            || len > NGX_HTTP_DSEM_SESSION_LEN)
        {
            return ngx_http_dsem_guard_reject(task);
        }

        ngx_memcpy(guard->values.session, str, len);
        guard->values.len = len;

        return &guard->values;

    } else if (!ngx_http_dsem_guard_message(task, str, len)) {
        return ngx_http_dsem_guard_reject(task);
    }

    return ngx_http_dsem_guard_defaults->createString(task, str, len);
}


static void *
ngx_http_dsem_guard_integer(const redisReadTask *task, long long value)
{
    ngx_http_dsem_guard_t  *guard;

    guard = task->privdata;

    if (task->parent == NULL || guard->pairs) {
        /* no command of ours has an integer for a reply */
        return ngx_http_dsem_guard_reject(task);
    }

    if (ngx_http_dsem_guard_subscribed(task)) {

        if (task->idx != NGX_HTTP_DSEM_GUARD_MESSAGE - 1) {
            return ngx_http_dsem_guard_reject(task);
        }

        return ngx_http_dsem_guard_defaults->createInteger(task, value);
    }

    guard->values.values[task->idx] = value;

    return &guard->values;
}


#if (HIREDIS_MAJOR > 0)
static void *
ngx_http_dsem_guard_array(const redisReadTask *task, size_t elements)
#else
static void *
ngx_http_dsem_guard_array(const redisReadTask *task, int elements)
#endif
{
    ngx_http_dsem_guard_t  *guard;

    /* no script of ours nests */

    if (task->parent != NULL || !ngx_http_dsem_guard_root(task, elements)) {
        return ngx_http_dsem_guard_reject(task);
    }

    guard = task->privdata;

    if (!ngx_http_dsem_guard_subscribed(task) && !guard->pairs) {
        return ngx_http_dsem_guard_values(guard, elements);
    }

    return ngx_http_dsem_guard_defaults->createArray(task, elements);
}


static void *
ngx_http_dsem_guard_values(ngx_http_dsem_guard_t *guard, size_t elements)
{
    ngx_http_dsem_guard_values_t  *values;

    values = &guard->values;

    if (elements > values->size
        || (values->size > NGX_HTTP_DSEM_GUARD_KEPT_VALUES
            && elements <= NGX_HTTP_DSEM_GUARD_KEPT_VALUES / 2))
    {
        ngx_free(values->values);

        values->size = 0;
        values->values = ngx_alloc(2 * elements * sizeof(int64_t),
                                   ngx_cycle->log);
        if (values->values == NULL) {
            return NULL;
        }

        values->size = 2 * elements;
    }

    values->reply.type = REDIS_REPLY_ARRAY;
    values->reply.elements = elements;
    values->len = 0;

    return &values->reply;
}


/* of the commands of ours only the question for a pair has it for a reply */

static void *
ngx_http_dsem_guard_nil(const redisReadTask *task)
{
    ngx_http_dsem_guard_t  *guard;

    guard = task->privdata;

    if (guard->pairs
        && task->parent == NULL
        && ngx_http_dsem_guard_root(task, NGX_HTTP_DSEM_GUARD_PAIR))
    {
        return ngx_http_dsem_guard_defaults->createNil(task);
    }

    return ngx_http_dsem_guard_reject(task);
}


#if (HIREDIS_MAJOR > 0)

static void *
ngx_http_dsem_guard_double(const redisReadTask *task, double value, char *str,
    size_t len)
{
    return ngx_http_dsem_guard_reject(task);
}


static void *
ngx_http_dsem_guard_bool(const redisReadTask *task, int value)
{
    return ngx_http_dsem_guard_reject(task);
}

#endif


static void
ngx_http_dsem_guard_free_reply(void *data)
{
    redisReply  *reply = data;

    if (reply->type == REDIS_REPLY_ARRAY && reply->element == NULL) {
        /* values, which are kept for the next reply */
        return;
    }

    ngx_http_dsem_guard_defaults->freeObject(reply);
}
