
/*
 * The session: this worker process as Redis knows it, in one shard.
 *
 * Owns its name, its state and all that it knows of the fleet; one per shard
 * of a worker process, which keeps no pointer into a configuration cycle.  The
 * name is <node>:<worker>:<64 random bits>: neither pids nor clocks would
 * do, as containers share the first and a copied machine the second.
 *
 * Called by: shards (life), handshake, which changes it; the floors above,
 * which read it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/random.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_session.h"


/* ms for which an exiting worker waits until its session is ready */
#define NGX_HTTP_DSEM_SESSION_DRAIN  2000

/* ms between two beats while Redis recovers, at most */
#define NGX_HTTP_DSEM_RECOVERY_BEAT  200


static void ngx_http_dsem_session_drain_handler(ngx_event_t *ev);


/*
 * The session is all zero but for its shard.  settings are copied, without
 * those of redis; NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_session_create(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers)
{
    session->handlers = handlers;
    session->zone = settings->zone;
    session->nshards = settings->nshards;
    session->workers = settings->workers;
    session->configuration = settings->configuration;

    session->space = settings->space + session->shard;

    ngx_http_dsem_zone_configure(session->zone, session->configuration);
    ngx_http_dsem_session_recall(session, settings->lease, 0, 0);

    if (ngx_http_dsem_limits_create(&session->limits, &settings->limits,
                                    session->shard, settings->nshards,
                                    settings->zone, settings->space)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* all workers meet in the first one: their number is that of the fleet */
    session->lasting = (session->shard == 0 || session->limits.nliterals);

    /* not cancelable: it keeps an exiting worker */
    session->drain.handler = ngx_http_dsem_session_drain_handler;
    session->drain.data = session;
    session->drain.log = ngx_cycle->log;

    session->node.len = settings->node.len;
    session->node.data = ngx_alloc(settings->node.len, ngx_cycle->log);
    if (session->node.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(session->node.data, settings->node.data, settings->node.len);

    return NGX_OK;
}


void
ngx_http_dsem_session_free(ngx_http_dsem_session_t *session)
{
    if (session->drain.timer_set) {
        ngx_del_timer(&session->drain);
    }

    ngx_http_dsem_limits_free(&session->limits);

    if (session->node.data) {
        ngx_free(session->node.data);
    }

    ngx_memzero(session, sizeof(ngx_http_dsem_session_t));
}


/*
 * Before it is started: what other workers of this node know of the shard.
 * length in ms, of its lease; seen is when the worker saw the fleet in some
 * shard, 0: never, and longest the lease in ms that it knew of then.
 */

void
ngx_http_dsem_session_recall(ngx_http_dsem_session_t *session,
    ngx_msec_t length, ngx_msec_t longest, uint64_t seen)
{
    ngx_http_dsem_zone_state_t  state;

    ngx_http_dsem_zone_recall(session->zone, session->shard, session->space,
                              &state);

    /* without a zone the session has what it had before it left */

    if (state.generation) {
        session->generation = state.generation;
        session->term = state.term;
    }

    if (state.sessions) {
        session->nsessions = state.sessions;
        session->counted = state.workers;
    }

    session->clock = state.clock;

    ngx_http_dsem_lease_init(&session->lease, length,
                             ngx_max(longest, state.longest),
                             ngx_max(seen, state.replied));
}


/* a name that no process has had; NGX_ERROR: no random numbers, it stays */

ngx_int_t
ngx_http_dsem_session_rename(ngx_http_dsem_session_t *session)
{
    u_char                    *last;
    uint64_t                   bits;
    ngx_http_dsem_identity_t  *identity;

    if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "dsem: getrandom() failed");
        return NGX_ERROR;
    }

    identity = &session->identity;

    last = ngx_snprintf(identity->client_buf, NGX_HTTP_DSEM_SESSION_LEN,
                        "dsem-%V-%ui", &session->node, ngx_worker);

    identity->client.data = identity->client_buf;
    identity->client.len = last - identity->client_buf;

    last = ngx_snprintf(identity->buf, NGX_HTTP_DSEM_SESSION_LEN,
                        "%V:%ui:%016xL", &session->node, ngx_worker, bits);

    identity->name.data = identity->buf;
    identity->name.len = last - identity->buf;
    identity->epoch = 1;

    /* this name was never registered */
    session->registered = 0;

    return NGX_OK;
}


/* the one place where the state changes */

void
ngx_http_dsem_session_set_state(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_state_e state)
{
    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem session state: %d -> %d, epoch:%uL",
                   (int) session->state, (int) state,
                   session->identity.epoch);

    session->state = state;

    ngx_http_dsem_session_note(session);

    if (state != NGX_HTTP_DSEM_SESSION_READY) {
        return;
    }

    session->drained = 0;

    if (session->drain.timer_set) {
        ngx_del_timer(&session->drain);
    }
}


/*
 * The condition may have changed: the time of a change is noted.  A new epoch
 * on the same connection is no event.
 */

void
ngx_http_dsem_session_note(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_condition_e  condition;

    if (ngx_http_dsem_session_unavailable(session)) {
        condition = NGX_HTTP_DSEM_CONDITION_UNAVAILABLE;

    } else if (!ngx_http_dsem_session_ready(session)
               && (!ngx_http_dsem_redis_is_up(session->redis)
                   || (session->condition != NGX_HTTP_DSEM_CONDITION_AVAILABLE
                       && session->condition
                          != NGX_HTTP_DSEM_CONDITION_RECOVERING)))
    {
        condition = NGX_HTTP_DSEM_CONDITION_CONNECTING;

    } else {
        condition = session->recovery ? NGX_HTTP_DSEM_CONDITION_RECOVERING
                                      : NGX_HTTP_DSEM_CONDITION_AVAILABLE;
    }

    if (session->condition != condition || session->since == 0) {
        session->condition = condition;
        session->since = ngx_http_dsem_monotonic();
    }
}


/*
 * True also where no session could be started.  Once the hello has its
 * reply Redis counts the declarations: no request is admitted without it
 * from then on.
 */

ngx_uint_t
ngx_http_dsem_session_unavailable(ngx_http_dsem_session_t *session)
{
    return !session->started
           || (ngx_http_dsem_redis_unavailable(session->redis)
               && !ngx_http_dsem_session_greeted(session));
}


/*
 * The number of sessions that share a limit: those last seen, by this worker
 * or by another of its node.  A node that never saw the fleet counts its own.
 * One that has more workers since then divides the part that it had: as if all
 * nodes had as many times more.
 */

ngx_uint_t
ngx_http_dsem_session_nsessions(ngx_http_dsem_session_t *session)
{
    ngx_uint_t  n, workers, counted;

    n = session->nsessions;
    workers = session->workers;
    counted = session->counted;

    if (n == 0) {
        return workers;
    }

    return (counted && workers > counted)
           ? (n * workers + counted - 1) / counted : n;
}


/* false if this worker's limits may be those of an older configuration */

ngx_uint_t
ngx_http_dsem_session_newest(ngx_http_dsem_session_t *session)
{
    return !ngx_exiting
           && session->configuration >= ngx_http_dsem_zone_newest(
                                                               session->zone);
}


/*
 * ms since the last reply to this session, or if it had none to its node, whose
 * clock it has; 0: there was none.
 */

uint64_t
ngx_http_dsem_session_age(ngx_http_dsem_session_t *session)
{
    if (session->registered) {
        return ngx_http_dsem_lease_age(&session->lease);
    }

    return session->clock ? ngx_http_dsem_lease_node_age(&session->lease) : 0;
}


/* a message: no session is missing any more */

void
ngx_http_dsem_session_recovered(ngx_http_dsem_session_t *session)
{
    session->recovery = 0;

    ngx_http_dsem_session_note(session);
    session->handlers->event(session, NGX_HTTP_DSEM_EVENT_READY);
}


/* no request waits for Redis any more */

void
ngx_http_dsem_session_set_unavailable(void *data)
{
    ngx_http_dsem_session_t *session = data;

    ngx_http_dsem_session_note(session);
    session->handlers->event(session, NGX_HTTP_DSEM_EVENT_UNAVAILABLE);
}


/*
 * A message: n sessions are registered now, and share each limit if Redis
 * is lost before the next beat.  A wrong number costs time after a loss of
 * state, a lease at most.
 */

void
ngx_http_dsem_session_registered(ngx_http_dsem_session_t *session, int64_t n)
{
    if (n > 0) {
        session->joined = (ngx_uint_t) n;
        session->joined_at = ngx_http_dsem_monotonic();
    }

    if (session->registered && n > (int64_t) session->registered) {
        session->registered = (ngx_uint_t) n;
        session->nsessions = ngx_max(session->nsessions, session->registered);
    }
}


/*
 * A reply says for how long Redis grants nothing at most, in ms.  The next
 * beat is sent at the end of that, or sooner.
 */

void
ngx_http_dsem_session_set_recovery(ngx_http_dsem_session_t *session,
    ngx_msec_t left)
{
    ngx_msec_t  interval;

    if (session->recovery && left == 0) {
        ngx_http_dsem_session_recovered(session);
    }

    session->recovery = left;

    ngx_http_dsem_session_note(session);

    interval = ngx_min(ngx_http_dsem_session_interval(session), left + 1);

    if (left
        && session->beat.timer_set
        && (ngx_msec_int_t) (session->beat.timer.key - ngx_current_msec)
           > (ngx_msec_int_t) interval)
    {
        ngx_add_timer(&session->beat, interval);
    }
}


/* ms between two beats */

ngx_msec_t
ngx_http_dsem_session_interval(ngx_http_dsem_session_t *session)
{
    ngx_msec_t  heartbeat;

    heartbeat = ngx_http_dsem_lease_heartbeat(&session->lease);

    return session->recovery ? ngx_min(heartbeat, NGX_HTTP_DSEM_RECOVERY_BEAT)
                             : heartbeat;
}


/*
 * The end of a turn.  The limits of an exiting worker do not count.  If it has
 * released permits, its bye will void all that it has in Redis, but can be
 * sent only when the session is ready: until then the worker stays, so that
 * no permit waits for the end of a lease.  While requests hold permits they
 * keep the worker; it waits when the last one has ended.
 */

void
ngx_http_dsem_session_drain(ngx_http_dsem_session_t *session)
{
    if (ngx_exiting && session->state != NGX_HTTP_DSEM_SESSION_DOWN) {
        ngx_http_dsem_limits_leave(&session->limits, session->redis);
    }

    if (ngx_exiting
        && session->started
        && session->state != NGX_HTTP_DSEM_SESSION_READY
        && !session->drain.timer_set
        && !session->drained
        && session->held == 0)
    {
        ngx_add_timer(&session->drain, NGX_HTTP_DSEM_SESSION_DRAIN);
    }
}


static void
ngx_http_dsem_session_drain_handler(ngx_event_t *ev)
{
    ngx_http_dsem_session_t  *session;

    session = ev->data;
    session->drained = 1;
}


/*
 * Why more permits may be out than the limit allows, after a declaration.
 * NULL: for no fault, as a lowered limit.
 */

char *
ngx_http_dsem_session_cause(ngx_http_dsem_session_t *session)
{
    if (session->lease_expired) {
        return "the lease of this worker expired while its requests were "
               "running";
    }

    if (session->keys_lost) {
        return "its keys in redis were lost while requests were running";
    }

    if (session->state_lost) {
        return "redis lost its state while requests were running";
    }

    return NULL;
}


/* more permits are out than the limit allows: logged and counted */

void
ngx_http_dsem_session_overage(ngx_str_t *name, ngx_int_t excess, char *cause)
{
    if (excess <= 0) {
        return;
    }

    ngx_http_dsem_counters_add_to(name, NGX_HTTP_DSEM_COUNT_OVERAGE, excess);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: overage of %i permits of \"%V\" (%s)",
                  excess, name, cause);
}
