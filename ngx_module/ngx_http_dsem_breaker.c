
/*
 * The breaker: how a connection to Redis fares, how long to wait before the
 * next attempt, and when nobody should wait for Redis any more.
 *
 * Owns every count of failures, and the sentences of the log that say that
 * Redis is lost, away, back; each is said once.  It is open from when Redis
 * has not been heard of for a time-out, or has answered wrongly, until a
 * session is accepted.  It opens no connection and closes none.
 *
 * Called by: redis, which tells it what happens; subscription (pauses).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_breaker.h"
#include "ngx_http_dsem_deadline.h"


/* ms, the shortest of the longest pauses between two attempts */
#define NGX_HTTP_DSEM_BACKOFF_MIN   50

/*
 * Scripts loaded again one after the other without a session that is ready,
 * and in one heartbeat: more is not somebody's flush.
 */
#define NGX_HTTP_DSEM_MAX_LOADS     5
#define NGX_HTTP_DSEM_MAX_FLUSHES   30


static void ngx_http_dsem_breaker_handler(ngx_event_t *ev);


/* settings must stay; away is told each time it opens */

void
ngx_http_dsem_breaker_init(ngx_http_dsem_breaker_t *breaker,
    ngx_http_dsem_redis_settings_t *settings, void (*away)(void *data),
    void *data)
{
    ngx_memzero(breaker, sizeof(ngx_http_dsem_breaker_t));

    breaker->settings = settings;
    breaker->handler = away;
    breaker->data = data;
    breaker->down_since = ngx_current_msec;

    breaker->event.handler = ngx_http_dsem_breaker_handler;
    breaker->event.data = breaker;
    breaker->event.log = ngx_cycle->log;
    breaker->event.cancelable = 1;
}


void
ngx_http_dsem_breaker_start(ngx_http_dsem_breaker_t *breaker)
{
    ngx_http_dsem_deadline_set(&breaker->event, &breaker->due,
                           breaker->settings->connect_timeout);
}


void
ngx_http_dsem_breaker_stop(ngx_http_dsem_breaker_t *breaker)
{
    if (breaker->event.timer_set) {
        ngx_del_timer(&breaker->event);
    }
}


/* a connection has been made; that says nothing of what answers there */

void
ngx_http_dsem_breaker_connected(ngx_http_dsem_breaker_t *breaker)
{
    breaker->up_since = ngx_current_msec;
    breaker->loads = 0;
}


/* the session is accepted: the pauses begin anew */

void
ngx_http_dsem_breaker_close(ngx_http_dsem_breaker_t *breaker)
{
    breaker->failures = 0;
    breaker->accepted = 1;

    if (breaker->lost) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: redis %V available again after %M ms",
                      &breaker->settings->addr.name,
                      ngx_current_msec - breaker->down_since);
    }

    breaker->lost = 0;
    breaker->away = 0;
}


/* a reply of any kind; a heartbeat without a fault makes up for them */

void
ngx_http_dsem_breaker_answered(ngx_http_dsem_breaker_t *breaker)
{
    if (breaker->faults
        && ngx_current_msec - breaker->up_since
           >= breaker->settings->heartbeat)
    {
        breaker->faults = 0;
    }
}


/* Redis has lost the scripts; NGX_DECLINED: again and again */

ngx_int_t
ngx_http_dsem_breaker_flushed(ngx_http_dsem_breaker_t *breaker)
{
    if (ngx_current_msec - breaker->flushes_since
        >= breaker->settings->heartbeat)
    {
        breaker->flushes_since = ngx_current_msec;
        breaker->flushes = 0;
    }

    if (++breaker->flushes > NGX_HTTP_DSEM_MAX_FLUSHES
        || ++breaker->loads > NGX_HTTP_DSEM_MAX_LOADS)
    {
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* the script that was missing is there */

void
ngx_http_dsem_breaker_loaded(ngx_http_dsem_breaker_t *breaker)
{
    breaker->loads = 0;
}


/* the connection goes, or could not be made; said when it has been good */

void
ngx_http_dsem_breaker_lost(ngx_http_dsem_breaker_t *breaker,
    const char *reason, ngx_uint_t was_up)
{
    ngx_cpystrn(breaker->reason, (u_char *) reason, NGX_HTTP_DSEM_REASON_LEN);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem redis down: %s", breaker->reason);

    if (was_up && !breaker->lost && !breaker->away && breaker->failures == 0)
    {
        breaker->down_since = ngx_current_msec;
        breaker->lost = 1;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: connection to redis %V lost (%s), reconnecting",
                      &breaker->settings->addr.name, breaker->reason);
    }
}


/*
 * The connection is gone: gives the pause before the next attempt, in ms.
 * The longer, the more wrong replies there have been, where this was one.
 */

ngx_msec_t
ngx_http_dsem_breaker_pause(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t protocol_error)
{
    ngx_uint_t  failures;

    breaker->accepted = 0;

    if (!breaker->away && !breaker->event.timer_set) {
        ngx_http_dsem_breaker_start(breaker);
    }

    failures = breaker->failures++;

    if (protocol_error) {
        breaker->faults++;
        failures = ngx_max(failures, breaker->faults);
    }

    return ngx_http_dsem_breaker_backoff(breaker->settings, failures);
}


/*
 * The pause before the next attempt, in ms: none after the first failure,
 * then full jitter, so that a fleet does not come back in step.
 */

ngx_msec_t
ngx_http_dsem_breaker_backoff(ngx_http_dsem_redis_settings_t *settings,
    ngx_uint_t failures)
{
    ngx_msec_t  longest;

    if (failures == 0) {
        return 1;
    }

    longest = NGX_HTTP_DSEM_BACKOFF_MIN << ngx_min(failures - 1, 10);
    longest = ngx_min(longest, settings->backoff);

    return 1 + (ngx_msec_t) ngx_random() % longest;
}


static void
ngx_http_dsem_breaker_handler(ngx_event_t *ev)
{
    ngx_http_dsem_breaker_t  *breaker = ev->data;

    if (!ngx_http_dsem_deadline_late(ev, &breaker->due)) {
        ngx_http_dsem_breaker_open(breaker);
    }
}


/* nobody waits for Redis any more, until a session is accepted */

void
ngx_http_dsem_breaker_open(ngx_http_dsem_breaker_t *breaker)
{
    if (breaker->away) {
        return;
    }

    breaker->away = 1;
    breaker->lost = 1;

    ngx_http_dsem_breaker_stop(breaker);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: redis %V unavailable (%s), requests are handled by "
                  "\"dsem_on_error\"",
                  &breaker->settings->addr.name,
                  breaker->reason[0] ? (char *) breaker->reason
                                     : "no reply yet");

    breaker->handler(breaker->data);
}
