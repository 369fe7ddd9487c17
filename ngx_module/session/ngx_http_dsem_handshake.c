
/*
 * The handshake: hello, declare, declared; then the beat, and the bye.
 *
 * Drives the session from the first connection to its end.  An epoch opens
 * with hello; then all that the worker has is declared, some of it at a time,
 * and "declared" ends that; from then on there is a beat.  Every doubt is
 * settled in the same way: a higher epoch and a new declaration, never a
 * guess.  Replies to commands of an older epoch are ignored.
 *
 * While Redis recovers a lost state the beat is faster, as the recovery ends
 * when the last session has declared, and the message about it may be lost.
 *
 * A session that is not lasting leaves when it was not used for a while, and
 * is started again, under another name, when it is.
 *
 * Called by: shards (life), dispatch (resynchronize, a declaration's reply, a
 * message), order (removes a session), sync (a recovery) and redis (replies,
 * changes of the connection).
 * The order of arguments and values is that of lua/hello.lua, declared.lua,
 * beat.lua and bye.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/random.h>
#include "ngx_http_dsem_handshake.h"


/* ms, the longest pause between two attempts to connect */
#define NGX_HTTP_DSEM_MAX_BACKOFF        750

/* new epochs without a success; then the connection is dropped */
#define NGX_HTTP_DSEM_MAX_RESYNCS        5

/* unanswered declarations: long queues must not time out */
#define NGX_HTTP_DSEM_DECLARE_WINDOW     64

/* leases without an account, until the session leaves */
#define NGX_HTTP_DSEM_UNUSED_LEASES      10

/* ms; the clock of a host is slewed, or corrected by less */
#define NGX_HTTP_DSEM_CLOCK_STEP  1000

/* ms between two beats while Redis recovers, at most */
#define NGX_HTTP_DSEM_RECOVERY_BEAT      200

/* generations are drawn below this, so that Lua's numbers hold them */
#define NGX_HTTP_DSEM_GENERATION_BITS    50

/* a generation of no Redis: the worker has permits that none has counted */
#define NGX_HTTP_DSEM_NO_GENERATION      1


/* a hello, declared or beat that is sent */
typedef struct {
    ngx_http_dsem_session_t  *session;
    uint64_t                  epoch;
    uint64_t                  sent;        /* ms, monotonic */
} ngx_http_dsem_handshake_call_t;


/* a bye for a dead worker that is sent */
typedef struct {
    ngx_shm_zone_t           *zone;
    ngx_str_t                 name;
    u_char                    buf[NGX_HTTP_DSEM_SESSION_LEN];
} ngx_http_dsem_handshake_bye_t;


static void ngx_http_dsem_handshake_leave(ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_leave_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_down(void *data);
static void ngx_http_dsem_handshake_begin(void *data);
static ngx_int_t ngx_http_dsem_handshake_hello(
    ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_hello_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_uint_t ngx_http_dsem_handshake_counted(
    ngx_http_dsem_session_t *session, int64_t *values);
static void ngx_http_dsem_handshake_declare(ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_declared_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_beat_timer(ngx_event_t *ev);
static void ngx_http_dsem_handshake_idle(ngx_http_dsem_session_t *session,
    ngx_http_dsem_resp_t *command);
static ngx_uint_t ngx_http_dsem_handshake_unused(
    ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_clock(ngx_http_dsem_session_t *session,
    int64_t moved);
static void ngx_http_dsem_handshake_beat_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_renew(ngx_http_dsem_session_t *session,
    uint64_t sent, ngx_uint_t fleet);
static void ngx_http_dsem_handshake_set_recovery(
    ngx_http_dsem_session_t *session, ngx_msec_t left);
static ngx_msec_t ngx_http_dsem_handshake_interval(
    ngx_http_dsem_session_t *session);
static ngx_http_dsem_resp_t *ngx_http_dsem_handshake_command(
    ngx_http_dsem_session_t *session, ngx_http_dsem_script_e script,
    ngx_uint_t nargs);
static ngx_int_t ngx_http_dsem_handshake_call(
    ngx_http_dsem_session_t *session, ngx_http_dsem_reply_pt handler);
static ngx_uint_t ngx_http_dsem_handshake_expected(
    ngx_http_dsem_handshake_call_t *call, ngx_http_dsem_reply_t *reply,
    ngx_uint_t nvalues);
static ngx_int_t ngx_http_dsem_handshake_bye(
    ngx_http_dsem_session_t *session, ngx_str_t *name,
    ngx_http_dsem_reply_pt handler, void *data);
static void ngx_http_dsem_handshake_bye_dead(
    ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_bye_handler(void *data,
    ngx_http_dsem_reply_t *reply);


/*
 * Creates a session, which is all zero but for its shard.  settings are
 * copied.  NGX_ERROR: no memory; nothing is left behind.
 */

ngx_int_t
ngx_http_dsem_handshake_create(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers)
{
    ngx_http_dsem_redis_settings_t  redis;

    if (ngx_http_dsem_session_create(session, settings, handlers) != NGX_OK) {
        ngx_http_dsem_session_free(session);
        return NGX_ERROR;
    }

    session->beat.handler = ngx_http_dsem_handshake_beat_timer;
    session->beat.data = session;
    session->beat.log = ngx_cycle->log;
    session->beat.cancelable = 1;

    redis = settings->redis;
    redis.backoff = ngx_min(settings->lease / 6, NGX_HTTP_DSEM_MAX_BACKOFF);
    redis.heartbeat = ngx_http_dsem_lease_heartbeat(&session->lease);

    session->redis_handlers.up = ngx_http_dsem_handshake_begin;
    session->redis_handlers.down = ngx_http_dsem_handshake_down;
    session->redis_handlers.unavailable = handlers->unavailable;
    session->redis_handlers.heard = handlers->heard;
    session->redis_handlers.message = handlers->message;

    session->redis = ngx_http_dsem_redis_create(&redis, &settings->prefix,
                                                session->shard,
                                                &session->identity,
                                                &session->redis_handlers,
                                                session);
    if (session->redis == NULL) {
        ngx_http_dsem_session_free(session);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_http_dsem_handshake_destroy(ngx_http_dsem_session_t *session)
{
    if (session->redis) {
        ngx_http_dsem_redis_destroy(session->redis);
    }

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    ngx_http_dsem_session_free(session);
}


/*
 * Begins to connect, under a new name.  NGX_ERROR: no memory or no random
 * numbers, the session is not started.
 */

ngx_int_t
ngx_http_dsem_handshake_start(ngx_http_dsem_session_t *session)
{
    if (ngx_http_dsem_session_rename(session) != NGX_OK
        || ngx_http_dsem_redis_subscribe(session->redis) != NGX_OK)
    {
        return NGX_ERROR;
    }

    session->started = 1;
    session->used = ngx_current_msec;

    ngx_http_dsem_redis_start(session->redis);

    return NGX_OK;
}


/*
 * The worker exits: the bye of the session voids all that it has in Redis.
 * NGX_OK: it is to be drained, as the worker has no event loop any more.
 */

ngx_int_t
ngx_http_dsem_handshake_exit(ngx_http_dsem_session_t *session)
{
    if (!session->started
        || ngx_http_dsem_redis_load(session->redis, NGX_HTTP_DSEM_SCRIPT_BYE)
           != NGX_OK)
    {
        return NGX_DECLINED;
    }

    return ngx_http_dsem_handshake_bye(session, &session->identity.name, NULL,
                                       NULL);
}


/* NGX_OK: the bye has its reply; NGX_AGAIN: not until this time, in ms */

ngx_int_t
ngx_http_dsem_handshake_drain(ngx_http_dsem_session_t *session,
    ngx_msec_t end)
{
    if (ngx_http_dsem_redis_drain(session->redis, end) != NGX_OK) {
        return NGX_AGAIN;
    }

    (void) ngx_http_dsem_zone_leave(session->zone, &session->identity.name);

    return NGX_OK;
}


/*
 * Ends a session that is not used.  It has no permits; what begins meanwhile
 * waits for the reply, and starts it again.  If the connection is lost, it
 * does not leave.
 */

static void
ngx_http_dsem_handshake_leave(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DOWN);

    session->leaving = 1;

    if (ngx_http_dsem_handshake_bye(session, &session->identity.name,
                                    ngx_http_dsem_handshake_leave_handler,
                                    session)
        != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
    }
}


static void
ngx_http_dsem_handshake_leave_handler(void *data,
    ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_session_t *session = data;

    if (reply == NULL || !session->leaving) {
        return;
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem session of shard %ui: left", session->shard);

    (void) ngx_http_dsem_zone_leave(session->zone, &session->identity.name);

    session->leaving = 0;
    session->started = 0;
    session->entered = 0;

    ngx_http_dsem_redis_stop(session->redis);

    if (session->drain.timer_set) {
        ngx_del_timer(&session->drain);
    }

    if (session->handlers->used(session)
        && ngx_http_dsem_handshake_start(session) != NGX_OK)
    {
        session->handlers->unavailable(session);
    }
}


/*
 * A reply, or its lack, does not fit what this worker knows: begins a new
 * epoch and declares everything.  "verify": keys of a semaphore may have
 * been lost.
 */

void
ngx_http_dsem_handshake_resync(ngx_http_dsem_session_t *session,
    const char *reason, ngx_uint_t verify)
{
    if (session->state == NGX_HTTP_DSEM_SESSION_DOWN) {
        return;
    }

    session->verify = verify;

    ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                  "dsem: resynchronizing with redis (%s)", reason);

    if (++session->resyncs > NGX_HTTP_DSEM_MAX_RESYNCS) {
        ngx_http_dsem_redis_drop(session->redis, reason);
        return;
    }

    ngx_http_dsem_handshake_begin(session);
}


static void
ngx_http_dsem_handshake_down(void *data)
{
    ngx_http_dsem_session_t *session = data;

    session->leaving = 0;

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DOWN);

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    session->handlers->reset(session);
}


/* a new epoch: commands of older ones mean nothing any more */

static void
ngx_http_dsem_handshake_begin(void *data)
{
    ngx_http_dsem_session_t *session = data;

    session->leaving = 0;
    session->identity.epoch++;
    session->declares = 0;
    session->all_sent = 0;

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_HELLO);

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    session->handlers->reset(session);

    if (ngx_http_dsem_handshake_hello(session) != NGX_OK) {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
    }
}


static ngx_int_t
ngx_http_dsem_handshake_hello(ngx_http_dsem_session_t *session)
{
    int64_t                fresh, known, age;
    ngx_http_dsem_resp_t  *command;

    if (getrandom(&fresh, sizeof(fresh), 0) != sizeof(fresh)) {
        return NGX_ERROR;
    }

    fresh &= ((int64_t) 1 << NGX_HTTP_DSEM_GENERATION_BITS) - 1;

    known = session->generation;

    if (known == 0 && session->handlers->holding(session)) {
        known = NGX_HTTP_DSEM_NO_GENERATION;
    }

    age = session->registered ? ngx_http_dsem_lease_age(&session->lease) : 0;

    command = ngx_http_dsem_handshake_command(session,
                                              NGX_HTTP_DSEM_SCRIPT_HELLO, 6);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_number(command, known);
    ngx_http_dsem_resp_number(command,
                              fresh + NGX_HTTP_DSEM_NO_GENERATION + 1);
    ngx_http_dsem_resp_number(command, session->lease.length);
    ngx_http_dsem_resp_number(command, session->registered);
    ngx_http_dsem_resp_number(command, age);
    ngx_http_dsem_resp_string(command,
                              ngx_http_dsem_limits_id(&session->limits));

    return ngx_http_dsem_handshake_call(session,
                                       ngx_http_dsem_handshake_hello_handler);
}


static void
ngx_http_dsem_handshake_hello_handler(void *data,
    ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_call_t *call = data;

    uint64_t                  sent;
    ngx_uint_t                lost, counted;
    ngx_http_dsem_session_t  *session;

    session = call->session;
    sent = call->sent;

    if (!ngx_http_dsem_handshake_expected(call, reply, 6)) {
        return;
    }

    session->process = reply->values[5];
    counted = ngx_http_dsem_handshake_counted(session, reply->values);

    lost = (session->generation && session->generation != reply->values[0]);

    if (lost) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis lost its state, recovering for at most "
                      "%L ms", reply->values[2]);
    }

    session->generation = reply->values[0];

    ngx_http_dsem_handshake_set_recovery(session, reply->values[2]);

    session->lease_expired = session->entered && !lost
                             && reply->values[3] == 0;
    session->keys_lost = session->verify && !lost && reply->values[3];
    session->entered = 1;
    session->verify = 0;

    session->undeclared = (session->recovery != 0 && !counted);

    if (!counted
        && (session->lease_expired
            || (lost && !session->undeclared)
            || ngx_http_dsem_lease_own_fenced(&session->lease)))
    {
        session->handlers->expired(session);
    }

    ngx_http_dsem_handshake_renew(session, sent, reply->values[1]);

    ngx_add_timer(&session->beat, ngx_http_dsem_handshake_interval(session));

    if (reply->values[4]
        && ngx_http_dsem_limits_state(&session->limits, session->redis)
           != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DECLARING);
    ngx_http_dsem_handshake_declare(session);
}


/*
 * True if Redis has counted what this worker has all the time, beyond the
 * fence: its session is still there.  A pause of all grants, after a time
 * without any command, takes nothing away then.  The lease must not be over:
 * other workers may have admitted requests by their local shares.
 */

static ngx_uint_t
ngx_http_dsem_handshake_counted(ngx_http_dsem_session_t *session,
    int64_t *values)
{
    return session->generation == values[0]
           && values[3]
           && !session->undeclared
           && !session->verify
           && session->process
           && session->process == session->accepted
           && ngx_http_dsem_lease_age(&session->lease) < session->lease.length;
}


/* the floor above has read the reply to a declaration of this epoch */

void
ngx_http_dsem_handshake_declared(ngx_http_dsem_session_t *session,
    ngx_http_dsem_reply_t *reply)
{
    if (reply->status == NGX_HTTP_DSEM_REPLY_RESYNC) {
        ngx_http_dsem_handshake_resync(session, "session unknown to redis", 0);
        return;
    }

    session->declares--;
    ngx_http_dsem_handshake_declare(session);
}


/* as many declarations as the window has room for; at the end "declared" */

static void
ngx_http_dsem_handshake_declare(ngx_http_dsem_session_t *session)
{
    ngx_int_t   rc;
    ngx_uint_t  calls;

    if (!session->all_sent
        && session->declares < NGX_HTTP_DSEM_DECLARE_WINDOW)
    {
        rc = session->handlers->declare(session,
                          NGX_HTTP_DSEM_DECLARE_WINDOW - session->declares,
                          &calls);

        if (rc == NGX_ERROR) {
            ngx_http_dsem_redis_drop(session->redis, "no memory");
            return;
        }

        session->declares += calls;
        session->all_sent = (rc == NGX_OK);
    }

    if (!session->all_sent || session->declares) {
        return;
    }

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DECLARED);

    if (ngx_http_dsem_handshake_command(session,
                                        NGX_HTTP_DSEM_SCRIPT_DECLARED, 0)
            == NULL
        || ngx_http_dsem_handshake_call(session,
                                    ngx_http_dsem_handshake_declared_handler)
           != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
    }
}


static void
ngx_http_dsem_handshake_declared_handler(void *data,
    ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_call_t *call = data;

    ngx_http_dsem_session_t  *session;

    session = call->session;

    if (!ngx_http_dsem_handshake_expected(call, reply, 1)) {
        return;
    }

    session->resyncs = 0;
    session->accepted = session->process;

    if (session->undeclared) {
        session->undeclared = 0;

        if (ngx_http_dsem_lease_own_fenced(&session->lease)) {
            session->handlers->expired(session);
        }

        ngx_http_dsem_lease_declared(&session->lease);
    }

    ngx_http_dsem_handshake_set_recovery(session, reply->values[0]);

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_READY);
    ngx_http_dsem_redis_accepted(session->redis);

    if (session->process == 0 && !session->nameless) {
        session->nameless = 1;
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis does not tell its run id, a failover that "
                      "loses permits is noticed only if it loses all state "
                      "(allow INFO)");
    }

    session->handlers->ready(session);
}


static void
ngx_http_dsem_handshake_beat_timer(ngx_event_t *ev)
{
    ngx_http_dsem_resp_t     *command;
    ngx_http_dsem_session_t  *session;

    session = ev->data;

    if (ngx_exiting) {
        ngx_http_dsem_limits_leave(&session->limits, session->redis);

    } else if (ngx_http_dsem_handshake_unused(session)) {
        ngx_http_dsem_handshake_leave(session);
        return;
    }

    command = ngx_http_dsem_handshake_command(session,
                                              NGX_HTTP_DSEM_SCRIPT_BEAT, 3);
    if (command == NULL) {
        return;
    }

    ngx_http_dsem_resp_number(command, session->generation);
    ngx_http_dsem_resp_number(command, session->lease.length);
    ngx_http_dsem_handshake_idle(session, command);

    if (ngx_http_dsem_handshake_call(session,
                                     ngx_http_dsem_handshake_beat_handler)
        != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    ngx_add_timer(&session->beat, ngx_http_dsem_handshake_interval(session));
}


/* idle permits, while a display wants them: without them they look used */

static void
ngx_http_dsem_handshake_idle(ngx_http_dsem_session_t *session,
    ngx_http_dsem_resp_t *command)
{
    u_char  *text, *last;

    text = NULL;
    last = NULL;

    if (ngx_http_dsem_monotonic() < session->told_until) {
        text = ngx_alloc(NGX_HTTP_DSEM_SESSION_IDLE, ngx_cycle->log);
    }

    if (text) {
        last = session->handlers->idle(session, text);
    }

    ngx_http_dsem_resp_bytes(command, text ? (char *) text : "", last - text);

    if (text) {
        ngx_free(text);
    }
}


/* true if there was no account for a while, and none is needed */

static ngx_uint_t
ngx_http_dsem_handshake_unused(ngx_http_dsem_session_t *session)
{
    if (session->lasting || !ngx_http_dsem_session_ready(session)) {
        return 0;
    }

    if (session->handlers->used(session)) {
        session->used = ngx_current_msec;
    }

    return ngx_current_msec - session->used
           >= NGX_HTTP_DSEM_UNUSED_LEASES * session->lease.length;
}


static void
ngx_http_dsem_handshake_beat_handler(void *data,
    ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_call_t *call = data;

    uint64_t                  sent;
    ngx_http_dsem_session_t  *session;

    session = call->session;
    sent = call->sent;

    if (!ngx_http_dsem_handshake_expected(call, reply, 6)) {
        return;
    }

    ngx_http_dsem_handshake_clock(session, reply->values[4]);
    ngx_http_dsem_redis_published(session->redis, reply->values[3] != 0);
    ngx_http_dsem_handshake_renew(session, sent, reply->values[0]);
    ngx_http_dsem_handshake_set_recovery(session, reply->values[2]);

    session->told_until = reply->values[5] > 0
                          ? ngx_http_dsem_monotonic() + reply->values[5] : 0;

    if (reply->values[1] > 0) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: lease of %L sessions expired, their permits are "
                      "released, %L sessions remain",
                      reply->values[1], reply->values[0]);
    }
}


/*
 * Redis's clock has moved by so many ms since a command of some worker, which
 * was no earlier than the last renewal of this one.  More than that, or less
 * than nothing, is a step of the host's clock.
 */

static void
ngx_http_dsem_handshake_clock(ngx_http_dsem_session_t *session, int64_t moved)
{
    int64_t  step;

    step = moved;

    if (moved > 0) {
        step = moved - (int64_t) ngx_http_dsem_lease_age(&session->lease);
        step = ngx_max(step, 0);
    }

    if (step < -NGX_HTTP_DSEM_CLOCK_STEP || step > NGX_HTTP_DSEM_CLOCK_STEP) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: clock of redis stepped by %L ms", step);
    }
}


/* the lease counts from the moment at which it was asked for */

static void
ngx_http_dsem_handshake_renew(ngx_http_dsem_session_t *session, uint64_t sent,
    ngx_uint_t fleet)
{
    session->fleet = fleet;
    session->registered = fleet;

    ngx_http_dsem_lease_renew(&session->lease, sent, !session->undeclared);
    ngx_http_dsem_zone_enter(session->zone, session->shard,
                             &session->zone_own, &session->identity.name);
    ngx_http_dsem_zone_remember(session->zone, session->shard,
                                session->generation, fleet, sent);

    if (ngx_http_dsem_zone_turn(session->zone, session->shard,
                             ngx_http_dsem_lease_heartbeat(&session->lease)))
    {
        ngx_http_dsem_handshake_bye_dead(session);
    }
}


/* Redis has replied that it grants nothing for so many ms at most */

void
ngx_http_dsem_handshake_recovering(ngx_http_dsem_session_t *session,
    ngx_msec_t left)
{
    ngx_msec_t  interval;

    ngx_http_dsem_handshake_set_recovery(session, left);

    interval = ngx_http_dsem_handshake_interval(session);

    if (session->beat.timer_set
        && (ngx_msec_int_t) (session->beat.timer.key - ngx_current_msec)
           > (ngx_msec_int_t) interval)
    {
        ngx_add_timer(&session->beat, interval);
    }
}


/* a message: no session is missing any more */

void
ngx_http_dsem_handshake_recovered(ngx_http_dsem_session_t *session)
{
    session->recovery = 0;

    ngx_http_dsem_session_note(session);
    session->handlers->recovered(session);
}


/*
 * A message: so many sessions are registered now.  A wrong number costs time
 * after a loss of state, a lease at most.
 */

void
ngx_http_dsem_handshake_sessions(ngx_http_dsem_session_t *session, int64_t n)
{
    if (session->registered && n > (int64_t) session->registered) {
        session->registered = (ngx_uint_t) n;
    }
}


static void
ngx_http_dsem_handshake_set_recovery(ngx_http_dsem_session_t *session,
    ngx_msec_t left)
{
    if (session->recovery && left == 0) {
        ngx_http_dsem_handshake_recovered(session);
    }

    session->recovery = left;

    ngx_http_dsem_session_note(session);
}


static ngx_msec_t
ngx_http_dsem_handshake_interval(ngx_http_dsem_session_t *session)
{
    ngx_msec_t  heartbeat;

    heartbeat = ngx_http_dsem_lease_heartbeat(&session->lease);

    return session->recovery ? ngx_min(heartbeat, NGX_HTTP_DSEM_RECOVERY_BEAT)
                             : heartbeat;
}


/* all scripts of the handshake have these keys, beat one more; NULL: not up */

static ngx_http_dsem_resp_t *
ngx_http_dsem_handshake_command(ngx_http_dsem_session_t *session,
    ngx_http_dsem_script_e script, ngx_uint_t nargs)
{
    ngx_uint_t             nkeys;
    ngx_http_dsem_keys_t  *keys;

    keys = ngx_http_dsem_redis_keys(session->redis);
    nkeys = script == NGX_HTTP_DSEM_SCRIPT_BEAT ? 3 : 2;

    return ngx_http_dsem_redis_begin(session->redis, script, keys->registry,
                                     nkeys, nargs);
}


/* makes the call that was begun; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_dsem_handshake_call(ngx_http_dsem_session_t *session,
    ngx_http_dsem_reply_pt handler)
{
    ngx_http_dsem_handshake_call_t  *call;

    call = ngx_alloc(sizeof(ngx_http_dsem_handshake_call_t), ngx_cycle->log);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->session = session;
    call->epoch = session->identity.epoch;
    call->sent = ngx_http_dsem_monotonic();

    if (ngx_http_dsem_redis_call(session->redis, handler, call) != NGX_OK) {
        ngx_free(call);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Frees the call.  True if the reply belongs to this epoch, is OK and has
 * enough values; handles every other reply.
 */

static ngx_uint_t
ngx_http_dsem_handshake_expected(ngx_http_dsem_handshake_call_t *call,
    ngx_http_dsem_reply_t *reply, ngx_uint_t nvalues)
{
    uint64_t                  epoch;
    ngx_http_dsem_session_t  *session;

    epoch = call->epoch;
    session = call->session;

    ngx_free(call);

    if (reply == NULL || epoch != session->identity.epoch) {
        return 0;
    }

    switch (reply->status) {

    case NGX_HTTP_DSEM_REPLY_OK:
        if (reply->nvalues >= nvalues) {
            return 1;
        }

        ngx_http_dsem_redis_drop(session->redis, "reply too short");
        return 0;

    case NGX_HTTP_DSEM_REPLY_GONE:
        /* another process has said bye for this one; the name is barred */
        ngx_http_dsem_redis_reconnect(session->redis, "session removed");
        session->handlers->expired(session);

        if (ngx_http_dsem_session_rename(session) != NGX_OK
            || ngx_http_dsem_redis_subscribe(session->redis) != NGX_OK)
        {
            ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                          "dsem: session name not renewed");
        }

        return 0;

    case NGX_HTTP_DSEM_REPLY_LAYOUT:
        ngx_http_dsem_redis_drop(session->redis, "keys in use by nginx with "
                                 "another version of dsem, finish the "
                                 "upgrade or set another dsem_prefix");
        return 0;

    default:
        ngx_http_dsem_handshake_resync(session, "session unknown to redis", 0);
        return 0;
    }
}


/*
 * Removes a session for a person, unless it was heard from and "force" is not
 * set.  The first value of the reply is one of ngx_http_dsem_removed_e.
 * NGX_ERROR: no memory, or no connection.
 */

ngx_int_t
ngx_http_dsem_handshake_remove(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_uint_t force, ngx_http_dsem_reply_pt handler,
    void *data)
{
    ngx_http_dsem_resp_t  *command;

    command = ngx_http_dsem_handshake_command(session,
                                              NGX_HTTP_DSEM_SCRIPT_BYE, 3);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_string(command, name);
    ngx_http_dsem_resp_number(command, session->lease.length);
    ngx_http_dsem_resp_number(command, !force);

    return ngx_http_dsem_redis_call(session->redis, handler, data);
}


/* removes a session; NGX_ERROR: no memory, or no connection */

static ngx_int_t
ngx_http_dsem_handshake_bye(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_http_dsem_reply_pt handler, void *data)
{
    ngx_http_dsem_resp_t  *command;

    command = ngx_http_dsem_handshake_command(session,
                                              NGX_HTTP_DSEM_SCRIPT_BYE, 2);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_string(command, name);
    ngx_http_dsem_resp_number(command, session->lease.length);

    return ngx_http_dsem_redis_call(session->redis, handler, data);
}


/*
 * Says bye for all workers of this node that have died, so that no permit
 * waits for the end of a lease.  Two workers may do so for the same one,
 * which is harmless; a bye that has no reply is sent again in a later turn.
 */

static void
ngx_http_dsem_handshake_bye_dead(ngx_http_dsem_session_t *session)
{
    ngx_uint_t                      next;
    ngx_msec_t                      heartbeat;
    ngx_http_dsem_handshake_bye_t  *bye;

    next = 0;
    heartbeat = ngx_http_dsem_lease_heartbeat(&session->lease);

    for ( ;; ) {
        bye = ngx_alloc(sizeof(ngx_http_dsem_handshake_bye_t),
                        ngx_cycle->log);
        if (bye == NULL) {
            return;
        }

        bye->zone = session->zone;
        bye->name.data = bye->buf;

        if (ngx_http_dsem_zone_dead(session->zone, session->shard, heartbeat,
                                    &next, &bye->name)
               != NGX_OK
            || ngx_http_dsem_handshake_bye(session, &bye->name,
                                   ngx_http_dsem_handshake_bye_handler, bye)
               != NGX_OK)
        {
            ngx_free(bye);
            return;
        }
    }
}


static void
ngx_http_dsem_handshake_bye_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_bye_t *bye = data;

    if (reply
        && ngx_http_dsem_zone_leave(bye->zone, &bye->name) == NGX_OK)
    {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: removed session %V of a dead worker, its permits "
                      "are released", &bye->name);
    }

    ngx_free(bye);
}
