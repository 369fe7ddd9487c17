
/*
 * The breaker: when requests stop waiting for Redis.
 *
 * Owns the log lines for a connected, lost, unavailable and available Redis,
 * each logged once per change, and the count of requests that are handled
 * without it.  It opens when a connect or a command has had no reply in time,
 * or a wrong one, and closes when a session is accepted.  The time to connect
 * counts from the loss of the last session, through all attempts, and once
 * anew where a search for the server is redirected; a connection that is
 * established has the time of its commands.  The breaker opens no connection
 * and closes none.
 *
 * Called by: redis, for each event of its connection.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_breaker.h"


/* ms between log lines while Redis is unavailable */
#define NGX_HTTP_DSEM_BREAKER_REMINDER  60000

/*
 * Scripts loaded again without an accepted session, or in one heartbeat:
 * more is not a SCRIPT FLUSH.
 */
#define NGX_HTTP_DSEM_MAX_RELOADS  15


static void ngx_http_dsem_breaker_handler(ngx_event_t *ev);
static void ngx_http_dsem_breaker_available(ngx_http_dsem_breaker_t *breaker);
static void ngx_http_dsem_breaker_remind(ngx_http_dsem_breaker_t *breaker);
static const char *ngx_http_dsem_breaker_cause(
    ngx_http_dsem_breaker_t *breaker, const char *otherwise);
static ngx_str_t *ngx_http_dsem_breaker_server(
    ngx_http_dsem_breaker_t *breaker, const char *cause);


/* settings and peer must stay; handler is called each time it opens */

void
ngx_http_dsem_breaker_init(ngx_http_dsem_breaker_t *breaker,
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_peer_t *peer,
    void (*handler)(void *data), void *data)
{
    ngx_memzero(breaker, sizeof(ngx_http_dsem_breaker_t));

    breaker->settings = settings;
    breaker->peer = peer;
    breaker->handler = handler;
    breaker->data = data;

    ngx_http_dsem_deadline_timer(&breaker->event,
                                 ngx_http_dsem_breaker_handler, breaker);
}


/* no session: the time to connect begins */

void
ngx_http_dsem_breaker_start(ngx_http_dsem_breaker_t *breaker)
{
    breaker->lost = 1;

    if (!breaker->flapping) {
        breaker->lost_since = ngx_current_msec;
    }

    ngx_http_dsem_deadline_set(&breaker->deadline, &breaker->event,
                               breaker->settings->connect_timeout);
}


/* it begins when the pause, in ms, is over */

void
ngx_http_dsem_breaker_paused(ngx_http_dsem_breaker_t *breaker,
    ngx_msec_t pause)
{
    ngx_http_dsem_deadline_set(&breaker->deadline, &breaker->event,
                               pause + breaker->settings->connect_timeout);
}


void
ngx_http_dsem_breaker_stop(ngx_http_dsem_breaker_t *breaker)
{
    if (breaker->event.timer_set) {
        ngx_del_timer(&breaker->event);
    }
}


/* pending: what is waited for, if it is waited for too long */

void
ngx_http_dsem_breaker_connecting(ngx_http_dsem_breaker_t *breaker,
    const char *pending)
{
    breaker->pending = pending;
    breaker->pending_since = ngx_current_msec;
}


/*
 * It proves nothing of the peer, which may be no Redis, but its replies have
 * a deadline of their own: over a distant network they take longer than the
 * connect.
 */

void
ngx_http_dsem_breaker_connected(ngx_http_dsem_breaker_t *breaker)
{
    breaker->pending = "no reply in time";
    breaker->failed = 0;

    if (!breaker->open) {
        ngx_http_dsem_breaker_stop(breaker);
    }
}


/* the session is accepted: the breaker closes */

void
ngx_http_dsem_breaker_accepted(ngx_http_dsem_breaker_t *breaker,
    ngx_str_t *server)
{
    ngx_http_dsem_backoff_usable(&breaker->backoff);
    ngx_http_dsem_breaker_stop(breaker);

    if (ngx_current_msec - breaker->reloads_since
        >= breaker->settings->heartbeat)
    {
        breaker->reloads_since = ngx_current_msec;
        breaker->reloads = 0;
    }

    if (!breaker->was_accepted) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: connected to redis %V (%V)",
                      ngx_http_dsem_peer_name(breaker->peer), server);
    }

    if (breaker->flapping) {
        /* it has been accepted before: said when it lasts */
        ngx_http_dsem_deadline_set(&breaker->deadline, &breaker->event,
                                   breaker->settings->heartbeat);

    } else if (breaker->reported) {
        ngx_http_dsem_breaker_available(breaker);
    }

    breaker->accepted = ngx_current_msec;
    breaker->was_accepted = 1;
    breaker->lost = 0;
    breaker->reported = 0;
    breaker->open = 0;
    breaker->reason[0] = '\0';
    breaker->named = 0;
}


static void
ngx_http_dsem_breaker_available(ngx_http_dsem_breaker_t *breaker)
{
    ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                  "dsem: redis %V available again after %M ms",
                  ngx_http_dsem_peer_name(breaker->peer),
                  ngx_current_msec - breaker->lost_since);
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


/*
 * The connection is lost, or was not made; logged if it has been good.  The
 * server that this is the reason of may not be the next one to be tried.
 */

void
ngx_http_dsem_breaker_lost(ngx_http_dsem_breaker_t *breaker,
    const char *reason, ngx_uint_t was_up)
{
    ngx_addr_t  *addr;

    addr = breaker->peer->addr;

    if (addr) {
        ngx_http_dsem_addr_set(&breaker->at, addr->sockaddr, addr->socklen);
        breaker->server = &breaker->at.addr.name;

    } else {
        breaker->server = breaker->peer->unnamed;
    }

    ngx_http_dsem_reason(breaker->reason, "%s", reason);
    breaker->pending = NULL;
    breaker->named = 0;
    breaker->failed = !was_up;

    ngx_http_dsem_backoff_lost(&breaker->backoff,
                               breaker->settings->heartbeat);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem redis down: %s", breaker->reason);

    if (was_up
        && !breaker->reported
        && !breaker->lost
        && breaker->backoff.failures == 1)
    {
        breaker->reported = 1;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: connection to redis %V lost (%s), reconnecting",
                      ngx_http_dsem_peer_name(breaker->peer), breaker->reason);
    }
}


/*
 * The pause before the next attempt, in ms, once the connection is gone.
 * The rest of the time to connect goes on.  "attempts" have failed since the
 * last pause, each at another address, which is one failure; the pause is
 * longer for them, but the workers of a fleet have to be back in time.  0: the
 * next one is made at once.
 */

ngx_msec_t
ngx_http_dsem_breaker_pause(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t attempts)
{
    ngx_msec_t                       longest;
    ngx_msec_int_t                   left;
    ngx_http_dsem_redis_settings_t  *settings;

    settings = breaker->settings;

    if (!breaker->lost) {
        ngx_http_dsem_breaker_start(breaker);

    } else if (!breaker->open && !breaker->event.timer_set) {
        left = breaker->deadline.due - ngx_current_msec;
        ngx_http_dsem_deadline_set(&breaker->deadline, &breaker->event,
                                   ngx_max(left, 1));
    }

    if (attempts == 0) {
        breaker->backoff.failures--;
        return 1;
    }

    longest = (attempts == 1)
              ? settings->backoff
              : ngx_min(attempts * settings->backoff, settings->heartbeat);

    return ngx_http_dsem_backoff_pause(&breaker->backoff, longest);
}


/*
 * A server that others have named has the time to connect for itself.  Never
 * is no time: the clock may be anywhere.
 */

static void
ngx_http_dsem_breaker_handler(ngx_event_t *ev)
{
    ngx_http_dsem_breaker_t *breaker = ev->data;

    ngx_msec_int_t  left;

    if (breaker->open) {
        ngx_http_dsem_breaker_remind(breaker);

    } else if (!breaker->lost) {
        breaker->flapping = 0;
        ngx_http_dsem_breaker_available(breaker);

    } else if (!ngx_http_dsem_deadline_extend(&breaker->deadline, ev)) {

        left = breaker->peer->followed
               + breaker->settings->connect_timeout - ngx_current_msec;

        if (breaker->peer->followed && left > 0) {
            ngx_http_dsem_deadline_set(&breaker->deadline, ev, left);

        } else {
            ngx_http_dsem_breaker_open(breaker);
        }
    }
}


/*
 * No request waits for Redis any more, until a session is accepted.  Redis may
 * accept sessions, and reject what they send next, all the time: such a loss
 * is logged twice, and then each minute.
 */

void
ngx_http_dsem_breaker_open(ngx_http_dsem_breaker_t *breaker)
{
    ngx_uint_t   soon, recent;
    const char  *cause;

    if (breaker->open) {
        return;
    }

    if (!breaker->lost) {
        /* in a good session: the scripts are gone, and take too long */
        ngx_http_dsem_breaker_start(breaker);
    }

    breaker->open = 1;
    breaker->reported = 1;

    ngx_http_dsem_deadline_set(&breaker->deadline, &breaker->event,
                               NGX_HTTP_DSEM_BREAKER_REMINDER);

    soon = breaker->was_accepted
           && ngx_current_msec - breaker->accepted
              < breaker->settings->heartbeat;

    if (!soon || !breaker->flapping) {
        breaker->flapping = soon;
        breaker->line = ngx_current_msec;
        breaker->passed = 0;
        breaker->refused = 0;

        /* an attempt that has failed says more than one that has begun */

        recent = ngx_current_msec - breaker->pending_since
                 < breaker->settings->connect_timeout / 2;

        cause = ngx_http_dsem_breaker_cause(breaker,
                                            (breaker->pending
                                             && !breaker->named
                                             && !(breaker->failed && recent))
                                            ? breaker->pending
                                            : breaker->reason);

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V unavailable (%s), requests are handled "
                      "by \"dsem_on_error\"",
                      ngx_http_dsem_breaker_server(breaker, cause), cause);

    } else if (ngx_current_msec - breaker->line
               >= NGX_HTTP_DSEM_BREAKER_REMINDER)
    {
        ngx_http_dsem_breaker_remind(breaker);
    }

    breaker->handler(breaker->data);
}


/* an operator may have missed the first line, and sees what the loss costs */

static void
ngx_http_dsem_breaker_remind(ngx_http_dsem_breaker_t *breaker)
{
    const char  *cause;

    cause = ngx_http_dsem_breaker_reason(breaker);

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "dsem: redis %V still unavailable after %M ms (%s), "
                  "\"dsem_on_error\" passed %ui requests and refused %ui "
                  "since the last line",
                  ngx_http_dsem_breaker_server(breaker, cause),
                  ngx_current_msec - breaker->lost_since, cause,
                  breaker->passed, breaker->refused);

    breaker->line = ngx_current_msec;
    breaker->passed = 0;
    breaker->refused = 0;

    ngx_http_dsem_deadline_set(&breaker->deadline, &breaker->event,
                               NGX_HTTP_DSEM_BREAKER_REMINDER);
}


/* a peer that is still being searched for has a reason of its own */

static const char *
ngx_http_dsem_breaker_cause(ngx_http_dsem_breaker_t *breaker,
    const char *otherwise)
{
    return breaker->peer->reason ? breaker->peer->reason : otherwise;
}


/* any other cause is that of the server to connect to now */

static ngx_str_t *
ngx_http_dsem_breaker_server(ngx_http_dsem_breaker_t *breaker,
    const char *cause)
{
    return (cause == breaker->reason && breaker->server)
           ? breaker->server : ngx_http_dsem_peer_name(breaker->peer);
}


/* a request was decided without Redis */

void
ngx_http_dsem_breaker_handled(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t passed)
{
    if (passed) {
        breaker->passed++;

    } else {
        breaker->refused++;
    }
}


/* why no session is accepted; empty: one is, or there is no cause yet */

const char *
ngx_http_dsem_breaker_reason(ngx_http_dsem_breaker_t *breaker)
{
    if (!breaker->lost) {
        return "";
    }

    if (breaker->reason[0] == '\0' && breaker->open && breaker->pending) {
        return ngx_http_dsem_breaker_cause(breaker, breaker->pending);
    }

    return ngx_http_dsem_breaker_cause(breaker, breaker->reason);
}


/* the server in use, or wanted; or the one that this reason is of */

ngx_str_t *
ngx_http_dsem_breaker_address(ngx_http_dsem_breaker_t *breaker)
{
    return ngx_http_dsem_breaker_server(breaker,
                                       ngx_http_dsem_breaker_reason(breaker));
}
