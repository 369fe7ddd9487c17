
/*
 * Patience: deadlines of others, kept by a worker that may stand still.
 *
 * After a stop (SIGSTOP, a paused machine) nginx runs its timers before it
 * reads what came in time: epoll_wait() was interrupted.  So a deadline that
 * comes late itself judges nobody, and looks once more when all is read.
 *
 * Called by: whoever gives Redis a time to answer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_deadline.h"


/* ms: no worker that runs is so late */
#define NGX_HTTP_DSEM_STOOD_STILL  100


/* sets the timer; due belongs to it, and remembers for when */

void
ngx_http_dsem_deadline_set(ngx_event_t *timer, ngx_msec_t *due, ngx_msec_t time)
{
    *due = ngx_current_msec + time;
    ngx_add_timer(timer, time);
}


/* a timer has come: true when it came late, and will come again */

ngx_uint_t
ngx_http_dsem_deadline_late(ngx_event_t *timer, ngx_msec_t *due)
{
    if ((ngx_msec_int_t) (ngx_current_msec - *due)
        < NGX_HTTP_DSEM_STOOD_STILL)
    {
        return 0;
    }

    timer->timedout = 0;
    ngx_http_dsem_deadline_set(timer, due, NGX_HTTP_DSEM_STOOD_STILL);

    return 1;
}
