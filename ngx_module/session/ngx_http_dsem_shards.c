
/*
 * The shards: the sessions of this worker, one for each.
 *
 * Owns the sessions.  A semaphore is in one shard, by its name; what happens
 * to the session of one shard changes nothing for the others.  On a single
 * server there is one shard, in a Cluster there are more, and a worker
 * registers only where it has something:
 *
 * - In the first one, from its start to its end.  Workers that have not met
 *   anywhere would not know of each other when they share a limit.
 * - Where its configuration has literal limits, from its start to its end.
 *   These limits count for the fleet, also while it has no requests.
 * - Where a dead worker of this node has left a session, to say bye for it.
 * - Elsewhere from the first request on, until there was none for a while;
 *   where figures of the fleet are asked for, that is a request too.
 *
 * Called by: dispatch (life, each of them), semaphore, acquire (by name) and
 * local.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_bye.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_shards.h"


/* ms; for the replies to the byes of an exiting worker, to all of them */
#define NGX_HTTP_DSEM_BYE_TIMEOUT       2000
#define NGX_HTTP_DSEM_BYE_FAST_TIMEOUT  150

/* ms, the longest pause between two attempts to connect */
#define NGX_HTTP_DSEM_MAX_BACKOFF       750


typedef struct {
    ngx_uint_t               n;
    ngx_http_dsem_session_t  sessions[NGX_HTTP_DSEM_SHARDS];
    ngx_event_t              visit;      /* set where there are several */
} ngx_http_dsem_shards_t;


static ngx_int_t ngx_http_dsem_shards_create(
    ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers);
static void ngx_http_dsem_shards_up(void *data);
static void ngx_http_dsem_shards_down(void *data);
static void ngx_http_dsem_shards_visit_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_dsem_shards_enter(ngx_http_dsem_session_t *session);
static void ngx_http_dsem_shards_drain(ngx_http_dsem_session_t *session,
    ngx_msec_t now);
static void ngx_http_dsem_shards_destroy(ngx_http_dsem_session_t *session);


static ngx_http_dsem_shards_t  ngx_http_dsem_shards;


/* creates the sessions; NGX_ERROR: no memory or no random numbers */

ngx_int_t
ngx_http_dsem_shards_start(ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers)
{
    ngx_uint_t                i;
    ngx_http_dsem_shards_t   *shards;
    ngx_http_dsem_session_t  *session;

    shards = &ngx_http_dsem_shards;

    ngx_memzero(shards, sizeof(ngx_http_dsem_shards_t));

    shards->n = settings->nshards;

    for (i = 0; i < shards->n; i++) {
        session = &shards->sessions[i];
        session->shard = i;

        if (ngx_http_dsem_shards_create(session, settings, handlers)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (session->lasting
            && ngx_http_dsem_shards_enter(session) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (shards->n > 1) {
        ngx_http_dsem_deadline_timer(&shards->visit,
                                     ngx_http_dsem_shards_visit_handler,
                                     shards);
        ngx_add_timer(&shards->visit, 1);
    }

    return NGX_OK;
}


/*
 * The session is all zero but for its shard; settings are copied.
 * NGX_ERROR: no memory; nothing is left behind.
 */

static ngx_int_t
ngx_http_dsem_shards_create(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers)
{
    ngx_http_dsem_redis_settings_t  redis;

    if (ngx_http_dsem_session_create(session, settings, handlers) != NGX_OK) {
        ngx_http_dsem_session_free(session);
        return NGX_ERROR;
    }

    ngx_http_dsem_deadline_timer(&session->beat, ngx_http_dsem_handshake_beat,
                                 session);

    redis = settings->redis;
    redis.backoff = ngx_min(settings->lease / 6, NGX_HTTP_DSEM_MAX_BACKOFF);
    redis.heartbeat = ngx_http_dsem_lease_heartbeat(&session->lease);

    session->redis_handlers.up = ngx_http_dsem_shards_up;
    session->redis_handlers.down = ngx_http_dsem_shards_down;
    session->redis_handlers.unusable = ngx_http_dsem_handshake_unusable;
    session->redis_handlers.unavailable = ngx_http_dsem_session_set_unavailable;
    session->redis_handlers.replied = handlers->replied;
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


/*
 * A prefix that others use as a single server, or this worker does and they
 * do not: only the first shard shows it, and then no other may be used, where
 * the same names would have two limits.
 */

static void
ngx_http_dsem_shards_up(void *data)
{
    ngx_http_dsem_session_t *session = data;

    ngx_str_t                 reason;
    ngx_http_dsem_session_t  *first;

    first = ngx_http_dsem_shards.sessions;

    if (session != first && first->refused) {
        ngx_http_dsem_redis_reason(first->redis, &reason);
        ngx_http_dsem_redis_drop(session->redis, (char *) reason.data);
        return;
    }

    ngx_http_dsem_handshake_begin(session);
}


static void
ngx_http_dsem_shards_down(void *data)
{
    ngx_http_dsem_session_t *session = data;

    ngx_str_t  reason;

    ngx_http_dsem_handshake_down(session);

    ngx_http_dsem_redis_reason(session->redis, &reason);

    if (session->shard != 0
        || ngx_strncmp(reason.data, "WRONGMODE ", sizeof("WRONGMODE ") - 1)
           != 0)
    {
        return;
    }

    session->refused = 1;

    while ((session = ngx_http_dsem_shards_next(session)) != NULL) {
        ngx_http_dsem_redis_drop(session->redis, (char *) reason.data);
    }
}


/* once a heartbeat: dead workers of this node may have been where it is not */

static void
ngx_http_dsem_shards_visit_handler(ngx_event_t *ev)
{
    ngx_msec_t                heartbeat;
    ngx_http_dsem_session_t  *session;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        heartbeat = ngx_http_dsem_lease_heartbeat(&session->lease);

        if (!session->started
            && !ngx_exiting
            && ngx_http_dsem_zone_turn(session->zone, session->shard,
                                       session->space, heartbeat)
            && ngx_http_dsem_zone_has(session->zone, session->space, 1))
        {
            (void) ngx_http_dsem_shards_enter(session);
        }
    }

    session = ngx_http_dsem_shards_next(NULL);

    ngx_add_timer(ev, ngx_http_dsem_lease_heartbeat(&session->lease));
}


/*
 * Begins in a shard in which this worker was not.  Others may be in it.  If its
 * master is lost just now, their requests run for a lease yet, in which the
 * worker must not begin with its share of a limit.  So it counts a lease from
 * when it last saw the fleet in some shard; or from when its node had the last
 * reply in this one, if the node is in it.  NGX_ERROR: not started.
 */

static ngx_int_t
ngx_http_dsem_shards_enter(ngx_http_dsem_session_t *session)
{
    uint64_t                  seen;
    ngx_uint_t                entered;
    ngx_msec_t                longest;
    ngx_http_dsem_lease_t    *lease;
    ngx_http_dsem_session_t  *other;

    entered = ngx_http_dsem_zone_has(session->zone, session->space, 0);
    seen = 0;
    longest = 0;

    for (other = ngx_http_dsem_shards_next(NULL);
         other;
         other = ngx_http_dsem_shards_next(other))
    {
        lease = &other->lease;
        longest = ngx_max(longest, lease->longest);

        if (entered) {
            continue;
        }

        seen = ngx_max(seen, lease->renewed);
        seen = ngx_max(seen, lease->node_renewed);

        if (ngx_http_dsem_session_ready(other)) {
            seen = ngx_http_dsem_monotonic();
        }
    }

    ngx_http_dsem_session_recall(session, session->lease.length, longest,
                                 seen);

    return ngx_http_dsem_handshake_start(session);
}


/*
 * With the worker.  All byes are written before the first reply is awaited:
 * a server that does not reply keeps no other from its bye.
 */

void
ngx_http_dsem_shards_stop(void)
{
    ngx_msec_t                now;
    ngx_http_dsem_session_t  *session;

    ngx_time_update();
    now = ngx_current_msec;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        session->leaving = (ngx_http_dsem_bye_exit(session) == NGX_OK);

        if (!session->leaving) {

            /* a pool is kept for longer than Redis counts it */

            if (session->naccounts
                && ngx_exiting
                && session->lease.renewed
                && !ngx_http_dsem_lease_over(&session->lease))
            {
                ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                              "dsem: exiting without a session in redis, "
                              "permits are released when the lease expires");
            }

        } else if (ngx_http_dsem_bye_drain(session, now) == NGX_OK) {
            session->leaving = 0;
        }
    }

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        if (session->leaving) {
            ngx_http_dsem_shards_drain(session, now);
        }

        ngx_http_dsem_shards_destroy(session);
    }

    if (ngx_http_dsem_shards.visit.timer_set) {
        ngx_del_timer(&ngx_http_dsem_shards.visit);
    }
}


/* longer if Redis still counts something for the session */

static void
ngx_http_dsem_shards_drain(ngx_http_dsem_session_t *session, ngx_msec_t now)
{
    ngx_uint_t  counted;
    ngx_msec_t  drain;

    counted = session->naccounts && ngx_exiting;
    drain = counted ? NGX_HTTP_DSEM_BYE_TIMEOUT
                    : NGX_HTTP_DSEM_BYE_FAST_TIMEOUT;

    if (ngx_http_dsem_bye_drain(session, now + drain) != NGX_OK
        && counted)
    {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: exiting without a reply from redis, permits "
                      "are released when the lease expires");
    }
}


static void
ngx_http_dsem_shards_destroy(ngx_http_dsem_session_t *session)
{
    if (session->redis) {
        ngx_http_dsem_redis_destroy(session->redis);
    }

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    ngx_http_dsem_session_free(session);
}


/* of the semaphore with this encoded name */

ngx_http_dsem_session_t *
ngx_http_dsem_shards_session(ngx_str_t *name)
{
    ngx_uint_t  i;

    i = (ngx_http_dsem_shards.n > 1) ? ngx_http_dsem_key_shard(name) : 0;

    return &ngx_http_dsem_shards.sessions[i];
}


/* the session of a name, started if it was not; that may fail */

ngx_http_dsem_session_t *
ngx_http_dsem_shards_use(ngx_str_t *name)
{
    ngx_http_dsem_session_t  *session;

    session = ngx_http_dsem_shards_session(name);

    if (!session->started && session->redis) {
        (void) ngx_http_dsem_shards_enter(session);
    }

    return session;
}


/* the session is used, by people: it is started if it was not */

void
ngx_http_dsem_shards_wake(ngx_http_dsem_session_t *session)
{
    session->used = ngx_current_msec;

    if (!session->started && session->redis && !ngx_exiting) {
        (void) ngx_http_dsem_shards_enter(session);
    }
}


/* the one after this, or the first for NULL; NULL: no more */

ngx_http_dsem_session_t *
ngx_http_dsem_shards_next(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_shards_t  *shards;

    shards = &ngx_http_dsem_shards;

    session = session ? session + 1 : shards->sessions;

    return (session < shards->sessions + shards->n) ? session : NULL;
}


/*
 * True if the leases of all workers are over that lost the shard with this one.
 * A worker that never had a reply in it, of a node that had none, either has
 * never seen the fleet, or has in another shard, and counts a lease from now.
 */

ngx_uint_t
ngx_http_dsem_shards_over(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_session_t  *other;

    for (other = ngx_http_dsem_shards_next(NULL);
         other
         && session->lease.renewed == 0
         && session->lease.node_renewed == 0;
         other = ngx_http_dsem_shards_next(other))
    {
        if (other->lease.renewed) {
            session->lease.node_renewed = ngx_http_dsem_monotonic();
        }
    }

    return ngx_http_dsem_lease_over(&session->lease);
}


/*
 * The number of sessions that may share a limit without asking Redis: the
 * largest of all shards, as a worker that is not in another one yet
 * may come.
 */

ngx_uint_t
ngx_http_dsem_shards_fleet(void)
{
    ngx_uint_t                n;
    ngx_http_dsem_session_t  *session;

    n = 1;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        if (session->started) {
            n = ngx_max(n, ngx_http_dsem_session_nsessions(session));
        }
    }

    return n;
}
