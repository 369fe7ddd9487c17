
/*
 * The handshake: hello, declare, declared; and the beat.
 *
 * Brings the session from a connection to readiness.  An epoch opens with
 * hello; then all that the worker has is declared, some of it at a time, and
 * "declared" ends that.  Every doubt is settled in the same way: a higher epoch
 * and a new declaration, never a guess.  Replies to commands of an older epoch
 * are ignored.
 *
 * From then on a beat renews the lease.  Its reply has the state of the fleet.
 * While Redis recovers a lost state the beat is faster, as the recovery ends
 * when the last session has declared, and the message about it may be lost.
 * A session that is not lasting leaves when it was not used for a while, and
 * is started again, under another name, when it is.
 *
 * Called by: shards (a session that is started, its timer), dispatch (a
 * declaration's reply), all that doubt (resynchronize), redis (replies,
 * changes of the connection).
 * The order of arguments and values is that of lua/hello.lua,
 * lua/declared.lua and lua/beat.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/random.h>
#include "ngx_http_dsem_bye.h"
#include "ngx_http_dsem_handshake.h"


/* new epochs without a success; then the connection is dropped */
#define NGX_HTTP_DSEM_MAX_RESYNCS        5

/* unanswered declarations: long queues must not time out */
#define NGX_HTTP_DSEM_DECLARE_WINDOW     64

/* generations are drawn below this, so that Lua's numbers hold them */
#define NGX_HTTP_DSEM_GENERATION_BITS    50

/* a generation of no Redis: the worker has permits that none has counted */
#define NGX_HTTP_DSEM_NO_GENERATION      1

/* leases without an account, until the session leaves */
#define NGX_HTTP_DSEM_UNUSED_LEASES      10

/* ms; the clock of a host is slewed, or corrected by less */
#define NGX_HTTP_DSEM_CLOCK_STEP         1000


/* what lua/hello.lua replies of the session */
typedef enum {
    NGX_HTTP_DSEM_HELLO_REMOVED = 0,  /* or it is new */
    NGX_HTTP_DSEM_HELLO_REGISTERED,
    NGX_HTTP_DSEM_HELLO_OLDER         /* the state is, and recovers */
} ngx_http_dsem_handshake_hello_e;


/* the values that lua/hello.lua replies */
typedef struct {
    int64_t                   generation;
    int64_t                   nsessions;
    int64_t                   recovery;    /* ms, until it ends; 0: none */
    int64_t                   registered;  /* before this hello, see above */
    int64_t                   configure;   /* unsigned:1, limits are missing */
    int64_t                   process;     /* of Redis; 0: unknown */
    int64_t                   term;
    int64_t                   longest;     /* lease of the fleet, ms */
    int64_t                   clock;       /* ms */
} ngx_http_dsem_handshake_hello_t;


/* the values that lua/beat.lua replies */
typedef struct {
    int64_t                   nsessions;
    int64_t                   expired;     /* sessions, by this beat */
    int64_t                   recovery;    /* ms, until it ends; 0: none */
    int64_t                   published;   /* unsigned:1 */
    int64_t                   moved;       /* the clock of Redis, by ms */
    int64_t                   idle;        /* ms, report idle permits */
    int64_t                   silent;      /* unsigned:1, before this beat */
    int64_t                   longest;     /* lease of the fleet, ms */
    int64_t                   clock;       /* ms */
    int64_t                   term;        /* 0: unknown */
} ngx_http_dsem_handshake_beat_t;


static ngx_int_t ngx_http_dsem_handshake_hello(
    ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_hello_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_uint_t ngx_http_dsem_handshake_lost(
    ngx_http_dsem_session_t *session, ngx_http_dsem_handshake_hello_t *hello);
static ngx_uint_t ngx_http_dsem_handshake_expired(
    ngx_http_dsem_session_t *session, ngx_http_dsem_handshake_hello_t *hello,
    ngx_uint_t lost);
static ngx_uint_t ngx_http_dsem_handshake_counted(
    ngx_http_dsem_session_t *session, ngx_http_dsem_handshake_hello_t *hello);
static void ngx_http_dsem_handshake_declare(ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_declared_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_idle(ngx_http_dsem_session_t *session,
    ngx_http_dsem_resp_t *command);
static ngx_uint_t ngx_http_dsem_handshake_unused(
    ngx_http_dsem_session_t *session);
static void ngx_http_dsem_handshake_leave_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_beat_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_stepped(ngx_http_dsem_session_t *session,
    int64_t moved);
static void ngx_http_dsem_handshake_renew(ngx_http_dsem_session_t *session,
    uint64_t sent, int64_t fleet, ngx_msec_t longest);
static ngx_http_dsem_resp_t *ngx_http_dsem_handshake_command(
    ngx_http_dsem_session_t *session, ngx_http_dsem_script_e script,
    ngx_uint_t nargs);


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


/*
 * No connection any more; or a script is missing.  Then the commands behind may
 * have been executed, by scripts that are there: the epoch ends with the first
 * reply, and the others mean nothing.
 */

void
ngx_http_dsem_handshake_down(void *data)
{
    ngx_http_dsem_session_t *session = data;

    session->leaving = 0;
    session->identity.epoch++;

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DOWN);

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    session->handlers->event(session, NGX_HTTP_DSEM_EVENT_RESET);
}


/* a new epoch: commands of older ones mean nothing any more */

void
ngx_http_dsem_handshake_begin(void *data)
{
    ngx_http_dsem_session_t *session = data;

    session->leaving = 0;
    session->declares = 0;
    session->all_sent = 0;

    if (session->state != NGX_HTTP_DSEM_SESSION_DOWN) {
        session->identity.epoch++;
    }

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_HELLO);

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    session->handlers->event(session, NGX_HTTP_DSEM_EVENT_RESET);

    if (ngx_http_dsem_handshake_hello(session) != NGX_OK) {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
    }
}


static ngx_int_t
ngx_http_dsem_handshake_hello(ngx_http_dsem_session_t *session)
{
    int64_t                fresh, generation, age;
    uint64_t               bits[2];
    ngx_http_dsem_resp_t  *command;

    if (getrandom(bits, sizeof(bits), 0) != sizeof(bits)) {
        return NGX_ERROR;
    }

    fresh = bits[0] & (((uint64_t) 1 << NGX_HTTP_DSEM_GENERATION_BITS) - 1);

    (void) ngx_sprintf(session->seal, "%016xL", bits[1]);
    session->sealed = 0;

    generation = session->generation;

    if (generation == 0 && session->held) {
        generation = NGX_HTTP_DSEM_NO_GENERATION;
    }

    age = ngx_http_dsem_session_age(session);

    command = ngx_http_dsem_handshake_command(session,
                                              NGX_HTTP_DSEM_SCRIPT_HELLO, 11);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_number(command, generation);
    ngx_http_dsem_resp_number(command,
                              fresh + NGX_HTTP_DSEM_NO_GENERATION + 1);
    ngx_http_dsem_resp_number(command, session->lease.length);
    ngx_http_dsem_resp_number(command, session->registered);
    ngx_http_dsem_resp_number(command, age);
    ngx_http_dsem_resp_string(command,
                              ngx_http_dsem_limits_id(&session->limits));
    ngx_http_dsem_resp_bytes(command, session->seal, NGX_HTTP_DSEM_SEAL_LEN);
    ngx_http_dsem_resp_number(command, session->nshards);
    ngx_http_dsem_resp_number(command, session->term);
    ngx_http_dsem_resp_number(command, session->lease.longest);
    ngx_http_dsem_resp_number(command, session->clock);

    return ngx_http_dsem_redis_call(session->redis,
                                    ngx_http_dsem_handshake_hello_handler,
                                    session);
}


static void
ngx_http_dsem_handshake_hello_handler(void *data,
    ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_session_t *session = data;

    ngx_uint_t                        lost, counted, expired;
    ngx_http_dsem_handshake_hello_t  *hello;

    if (reply == NULL) {
        return;
    }

    hello = (ngx_http_dsem_handshake_hello_t *) reply->values;

    session->refused = 0;
    session->process = hello->process;
    counted = ngx_http_dsem_handshake_counted(session, hello);
    lost = ngx_http_dsem_handshake_lost(session, hello);

    session->generation = hello->generation;
    session->term = hello->term;
    session->clock = hello->clock;

    ngx_http_dsem_session_set_recovery(session, hello->recovery);

    expired = ngx_http_dsem_handshake_expired(session, hello, lost);
    session->state_lost |= lost;
    session->entered = 1;
    session->verify = 0;
    session->undeclared = (session->recovery != 0 && !counted);

    if (!counted
        && (expired
            || (lost && !session->undeclared)
            || ngx_http_dsem_lease_own_fenced(&session->lease)))
    {
        session->handlers->event(session, NGX_HTTP_DSEM_EVENT_EXPIRED);
    }

    ngx_http_dsem_handshake_renew(session, reply->sent, hello->nsessions,
                                  hello->longest);

    ngx_add_timer(&session->beat, ngx_http_dsem_session_interval(session));

    if (hello->configure
        && ngx_http_dsem_limits_state(&session->limits, session->redis)
           != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DECLARING);
    ngx_http_dsem_handshake_declare(session);
}


/* true if the state is another one than before */

static ngx_uint_t
ngx_http_dsem_handshake_lost(ngx_http_dsem_session_t *session,
    ngx_http_dsem_handshake_hello_t *hello)
{
    if (session->generation == 0 || session->generation == hello->generation) {
        return 0;
    }

    if (hello->recovery) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis lost its state, recovering for at most "
                      "%L ms", hello->recovery);

    } else if (session->registered || session->held) {
        /* not of a session that begins, as one in a shard that was left */
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis lost its state, and recovers no more");
    }

    return 1;
}


/*
 * True if Redis has removed the session of this name, and may have granted to
 * others what it had.  The reply to the first hello after that may be lost, and
 * then the session is there again: an overage has this cause, too, once the
 * worker's own lease is over.  Not after an outage for all: while Redis
 * recovers it grants nothing, and others may not have declared yet that they
 * have less than before.
 *
 * A state that is older than the session is one that was lost: as it recovers,
 * nothing was granted, and until the fence, which this hello does not move, the
 * permits serve this worker.  After the lease the session may have been removed
 * before, by the process from which the state is.
 */

static ngx_uint_t
ngx_http_dsem_handshake_expired(ngx_http_dsem_session_t *session,
    ngx_http_dsem_handshake_hello_t *hello, ngx_uint_t lost)
{
    ngx_uint_t  over, removed;

    if (!session->entered || lost) {
        return 0;
    }

    over = (ngx_http_dsem_lease_age(&session->lease)
            >= session->lease.length);

    if (hello->registered == NGX_HTTP_DSEM_HELLO_OLDER && !over) {
        return 0;
    }

    removed = (hello->registered != NGX_HTTP_DSEM_HELLO_REGISTERED);

    session->keys_lost |= session->verify && !removed;

    if (removed && !over && session->process != session->accepted) {
        /* others did not know of it, and have recovered without it */
        session->state_lost = 1;
        return 1;
    }

    session->lease_expired |= removed || (over && hello->recovery == 0);

    return removed;
}


/*
 * True if Redis has counted what this worker has all the time, beyond the
 * fence: its session is still there.  A pause of all grants, after a time
 * without any command, takes nothing away then.  The lease must not be over:
 * other workers may have admitted requests by their local shares.
 */

static ngx_uint_t
ngx_http_dsem_handshake_counted(ngx_http_dsem_session_t *session,
    ngx_http_dsem_handshake_hello_t *hello)
{
    return session->generation == hello->generation
           && hello->registered == NGX_HTTP_DSEM_HELLO_REGISTERED
           && !session->undeclared
           && !session->verify
           && session->process
           && session->process == session->accepted
           && ngx_http_dsem_lease_age(&session->lease) < session->lease.length;
}


/* the floor above has read the reply to a declaration of this epoch */

void
ngx_http_dsem_handshake_declared(ngx_http_dsem_session_t *session)
{
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
        || ngx_http_dsem_redis_call(session->redis,
                                    ngx_http_dsem_handshake_declared_handler,
                                    session)
           != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
    }
}


static void
ngx_http_dsem_handshake_declared_handler(void *data,
    ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_session_t *session = data;

    if (reply == NULL) {
        return;
    }

    session->resyncs = 0;
    session->lease_expired = 0;
    session->keys_lost = 0;
    session->state_lost = 0;
    session->accepted = session->process;

    if (session->undeclared) {
        session->undeclared = 0;

        if (ngx_http_dsem_lease_own_fenced(&session->lease)) {
            session->handlers->event(session, NGX_HTTP_DSEM_EVENT_EXPIRED);
        }

        ngx_http_dsem_lease_declared(&session->lease);
    }

    ngx_http_dsem_session_set_recovery(session, reply->values[0]);

    ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_READY);
    ngx_http_dsem_redis_accepted(session->redis);

    if (session->process == 0 && !session->warned_process) {
        session->warned_process = 1;
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis does not tell its run id, a failover that "
                      "loses permits is noticed only if it loses all state "
                      "(allow INFO)");
    }

    session->handlers->event(session, NGX_HTTP_DSEM_EVENT_READY);
}


/* the timer of a session that is ready */

void
ngx_http_dsem_handshake_beat(ngx_event_t *ev)
{
    ngx_http_dsem_resp_t     *command;
    ngx_http_dsem_session_t  *session;

    session = ev->data;

    if (ngx_exiting) {
        ngx_http_dsem_limits_leave(&session->limits, session->redis);

    } else if (ngx_http_dsem_handshake_unused(session)) {
        /*
         * It has no permits.  What begins meanwhile waits for the reply, and
         * starts the session again.
         */

        ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DOWN);

        session->leaving = 1;

        if (ngx_http_dsem_bye_send(session, &session->identity.name,
                                   ngx_http_dsem_handshake_leave_handler,
                                   session)
            != NGX_OK)
        {
            ngx_http_dsem_redis_drop(session->redis, "no memory");
        }

        return;
    }

    command = ngx_http_dsem_redis_begin(session->redis,
                         NGX_HTTP_DSEM_SCRIPT_BEAT,
                         ngx_http_dsem_redis_keys(session->redis)->registry,
                         3, 3);
    if (command == NULL) {
        return;
    }

    ngx_http_dsem_resp_number(command, session->generation);
    ngx_http_dsem_resp_number(command, session->lease.length);
    ngx_http_dsem_handshake_idle(session, command);

    if (ngx_http_dsem_redis_call(session->redis,
                                 ngx_http_dsem_handshake_beat_handler, session)
        != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    ngx_add_timer(&session->beat, ngx_http_dsem_session_interval(session));
}


/* idle permits, while a display wants them: without them they look used */

static void
ngx_http_dsem_handshake_idle(ngx_http_dsem_session_t *session,
    ngx_http_dsem_resp_t *command)
{
    u_char  *text, *last;

    text = NULL;
    last = NULL;

    if (ngx_http_dsem_monotonic() < session->idle_until) {
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

    if (session->naccounts) {
        session->used = ngx_current_msec;
    }

    return ngx_current_msec - session->used
           >= NGX_HTTP_DSEM_UNUSED_LEASES * session->lease.length;
}


static void
ngx_http_dsem_handshake_leave_handler(void *data, ngx_http_dsem_reply_t *reply)
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

    if (session->naccounts
        && ngx_http_dsem_handshake_start(session) != NGX_OK)
    {
        ngx_http_dsem_session_set_unavailable(session);
    }
}


static void
ngx_http_dsem_handshake_beat_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_session_t *session = data;

    ngx_http_dsem_handshake_beat_t  *beat;

    if (reply == NULL) {
        return;
    }

    beat = (ngx_http_dsem_handshake_beat_t *) reply->values;

    if (beat->term && beat->term != session->term) {
        /*
         * An endpoint has kept the connection over a failover.  The lease is
         * not renewed: this process may count less than the one before.
         */
        ngx_http_dsem_handshake_resync(session, "another redis process", 0);
        return;
    }

    session->clock = beat->clock;

    ngx_http_dsem_handshake_stepped(session, beat->moved);
    ngx_http_dsem_redis_published(session->redis, beat->published != 0);
    ngx_http_dsem_handshake_renew(session, reply->sent, beat->nsessions,
                                  beat->longest);
    ngx_http_dsem_session_set_recovery(session, beat->recovery);

    if (beat->silent) {
        session->handlers->event(session, NGX_HTTP_DSEM_EVENT_READY);
    }

    session->idle_until = beat->idle > 0
                          ? ngx_http_dsem_monotonic() + beat->idle : 0;

    if (beat->expired > 0) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: lease of %L sessions expired, their permits are "
                      "released, %ui sessions remain",
                      beat->expired, session->nsessions);
    }
}


/*
 * "moved" is by how many ms the clock of Redis has moved since a command of
 * some worker, which was no earlier than the last renewal of this one: more
 * than that, or less than nothing, is a step.
 */

static void
ngx_http_dsem_handshake_stepped(ngx_http_dsem_session_t *session,
    int64_t moved)
{
    int64_t  step;

    step = moved;

    if (step > 0) {
        step -= (int64_t) ngx_http_dsem_lease_age(&session->lease);
        step = ngx_max(step, 0);
    }

    if (step < -NGX_HTTP_DSEM_CLOCK_STEP || step > NGX_HTTP_DSEM_CLOCK_STEP) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: clock of redis stepped by %L ms", step);
    }
}


/*
 * The lease counts from the moment at which it was asked for.  A message about
 * another session may be here before the reply to an older command.  While
 * Redis recovers the number of sessions may be unknown, and that of those that
 * have come is negative: the limit is shared by as many as before at least, and
 * as if other nodes had this many workers, too; and after another loss this
 * session does not end the recovery.
 */

static void
ngx_http_dsem_handshake_renew(ngx_http_dsem_session_t *session, uint64_t sent,
    int64_t fleet, ngx_msec_t longest)
{
    ngx_http_dsem_zone_state_t  state;

    if (fleet < 0) {
        session->registered = 0;
        session->nsessions = ngx_max(ngx_http_dsem_session_nsessions(session),
                                     0 - (ngx_uint_t) fleet);

    } else {
        session->registered = fleet;

        if (session->joined_at >= sent) {
            session->registered = ngx_max(session->registered,
                                          session->joined);
        }

        session->nsessions = session->registered;
    }

    session->counted = session->workers;

    ngx_http_dsem_lease_renew(&session->lease, sent, longest,
                              !session->undeclared);
    ngx_http_dsem_zone_enter(session->zone, session->shard, session->space,
                             &session->zone_own, &session->identity.name);

    state.generation = session->generation;
    state.term = session->term;
    state.clock = session->clock;
    state.sessions = session->nsessions;
    state.workers = session->workers;
    state.longest = session->lease.longest;
    state.replied = sent;

    ngx_http_dsem_zone_remember(session->zone, session->shard, session->space,
                                ngx_http_dsem_session_newest(session), &state);

    if (ngx_http_dsem_zone_turn(session->zone, session->shard, session->space,
                             ngx_http_dsem_lease_heartbeat(&session->lease)))
    {
        ngx_http_dsem_bye_dead(session);
    }
}


/* NULL: not up */

static ngx_http_dsem_resp_t *
ngx_http_dsem_handshake_command(ngx_http_dsem_session_t *session,
    ngx_http_dsem_script_e script, ngx_uint_t nargs)
{
    ngx_http_dsem_keys_t  *keys;

    keys = ngx_http_dsem_redis_keys(session->redis);

    return ngx_http_dsem_redis_begin(session->redis, script, keys->registry,
                                     2, nargs);
}


/*
 * Redis has replied in this epoch, and not what was asked for: the session
 * begins anew, or cannot be one of this Redis.
 */

void
ngx_http_dsem_handshake_unusable(void *data, ngx_http_dsem_reply_e status,
    ngx_uint_t verify)
{
    ngx_http_dsem_session_t *session = data;

    switch (status) {

    case NGX_HTTP_DSEM_REPLY_GONE:
    case NGX_HTTP_DSEM_REPLY_STALE:
        /*
         * another process has said bye for this one, the name is barred; or
         * has the name itself, and a later epoch: the machine was copied
         */
        ngx_http_dsem_redis_reconnect(session->redis, "session removed");
        session->handlers->event(session, NGX_HTTP_DSEM_EVENT_EXPIRED);

        if (ngx_http_dsem_session_rename(session) != NGX_OK
            || ngx_http_dsem_redis_subscribe(session->redis) != NGX_OK)
        {
            ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                          "dsem: session name not renewed");
        }

        return;

    case NGX_HTTP_DSEM_REPLY_LAYOUT:
        ngx_http_dsem_redis_drop(session->redis, "keys in use by nginx with "
                                 "another version of dsem, finish the "
                                 "upgrade or set another dsem_prefix");
        return;

    default:
        ngx_http_dsem_handshake_resync(session, "session unknown to redis",
                                       verify);
        return;
    }
}
