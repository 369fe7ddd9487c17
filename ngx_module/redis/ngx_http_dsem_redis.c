
/*
 * Redis as the rest of the module sees it: a connection that comes and goes,
 * scripts that can be called on it, messages that arrive.
 *
 * Owns the connection for commands and its calls.  The breaker decides how
 * long to pause before the next attempt, and when requests stop waiting.  A
 * reply that fits no call ends the connection and reaches no caller.
 * Nothing is ever sent twice: commands that a lost connection, or a missing
 * script, leaves open are settled by the session, which says hello again.
 *
 * Called by: the rooms of session; fleet and semaphore, to make calls.  Knows
 * neither the rules of sessions nor permits.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_breaker.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_peer.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_redis.h"
#include "ngx_http_dsem_script.h"
#include "ngx_http_dsem_subscription.h"


typedef enum {
    NGX_HTTP_DSEM_REDIS_DOWN = 0,
    NGX_HTTP_DSEM_REDIS_CONNECTING,
    NGX_HTTP_DSEM_REDIS_CHECKING,   /* which scripts are missing */
    NGX_HTTP_DSEM_REDIS_UP
} ngx_http_dsem_redis_state_e;


struct ngx_http_dsem_redis_s {
    ngx_pool_t                       *pool;     /* of the settings */
    ngx_http_dsem_redis_settings_t    settings;
    ngx_http_dsem_keys_t              keys;
    ngx_http_dsem_redis_handlers_t   *handlers;
    void                             *data;

    ngx_http_dsem_peer_t             *peer;
    ngx_http_dsem_redis_state_e       state;
    ngx_http_dsem_connection_t       *conn;
    ngx_http_dsem_subscription_t     *subscription;

    ngx_http_dsem_script_calls_t      calls;
    uint32_t                          run;      /* whose faults are logged */
    ngx_event_t                       timer;    /* of the deadline */
    ngx_http_dsem_deadline_t          deadline;

    ngx_http_dsem_pulse_t             pulse;

    ngx_http_dsem_breaker_t           breaker;
    ngx_event_t                       retry;
};


static void ngx_http_dsem_redis_end(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_retry_handler(ngx_event_t *ev);
static void ngx_http_dsem_redis_connect(void *data, ngx_addr_t *addr,
    const char *reason);
static void ngx_http_dsem_redis_securing(void *data);
static void ngx_http_dsem_redis_moved(void *data, const char *reason);
static void ngx_http_dsem_redis_connected(void *data);
static void ngx_http_dsem_redis_wait(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_deadline_handler(ngx_event_t *ev);
static void ngx_http_dsem_redis_reply(void *data, redisReply *reply);
static void ngx_http_dsem_redis_reload(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_up(ngx_http_dsem_redis_t *redis);
static void ngx_http_dsem_redis_error(ngx_http_dsem_redis_t *redis,
    redisReply *reply);
static void ngx_http_dsem_redis_failed(void *data, const char *reason,
    ngx_uint_t protocol_error);
static void ngx_http_dsem_redis_down(ngx_http_dsem_redis_t *redis,
    const char *reason);
static void ngx_http_dsem_redis_close(ngx_http_dsem_redis_t *redis);


static ngx_http_dsem_connection_handlers_t  ngx_http_dsem_redis_handlers = {
    ngx_http_dsem_redis_connected,
    ngx_http_dsem_redis_reply,
    ngx_http_dsem_redis_failed,
    ngx_http_dsem_redis_securing
};


static ngx_http_dsem_peer_handlers_t  ngx_http_dsem_redis_peer = {
    ngx_http_dsem_redis_connect,
    ngx_http_dsem_redis_moved
};


/* errors of a server that may soon be ready, or is no master any more */
static ngx_str_t  ngx_http_dsem_redis_passing[] = {
    ngx_string("LOADING "),
    ngx_string("MASTERDOWN "),
    ngx_string("NOREPLICAS "),
    ngx_string("READONLY "),
    ngx_null_string
};


/*
 * Settings are copied, as the configuration may go before the connection does;
 * the identity is not.  NULL: no memory.
 */

ngx_http_dsem_redis_t *
ngx_http_dsem_redis_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_str_t *prefix, ngx_uint_t shard, ngx_http_dsem_identity_t *identity,
    ngx_http_dsem_redis_handlers_t *handlers, void *data)
{
    ngx_http_dsem_redis_t  *redis;

    redis = ngx_calloc(sizeof(ngx_http_dsem_redis_t), ngx_cycle->log);
    if (redis == NULL) {
        return NULL;
    }

    redis->handlers = handlers;
    redis->data = data;

    ngx_http_dsem_deadline_timer(&redis->retry,
                                 ngx_http_dsem_redis_retry_handler, redis);
    ngx_http_dsem_deadline_timer(&redis->timer,
                                 ngx_http_dsem_redis_deadline_handler, redis);

    ngx_http_dsem_pulse_init(&redis->pulse, handlers->replied, data);
    ngx_http_dsem_script_init(&redis->calls, &redis->keys, identity);

    redis->pool = ngx_create_pool(NGX_DEFAULT_POOL_SIZE, ngx_cycle->log);

    if (redis->pool == NULL
        || ngx_http_dsem_settings_copy(&redis->settings, settings,
                                       redis->pool) != NGX_OK
        || ngx_http_dsem_keys_create(&redis->keys, prefix, shard) != NGX_OK)
    {
        goto failed;
    }

    redis->peer = (redis->settings.mode == NGX_HTTP_DSEM_MODE_SINGLE)
                  ? ngx_http_dsem_host_create(&redis->settings,
                                              &ngx_http_dsem_redis_peer, redis)
                  : ngx_http_dsem_locate_create(&redis->settings, &redis->keys,
                                                &ngx_http_dsem_redis_peer,
                                                redis);

    if (redis->peer == NULL) {
        goto failed;
    }

    ngx_http_dsem_breaker_init(&redis->breaker, &redis->settings, redis->peer,
                               handlers->unavailable, data);

    redis->subscription = ngx_http_dsem_subscription_create(&redis->settings,
                                                redis->peer,
                                                handlers->message, data);
    if (redis->subscription) {
        return redis;
    }

failed:

    ngx_http_dsem_redis_destroy(redis);

    return NULL;
}


/* begins to connect, and retries until it is stopped */

void
ngx_http_dsem_redis_start(ngx_http_dsem_redis_t *redis)
{
    ngx_add_timer(&redis->retry, 1);
    ngx_http_dsem_breaker_start(&redis->breaker);
}


/*
 * Ends all connections; the handlers of open calls are called with NULL, no
 * other one is called until it is started again, which needs a subscription.
 */

void
ngx_http_dsem_redis_stop(ngx_http_dsem_redis_t *redis)
{
    ngx_http_dsem_redis_end(redis);
    ngx_http_dsem_subscription_stop(redis->subscription);

    /* a search for the server has an end, too */
    (void) redis->peer->row->failed(redis->peer);
}


static void
ngx_http_dsem_redis_end(ngx_http_dsem_redis_t *redis)
{
    ngx_http_dsem_redis_close(redis);

    if (redis->retry.timer_set) {
        ngx_del_timer(&redis->retry);
    }

    ngx_http_dsem_breaker_stop(&redis->breaker);
}


/*
 * All calls are written, and their replies awaited until this time; replies
 * that have come are read also after it.  Only for an exiting process, nothing
 * else works any more.  NGX_OK: all have come.
 */

ngx_int_t
ngx_http_dsem_redis_drain(ngx_http_dsem_redis_t *redis, ngx_msec_t end)
{
    if (redis->state != NGX_HTTP_DSEM_REDIS_UP) {
        return NGX_DECLINED;
    }

    return ngx_http_dsem_connection_drain(redis->conn, end);
}


void
ngx_http_dsem_redis_destroy(ngx_http_dsem_redis_t *redis)
{
    ngx_http_dsem_redis_end(redis);

    if (redis->subscription) {
        ngx_http_dsem_subscription_destroy(redis->subscription);
    }

    if (redis->peer) {
        redis->peer->row->destroy(redis->peer);
    }

    ngx_http_dsem_script_free(&redis->calls);
    ngx_http_dsem_keys_free(&redis->keys);
    ngx_http_dsem_settings_free(&redis->settings);

    if (redis->pool) {
        ngx_destroy_pool(redis->pool);
    }

    ngx_free(redis);
}


/* to the channel of the session, whose name is new; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_redis_subscribe(ngx_http_dsem_redis_t *redis)
{
    return ngx_http_dsem_subscription_start(redis->subscription, &redis->keys,
                                            redis->calls.identity);
}


/*
 * Loads a script once more, for calls whose replies no event loop will read:
 * they must not find it missing.  Only what is needed: a Redis that does not
 * read has room for little.  NGX_ERROR: no memory, or not up.
 */

ngx_int_t
ngx_http_dsem_redis_load(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_script_e script)
{
    if (redis->state != NGX_HTTP_DSEM_REDIS_UP) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_script_load(&redis->calls, redis->conn, script);
}


/* the session is accepted: requests may wait for Redis again */

void
ngx_http_dsem_redis_accepted(ngx_http_dsem_redis_t *redis)
{
    ngx_uint_t             again;
    ngx_http_dsem_info_t  *info;

    info = &redis->calls.info;
    again = redis->breaker.was_accepted;

    redis->peer->row->good(redis->peer);
    ngx_http_dsem_subscription_follow(redis->subscription);
    ngx_http_dsem_breaker_accepted(&redis->breaker, &info->server);

    /* once for each server, by one worker of the node, is enough */

    if (ngx_worker == 0
        && (!again || (info->run && info->run != redis->run)))
    {
        redis->run = info->run;

        ngx_http_dsem_info_log(info, ngx_http_dsem_peer_name(redis->peer),
                               redis->settings.mode
                               == NGX_HTTP_DSEM_MODE_SENTINEL);
    }
}


/*
 * Begins anew without a fault of Redis; comes back as "down".  Where Redis has
 * accepted the session the pause, which is longer each time, is no time to
 * connect: Redis is available.
 */

void
ngx_http_dsem_redis_reconnect(ngx_http_dsem_redis_t *redis,
    const char *reason)
{
    ngx_uint_t      lost;
    ngx_msec_int_t  pause;

    if (redis->state == NGX_HTTP_DSEM_REDIS_DOWN) {
        return;
    }

    lost = redis->breaker.lost;

    ngx_http_dsem_redis_down(redis, reason);

    if (!lost) {
        pause = redis->retry.timer.key - ngx_current_msec;
        ngx_http_dsem_breaker_paused(&redis->breaker, ngx_max(pause, 0));
    }
}


/* a fault that the caller has found; comes back as "down", "unavailable" */

void
ngx_http_dsem_redis_drop(ngx_http_dsem_redis_t *redis, const char *reason)
{
    if (redis->state != NGX_HTTP_DSEM_REDIS_DOWN) {
        ngx_http_dsem_redis_failed(redis, reason, 1);
    }
}


/* true while the breaker is open: no request should wait for Redis */

ngx_uint_t
ngx_http_dsem_redis_unavailable(ngx_http_dsem_redis_t *redis)
{
    return redis->breaker.open;
}


/* a request was decided; counted for the log if Redis is unavailable */

ngx_uint_t
ngx_http_dsem_redis_handled(ngx_http_dsem_redis_t *redis, ngx_uint_t passed)
{
    if (redis->breaker.open) {
        ngx_http_dsem_breaker_handled(&redis->breaker, passed);
    }

    return redis->breaker.open;
}


/* whether a script may publish to the session's channel */

void
ngx_http_dsem_redis_published(ngx_http_dsem_redis_t *redis,
    ngx_uint_t published)
{
    ngx_http_dsem_subscription_published(redis->subscription, published);
}


ngx_http_dsem_keys_t *
ngx_http_dsem_redis_keys(ngx_http_dsem_redis_t *redis)
{
    return &redis->keys;
}


/* true if calls can be begun */

ngx_uint_t
ngx_http_dsem_redis_is_up(ngx_http_dsem_redis_t *redis)
{
    return redis->state == NGX_HTTP_DSEM_REDIS_UP;
}


/*
 * Begins a call with the script's own keys; the caller writes exactly
 * "nargs" arguments to the result.  NULL: not up.
 */

ngx_http_dsem_resp_t *
ngx_http_dsem_redis_begin(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_script_e script, ngx_str_t *keys, ngx_uint_t nkeys,
    ngx_uint_t nargs)
{
    if (!ngx_http_dsem_redis_is_up(redis)) {
        return NULL;
    }

    return ngx_http_dsem_script_begin(&redis->calls, script, keys, nkeys,
                                      NULL, 0, nargs);
}


/* begins a call whose values share an argument with epoch and number */

ngx_http_dsem_resp_t *
ngx_http_dsem_redis_begin_packed(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_script_e script, ngx_str_t *keys, ngx_uint_t nkeys,
    int64_t *values, ngx_uint_t nvalues, ngx_uint_t nargs)
{
    if (!ngx_http_dsem_redis_is_up(redis)) {
        return NULL;
    }

    return ngx_http_dsem_script_begin(&redis->calls, script, keys, nkeys,
                                      values, nvalues, nargs);
}


/*
 * Makes the call that was begun.  NGX_OK: handler, if any, is called once;
 * NGX_ERROR: no memory, it is not called.
 */

ngx_int_t
ngx_http_dsem_redis_call(ngx_http_dsem_redis_t *redis,
    ngx_http_dsem_reply_pt handler, void *data)
{
    if (ngx_http_dsem_script_call(&redis->calls, redis->conn, handler, data)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_redis_wait(redis);

    return NGX_OK;
}


/* of the server in use, or wanted, or with the reason; valid in this event */

ngx_str_t *
ngx_http_dsem_redis_address(ngx_http_dsem_redis_t *redis)
{
    return ngx_http_dsem_breaker_address(&redis->breaker);
}


/* why no session is accepted, for people; empty: one is, or no cause yet */

void
ngx_http_dsem_redis_reason(ngx_http_dsem_redis_t *redis, ngx_str_t *reason)
{
    const char  *text;

    text = ngx_http_dsem_breaker_reason(&redis->breaker);

    reason->data = (u_char *) text;
    reason->len = ngx_strlen(text);
}


static void
ngx_http_dsem_redis_retry_handler(ngx_event_t *ev)
{
    ngx_http_dsem_redis_t  *redis;

    redis = ev->data;
    redis->state = NGX_HTTP_DSEM_REDIS_CONNECTING;

    ngx_http_dsem_breaker_connecting(&redis->breaker,
                                     redis->peer->pending);
    redis->peer->row->find(redis->peer);
}


/* the peer is found; or not, for this reason */

static void
ngx_http_dsem_redis_connect(void *data, ngx_addr_t *addr, const char *reason)
{
    ngx_http_dsem_redis_t *redis = data;

    char        text[NGX_HTTP_DSEM_REASON_LEN];
    ngx_msec_t  timeout;

    if (addr == NULL) {
        ngx_http_dsem_redis_down(redis, reason);
        return;
    }

    ngx_http_dsem_breaker_connecting(&redis->breaker, "connect timed out");

    timeout = redis->settings.connect_timeout;

    if (!redis->breaker.open) {
        /* a dead address leaves the others their part of the time */
        timeout = ngx_max(timeout / ngx_max(redis->peer->burst, 1), 1);
    }

    redis->conn = ngx_http_dsem_connection_create(addr, timeout,
                                            &redis->settings.login,
                                            &ngx_http_dsem_redis_handlers,
                                            redis, text);

    if (redis->conn == NULL) {
        ngx_http_dsem_redis_down(redis, text);
    }
}


static void
ngx_http_dsem_redis_securing(void *data)
{
    ngx_http_dsem_redis_t *redis = data;

    ngx_http_dsem_breaker_connecting(&redis->breaker,
                                     NGX_HTTP_DSEM_TLS_SILENT);
}


/*
 * Another server is the one to connect to.  The old one may go on replying,
 * and grants permits of which the new one does not know: no use of it is
 * right any more.
 */

static void
ngx_http_dsem_redis_moved(void *data, const char *reason)
{
    ngx_http_dsem_redis_t *redis = data;

    if (redis->state != NGX_HTTP_DSEM_REDIS_DOWN) {
        ngx_http_dsem_redis_down(redis, reason);
    }

    ngx_http_dsem_deadline_restart(&redis->retry, 1);
}


/* "up" follows when the server has reported which scripts are missing */

static void
ngx_http_dsem_redis_connected(void *data)
{
    ngx_http_dsem_redis_t *redis = data;

    redis->state = NGX_HTTP_DSEM_REDIS_CHECKING;

    ngx_http_dsem_breaker_connected(&redis->breaker);

    /*
     * a short command first: without a password Redis rejects long scripts
     * with an error that does not name the cause
     */

    if ((redis->settings.mode == NGX_HTTP_DSEM_MODE_SENTINEL
         && ngx_http_dsem_script_role(&redis->calls, redis->conn) != NGX_OK)
        || ngx_http_dsem_script_info(&redis->calls, redis->conn,
                                     ngx_worker == 0) != NGX_OK
        || ngx_http_dsem_script_exists(&redis->calls, redis->conn) != NGX_OK
        || ngx_http_dsem_script_name(&redis->calls, redis->conn) != NGX_OK)
    {
        ngx_http_dsem_redis_down(redis, "no memory");
        return;
    }

    ngx_http_dsem_redis_wait(redis);
}


static void
ngx_http_dsem_redis_wait(ngx_http_dsem_redis_t *redis)
{
    if (!redis->timer.timer_set) {
        ngx_http_dsem_pulse_asked(&redis->pulse);
        ngx_http_dsem_deadline_set(&redis->deadline, &redis->timer,
                                   redis->settings.timeout);
    }
}


/*
 * True while a reply is late: other commands would only pile up.  Nothing is
 * wrong with Redis yet.
 */

ngx_uint_t
ngx_http_dsem_redis_late(ngx_http_dsem_redis_t *redis)
{
    return redis->calls.n && ngx_http_dsem_pulse_late(&redis->pulse);
}


/*
 * Whether Redis certainly replies.  NGX_OK: it has just done so, or not long
 * ago where a round trip takes longer than it is worth, in ms; NGX_AGAIN:
 * "replied" is called once with its next reply, or when that is late.
 */

ngx_int_t
ngx_http_dsem_redis_probe(ngx_http_dsem_redis_t *redis, ngx_msec_t worth)
{
    if (ngx_http_dsem_pulse_fresh(&redis->pulse, worth)) {
        return NGX_OK;
    }

    if (redis->calls.n == 0) {

        if (ngx_http_dsem_script_ping(&redis->calls, redis->conn) != NGX_OK) {
            return NGX_OK;
        }

        ngx_http_dsem_redis_wait(redis);
    }

    ngx_http_dsem_redis_await(redis);

    return NGX_AGAIN;
}


/*
 * A call is unanswered: "replied" is called once with the next reply, or when
 * that is late.
 */

void
ngx_http_dsem_redis_await(ngx_http_dsem_redis_t *redis)
{
    ngx_http_dsem_pulse_wait(&redis->pulse);
}


/* the timer is moved lazily, and may be early: the last reply counts */

static void
ngx_http_dsem_redis_deadline_handler(ngx_event_t *ev)
{
    ngx_msec_int_t          left;
    ngx_http_dsem_redis_t  *redis;

    redis = ev->data;

    left = redis->pulse.since + redis->settings.timeout - ngx_current_msec;

    if (left > 0) {
        ngx_http_dsem_deadline_set(&redis->deadline, ev, left);
        return;
    }

    if (ngx_http_dsem_deadline_extend(&redis->deadline, ev)) {
        return;
    }

    left += ngx_http_dsem_script_loading(&redis->calls);

    if (left > 0) {
        /* requests do not wait for it */
        ngx_http_dsem_deadline_set(&redis->deadline, ev, left);
        ngx_http_dsem_breaker_open(&redis->breaker);
        return;
    }

    ngx_http_dsem_redis_down(redis, "no reply in time");
    ngx_http_dsem_breaker_open(&redis->breaker);
}


static void
ngx_http_dsem_redis_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_redis_t *redis = data;

    ngx_int_t  rc;

    ngx_http_dsem_pulse_replied(&redis->pulse);

    rc = ngx_http_dsem_script_reply(&redis->calls, reply);

    if (redis->calls.n == 0 && redis->timer.timer_set) {
        ngx_del_timer(&redis->timer);
    }

    switch (rc) {

    case NGX_OK:
        break;

    case NGX_AGAIN:
        if (redis->state == NGX_HTTP_DSEM_REDIS_UP) {
            ngx_http_dsem_redis_reload(redis);
        }

        break;

    case NGX_DONE:
        ngx_http_dsem_redis_up(redis);
        break;

    case NGX_DECLINED:
        ngx_http_dsem_redis_error(redis, reply);
        break;

    case NGX_ABORT:
        ngx_http_dsem_redis_failed(redis, "server is a replica", 0);
        break;

    case NGX_BUSY:
        redis->handlers->unusable(redis->data, redis->calls.status,
                                  redis->calls.verify);
        break;

    default: /* NGX_ERROR */
        ngx_http_dsem_redis_failed(redis, redis->calls.fault, 1);
        break;
    }
}


/*
 * Scripts are missing.  The call was not executed, but later ones may be:
 * sending it again would change their order, so the session begins anew.
 */

static void
ngx_http_dsem_redis_reload(ngx_http_dsem_redis_t *redis)
{
    if (ngx_http_dsem_breaker_reload(&redis->breaker) != NGX_OK) {
        ngx_http_dsem_redis_failed(redis, "scripts are missing repeatedly "
                                   "(several servers behind one address?)",
                                   1);
        return;
    }

    if (ngx_http_dsem_script_exists(&redis->calls, redis->conn) != NGX_OK) {
        ngx_http_dsem_redis_down(redis, "no memory");
        return;
    }

    ngx_http_dsem_redis_wait(redis);

    redis->state = NGX_HTTP_DSEM_REDIS_CHECKING;

    redis->handlers->down(redis->data);
}


/* the scripts that the server lacks go before the first call */

static void
ngx_http_dsem_redis_up(ngx_http_dsem_redis_t *redis)
{
    if (ngx_http_dsem_script_load_missing(&redis->calls, redis->conn)
        != NGX_OK)
    {
        ngx_http_dsem_redis_down(redis, "no memory");
        return;
    }

    ngx_http_dsem_redis_wait(redis);

    redis->state = NGX_HTTP_DSEM_REDIS_UP;

    redis->handlers->up(redis->data);
}


static void
ngx_http_dsem_redis_error(ngx_http_dsem_redis_t *redis, redisReply *reply)
{
    char                   text[NGX_HTTP_DSEM_REASON_LEN], *error;
    ngx_str_t             *name;
    ngx_uint_t             passes;
    ngx_http_dsem_peer_t  *peer;

    peer = redis->peer;

    error = ngx_http_dsem_reason_error(reply->str);

    passes = peer->row->redirected
             && peer->row->redirected(peer, error);

    for (name = ngx_http_dsem_redis_passing; name->len; name++) {
        passes |= (ngx_strncmp(error, name->data, name->len) == 0);
    }

    if (!passes && ngx_strncmp(error, "MOVED ", 6) == 0) {
        ngx_http_dsem_reason(text, "%s (a Cluster needs \"mode=cluster\")",
                             error);
        ngx_http_dsem_redis_failed(redis, text, 1);

    } else {
        ngx_http_dsem_redis_failed(redis, error, !passes);
    }

    /* the next attempt to connect is no better cause for the log */
    redis->breaker.named = 1;
}


/* no request waits for a peer that replies, but not as Redis should */

static void
ngx_http_dsem_redis_failed(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_redis_t *redis = data;

    ngx_http_dsem_redis_down(redis, reason);

    if (protocol_error) {
        ngx_http_dsem_breaker_open(&redis->breaker);
    }
}


/* the one way down, from every state */

static void
ngx_http_dsem_redis_down(ngx_http_dsem_redis_t *redis, const char *reason)
{
    ngx_uint_t  was_up, attempts;

    was_up = (redis->state == NGX_HTTP_DSEM_REDIS_UP);

    /* before the connection goes: the reason may live in it */
    ngx_http_dsem_breaker_lost(&redis->breaker, reason, was_up);
    attempts = redis->peer->row->failed(redis->peer);

    ngx_http_dsem_redis_close(redis);

    ngx_add_timer(&redis->retry,
                  ngx_http_dsem_breaker_pause(&redis->breaker, attempts));

    if (was_up) {
        redis->handlers->down(redis->data);
    }

    if (redis->breaker.open) {
        /* requests may have begun to wait since the last hello */
        redis->handlers->unavailable(redis->data);
    }
}


/* open calls will have no reply */

static void
ngx_http_dsem_redis_close(ngx_http_dsem_redis_t *redis)
{
    redis->state = NGX_HTTP_DSEM_REDIS_DOWN;

    if (redis->conn) {
        ngx_http_dsem_connection_close(redis->conn);
        redis->conn = NULL;
    }

    if (redis->timer.timer_set) {
        ngx_del_timer(&redis->timer);
    }

    ngx_http_dsem_pulse_stop(&redis->pulse);

    ngx_http_dsem_script_forget(&redis->calls);
}
