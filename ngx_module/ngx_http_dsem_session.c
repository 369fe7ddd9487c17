
/*
 * The session: this worker process as Redis knows it.
 *
 * Owns the name, the epoch and the connection, and says when an epoch
 * begins; what is said in it is in handshake.  Every doubt is settled the same
 * way: a higher epoch and a new declaration, never a guess.  The conversation
 * of an older epoch means nothing any more, whatever of it is still under way.
 *
 * Called by: module (start, stop) and semaphore, which is told through
 * handlers when to declare and when it may speak.  One per worker process;
 * it keeps no pointer into a configuration cycle.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_bye.h"
#include "ngx_http_dsem_identity.h"
#include "ngx_http_dsem_lease.h"
#include "ngx_http_dsem_drain.h"
#include "ngx_http_dsem_session.h"
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_zone.h"


/* new epochs without one success between them; then the line is dropped */
#define NGX_HTTP_DSEM_MAX_RESYNCS      5

#define NGX_HTTP_DSEM_MAX_BACKOFF      1000

/* how long a process that exits waits for its good-bye to be heard */
#define NGX_HTTP_DSEM_BYE_TIMEOUT      150


static ngx_int_t ngx_http_dsem_session_copy(
    ngx_http_dsem_session_settings_t *settings);
static void ngx_http_dsem_session_up(void *data);
static void ngx_http_dsem_session_down(void *data);
static void ngx_http_dsem_session_redis_away(void *data);
static void ngx_http_dsem_session_message(void *data, ngx_str_t *text);
static void ngx_http_dsem_session_begin(ngx_http_dsem_session_t *session);


static ngx_http_dsem_session_t  ngx_http_dsem_session;


static ngx_http_dsem_redis_handlers_t  ngx_http_dsem_session_redis_handlers =
{
    ngx_http_dsem_session_up,
    ngx_http_dsem_session_down,
    ngx_http_dsem_session_redis_away,
    ngx_http_dsem_session_message
};


/*
 * Starts the worker's session and begins to connect.  settings are copied.
 * NGX_ERROR: no memory or no random numbers; nothing is left behind.
 */

ngx_int_t
ngx_http_dsem_session_start(ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers, void *data)
{
    uint64_t                         heard;
    ngx_http_dsem_session_t         *session;
    ngx_http_dsem_redis_settings_t   redis;

    session = &ngx_http_dsem_session;

    ngx_memzero(session, sizeof(ngx_http_dsem_session_t));

    session->handlers = handlers;
    session->data = data;

    session->beat.handler = ngx_http_dsem_handshake_beat_handler;
    session->beat.data = session;
    session->beat.log = ngx_cycle->log;
    session->beat.cancelable = 1;

    ngx_http_dsem_drain_init();

    session->zone = settings->zone;
    session->workers = settings->workers;
    session->configuration = settings->configuration;

    ngx_http_dsem_zone_recall(session->zone, &session->generation,
                              &session->fleet, &heard);
    ngx_http_dsem_lease_init(settings->lease, heard);

    ngx_http_dsem_zone_configure(session->zone, session->configuration);

    if (ngx_http_dsem_session_copy(settings) != NGX_OK
        || ngx_http_dsem_identity_name(&session->node, &session->name)
           != NGX_OK)
    {
        ngx_http_dsem_session_stop();
        return NGX_ERROR;
    }

    redis.addr = *settings->addr;
    redis.connect_timeout = settings->connect_timeout;
    redis.timeout = settings->timeout;
    redis.backoff = ngx_min(settings->lease / 8, NGX_HTTP_DSEM_MAX_BACKOFF);
    redis.heartbeat = ngx_http_dsem_lease_heartbeat();
    redis.key = session->key;

    session->redis = ngx_http_dsem_redis_create(&redis,
                               &ngx_http_dsem_session_redis_handlers, session);

    if (session->redis == NULL
        || ngx_http_dsem_redis_identify(session->redis, &session->name, 0)
           != NGX_OK)
    {
        ngx_http_dsem_session_stop();
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_session_copy(ngx_http_dsem_session_settings_t *settings)
{
    size_t                    len;
    u_char                   *p;
    ngx_http_dsem_session_t  *session;

    session = &ngx_http_dsem_session;

    len = settings->node.len + settings->prefix.len + sizeof(":{0}") - 1;

    p = ngx_alloc(len, ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    session->node.data = p;
    session->node.len = settings->node.len;
    p = ngx_cpymem(p, settings->node.data, settings->node.len);

    session->key.data = p;
    p = ngx_cpymem(p, settings->prefix.data, settings->prefix.len);
    p = ngx_cpymem(p, ":{0}", sizeof(":{0}") - 1);
    session->key.len = p - session->key.data;

    return NGX_OK;
}


/*
 * Says good-bye and ends the session, with a worker that exits: what it
 * still holds is free at once.  Waits for the answer, but not for long.
 */

void
ngx_http_dsem_session_stop(void)
{
    ngx_msec_t                drain;
    ngx_http_dsem_session_t  *session;

    session = &ngx_http_dsem_session;

    if (session->redis) {
        drain = 0;

        if (ngx_http_dsem_bye(session->redis, &session->name, NULL, NULL)
            == NGX_OK)
        {
            drain = NGX_HTTP_DSEM_BYE_TIMEOUT;
        }

        if (ngx_http_dsem_redis_destroy(session->redis, drain) == NGX_OK) {
            ngx_http_dsem_zone_leave(session->zone, &session->name);
        }
    }

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    ngx_http_dsem_drain_stop();

    ngx_free(session->node.data);
    ngx_free(session->name.data);
    ngx_memzero(session, sizeof(ngx_http_dsem_session_t));
}


/* true once the hello of this epoch has been answered */

ngx_uint_t
ngx_http_dsem_session_begun(void)
{
    return ngx_http_dsem_session.state >= NGX_HTTP_DSEM_SESSION_DECLARING;
}


ngx_uint_t
ngx_http_dsem_session_ready(void)
{
    return ngx_http_dsem_session.state == NGX_HTTP_DSEM_SESSION_READY;
}


/*
 * True also where no session could be started.  Once the hello has been
 * answered Redis counts what we declare: from then on nobody is admitted
 * without it.
 */

ngx_uint_t
ngx_http_dsem_session_away(void)
{
    return ngx_http_dsem_session.redis == NULL
           || (ngx_http_dsem_redis_away(ngx_http_dsem_session.redis)
               && !ngx_http_dsem_session_begun());
}


/*
 * How many sessions share a limit: those last seen, by this worker or by
 * another of its node.  A node that never saw the fleet counts its own.
 */

ngx_uint_t
ngx_http_dsem_session_fleet(void)
{
    return ngx_http_dsem_session.fleet ? ngx_http_dsem_session.fleet
                                       : ngx_http_dsem_session.workers;
}


/* false where this worker's limits may be those of yesterday */

ngx_uint_t
ngx_http_dsem_session_current(void)
{
    ngx_http_dsem_session_t  *session;

    session = &ngx_http_dsem_session;

    return !ngx_exiting
           && session->configuration
              >= ngx_http_dsem_zone_configuration(session->zone);
}


/* for how many ms from the hello Redis grants nothing; 0: it does */

ngx_msec_t
ngx_http_dsem_session_recovery(void)
{
    return ngx_http_dsem_session.recovery;
}


uint64_t
ngx_http_dsem_session_epoch(void)
{
    return ngx_http_dsem_session.epoch;
}


int64_t
ngx_http_dsem_session_generation(void)
{
    return ngx_http_dsem_session.generation;
}


ngx_str_t *
ngx_http_dsem_session_key(void)
{
    return &ngx_http_dsem_session.key;
}


ngx_http_dsem_redis_t *
ngx_http_dsem_session_redis(void)
{
    return ngx_http_dsem_session.redis;
}


static void
ngx_http_dsem_session_up(void *data)
{
    ngx_http_dsem_session_begin(data);
}


static void
ngx_http_dsem_session_down(void *data)
{
    ngx_http_dsem_session_t  *session = data;

    ngx_http_dsem_handshake_set_state(session, NGX_HTTP_DSEM_SESSION_DOWN);

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    session->handlers->reset(session->data);
}


static void
ngx_http_dsem_session_redis_away(void *data)
{
    ngx_http_dsem_session_t  *session = data;

    session->handlers->away(session->data);
}


static void
ngx_http_dsem_session_message(void *data, ngx_str_t *text)
{
    ngx_http_dsem_session_t  *session = data;

    session->handlers->message(session->data, text);
}


/*
 * Something that Redis said, or did not say, cannot be brought together
 * with what this worker knows: begin a new epoch and declare everything.
 * "lost": keys of a semaphore may have been lost.
 */

void
ngx_http_dsem_session_resync(const char *reason, ngx_uint_t lost)
{
    ngx_http_dsem_session_t  *session;

    session = &ngx_http_dsem_session;

    if (session->state == NGX_HTTP_DSEM_SESSION_DOWN) {
        return;
    }

    session->verify = lost;

    ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                  "dsem: resynchronizing with redis (%s)", reason);

    if (++session->resyncs > NGX_HTTP_DSEM_MAX_RESYNCS) {
        ngx_http_dsem_redis_drop(session->redis, reason);
        return;
    }

    ngx_http_dsem_session_begin(session);
}


/* a new epoch: what was said in older ones means nothing any more */

static void
ngx_http_dsem_session_begin(ngx_http_dsem_session_t *session)
{
    session->epoch++;
    session->declaring = 0;
    session->declared_all = 0;

    ngx_http_dsem_handshake_set_state(session, NGX_HTTP_DSEM_SESSION_HELLO);

    if (session->beat.timer_set) {
        ngx_del_timer(&session->beat);
    }

    session->handlers->reset(session->data);

    ngx_http_dsem_handshake_hello(session);
}


/* the semaphore floor has read the answer to a declaration of this epoch */

void
ngx_http_dsem_session_answered(ngx_http_dsem_reply_t *reply)
{
    if (reply->status == NGX_HTTP_DSEM_REPLY_RESYNC) {
        ngx_http_dsem_session_resync("session unknown to redis", 0);
        return;
    }

    ngx_http_dsem_session.declaring--;
    ngx_http_dsem_handshake_declare(&ngx_http_dsem_session);
}


/*
 * More is out than the limit allows, after a declaration.  Said where that
 * should not be; a limit that was lowered is no fault.
 */

void
ngx_http_dsem_session_overage(ngx_str_t *name, ngx_int_t excess)
{
    if (excess <= 0) {
        return;
    }

    if (ngx_http_dsem_session.lease_expired) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: overage of %i permits of \"%V\" (the lease of "
                      "this worker expired while its requests were running)",
                      excess, name);

    } else if (ngx_http_dsem_session.keys_lost) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: overage of %i permits of \"%V\" (its keys in "
                      "redis were lost while requests were running)", excess, name);
    }
}
