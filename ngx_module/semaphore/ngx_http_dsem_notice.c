
/*
 * Notices: owners of tickets that are to learn their verdict.
 *
 * Owns the lists of them.  An owner is notified by a posted event at the end
 * of this turn of the event loop, never from inside a callback of Redis, and
 * not at all where it leaves before that.  Of thousands, as when Redis is
 * lost, each turn notifies some: other traffic goes on in between.
 *
 * Called by: ticket.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_notice.h"


/* owners of one turn: each runs its request through the rest of its phases */
#define NGX_HTTP_DSEM_NOTICE_TURN  64


typedef struct {
    ngx_queue_t         granted;  /* first: their permits lie idle */
    ngx_queue_t         others;
    ngx_event_t         event;
} ngx_http_dsem_notices_t;


static void ngx_http_dsem_notice_handler(ngx_event_t *ev);


static ngx_http_dsem_notices_t  ngx_http_dsem_notices;


void
ngx_http_dsem_notice_init(void)
{
    ngx_memzero(&ngx_http_dsem_notices, sizeof(ngx_http_dsem_notices_t));

    ngx_queue_init(&ngx_http_dsem_notices.granted);
    ngx_queue_init(&ngx_http_dsem_notices.others);

    ngx_http_dsem_notices.event.handler = ngx_http_dsem_notice_handler;
    ngx_http_dsem_notices.event.log = ngx_cycle->log;
}


void
ngx_http_dsem_notice_give(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_notices_t  *notices;

    notices = &ngx_http_dsem_notices;

    /* a verdict may have come before its owner has learned its place */
    ngx_http_dsem_notice_withdraw(ticket);

    ticket->notifying = 1;
    ngx_queue_insert_tail(ticket->state == NGX_HTTP_DSEM_TICKET_HELD
                          ? &notices->granted : &notices->others,
                          &ticket->notify);

    ngx_post_event(&notices->event, &ngx_posted_events);
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
    ngx_uint_t                n;
    ngx_queue_t              *q;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_notices_t  *notices;

    notices = &ngx_http_dsem_notices;

    /* notices that are given meanwhile do not post it to this turn */
    ngx_post_event(ev, &ngx_posted_next_events);

    for (n = 0; n < NGX_HTTP_DSEM_NOTICE_TURN; n++) {

        if (!ngx_queue_empty(&notices->granted)) {
            q = ngx_queue_head(&notices->granted);

        } else if (!ngx_queue_empty(&notices->others)) {
            q = ngx_queue_head(&notices->others);

        } else {
            ngx_delete_posted_event(ev);
            return;
        }

        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, notify);
        ngx_http_dsem_notice_withdraw(ticket);

        /* may release this ticket, or others */
        ticket->handler(ticket->data);
    }
}
