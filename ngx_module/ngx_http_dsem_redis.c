
/*
 * Redis as the rest of the module sees it: a connection that comes and
 * goes, scripts that can be called on it, messages that arrive.
 *
 * Owns the connection for commands and the queue of unanswered calls; how
 * long to pause before the next attempt, and when nobody should wait for it,
 * is the breaker's to say.  A reply that does not fit its call, or has another
 * shape than a script of ours gives, ends the connection and reaches nobody.
 * Nothing is ever sent twice: what a lost connection, or a script that Redis
 * had forgotten, leaves open is settled by the session, which says hello
 * again.
 *
 * Called by: session and handshake; declare, sync and bye, to make calls.
 * Knows neither sessions' rules nor permits.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_breaker.h"
#include "ngx_http_dsem_call.h"
#include "ngx_http_dsem_hiredis.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_redis.h"
#include "ngx_http_dsem_subscription.h"


typedef enum {
    NGX_HTTP_DSEM_REDIS_DOWN = 0,
    NGX_HTTP_DSEM_REDIS_CONNECTING,
    NGX_HTTP_DSEM_REDIS_UP
} ngx_http_dsem_redis_state_e;


struct ngx_http_dsem_redis_s {
    ngx_http_dsem_redis_settings_t    settings;
    ngx_http_dsem_redis_handlers_t   *handlers;
    void                             *data;

    ngx_sockaddr_t                    sockaddr;
    ngx_http_dsem_redis_state_e       state;
    ngx_http_dsem_hiredis_t          *hiredis;
    ngx_http_dsem_subscription_t     *subscription;

    ngx_http_dsem_calls_t             calls;
    ngx_msec_t                        answered; /* when the last reply came */
    ngx_event_t                       deadline;
    ngx_msec_t                        due;      /* of the deadline */

    ngx_http_dsem_breaker_t           breaker;
    ngx_event_t                       retry;
};


static void ngx_http_dsem_redis_event(ngx_http_dsem_redis_t *redis,
    ngx_event_t *ev, ngx_event_handler_pt handler);
static void ngx_http_dsem_redis_connect(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_connected(void *data);
static void ngx_http_dsem_redis_failed(void *data, const char *reason,
    ngx_uint_t protocol_error);
static void ngx_http_dsem_redis_down(ngx_http_dsem_redis_t *redis,
    const char *reason, ngx_uint_t protocol_error);
static void ngx_http_dsem_redis_forget(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_retry_handler(ngx_event_t *ev);
static void ngx_http_dsem_redis_deadline_handler(ngx_event_t *ev);
static void ngx_http_dsem_redis_load(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_wait(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_reply(void *data, redisReply *reply);
static void ngx_http_dsem_redis_error(ngx_http_dsem_redis_t *redis,
    redisReply *reply);
static ngx_uint_t ngx_http_dsem_redis_error_is(redisReply *reply,
    ngx_str_t *names);
static void ngx_http_dsem_redis_message(void *data, ngx_str_t *text);


static ngx_http_dsem_hiredis_handlers_t  ngx_http_dsem_redis_hiredis = {
    ngx_http_dsem_redis_connected,
    ngx_http_dsem_redis_reply,
    ngx_http_dsem_redis_failed
};


/* errors of a server that may soon be ready, or is no master any more */
static ngx_str_t  ngx_http_dsem_redis_passing[] = {
    ngx_string("LOADING "),
    ngx_string("MASTERDOWN "),
    ngx_string("READONLY "),
    ngx_null_string
};


/* errors that end only when somebody corrects a configuration */
static ngx_str_t  ngx_http_dsem_redis_refusals[] = {
    ngx_string("NOAUTH "),
    ngx_string("WRONGPASS "),
    ngx_string("NOPERM "),
    /* the same for commands inside scripts, in redis 7.0 and later */
    ngx_string("ERR The user executing the script can't "),
    ngx_string("ERR ACL failure in script"),
    ngx_null_string
};


/*
 * Begins to connect, and goes on trying until it is destroyed.  settings
 * are copied, the texts in them are not.  NULL: no memory.
 */

ngx_http_dsem_redis_t *
ngx_http_dsem_redis_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_redis_handlers_t *handlers, void *data)
{
    ngx_http_dsem_redis_t  *redis;

    redis = ngx_calloc(sizeof(ngx_http_dsem_redis_t), ngx_cycle->log);
    if (redis == NULL) {
        return NULL;
    }

    redis->settings = *settings;

    ngx_memcpy(&redis->sockaddr, settings->addr.sockaddr,
               settings->addr.socklen);
    redis->settings.addr.sockaddr = &redis->sockaddr.sockaddr;
    redis->handlers = handlers;
    redis->data = data;

    ngx_http_dsem_breaker_init(&redis->breaker, &redis->settings,
                               handlers->away, data);

    ngx_http_dsem_redis_event(redis, &redis->retry,
                              ngx_http_dsem_redis_retry_handler);
    ngx_http_dsem_redis_event(redis, &redis->deadline,
                              ngx_http_dsem_redis_deadline_handler);

    if (ngx_http_dsem_calls_init(&redis->calls, &redis->settings.key)
        != NGX_OK)
    {
        (void) ngx_http_dsem_redis_destroy(redis, 0);
        return NULL;
    }

    redis->subscription = ngx_http_dsem_subscription_create(&redis->settings,
                                          ngx_http_dsem_redis_message, redis);
    if (redis->subscription == NULL) {
        (void) ngx_http_dsem_redis_destroy(redis, 0);
        return NULL;
    }

    ngx_add_timer(&redis->retry, 1);
    ngx_http_dsem_breaker_start(&redis->breaker);

    return redis;
}


/* none of them keeps a worker that exits: the session says how long it stays */

static void
ngx_http_dsem_redis_event(ngx_http_dsem_redis_t *redis, ngx_event_t *ev,
    ngx_event_handler_pt handler)
{
    ev->handler = handler;
    ev->data = redis;
    ev->log = ngx_cycle->log;
    ev->cancelable = 1;
}


/*
 * Ends everything; handlers of open calls are told that no reply comes.
 * With drain > 0 what has been called is first written, and answers are
 * waited for, at most so many ms: only for a process that exits.  NGX_OK:
 * all of them have come.
 */

ngx_int_t
ngx_http_dsem_redis_destroy(ngx_http_dsem_redis_t *redis, ngx_msec_t drain)
{
    ngx_int_t  rc;

    rc = NGX_DECLINED;

    if (drain && redis->state == NGX_HTTP_DSEM_REDIS_UP) {
        rc = ngx_http_dsem_hiredis_drain(redis->hiredis, drain);
    }

    ngx_http_dsem_redis_forget(redis);

    if (redis->retry.timer_set) {
        ngx_del_timer(&redis->retry);
    }

    ngx_http_dsem_breaker_stop(&redis->breaker);

    if (redis->subscription) {
        ngx_http_dsem_subscription_destroy(redis->subscription);
    }

    ngx_http_dsem_calls_free(&redis->calls);
    ngx_free(redis);

    return rc;
}


/*
 * Under which name and epoch calls are made from now on.  A new name has a
 * new channel.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_redis_identify(ngx_http_dsem_redis_t *redis,
    ngx_str_t *session, uint64_t epoch)
{
    ngx_http_dsem_calls_t  *calls;

    calls = &redis->calls;
    calls->epoch = epoch;

    if (calls->session.len == session->len
        && ngx_memcmp(calls->session.data, session->data, session->len) == 0)
    {
        return NGX_OK;
    }

    calls->session.data = calls->name;
    calls->session.len = ngx_min(session->len, NGX_HTTP_DSEM_SESSION_LEN);
    ngx_memcpy(calls->name, session->data, calls->session.len);

    return ngx_http_dsem_subscription_start(redis->subscription, session);
}


/* the hello is answered: what is still missing has the deadline of a call */

void
ngx_http_dsem_redis_heard(ngx_http_dsem_redis_t *redis)
{
    ngx_http_dsem_breaker_stop(&redis->breaker);
}


/* the session is accepted: the pauses begin anew, the breaker closes */

void
ngx_http_dsem_redis_ready(ngx_http_dsem_redis_t *redis)
{
    ngx_http_dsem_breaker_close(&redis->breaker);
}


/* true while the breaker is open: nobody should wait for Redis */

ngx_uint_t
ngx_http_dsem_redis_away(ngx_http_dsem_redis_t *redis)
{
    return redis->breaker.away;
}


/* begins anew, with nothing wrong; comes back as "down" */

void
ngx_http_dsem_redis_reconnect(ngx_http_dsem_redis_t *redis,
    const char *reason)
{
    if (redis->state != NGX_HTTP_DSEM_REDIS_DOWN) {
        ngx_http_dsem_redis_down(redis, reason, 0);
    }
}


/* a fault that the caller has found; comes back as "down" and "away" */

void
ngx_http_dsem_redis_drop(ngx_http_dsem_redis_t *redis, const char *reason)
{
    if (redis->state != NGX_HTTP_DSEM_REDIS_DOWN) {
        ngx_http_dsem_redis_failed(redis, reason, 1);
    }
}


static void
ngx_http_dsem_redis_connect(ngx_http_dsem_redis_t *redis)
{
    redis->hiredis = ngx_http_dsem_hiredis_connect(&redis->settings.addr,
                                         redis->settings.connect_timeout,
                                         &ngx_http_dsem_redis_hiredis, redis);

    redis->state = NGX_HTTP_DSEM_REDIS_CONNECTING;

    if (redis->hiredis == NULL) {
        ngx_http_dsem_redis_down(redis, "connect failed", 0);
    }
}


static void
ngx_http_dsem_redis_connected(void *data)
{
    ngx_http_dsem_redis_t  *redis = data;

    redis->state = NGX_HTTP_DSEM_REDIS_UP;
    ngx_http_dsem_breaker_connected(&redis->breaker);

    if (ngx_http_dsem_calls_load(&redis->calls, redis->hiredis) != NGX_OK
        || ngx_http_dsem_calls_identify(&redis->calls, redis->hiredis)
           != NGX_OK)
    {
        ngx_http_dsem_redis_down(redis, "no memory", 0);
        return;
    }

    /* goes on when Redis has said which process it is */

    ngx_http_dsem_redis_wait(redis);
}


/* Redis has lost the scripts; who loses them every time is not one Redis */

static void
ngx_http_dsem_redis_load(ngx_http_dsem_redis_t *redis)
{
    if (ngx_http_dsem_breaker_flushed(&redis->breaker) != NGX_OK) {
        ngx_http_dsem_redis_failed(redis, "scripts are missing repeatedly "
                                   "(several servers behind one address?)",
                                   1);
        return;
    }

    if (ngx_http_dsem_calls_load(&redis->calls, redis->hiredis) != NGX_OK) {
        ngx_http_dsem_redis_down(redis, "no memory", 0);
        return;
    }

    ngx_http_dsem_redis_wait(redis);

    redis->handlers->up(redis->data);
}


/* which Redis process this is; another one may have missed writes */

ngx_str_t *
ngx_http_dsem_redis_run_id(ngx_http_dsem_redis_t *redis)
{
    return &redis->calls.run_id;
}


/*
 * A connection that is lost is opened again at once.  Who answers, but not
 * as Redis does, would be asked in vain hundreds of times a second: then
 * the breaker opens, and the pauses grow until a connection has been good.
 */

static void
ngx_http_dsem_redis_failed(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_redis_t  *redis = data;

    ngx_uint_t  relapse;

    if (!protocol_error) {
        ngx_http_dsem_redis_down(redis, reason, 0);
        return;
    }

    relapse = redis->breaker.accepted;

    ngx_http_dsem_redis_down(redis, reason, 1);

    if (relapse) {
        /* who says hello, but fails later, is not asked every few ms */
        ngx_del_timer(&redis->retry);
        ngx_add_timer(&redis->retry, redis->settings.heartbeat);
    }

    ngx_http_dsem_breaker_open(&redis->breaker);
}


/* the one way down, from every state */

static void
ngx_http_dsem_redis_down(ngx_http_dsem_redis_t *redis, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_uint_t  was_up;

    was_up = (redis->state == NGX_HTTP_DSEM_REDIS_UP);
    redis->state = NGX_HTTP_DSEM_REDIS_DOWN;

    /* before the connection goes: the reason may live in it */
    ngx_http_dsem_breaker_lost(&redis->breaker, reason, was_up);

    ngx_http_dsem_redis_forget(redis);

    ngx_add_timer(&redis->retry,
                  ngx_http_dsem_breaker_pause(&redis->breaker, protocol_error));

    if (was_up) {
        redis->handlers->down(redis->data);
    }

    if (redis->breaker.away) {
        /* whoever has begun to wait since the last hello */
        redis->handlers->away(redis->data);
    }
}


/* closes the connection; open calls will never be answered */

static void
ngx_http_dsem_redis_forget(ngx_http_dsem_redis_t *redis)
{
    redis->state = NGX_HTTP_DSEM_REDIS_DOWN;

    if (redis->hiredis) {
        ngx_http_dsem_hiredis_close(redis->hiredis);
        redis->hiredis = NULL;
    }

    if (redis->deadline.timer_set) {
        ngx_del_timer(&redis->deadline);
    }

    ngx_http_dsem_calls_forget(&redis->calls);
}


static void
ngx_http_dsem_redis_retry_handler(ngx_event_t *ev)
{
    ngx_http_dsem_redis_connect(ev->data);
}


/* the timer is moved lazily, so it may be early: look at what it is for */

static void
ngx_http_dsem_redis_deadline_handler(ngx_event_t *ev)
{
    ngx_msec_int_t          left;
    ngx_http_dsem_redis_t  *redis;

    redis = ev->data;

    left = redis->answered + redis->settings.timeout - ngx_current_msec;

    if (left > 0) {
        ngx_http_dsem_deadline_set(&redis->deadline, &redis->due, left);
        return;
    }

    if (ngx_http_dsem_deadline_late(ev, &redis->due)) {
        return;
    }

    ngx_http_dsem_redis_down(redis, "no reply in time", 0);
    ngx_http_dsem_breaker_open(&redis->breaker);
}


/*
 * Begins a call with the script's own keys and room for its arguments,
 * which follow one by one.  NGX_ERROR: no memory, or not up.
 */

ngx_int_t
ngx_http_dsem_redis_begin(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_script_e script, ngx_str_t *key, ngx_uint_t nkeys,
    ngx_uint_t nargs)
{
    if (redis->state != NGX_HTTP_DSEM_REDIS_UP) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_calls_begin(&redis->calls, script, key, nkeys,
                                     nargs);
}


/* the text must stay until the call is made */

void
ngx_http_dsem_redis_string(ngx_http_dsem_redis_t *redis, ngx_str_t *value)
{
    ngx_http_dsem_calls_string(&redis->calls, value);
}


void
ngx_http_dsem_redis_number(ngx_http_dsem_redis_t *redis, int64_t value)
{
    ngx_http_dsem_calls_number(&redis->calls, value);
}


/*
 * Makes the call that was begun.  NGX_OK: handler, if any, will be told,
 * once; NGX_ERROR: no memory, it will not.
 */

ngx_int_t
ngx_http_dsem_redis_call(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_reply_pt handler, void *data)
{
    if (ngx_http_dsem_calls_send(&redis->calls, redis->hiredis, handler,
                                 data)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_redis_wait(redis);

    return NGX_OK;
}


static void
ngx_http_dsem_redis_wait(ngx_http_dsem_redis_t *redis)
{
    if (!redis->deadline.timer_set) {
        redis->answered = ngx_current_msec;
        ngx_http_dsem_deadline_set(&redis->deadline, &redis->due,
                               redis->settings.timeout);
    }
}


static void
ngx_http_dsem_redis_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_redis_t  *redis = data;

    ngx_int_t  rc;

    redis->answered = ngx_current_msec;

    ngx_http_dsem_breaker_answered(&redis->breaker);

    rc = ngx_http_dsem_calls_reply(&redis->calls, reply);

    if (redis->calls.n == 0 && redis->deadline.timer_set) {
        ngx_del_timer(&redis->deadline);
    }

    switch (rc) {

    case NGX_OK:

        if (redis->calls.missing == NULL) {
            ngx_http_dsem_breaker_loaded(&redis->breaker);
        }

        break;

    case NGX_AGAIN:

        /*
         * nothing was executed, but later calls may be: sending it again
         * would change their order, so the session begins anew
         */

        ngx_http_dsem_redis_load(redis);
        break;

    case NGX_DONE:
        redis->handlers->up(redis->data);
        break;

    case NGX_DECLINED:
        ngx_http_dsem_redis_error(redis, reply);
        break;

    case NGX_ERROR:
        ngx_http_dsem_redis_failed(redis, "unexpected reply", 1);
        break;
    }
}


static ngx_uint_t
ngx_http_dsem_redis_error_is(redisReply *reply, ngx_str_t *names)
{
    for ( /* void */ ; names->len; names++) {
        if (reply->len >= names->len
            && ngx_strncmp(reply->str, names->data, names->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


static void
ngx_http_dsem_redis_error(ngx_http_dsem_redis_t *redis, redisReply *reply)
{
    char  *p;

    for (p = reply->str; *p; p++) {
        if (*p < 0x20 || *p == 0x7f) {
            *p = '?';
        }
    }

    if (ngx_http_dsem_redis_error_is(reply, ngx_http_dsem_redis_passing)) {
        ngx_http_dsem_redis_down(redis, reply->str, 0);
        return;
    }

    /* that it is away, and why, is said by the breaker */

    if (!redis->breaker.away
        && ngx_http_dsem_redis_error_is(reply, ngx_http_dsem_redis_refusals))
    {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V rejects commands (%s)",
                      &redis->settings.addr.name, reply->str);
    }

    ngx_http_dsem_redis_failed(redis, reply->str, 1);
}


static void
ngx_http_dsem_redis_message(void *data, ngx_str_t *text)
{
    ngx_http_dsem_redis_t  *redis = data;

    redis->handlers->message(redis->data, text);
}
