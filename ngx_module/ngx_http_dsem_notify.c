
/*
 * Telling: owners learn of their verdict from a posted event, never from
 * inside a callback of Redis.
 *
 * Owns the list of tickets that have something to tell.  A ticket is in it
 * once, and never without an owner: whoever leaves before being told is not
 * told.
 *
 * Called by: ticket.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_notify.h"


static void ngx_http_dsem_notify_handler(ngx_event_t *ev);


static ngx_queue_t  ngx_http_dsem_notify_list;
static ngx_event_t  ngx_http_dsem_notify_event;


void
ngx_http_dsem_notify_init(void)
{
    ngx_queue_init(&ngx_http_dsem_notify_list);

    ngx_memzero(&ngx_http_dsem_notify_event, sizeof(ngx_event_t));

    ngx_http_dsem_notify_event.handler = ngx_http_dsem_notify_handler;
    ngx_http_dsem_notify_event.log = ngx_cycle->log;
}


/* at the end of this turn of the event loop */

void
ngx_http_dsem_notify(ngx_http_dsem_ticket_t *ticket)
{
    if (!ticket->notifying) {
        ticket->notifying = 1;
        ngx_queue_insert_tail(&ngx_http_dsem_notify_list, &ticket->notify);
    }

    ngx_post_event(&ngx_http_dsem_notify_event, &ngx_posted_events);
}


/* there is nobody any more who would be told */

void
ngx_http_dsem_notify_forget(ngx_http_dsem_ticket_t *ticket)
{
    if (ticket->notifying) {
        ngx_queue_remove(&ticket->notify);
        ticket->notifying = 0;
    }
}


static void
ngx_http_dsem_notify_handler(ngx_event_t *ev)
{
    ngx_queue_t             *q, *told;
    ngx_http_dsem_ticket_t  *ticket;

    told = &ngx_http_dsem_notify_list;

    while (!ngx_queue_empty(told)) {
        q = ngx_queue_head(told);
        ngx_queue_remove(q);

        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, notify);
        ticket->notifying = 0;

        /* may leave, with this ticket or with others */
        ticket->handler(ticket->data);
    }
}
