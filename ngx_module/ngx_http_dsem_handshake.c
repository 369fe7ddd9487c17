
/*
 * Talk: what a session says to Redis about itself, and what it is answered.
 *
 * Owns the state of the session.  An epoch, which is begun by session, opens
 * with hello; then all that the worker has is declared, some of it at a time,
 * and "declared" ends that; from then on there is a beat.  An answer to what
 * was said in an older epoch is not looked at.
 *
 * Called by: session (a new epoch, its beat) and redis (replies).  The order
 * of arguments and values is that of lua/hello.lua, declared.lua, beat.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_bye.h"
#include "ngx_http_dsem_identity.h"
#include "ngx_http_dsem_lease.h"
#include "ngx_http_dsem_drain.h"
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_zone.h"


/* unanswered declarations at once: long queues must not time out */
#define NGX_HTTP_DSEM_DECLARE_WINDOW   64

/* generations are drawn below this, so that Lua's numbers hold them */
#define NGX_HTTP_DSEM_GENERATION_BITS  50

/* one that no Redis has: what is remembered was never told to any */
#define NGX_HTTP_DSEM_NO_GENERATION    1


/* what a hello, a declared or a beat was sent with */
typedef struct {
    ngx_http_dsem_session_t  *session;
    uint64_t                  epoch;
    uint64_t                  sent;        /* ms, monotonic */
} ngx_http_dsem_handshake_call_t;


static ngx_http_dsem_handshake_call_t *ngx_http_dsem_handshake_call(
    ngx_http_dsem_session_t *session);
static ngx_uint_t ngx_http_dsem_handshake_expected(
    ngx_http_dsem_handshake_call_t *call, ngx_http_dsem_reply_t *reply,
    ngx_uint_t nvalues);
static void ngx_http_dsem_handshake_hello_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_declared_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_beat_answered(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_handshake_renew(ngx_http_dsem_session_t *session,
    uint64_t sent, ngx_uint_t fleet);


/* the one place where the state changes */

void
ngx_http_dsem_handshake_set_state(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_state_e state)
{
    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem session state: %d -> %d, epoch:%uL",
                   (int) session->state, (int) state, session->epoch);

    session->state = state;
}


static ngx_http_dsem_handshake_call_t *
ngx_http_dsem_handshake_call(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_handshake_call_t  *call;

    call = ngx_alloc(sizeof(ngx_http_dsem_handshake_call_t), ngx_cycle->log);

    if (call) {
        call->session = session;
        call->epoch = session->epoch;
        call->sent = ngx_http_dsem_lease_now();
    }

    return call;
}


/* begins the conversation of an epoch */

void
ngx_http_dsem_handshake_hello(ngx_http_dsem_session_t *session)
{
    int64_t                     fresh, known;
    ngx_http_dsem_handshake_call_t  *call;

    call = ngx_http_dsem_handshake_call(session);

    if (call == NULL
        || ngx_http_dsem_identity_random(&fresh, sizeof(fresh)) != NGX_OK
        || ngx_http_dsem_redis_identify(session->redis, &session->name,
                                        session->epoch)
           != NGX_OK
        || ngx_http_dsem_redis_begin(session->redis, NGX_HTTP_DSEM_SCRIPT_HELLO,
                                     NULL, 0, 4)
           != NGX_OK)
    {
        ngx_free(call);
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    fresh &= ((int64_t) 1 << NGX_HTTP_DSEM_GENERATION_BITS) - 1;

    known = session->generation;

    if (known == 0 && session->handlers->holding(session->data)) {
        /* there was no Redis yet, but there are permits out */
        known = NGX_HTTP_DSEM_NO_GENERATION;
    }

    ngx_http_dsem_redis_number(session->redis, known);
    ngx_http_dsem_redis_number(session->redis,
                               fresh + NGX_HTTP_DSEM_NO_GENERATION + 1);
    ngx_http_dsem_redis_number(session->redis,
                               ngx_http_dsem_lease_length());
    ngx_http_dsem_redis_string(session->redis,
                               ngx_http_dsem_redis_run_id(session->redis));

    if (ngx_http_dsem_redis_call(session->redis,
                                 ngx_http_dsem_handshake_hello_handler, call)
        != NGX_OK)
    {
        ngx_free(call);
        ngx_http_dsem_redis_drop(session->redis, "no memory");
    }
}


/*
 * Frees the call.  True when the reply belongs to this epoch, is OK and has
 * enough values; sees to everything else.
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

    if (reply == NULL || epoch != session->epoch) {
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
        /* somebody has said good-bye for us; calls carry the old name */
        ngx_http_dsem_redis_reconnect(session->redis,
                                      "session removed");

        if (ngx_http_dsem_identity_name(&session->node, &session->name)
            != NGX_OK)
        {
            ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                          "dsem: session name not renewed");
        }

        session->epoch = 0;

        return 0;

    default:
        ngx_http_dsem_session_resync("session unknown to redis", 0);
        return 0;
    }
}


static void
ngx_http_dsem_handshake_hello_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_call_t *call = data;

    uint64_t                  sent;
    ngx_uint_t                lost;
    ngx_http_dsem_session_t  *session;

    session = call->session;
    sent = call->sent;

    if (!ngx_http_dsem_handshake_expected(call, reply, 4)) {
        return;
    }

    lost = (session->generation && session->generation != reply->values[0]);

    if (lost) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis lost its state, recovering for %L ms",
                      reply->values[2]);
    }

    session->generation = reply->values[0];
    session->recovery = reply->values[2];

    session->lease_expired = session->entered && !lost && reply->values[3] == 0;
    session->keys_lost = session->verify && !lost && reply->values[3];
    session->entered = 1;
    session->verify = 0;

    ngx_http_dsem_zone_enter(session->zone, &session->name);
    ngx_http_dsem_handshake_renew(session, sent, reply->values[1]);

    ngx_http_dsem_redis_heard(session->redis);
    ngx_add_timer(&session->beat, ngx_http_dsem_lease_heartbeat());

    ngx_http_dsem_handshake_set_state(session, NGX_HTTP_DSEM_SESSION_DECLARING);
    ngx_http_dsem_handshake_declare(session);
}


/* goes on where the answers leave room, and ends with "declared" */

void
ngx_http_dsem_handshake_declare(ngx_http_dsem_session_t *session)
{
    ngx_int_t                   rc;
    ngx_uint_t                  calls;
    ngx_http_dsem_handshake_call_t  *call;

    if (!session->declared_all
        && session->declaring < NGX_HTTP_DSEM_DECLARE_WINDOW)
    {
        rc = session->handlers->declare(session->data,
                          NGX_HTTP_DSEM_DECLARE_WINDOW - session->declaring,
                          &calls);

        if (rc == NGX_ERROR) {
            ngx_http_dsem_redis_drop(session->redis, "no memory");
            return;
        }

        session->declaring += calls;
        session->declared_all = (rc == NGX_OK);
    }

    if (!session->declared_all || session->declaring) {
        return;
    }

    ngx_http_dsem_handshake_set_state(session, NGX_HTTP_DSEM_SESSION_DECLARED);

    call = ngx_http_dsem_handshake_call(session);

    if (call == NULL
        || ngx_http_dsem_redis_begin(session->redis, NGX_HTTP_DSEM_SCRIPT_DECLARED,
                                     NULL, 0, 0)
           != NGX_OK
        || ngx_http_dsem_redis_call(session->redis,
                                    ngx_http_dsem_handshake_declared_handler, call)
           != NGX_OK)
    {
        ngx_free(call);
        ngx_http_dsem_redis_drop(session->redis, "no memory");
    }
}


static void
ngx_http_dsem_handshake_declared_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_call_t *call = data;

    ngx_http_dsem_session_t  *session;

    session = call->session;

    if (!ngx_http_dsem_handshake_expected(call, reply, 0)) {
        return;
    }

    session->resyncs = 0;

    ngx_http_dsem_handshake_set_state(session, NGX_HTTP_DSEM_SESSION_READY);
    ngx_http_dsem_redis_ready(session->redis);

    session->handlers->ready(session->data);

    ngx_http_dsem_drain_settle(!session->handlers->busy(session->data));
}


void
ngx_http_dsem_handshake_beat_handler(ngx_event_t *ev)
{
    ngx_http_dsem_session_t    *session;
    ngx_http_dsem_handshake_call_t  *call;

    session = ev->data;

    call = ngx_http_dsem_handshake_call(session);

    if (call == NULL
        || ngx_http_dsem_redis_begin(session->redis, NGX_HTTP_DSEM_SCRIPT_BEAT,
                                     NULL, 0, 2)
           != NGX_OK)
    {
        ngx_free(call);
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    ngx_http_dsem_redis_number(session->redis, session->generation);
    ngx_http_dsem_redis_number(session->redis,
                               ngx_http_dsem_lease_length());

    if (ngx_http_dsem_redis_call(session->redis,
                                 ngx_http_dsem_handshake_beat_answered, call)
        != NGX_OK)
    {
        ngx_free(call);
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    ngx_add_timer(&session->beat, ngx_http_dsem_lease_heartbeat());
}


static void
ngx_http_dsem_handshake_beat_answered(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_call_t *call = data;

    uint64_t                  sent;
    ngx_http_dsem_session_t  *session;

    session = call->session;
    sent = call->sent;

    if (!ngx_http_dsem_handshake_expected(call, reply, 2)) {
        return;
    }

    ngx_http_dsem_handshake_renew(session, sent, reply->values[0]);

    if (reply->values[1] > 0) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: lease of %L sessions expired, their permits are "
                      "released, %L sessions remain",
                      reply->values[1], reply->values[0]);
    }
}


/* the lease runs on from when it was asked for */

static void
ngx_http_dsem_handshake_renew(ngx_http_dsem_session_t *session, uint64_t sent,
    ngx_uint_t fleet)
{
    session->fleet = fleet;

    ngx_http_dsem_lease_renew(sent);
    ngx_http_dsem_zone_remember(session->zone, session->generation, fleet,
                                sent);
    ngx_http_dsem_bye_dead(session->redis, session->zone);
}
