
/*
 * Notices: owners of tickets that are to learn their verdict.
 *
 * Owns the list of them.  An owner is notified by a posted event at the end
 * of this turn of the event loop, never from inside a callback of Redis, and
 * not at all where it leaves before that.
 *
 * Called by: ticket.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_notice.h"


typedef struct {
    ngx_queue_t         tickets;
    ngx_event_t         event;
} ngx_http_dsem_notices_t;


static void ngx_http_dsem_notice_handler(ngx_event_t *ev);


static ngx_http_dsem_notices_t  ngx_http_dsem_notices;


void
ngx_http_dsem_notice_init(void)
{
    ngx_memzero(&ngx_http_dsem_notices, sizeof(ngx_http_dsem_notices_t));

    ngx_queue_init(&ngx_http_dsem_notices.tickets);

    ngx_http_dsem_notices.event.handler = ngx_http_dsem_notice_handler;
    ngx_http_dsem_notices.event.log = ngx_cycle->log;
}


void
ngx_http_dsem_notice_give(ngx_http_dsem_ticket_t *ticket)
{
    if (!ticket->notifying) {
        ticket->notifying = 1;
        ngx_queue_insert_tail(&ngx_http_dsem_notices.tickets,
                              &ticket->notify);
    }

    ngx_post_event(&ngx_http_dsem_notices.event, &ngx_posted_events);
}


void
ngx_http_dsem_notice_withdraw(ngx_http_dsem_ticket_t *ticket)
{
    if (ticket->notifying) {
        ngx_queue_remove(&ticket->notify);
        ticket->notifying = 0;
    }
}


static void
ngx_http_dsem_notice_handler(ngx_event_t *ev)
{
    ngx_queue_t             *q, *tickets;
    ngx_http_dsem_ticket_t  *ticket;

    tickets = &ngx_http_dsem_notices.tickets;

    while (!ngx_queue_empty(tickets)) {
        q = ngx_queue_head(tickets);
        ngx_queue_remove(q);

        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, notify);
        ticket->notifying = 0;

        /* may release this ticket, or others */
        ticket->handler(ticket->data);
    }
}
