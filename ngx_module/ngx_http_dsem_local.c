
/*
 * Local: who is admitted while Redis cannot be asked.
 *
 * Requests of "dsem_on_error local" stay in the account's list of asks, and
 * are admitted from it in the order of the queue: class, then age.  What
 * they hold is declared when Redis is back, like everything else.
 *
 * Called by: semaphore (Redis is away, somebody asks) and sync (there is
 * something to say, but nobody to hear it).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fallback.h"
#include "ngx_http_dsem_lease.h"
#include "ngx_http_dsem_local.h"


static void ngx_http_dsem_local_trim(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_limit(ngx_http_dsem_account_t *account);
static ngx_http_dsem_ticket_t *ngx_http_dsem_local_first(ngx_queue_t *list,
    ngx_http_dsem_ticket_t *first);


/*
 * Redis is away: whoever waits is admitted, goes on waiting for a permit of
 * this worker, or is told now.
 */

void
ngx_http_dsem_local_away(ngx_http_dsem_account_t *account)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    /* their places in the queue are void, their order is not */

    while (!ngx_queue_empty(&account->tickets)) {
        q = ngx_queue_last(&account->tickets);
        ngx_http_dsem_ticket_again(
                            ngx_queue_data(q, ngx_http_dsem_ticket_t, queue));
    }

    for (q = ngx_queue_head(&account->asks);
         q != ngx_queue_sentinel(&account->asks);
         /* void */)
    {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        q = ngx_queue_next(q);

        if (!ticket->local) {
            ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_UNAVAILABLE);
        }
    }

    ngx_http_dsem_local_serve(account);
    ngx_http_dsem_local_trim(account);
}


/* the line is cut down to this worker's part of it, from its end */

static void
ngx_http_dsem_local_trim(ngx_http_dsem_account_t *account)
{
    ngx_int_t                class, places;
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    for (class = NGX_HTTP_DSEM_LAST_CLASS;
         class >= NGX_HTTP_DSEM_FIRST_CLASS;
         class--)
    {
        for (q = ngx_queue_last(&account->asks);
             q != ngx_queue_sentinel(&account->asks);
             /* void */)
        {
            ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
            q = ngx_queue_prev(q);

            if (ticket->class != class) {
                continue;
            }

            places = ngx_http_dsem_fallback_queue(ticket->queue_limit,
                                               ngx_http_dsem_session_fleet());

            if ((ngx_int_t) account->nasks <= places) {
                return;
            }

            ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);
        }
    }
}


/* whether there is a permit, or a place, for one more */

ngx_uint_t
ngx_http_dsem_local_room(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_int_t  places;

    account->limit = ask->limit;

    if (account->nasks == 0
        && account->held + ask->weight <= ngx_http_dsem_local_limit(account))
    {
        return 1;
    }

    places = ngx_http_dsem_fallback_queue(ask->queue,
                                          ngx_http_dsem_session_fleet());

    return ask->weight <= ask->limit && (ngx_int_t) account->nasks < places;
}


static ngx_int_t
ngx_http_dsem_local_limit(ngx_http_dsem_account_t *account)
{
    return ngx_http_dsem_fallback_limit(account->limit, account->last_reported,
                                        ngx_http_dsem_session_fleet(),
                                        ngx_http_dsem_lease_over());
}


/* admits from the head as long as this worker's part of the limit lasts */

void
ngx_http_dsem_local_serve(ngx_http_dsem_account_t *account)
{
    ngx_int_t                class, limit;
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    limit = ngx_http_dsem_local_limit(account);

    for (class = NGX_HTTP_DSEM_FIRST_CLASS;
         class <= NGX_HTTP_DSEM_LAST_CLASS && account->nasks;
         class++)
    {
        for (q = ngx_queue_head(&account->asks);
             q != ngx_queue_sentinel(&account->asks);
             /* void */)
        {
            ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
            q = ngx_queue_next(q);

            if (ticket->class != class) {
                continue;
            }

            if (account->held + ticket->weight > limit) {
                return;
            }

            ngx_http_dsem_ticket_grant_local(ticket, limit);
        }
    }
}


/*
 * Redis is there, but recovers what it has lost and grants nothing: a
 * permit that comes free passes to the next in this worker, instead of
 * going back, so that Redis' count of it stays right.  Who has a place in
 * the fleet's queue gives it up.
 */

void
ngx_http_dsem_local_hand_over(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_ticket_t  *ticket;

    if (ngx_http_dsem_lease_fenced()) {
        return;
    }

    for ( ;; ) {
        ticket = ngx_http_dsem_local_first(&account->tickets, NULL);
        ticket = ngx_http_dsem_local_first(&account->asks, ticket);

        if (ticket == NULL
            || !ticket->local
            || ticket->weight > account->pending_release
            || ngx_http_dsem_ticket_requeue(ticket) != NGX_OK)
        {
            return;
        }

        account->pending_release -= ticket->weight;
        ngx_http_dsem_ticket_grant_local(ticket, account->limit);
    }
}


/* who is to be served first, of this list and of "first", if any */

static ngx_http_dsem_ticket_t *
ngx_http_dsem_local_first(ngx_queue_t *list, ngx_http_dsem_ticket_t *first)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list);
         q = ngx_queue_next(q))
    {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

        if (ticket->handler == NULL) {
            continue;
        }

        if (first == NULL
            || ticket->class < first->class
            || (ticket->class == first->class
                && ticket->number < first->number))
        {
            first = ticket;
        }
    }

    return first;
}
