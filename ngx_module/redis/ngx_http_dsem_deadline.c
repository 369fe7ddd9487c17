
/*
 * Deadlines for replies, in a worker that may itself stand still.
 *
 * After a stop (SIGSTOP, a paused machine) nginx runs its timers before it
 * reads the replies that came in time: epoll_wait() was interrupted.  A
 * deadline that fires late is therefore extended, until all is read.
 *
 * Called by: all in this folder that give Redis a time to reply.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_deadline.h"


/* ms: no running worker is so late */
#define NGX_HTTP_DSEM_DEADLINE_LATE  100


/* sets the timer; due belongs to it and keeps the moment it was set for */

void
ngx_http_dsem_deadline_set(ngx_event_t *timer, ngx_msec_t *due,
    ngx_msec_t time)
{
    *due = ngx_current_msec + time;

    /* nginx does not move a timer by less than 300 ms */

    if (timer->timer_set) {
        ngx_del_timer(timer);
    }

    ngx_add_timer(timer, time);
}


/* the timer has fired: true if it fired late and is set once more */

ngx_uint_t
ngx_http_dsem_deadline_extend(ngx_event_t *timer, ngx_msec_t *due)
{
    if ((ngx_msec_int_t) (ngx_current_msec - *due)
        < NGX_HTTP_DSEM_DEADLINE_LATE)
    {
        return 0;
    }

    timer->timedout = 0;
    ngx_http_dsem_deadline_set(timer, due, NGX_HTTP_DSEM_DEADLINE_LATE);

    return 1;
}
