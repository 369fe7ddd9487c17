
/*
 * Deadlines for replies, in a worker that may itself stand still.
 *
 * After a stop (SIGSTOP, a paused machine) nginx runs its timers before it
 * reads the replies that came in time: epoll_wait() was interrupted.  A
 * deadline is therefore extended, until all is read: by a turn, as the stop may
 * have ended just after it, and by more where it fires late.  Once only: in a
 * worker that is always late, a dead Redis would not be noticed.
 *
 * Called by: all in this folder that give Redis a time to reply.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_deadline.h"


/* ms: a worker that runs is seldom so late */
#define NGX_HTTP_DSEM_DEADLINE_LATE  100
/* ms: until the next turn, which reads first */
#define NGX_HTTP_DSEM_DEADLINE_TURN  10


static void ngx_http_dsem_deadline_add(ngx_http_dsem_deadline_t *deadline,
    ngx_event_t *timer, ngx_msec_t time);


/* a timer, of a deadline or of a pause, that keeps no exiting worker */

void
ngx_http_dsem_deadline_timer(ngx_event_t *timer, ngx_event_handler_pt handler,
    void *data)
{
    timer->handler = handler;
    timer->data = data;
    timer->log = ngx_cycle->log;
    timer->cancelable = 1;
}


/* deadline belongs to the timer, and keeps the moment it was set for */

void
ngx_http_dsem_deadline_set(ngx_http_dsem_deadline_t *deadline,
    ngx_event_t *timer, ngx_msec_t time)
{
    deadline->extended = 0;
    ngx_http_dsem_deadline_add(deadline, timer, time);
}


static void
ngx_http_dsem_deadline_add(ngx_http_dsem_deadline_t *deadline,
    ngx_event_t *timer, ngx_msec_t time)
{
    deadline->due = ngx_current_msec + time;
    ngx_http_dsem_deadline_restart(timer, time);
}


/* a timer that may be set: nginx does not move it by less than 300 ms */

void
ngx_http_dsem_deadline_restart(ngx_event_t *timer, ngx_msec_t time)
{
    if (timer->timer_set) {
        ngx_del_timer(timer);
    }

    ngx_add_timer(timer, time);
}


/* the timer has fired: true if it is set once more */

ngx_uint_t
ngx_http_dsem_deadline_extend(ngx_http_dsem_deadline_t *deadline,
    ngx_event_t *timer)
{
    ngx_msec_int_t  late;

    if (deadline->extended) {
        return 0;
    }

    late = ngx_current_msec - deadline->due;

    deadline->extended = 1;
    timer->timedout = 0;
    ngx_http_dsem_deadline_add(deadline, timer,
                               late < NGX_HTTP_DSEM_DEADLINE_LATE
                               ? NGX_HTTP_DSEM_DEADLINE_TURN
                               : NGX_HTTP_DSEM_DEADLINE_LATE);

    return 1;
}
