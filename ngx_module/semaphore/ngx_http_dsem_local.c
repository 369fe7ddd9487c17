
/*
 * Local: requests that are admitted without Redis.
 *
 * Requests of "dsem_on_error local" stay in the account's list of asks, and
 * are admitted from it in the order of the queue: class, then age.  Their
 * permits are declared when Redis is available again, as all others.
 *
 * In the end each worker has its share of the limit.  Until a lease has
 * passed, requests that others admitted are still running, so a worker uses
 * no more than it had itself; nor more than its share, because the requests
 * that it admits last are still running when the others begin.  The sum
 * stays below the limit, unless that is below the number of sessions or
 * a request outlives the lease.
 *
 * Called by: dispatch (Redis is unavailable, or recovers), semaphore (whether
 * a request has a chance).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_lease.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_session.h"


static ngx_int_t ngx_http_dsem_local_limit(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_share(ngx_int_t n);
static void ngx_http_dsem_local_trim(ngx_http_dsem_account_t *account);
static void ngx_http_dsem_local_admit(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t limit);
static ngx_http_dsem_ticket_t *ngx_http_dsem_local_first(ngx_queue_t *list,
    ngx_http_dsem_ticket_t *first);


/* whether there is a permit, or a place, for one more */

ngx_uint_t
ngx_http_dsem_local_room(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    if (account->nasks == 0
        && account->held + ask->weight <= ngx_http_dsem_local_limit(account))
    {
        return 1;
    }

    return ask->weight <= ask->limit
           && (ngx_int_t) account->nasks
              < ngx_http_dsem_local_share(ask->queue);
}


/* the permits that this worker may have out */

static ngx_int_t
ngx_http_dsem_local_limit(ngx_http_dsem_account_t *account)
{
    ngx_int_t  share;

    share = ngx_http_dsem_local_share(account->limit);

    return ngx_http_dsem_lease_over() ? share
                                      : ngx_min(account->last_reported,
                                                share);
}


/* this worker's share of a limit or a queue: at least 1, unless that is 0 */

static ngx_int_t
ngx_http_dsem_local_share(ngx_int_t n)
{
    if (n == 0) {
        return 0;
    }

    return ngx_max(n / (ngx_int_t) ngx_max(ngx_http_dsem_session_fleet(), 1),
                   1);
}


/*
 * Redis is unavailable: each waiting request is admitted, goes on waiting
 * for a permit of this worker, or has its verdict now.
 */

void
ngx_http_dsem_local_begin(ngx_http_dsem_account_t *account)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    /* their places in the queue are void, their order is not */

    while (!ngx_queue_empty(&account->tickets)) {
        q = ngx_queue_last(&account->tickets);
        ngx_http_dsem_ticket_unsend(
                            ngx_queue_data(q, ngx_http_dsem_ticket_t, queue));
    }

    for (q = ngx_queue_head(&account->asks);
         q != ngx_queue_sentinel(&account->asks);
         /* void */)
    {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        q = ngx_queue_next(q);

        if (!ticket->local) {
            ngx_http_dsem_ticket_end(ticket,
                                     NGX_HTTP_DSEM_VERDICT_UNAVAILABLE);
        }
    }

    ngx_http_dsem_local_serve(account);
    ngx_http_dsem_local_trim(account);
}


/* the queue is cut down to this worker's share of it, from its end */

static void
ngx_http_dsem_local_trim(ngx_http_dsem_account_t *account)
{
    ngx_int_t                class;
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

            if ((ngx_int_t) account->nasks
                <= ngx_http_dsem_local_share(ticket->queue_limit))
            {
                return;
            }

            ticket->answer.local = 1;
            ticket->answer.in_use = account->held;
            ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);
        }
    }
}


/* admits from the head until this worker's part of the limit is in use */

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

            ngx_http_dsem_account_hold(account, ticket->weight);
            ngx_http_dsem_local_admit(ticket, limit);
        }
    }
}


static void
ngx_http_dsem_local_admit(ngx_http_dsem_ticket_t *ticket, ngx_int_t limit)
{
    ticket->answer.local = 1;

    ngx_http_dsem_ticket_admit(ticket, ticket->account->held, limit);
}


/*
 * Redis is available, but recovers its state and grants nothing: a permit
 * that comes free passes to the next request of this worker instead of going
 * back, and the count in Redis stays right.  A request with a place in the
 * fleet's queue leaves it.
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

        ngx_http_dsem_account_hand_over(account, ticket->weight);
        ngx_http_dsem_local_admit(ticket, account->limit);
    }
}


/* the first to be served, of this list and of "first", if any */

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
