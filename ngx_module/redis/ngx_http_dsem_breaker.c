
/*
 * The breaker: when requests stop waiting for Redis.
 *
 * Owns every count of failures, the pause before the next attempt, and the
 * log lines for a lost, unavailable and available Redis, each logged once
 * per change.  It opens when Redis has not replied for a timeout or has
 * replied wrongly, and closes when a session is accepted.  It opens no
 * connection and closes none.
 *
 * Called by: redis, for each event of its connection; subscription (pauses).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_breaker.h"
#include "ngx_http_dsem_deadline.h"


/* ms, the shortest of the longest pauses between two attempts */
#define NGX_HTTP_DSEM_BACKOFF_MIN  50

/*
 * Scripts loaded again without an accepted session, or in one heartbeat:
 * more is not a SCRIPT FLUSH.
 */
#define NGX_HTTP_DSEM_MAX_RELOADS  15


static void ngx_http_dsem_breaker_handler(ngx_event_t *ev);


/* settings must stay; handler is called each time it opens */

void
ngx_http_dsem_breaker_init(ngx_http_dsem_breaker_t *breaker,
    ngx_http_dsem_redis_settings_t *settings, void (*handler)(void *data),
    void *data)
{
    ngx_memzero(breaker, sizeof(ngx_http_dsem_breaker_t));

    breaker->settings = settings;
    breaker->handler = handler;
    breaker->data = data;
    breaker->lost_since = ngx_current_msec;

    breaker->event.handler = ngx_http_dsem_breaker_handler;
    breaker->event.data = breaker;
    breaker->event.log = ngx_cycle->log;
    breaker->event.cancelable = 1;
}


/* the time that Redis has to accept a session */

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


/* proves nothing of the peer: it may be no Redis */

void
ngx_http_dsem_breaker_connected(ngx_http_dsem_breaker_t *breaker)
{
    breaker->connected_since = ngx_current_msec;
}


/* the session is accepted: the breaker closes, pauses begin anew */

void
ngx_http_dsem_breaker_accepted(ngx_http_dsem_breaker_t *breaker)
{
    breaker->failures = 0;
    breaker->accepted = 1;

    if (ngx_current_msec - breaker->reloads_since
        >= breaker->settings->heartbeat)
    {
        breaker->reloads_since = ngx_current_msec;
        breaker->reloads = 0;
    }

    if (breaker->reported) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: redis %V available again after %M ms",
                      &breaker->settings->addr.name,
                      ngx_current_msec - breaker->lost_since);
    }

    breaker->reported = 0;
    breaker->open = 0;
}


/* a reply of any kind; a heartbeat without a fault makes up for them */

void
ngx_http_dsem_breaker_replied(ngx_http_dsem_breaker_t *breaker)
{
    if (breaker->faults
        && ngx_current_msec - breaker->connected_since
           >= breaker->settings->heartbeat)
    {
        breaker->faults = 0;
    }
}


/* the scripts are missing; NGX_DECLINED: they were loaded too often */

ngx_int_t
ngx_http_dsem_breaker_reload(ngx_http_dsem_breaker_t *breaker)
{
    if (ngx_current_msec - breaker->last_reload
        >= breaker->settings->heartbeat)
    {
        breaker->reloads = 0;
    }

    breaker->last_reload = ngx_current_msec;

    return (++breaker->reloads > NGX_HTTP_DSEM_MAX_RELOADS) ? NGX_DECLINED
                                                            : NGX_OK;
}


/* the connection is lost, or was not made; logged if it has been good */

void
ngx_http_dsem_breaker_lost(ngx_http_dsem_breaker_t *breaker,
    const char *reason, ngx_uint_t was_up)
{
    ngx_cpystrn(breaker->reason, (u_char *) reason,
                NGX_HTTP_DSEM_BREAKER_REASON_LEN);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem redis down: %s", breaker->reason);

    if (was_up
        && !breaker->reported
        && !breaker->open
        && breaker->failures == 0)
    {
        breaker->lost_since = ngx_current_msec;
        breaker->reported = 1;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: connection to redis %V lost (%s), reconnecting",
                      &breaker->settings->addr.name, breaker->reason);
    }
}


/*
 * The pause before the next attempt, in ms, once the connection is gone.
 * It grows with the number of wrong replies if this was one.
 */

ngx_msec_t
ngx_http_dsem_breaker_pause(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t protocol_error)
{
    ngx_uint_t  failures;

    breaker->accepted = 0;

    if (!breaker->open && !breaker->event.timer_set) {
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
 * then full jitter, so that a fleet does not reconnect in step.
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

    if (!ngx_http_dsem_deadline_extend(ev, &breaker->due)) {
        ngx_http_dsem_breaker_open(breaker);
    }
}


/* no request waits for Redis any more, until a session is accepted */

void
ngx_http_dsem_breaker_open(ngx_http_dsem_breaker_t *breaker)
{
    if (breaker->open) {
        return;
    }

    breaker->open = 1;
    breaker->reported = 1;

    ngx_http_dsem_breaker_stop(breaker);

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: redis %V unavailable (%s), requests are handled by "
                  "\"dsem_on_error\"",
                  &breaker->settings->addr.name,
                  breaker->reason[0] ? (char *) breaker->reason
                                     : "no reply yet");

    breaker->handler(breaker->data);
}
