
/*
 * The pulse: whether Redis has replied just now.
 *
 * Owns the time of the last reply, the usual round trip, and the moment from
 * which on the next reply is late.  The last two are guesses, far below all
 * timeouts: nothing is wrong with Redis yet.  They decide whether a release
 * is sent, as one without a reply costs a permit until the lease ends.
 *
 * Called by: redis, for each call and each reply.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_breaker.h"
#include "ngx_http_dsem_deadline.h"


/* ms for which a reply proves that the next one will come */
#define NGX_HTTP_DSEM_PULSE_FRESH  2

/* ms; a reply is never late before */
#define NGX_HTTP_DSEM_PULSE_LATE   30


static ngx_msec_t ngx_http_dsem_pulse_usual(ngx_http_dsem_pulse_t *pulse);
static void ngx_http_dsem_pulse_timer_handler(ngx_event_t *ev);
static void ngx_http_dsem_pulse_notify(ngx_http_dsem_pulse_t *pulse);


/* pulse must be zeroed; for handler see ngx_http_dsem_pulse_wait() */

void
ngx_http_dsem_pulse_init(ngx_http_dsem_pulse_t *pulse,
    void (*handler)(void *data), void *data)
{
    pulse->handler = handler;
    pulse->data = data;

    ngx_http_dsem_deadline_timer(&pulse->timer,
                                 ngx_http_dsem_pulse_timer_handler, pulse);
}


/* a call is made, and no other is unanswered */

void
ngx_http_dsem_pulse_asked(ngx_http_dsem_pulse_t *pulse)
{
    pulse->since = ngx_current_msec;
    pulse->timing = 1;
}


void
ngx_http_dsem_pulse_replied(ngx_http_dsem_pulse_t *pulse)
{
    ngx_msec_t  rtt;

    if (pulse->timing) {
        pulse->timing = 0;

        rtt = 8 * (ngx_current_msec - pulse->since);

        /* a busy machine is no distant Redis; the first one may be either */

        if (!pulse->timed || rtt < pulse->rtt) {
            pulse->timed = 1;
            pulse->rtt = rtt;

        } else {
            pulse->rtt += (rtt - pulse->rtt) / 8;
        }
    }

    pulse->since = ngx_current_msec;
    pulse->replied = ngx_current_msec;

    ngx_http_dsem_pulse_notify(pulse);
}


/* no reply will come: handler is not called */

void
ngx_http_dsem_pulse_stop(ngx_http_dsem_pulse_t *pulse)
{
    if (pulse->timer.timer_set) {
        ngx_del_timer(&pulse->timer);
    }

    pulse->awaited = 0;
    pulse->timing = 0;
}


/*
 * True if there was a reply just now, or not long ago where a round trip
 * takes longer than it is worth, in ms.
 */

ngx_uint_t
ngx_http_dsem_pulse_fresh(ngx_http_dsem_pulse_t *pulse, ngx_msec_t worth)
{
    ngx_msec_t  fresh;

    fresh = (pulse->rtt / 8 > worth) ? 2 * pulse->rtt / 8
                                     : NGX_HTTP_DSEM_PULSE_FRESH;

    return ngx_current_msec - pulse->replied <= fresh;
}


/* to be asked only while a call is unanswered */

ngx_uint_t
ngx_http_dsem_pulse_late(ngx_http_dsem_pulse_t *pulse)
{
    return ngx_current_msec - pulse->since > ngx_http_dsem_pulse_usual(pulse);
}


/* ms without a reply that are usual */

static ngx_msec_t
ngx_http_dsem_pulse_usual(ngx_http_dsem_pulse_t *pulse)
{
    return ngx_max(4 * pulse->rtt / 8, NGX_HTTP_DSEM_PULSE_LATE);
}


/*
 * A call is unanswered: handler is called once, with the next reply, or when
 * that is late.
 */

void
ngx_http_dsem_pulse_wait(ngx_http_dsem_pulse_t *pulse)
{
    pulse->awaited = 1;

    if (!pulse->timer.timer_set && !ngx_http_dsem_pulse_late(pulse)) {
        ngx_add_timer(&pulse->timer, pulse->since
                                     + ngx_http_dsem_pulse_usual(pulse) + 1
                                     - ngx_current_msec);
    }
}


static void
ngx_http_dsem_pulse_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_pulse_notify(ev->data);
}


static void
ngx_http_dsem_pulse_notify(ngx_http_dsem_pulse_t *pulse)
{
    if (pulse->timer.timer_set) {
        ngx_del_timer(&pulse->timer);
    }

    if (pulse->awaited) {
        pulse->awaited = 0;
        pulse->handler(pulse->data);
    }
}
