
/*
 * The beat: renews the lease of a session that is ready.
 *
 * Its reply has the state of the fleet.  While Redis recovers a lost state
 * the beat is faster, as the recovery ends when the last session has declared,
 * and the message about it may be lost.
 *
 * A session that is not lasting leaves when it was not used for a while, and
 * is started again, under another name, when it is.
 *
 * Called by: shards (sets the timer's handler), the timer, which a hello
 * starts, and redis (replies).  The order of arguments and values is that of
 * lua/beat.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_beat.h"
#include "ngx_http_dsem_bye.h"
#include "ngx_http_dsem_handshake.h"


/* leases without an account, until the session leaves */
#define NGX_HTTP_DSEM_UNUSED_LEASES  10

/* ms; the clock of a host is slewed, or corrected by less */
#define NGX_HTTP_DSEM_CLOCK_STEP     1000


static void ngx_http_dsem_beat_idle(ngx_http_dsem_session_t *session,
    ngx_http_dsem_resp_t *command);
static ngx_uint_t ngx_http_dsem_beat_unused(ngx_http_dsem_session_t *session);
static void ngx_http_dsem_beat_leave_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_beat_handler(void *data,
    ngx_http_dsem_reply_t *reply);


void
ngx_http_dsem_beat_timer(ngx_event_t *ev)
{
    ngx_http_dsem_resp_t     *command;
    ngx_http_dsem_session_t  *session;

    session = ev->data;

    if (ngx_exiting) {
        ngx_http_dsem_limits_leave(&session->limits, session->redis);

    } else if (ngx_http_dsem_beat_unused(session)) {
        /*
         * It has no permits.  What begins meanwhile waits for the reply, and
         * starts the session again.
         */

        ngx_http_dsem_session_set_state(session, NGX_HTTP_DSEM_SESSION_DOWN);

        session->leaving = 1;

        if (ngx_http_dsem_bye_send(session, &session->identity.name,
                                   ngx_http_dsem_beat_leave_handler, session)
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
    ngx_http_dsem_beat_idle(session, command);

    if (ngx_http_dsem_handshake_call(session, ngx_http_dsem_beat_handler)
        != NGX_OK)
    {
        ngx_http_dsem_redis_drop(session->redis, "no memory");
        return;
    }

    ngx_add_timer(&session->beat, ngx_http_dsem_session_interval(session));
}


/* idle permits, while a display wants them: without them they look used */

static void
ngx_http_dsem_beat_idle(ngx_http_dsem_session_t *session,
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
ngx_http_dsem_beat_unused(ngx_http_dsem_session_t *session)
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
ngx_http_dsem_beat_leave_handler(void *data, ngx_http_dsem_reply_t *reply)
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
ngx_http_dsem_beat_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_handshake_call_t *call = data;

    int64_t                   step;
    uint64_t                  sent;
    ngx_http_dsem_session_t  *session;

    session = call->session;
    sent = call->sent;

    ngx_free(call);

    if (reply == NULL) {
        return;
    }

    /*
     * ms by which the clock of Redis has moved since a command of some worker,
     * which was no earlier than the last renewal of this one: more than that,
     * or less than nothing, is a step
     */

    step = reply->values[4];

    if (step > 0) {
        step -= (int64_t) ngx_http_dsem_lease_age(&session->lease);
        step = ngx_max(step, 0);
    }

    if (step < -NGX_HTTP_DSEM_CLOCK_STEP || step > NGX_HTTP_DSEM_CLOCK_STEP) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: clock of redis stepped by %L ms", step);
    }

    ngx_http_dsem_redis_published(session->redis, reply->values[3] != 0);
    ngx_http_dsem_handshake_renew(session, sent, reply->values[0],
                                  reply->values[7]);
    ngx_http_dsem_session_set_recovery(session, reply->values[2]);

    if (reply->values[6]) {
        session->handlers->event(session, NGX_HTTP_DSEM_EVENT_READY);
    }

    session->idle_until = reply->values[5] > 0
                          ? ngx_http_dsem_monotonic() + reply->values[5] : 0;

    if (reply->values[1] > 0) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: lease of %L sessions expired, their permits are "
                      "released, %L sessions remain",
                      reply->values[1], reply->values[0]);
    }
}
