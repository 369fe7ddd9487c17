
/*
 * The guard: what may become a reply.
 *
 * hiredis calls assert() on a reply to nothing and on a message of a shape
 * that it does not expect, and allocates an array as long as the peer says it
 * will be.  So the functions that make replies are wrapped here; NULL from one
 * of them ends the connection, as if there were no memory.
 *
 * Called by: hiredis.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_guard.h"


/* our scripts answer far less; more is not Redis or not for us */
#define NGX_HTTP_DSEM_MAX_ELEMENTS  (256 * 1024)


static ngx_uint_t ngx_http_dsem_guard_fits(const redisReadTask *task,
    const char *str, size_t len);
static ngx_uint_t ngx_http_dsem_guard_is(ngx_str_t *text, const char *str,
    size_t len);
static void ngx_http_dsem_guard_free_reply(void *reply);
static void *ngx_http_dsem_guard_values(ngx_http_dsem_guard_t *guard,
    size_t elements);
static void *ngx_http_dsem_guard_string(const redisReadTask *task, char *str,
    size_t len);
static void *ngx_http_dsem_guard_integer(const redisReadTask *task,
    long long value);
static void *ngx_http_dsem_guard_nil(const redisReadTask *task);
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


static redisReplyObjectFunctions   ngx_http_dsem_guard_functions;
static redisReplyObjectFunctions  *ngx_http_dsem_guard_defaults;


void
ngx_http_dsem_guard_set(ngx_http_dsem_guard_t *guard, redisAsyncContext *ac)
{
    redisReplyObjectFunctions  *fn;

    fn = &ngx_http_dsem_guard_functions;

    if (ngx_http_dsem_guard_defaults == NULL) {
        ngx_http_dsem_guard_defaults = ac->c.reader->fn;

        fn->createString = ngx_http_dsem_guard_string;
        fn->createArray = ngx_http_dsem_guard_array;
        fn->createInteger = ngx_http_dsem_guard_integer;
        fn->createNil = ngx_http_dsem_guard_nil;
#if (HIREDIS_MAJOR > 0)
        fn->createDouble = ngx_http_dsem_guard_double;
        fn->createBool = ngx_http_dsem_guard_bool;
#endif
        fn->freeObject = ngx_http_dsem_guard_free_reply;
    }

    guard->ac = ac;

    ac->c.reader->fn = fn;
    ac->c.reader->privdata = guard;
}


/* "len" is that of an array, too */

static ngx_uint_t
ngx_http_dsem_guard_fits(const redisReadTask *task, const char *str,
    size_t len)
{
    ngx_uint_t              subscribed;
    ngx_http_dsem_guard_t  *guard;

    static ngx_str_t  message = ngx_string("message");
    static ngx_str_t  subscribe = ngx_string("subscribe");

    guard = task->privdata;
    subscribed = guard->ac->c.flags & REDIS_SUBSCRIBED;

    if (task->parent == NULL) {

        if (task->type == REDIS_REPLY_ERROR) {
            /* the answer to a command, or hiredis closes the connection */
            return 1;
        }

        if (subscribed) {
            return task->type == REDIS_REPLY_ARRAY && len == 3;
        }

        return guard->ac->replies.head != NULL
               && len <= NGX_HTTP_DSEM_MAX_ELEMENTS
               && task->type <= REDIS_REPLY_ERROR;
    }

    /* no script of ours nests */

    if (task->type == REDIS_REPLY_INTEGER) {
        return !subscribed || task->idx == 2;
    }

    if (task->type != REDIS_REPLY_STRING) {
        return 0;
    }

    if (subscribed && task->idx == 0) {
        return ngx_http_dsem_guard_is(&message, str, len)
               || ngx_http_dsem_guard_is(&subscribe, str, len);
    }

    return !subscribed || task->idx == 2
           || ngx_http_dsem_guard_is(&guard->channel, str, len);
}


static ngx_uint_t
ngx_http_dsem_guard_is(ngx_str_t *text, const char *str, size_t len)
{
    return len == text->len && ngx_memcmp(str, text->data, len) == 0;
}


static void
ngx_http_dsem_guard_free_reply(void *data)
{
    redisReply  *reply = data;

    if (reply->type == REDIS_REPLY_ARRAY && reply->element == NULL) {
        /* values: they stay, for the next one */
        return;
    }

    ngx_http_dsem_guard_defaults->freeObject(reply);
}


void
ngx_http_dsem_guard_free(ngx_http_dsem_guard_t *guard)
{
    ngx_free(guard->values.values);
}


static void *
ngx_http_dsem_guard_values(ngx_http_dsem_guard_t *guard, size_t elements)
{
    ngx_http_dsem_values_t  *values;

    values = &guard->values;

    if (elements > values->nvalues) {
        ngx_free(values->values);

        values->nvalues = 0;
        values->values = ngx_alloc(2 * elements * sizeof(int64_t),
                                   ngx_cycle->log);
        if (values->values == NULL) {
            return NULL;
        }

        values->nvalues = 2 * elements;
    }

    values->reply.type = REDIS_REPLY_ARRAY;
    values->reply.elements = elements;
    values->len = 0;

    return &values->reply;
}


static void *
ngx_http_dsem_guard_string(const redisReadTask *task, char *str, size_t len)
{
    ngx_http_dsem_guard_t  *guard;

    if (!ngx_http_dsem_guard_fits(task, str, task->parent ? len : 0)) {
        return NULL;
    }

    guard = task->privdata;

    if (task->parent && !(guard->ac->c.flags & REDIS_SUBSCRIBED)) {

        if (task->idx != 0 || len > NGX_HTTP_DSEM_NAME_LEN) {
            return NULL;
        }

        ngx_memcpy(guard->values.name, str, len);
        guard->values.len = len;

        return guard;
    }

    return ngx_http_dsem_guard_defaults->createString(task, str, len);
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

    if (!ngx_http_dsem_guard_fits(task, NULL, elements)) {
        return NULL;
    }

    guard = task->privdata;

    if (!(guard->ac->c.flags & REDIS_SUBSCRIBED)) {
        return ngx_http_dsem_guard_values(guard, elements);
    }

    return ngx_http_dsem_guard_defaults->createArray(task, elements);
}


static void *
ngx_http_dsem_guard_integer(const redisReadTask *task, long long value)
{
    ngx_http_dsem_guard_t  *guard;

    guard = task->privdata;

    if (task->parent && !(guard->ac->c.flags & REDIS_SUBSCRIBED)) {

        if (task->idx == 0) {
            return NULL;
        }

        guard->values.values[task->idx] = value;

        return guard;
    }

    if (!ngx_http_dsem_guard_fits(task, NULL, 0)) {
        return NULL;
    }

    return ngx_http_dsem_guard_defaults->createInteger(task, value);
}


/* nothing that we ask for is ever answered so */

static void *
ngx_http_dsem_guard_nil(const redisReadTask *task)
{
    return NULL;
}


#if (HIREDIS_MAJOR > 0)

static void *
ngx_http_dsem_guard_double(const redisReadTask *task, double value, char *str,
    size_t len)
{
    return NULL;
}


static void *
ngx_http_dsem_guard_bool(const redisReadTask *task, int value)
{
    return NULL;
}

#endif
