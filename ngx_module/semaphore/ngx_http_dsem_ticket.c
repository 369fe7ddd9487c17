
/*
 * Tickets: requests of this worker that wait for permits, or hold them.
 *
 * Owns the way of a ticket from the ask to its end: only this file changes
 * ticket->state.  An owner is notified of its verdict by a posted event at the
 * end of this turn of the event loop, never from inside a callback of Redis,
 * and not at all where it leaves before that.  Of thousands, as when Redis is
 * lost, each turn notifies some: other traffic goes on in between.
 *
 * Called by: semaphore and ctx (for requests), sync, declare and dispatch (for
 * Redis), idle and local (which admit without Redis).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_ticket.h"
#include "ngx_http_dsem_waiting.h"


/*
 * Freed tickets that are kept for the next requests; none where a sanitizer
 * is to see the use of a freed one.
 */
#if (NGX_DEBUG_PALLOC)
#define NGX_HTTP_DSEM_SPARE_TICKETS  0
#else
#define NGX_HTTP_DSEM_SPARE_TICKETS  1024
#endif

/*
 * owners that are notified in one turn: each runs its request through the rest
 * of its phases
 */
#define NGX_HTTP_DSEM_TICKET_NOTIFIED  64


typedef struct {
    ngx_queue_t         spare;
    ngx_uint_t          nspare;

    /* whose owners are to be notified */
    ngx_queue_t         granted;  /* first: their permits lie idle */
    ngx_queue_t         others;
    ngx_event_t         notify;
} ngx_http_dsem_tickets_t;


static void ngx_http_dsem_ticket_expect(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_ask_t *ask);
static ngx_http_dsem_ticket_t *ngx_http_dsem_ticket_alloc(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
static ngx_inline void ngx_http_dsem_ticket_hold(
    ngx_http_dsem_ticket_t *ticket, ngx_int_t in_use, ngx_int_t limit);
static void ngx_http_dsem_ticket_set_state(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_ticket_e state);
static ngx_uint_t ngx_http_dsem_ticket_unexpected(
    ngx_http_dsem_ticket_t *ticket);
static void ngx_http_dsem_ticket_unlink(ngx_http_dsem_ticket_t *ticket);
static ngx_inline void ngx_http_dsem_ticket_oldest(
    ngx_http_dsem_account_t *account);
static void ngx_http_dsem_ticket_to_asks(ngx_http_dsem_ticket_t *ticket,
    ngx_queue_t *q);
static void ngx_http_dsem_ticket_to_cancels(ngx_http_dsem_ticket_t *ticket);
static void ngx_http_dsem_ticket_notify(ngx_http_dsem_ticket_t *ticket);
static ngx_inline void ngx_http_dsem_ticket_withdraw(
    ngx_http_dsem_ticket_t *ticket);
static void ngx_http_dsem_ticket_notify_handler(ngx_event_t *ev);


static ngx_http_dsem_tickets_t  ngx_http_dsem_tickets;


void
ngx_http_dsem_ticket_init(void)
{
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    ngx_memzero(tickets, sizeof(ngx_http_dsem_tickets_t));

    ngx_http_dsem_waiting_init();

    ngx_queue_init(&tickets->spare);
    ngx_queue_init(&tickets->granted);
    ngx_queue_init(&tickets->others);

    tickets->notify.handler = ngx_http_dsem_ticket_notify_handler;
    tickets->notify.log = ngx_cycle->log;
}


/* a new ticket for the account's next sync; NULL: no memory */

ngx_http_dsem_ticket_t *
ngx_http_dsem_ticket_create(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = ngx_http_dsem_ticket_alloc(account, ask);
    if (ticket == NULL) {
        return NULL;
    }

    ticket->class = ask->class;
    ticket->queue_limit = ask->queue;
    ticket->dry_run = ask->dry_run;
    ticket->local = ask->local;
    ticket->pass = ask->pass;
    ticket->answer.in_use = -1;

    ngx_http_dsem_waiting_number(ticket);
    ngx_queue_insert_tail(&account->asks, &ticket->queue);
    account->nasks++;

    if (account->fair) {
        if (ask->fair) {
            ngx_http_dsem_fair_join(account->fair, &ticket->fair, ask->class,
                                    &ask->key);
        }

        ngx_http_dsem_ticket_expect(ticket, ask);
        ngx_http_dsem_fair_wait(account->fair, &ticket->fair, ask->class,
                                ask->limit);
    }

    ngx_http_dsem_waiting_enter(ticket);
    ngx_http_dsem_account_post(account);

    return ticket;
}


/* a ticket for permits that the account holds already; NULL: no memory */

ngx_http_dsem_ticket_t *
ngx_http_dsem_ticket_create_held(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = ngx_http_dsem_ticket_alloc(account, ask);
    if (ticket == NULL) {
        return NULL;
    }

    if (ask->fair && account->fair) {
        ngx_http_dsem_fair_join(account->fair, &ticket->fair, ask->class,
                                &ask->key);
        ngx_http_dsem_ticket_expect(ticket, ask);
    }

    ngx_http_dsem_ticket_hold(ticket, account->usage.in_use,
                              account->usage.limit);

    return ticket;
}


static void
ngx_http_dsem_ticket_expect(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_ask_t *ask)
{
    ngx_http_dsem_fair_expect(&ticket->fair, ask->weight,
                              ngx_max(ask->share, 1),
                              ticket->account->hold_time
                              >> NGX_HTTP_DSEM_HOLD_TIME_SHIFT);
}


static ngx_http_dsem_ticket_t *
ngx_http_dsem_ticket_alloc(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_queue_t              *q;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    if (!ngx_queue_empty(&tickets->spare)) {
        q = ngx_queue_head(&tickets->spare);
        ngx_queue_remove(q);
        tickets->nspare--;

        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

    } else {
        ticket = ngx_alloc(sizeof(ngx_http_dsem_ticket_t), ngx_cycle->log);
        if (ticket == NULL) {
            return NULL;
        }
    }

    ngx_memzero(&ticket->account, sizeof(ngx_http_dsem_ticket_t)
                                  - offsetof(ngx_http_dsem_ticket_t, account));

    ticket->account = account;
    ticket->weight = ask->weight;
    ticket->server = NGX_HTTP_DSEM_NO_SERVER;
    ticket->handler = ask->handler;
    ticket->data = ask->data;
    ticket->answer.limit = ngx_http_dsem_servers_permits(ask->pool,
                                                         account->servers,
                                                         ask->limit);

    return ticket;
}


static void
ngx_http_dsem_ticket_set_state(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_ticket_e state)
{
    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem ticket %uL of \"%V\": %d -> %d",
                   ticket->number,
                   &ticket->account->node.str, (int) ticket->state,
                   (int) state);

    ticket->state = state;
}


/* its ask is sent in this epoch */

void
ngx_http_dsem_ticket_sent(ngx_http_dsem_ticket_t *ticket, uint64_t epoch)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    ngx_queue_remove(&ticket->queue);
    account->nasks--;

    ngx_queue_insert_tail(&account->tickets, &ticket->queue);
    account->ntickets++;
    account->demand += ticket->weight;

    ticket->epoch = epoch;
    ticket->place = 0;
    ticket->fair.limit = 0;

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_ASKED);
}


/* Redis has queued it; position 1 is the head */

void
ngx_http_dsem_ticket_queued(ngx_http_dsem_ticket_t *ticket, int64_t place,
    ngx_int_t position, ngx_int_t in_use, ngx_int_t limit)
{
    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_QUEUED);

    ticket->place = place;
    ticket->answer.position = position;
    ticket->answer.in_use = ngx_http_dsem_ledger_in_use(ticket->account,
                                                        in_use);
    ticket->answer.limit = limit;
    ticket->fair.limit = limit;

    if (ticket->dry_run && ticket->handler) {
        ngx_http_dsem_ticket_notify(ticket);
    }
}


/* it was declared, and has its place in the queue of this epoch */

void
ngx_http_dsem_ticket_placed(ngx_http_dsem_ticket_t *ticket, int64_t place,
    uint64_t epoch)
{
    if (ngx_http_dsem_ticket_unexpected(ticket)) {
        return;
    }

    ticket->place = place;
    ticket->epoch = epoch;

    if (ticket->account->session->recovery) {
        /* Redis has lost what the key had paid */
        ticket->fair.limit = 0;
    }

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_QUEUED);
}


/* Redis does not know it: it is to be sent again, in its old order */

void
ngx_http_dsem_ticket_unsend(ngx_http_dsem_ticket_t *ticket)
{
    ngx_queue_t              *q;
    ngx_http_dsem_ticket_t   *other;
    ngx_http_dsem_account_t  *account;

    if (ngx_http_dsem_ticket_unexpected(ticket)) {
        return;
    }

    if (ticket->handler == NULL) {
        ngx_http_dsem_ticket_free(ticket);
        return;
    }

    account = ticket->account;

    /* tickets that were sent are older than most that were not */

    for (q = ngx_queue_head(&account->asks);
         q != ngx_queue_sentinel(&account->asks);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

        if (other->number > ticket->number) {
            break;
        }
    }

    ngx_http_dsem_ticket_to_asks(ticket, q);
}


/* from the tickets to the asks, in front of this one */

static void
ngx_http_dsem_ticket_to_asks(ngx_http_dsem_ticket_t *ticket, ngx_queue_t *q)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    ngx_queue_remove(&ticket->queue);
    account->ntickets--;
    account->demand -= ticket->weight;

    ngx_queue_insert_tail(q, &ticket->queue);
    account->nasks++;

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_NEW);
}


/* a reply for a ticket that was not sent is a broken invariant */

static ngx_uint_t
ngx_http_dsem_ticket_unexpected(ngx_http_dsem_ticket_t *ticket)
{
    if (ticket->state == NGX_HTTP_DSEM_TICKET_ASKED
        || ticket->state == NGX_HTTP_DSEM_TICKET_QUEUED)
    {
        return 0;
    }

    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "dsem: unexpected reply for ticket %uL in state %d",
                  ticket->number, (int) ticket->state);

    return 1;
}


/*
 * It will be admitted without its place in the queue: an ownerless ticket
 * with its number stays there and is canceled, or gives the permits back if
 * that comes too late.  The ticket is new again.  NGX_ERROR: no memory,
 * nothing has changed.
 */

ngx_int_t
ngx_http_dsem_ticket_requeue(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_ticket_t   *place;
    ngx_http_dsem_account_t  *account;

    if (ticket->state == NGX_HTTP_DSEM_TICKET_NEW) {
        return NGX_OK;
    }

    account = ticket->account;

    if (!account->synced) {
        /* its place is void with the epoch */
        ngx_http_dsem_ticket_to_asks(ticket, ngx_queue_head(&account->asks));
        return NGX_OK;
    }

    place = ngx_alloc(sizeof(ngx_http_dsem_ticket_t), ngx_cycle->log);
    if (place == NULL) {
        return NGX_ERROR;
    }

    *place = *ticket;

    place->handler = NULL;
    place->notifying = 0;
    place->server = NGX_HTTP_DSEM_NO_SERVER;

    ngx_http_dsem_fair_copied(&place->fair);

    /* it replaces the ticket in the tree and in the list */

    ngx_http_dsem_waiting_remove(ticket);
    ngx_http_dsem_waiting_insert(place);

    ngx_queue_insert_after(&ticket->queue, &place->queue);

    ngx_http_dsem_ticket_to_cancels(place);

    ngx_queue_remove(&ticket->queue);
    ngx_queue_insert_tail(&account->asks, &ticket->queue);
    account->nasks++;

    ngx_http_dsem_waiting_leave(ticket);

    ngx_http_dsem_waiting_number(ticket);

    ngx_http_dsem_waiting_enter(ticket);

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_NEW);

    return NGX_OK;
}


/*
 * Redis has put its permits on this session's account.  NGX_DECLINED: the
 * lease may have expired, no request may be admitted, the session has to
 * begin anew.  server: of a permit of a pool.
 */

ngx_int_t
ngx_http_dsem_ticket_grant(ngx_http_dsem_ticket_t *ticket, ngx_int_t server,
    ngx_int_t in_use, ngx_int_t limit)
{
    ticket->server = server;

    if (ticket->handler == NULL) {

        /* a cancel that is sent has a reply, by which it was late */

        if (ticket->canceling || ticket->late) {
            ngx_http_dsem_ticket_cancel_late(ticket);
        }

        return NGX_OK;
    }

    if (ngx_http_dsem_lease_fenced(&ticket->account->session->lease)) {
        return NGX_DECLINED;
    }

    ngx_http_dsem_ledger_hold(ticket->account, ticket->weight, server);
    ngx_http_dsem_ticket_admit(ticket, in_use, limit);

    return NGX_OK;
}


/* its account holds its permits: its owner is notified */

void
ngx_http_dsem_ticket_admit(ngx_http_dsem_ticket_t *ticket, ngx_int_t in_use,
    ngx_int_t limit)
{
    ngx_http_dsem_ticket_unlink(ticket);

    if (ticket->account->fair) {
        ngx_http_dsem_fair_serve(ticket->account->fair, &ticket->fair,
                                 ticket->class);
    }

    ngx_http_dsem_ticket_hold(ticket, in_use, limit);
    ngx_http_dsem_ticket_notify(ticket);
}


static ngx_inline void
ngx_http_dsem_ticket_hold(ngx_http_dsem_ticket_t *ticket, ngx_int_t in_use,
    ngx_int_t limit)
{
    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_HELD);

    if (ticket->fair.key) {
        ngx_http_dsem_fair_hold(ticket->account->fair, &ticket->fair,
                                ticket->weight);
    }

    ticket->granted = ngx_current_msec;

    if (ngx_queue_empty(&ticket->account->holders)) {
        ticket->account->counted.cell->oldest = ngx_current_msec;
    }

    ngx_queue_insert_tail(&ticket->account->holders, &ticket->queue);

    ticket->answer.verdict = NGX_HTTP_DSEM_VERDICT_GRANTED;
    ticket->answer.in_use = ngx_http_dsem_ledger_in_use(ticket->account,
                                                        in_use);

    if (limit >= 0) {
        ticket->answer.limit = limit;
    }
}


/* Redis does not know it any more; its owner, if any, is notified */

void
ngx_http_dsem_ticket_end(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_verdict_e verdict)
{
    if (ticket->handler == NULL) {
        ngx_http_dsem_ticket_free(ticket);
        return;
    }

    ngx_http_dsem_ticket_unlink(ticket);
    ngx_http_dsem_fair_unwait(&ticket->fair);
    ngx_http_dsem_fair_leave(ticket->account->fair, &ticket->fair);
    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_ENDED);

    /* the account may be freed before the owner leaves */
    ticket->account = NULL;
    ticket->answer.verdict = verdict;

    ngx_http_dsem_ticket_notify(ticket);
}


/*
 * The owner leaves while it waits.  An ask that was not sent, or whose epoch
 * is over, leaves nothing in Redis; the ticket of any other is canceled and
 * stays until the reply.
 */

void
ngx_http_dsem_ticket_cancel(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    ngx_http_dsem_account_post(account);
    ngx_http_dsem_fair_unwait(&ticket->fair);

    if (ticket->state == NGX_HTTP_DSEM_TICKET_NEW || !account->synced) {
        ngx_http_dsem_ticket_free(ticket);
        return;
    }

    ngx_http_dsem_ticket_withdraw(ticket);
    ngx_http_dsem_waiting_leave(ticket);

    ticket->handler = NULL;

    ngx_http_dsem_ticket_to_cancels(ticket);
}


static void
ngx_http_dsem_ticket_to_cancels(ngx_http_dsem_ticket_t *ticket)
{
    ticket->canceling = 1;
    ngx_queue_insert_tail(&ticket->account->cancels, &ticket->cancel);
    ticket->account->ncancels++;
}


/*
 * Granted after its owner had left: the permits go back.  At which server one
 * of a pool is, a check of the counts shows, unless the message is faster.
 */

void
ngx_http_dsem_ticket_cancel_late(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    if (account->servers && ticket->server == NGX_HTTP_DSEM_NO_SERVER) {
        ticket->late = 1;
        account->check_due = 1;
        ngx_http_dsem_account_post(account);
        return;
    }

    ngx_http_dsem_ledger_give_back_late(account, ticket->weight,
                                        ticket->server);
    ngx_http_dsem_ticket_free(ticket);
}


void
ngx_http_dsem_ticket_free(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    ngx_http_dsem_ticket_unlink(ticket);
    ngx_http_dsem_ticket_withdraw(ticket);

    if (ticket->fair.key) {
        ngx_http_dsem_fair_leave(ticket->account->fair, &ticket->fair);
    }

    if (tickets->nspare == NGX_HTTP_DSEM_SPARE_TICKETS) {
        ngx_free(ticket);
        return;
    }

    ngx_queue_insert_head(&tickets->spare, &ticket->queue);
    tickets->nspare++;
}


/* out of the lists of its account, and out of the tree */

static void
ngx_http_dsem_ticket_unlink(ngx_http_dsem_ticket_t *ticket)
{
    ngx_uint_t                oldest;
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    switch (ticket->state) {

    case NGX_HTTP_DSEM_TICKET_NEW:
        account->nasks--;
        break;

    case NGX_HTTP_DSEM_TICKET_ASKED:
    case NGX_HTTP_DSEM_TICKET_QUEUED:
        account->ntickets--;
        account->demand -= ticket->weight;
        break;

    case NGX_HTTP_DSEM_TICKET_HELD:
        oldest = (ngx_queue_head(&account->holders) == &ticket->queue);
        ngx_queue_remove(&ticket->queue);

        if (oldest) {
            ngx_http_dsem_ticket_oldest(account);
        }

        return;

    default: /* NGX_HTTP_DSEM_TICKET_ENDED */
        return;
    }

    ngx_queue_remove(&ticket->queue);
    ngx_http_dsem_waiting_remove(ticket);

    if (ticket->canceling) {
        ngx_queue_remove(&ticket->cancel);
        ticket->canceling = 0;
        account->ncancels--;
    }

    if (ticket->handler) {
        ngx_http_dsem_waiting_leave(ticket);
    }
}


/* shows the node since when its oldest holder has its permits */

static ngx_inline void
ngx_http_dsem_ticket_oldest(ngx_http_dsem_account_t *account)
{
    ngx_queue_t             *q;
    ngx_msec_t               oldest;
    ngx_http_dsem_ticket_t  *ticket;

    oldest = 0;

    if (!ngx_queue_empty(&account->holders)) {
        q = ngx_queue_head(&account->holders);
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        oldest = ticket->granted;
    }

    account->counted.cell->oldest = oldest;
}


/*
 * All that wait for this semaphore have this verdict; asked: but for those
 * whose reply is still to come.
 */

void
ngx_http_dsem_tickets_end(ngx_http_dsem_account_t *account,
    ngx_http_dsem_verdict_e verdict, ngx_uint_t asked)
{
    ngx_uint_t               i;
    ngx_queue_t             *q, *lists[2];
    ngx_http_dsem_ticket_t  *ticket;

    lists[0] = &account->tickets;
    lists[1] = &account->asks;

    for (i = 0; i < 2; i++) {
        for (q = ngx_queue_head(lists[i]);
             q != ngx_queue_sentinel(lists[i]);
             /* void */)
        {
            ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
            q = ngx_queue_next(q);

            if (!asked || ticket->state != NGX_HTTP_DSEM_TICKET_ASKED) {
                ngx_http_dsem_ticket_end(ticket, verdict);
            }
        }
    }
}


/*
 * A new epoch: canceled tickets need no reply any more, and what a waiting
 * request knows of the semaphore may be of a Redis that has lost everything.
 */

void
ngx_http_dsem_tickets_reset(ngx_http_dsem_account_t *account)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    for (q = ngx_queue_head(&account->tickets);
         q != ngx_queue_sentinel(&account->tickets);
         /* void */)
    {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        q = ngx_queue_next(q);

        if (ticket->handler == NULL) {
            ngx_http_dsem_ticket_free(ticket);

        } else {
            ticket->answer.in_use = -1;
        }
    }
}


/* its owner sees the answer now; returns whether that is a new one */

ngx_uint_t
ngx_http_dsem_ticket_seen(ngx_http_dsem_ticket_t *ticket)
{
    ngx_uint_t  notifying;

    notifying = ticket->notifying;
    ngx_http_dsem_ticket_withdraw(ticket);

    return notifying;
}


/* its owner is notified at the end of a turn of the event loop, soon */

static void
ngx_http_dsem_ticket_notify(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    /* a verdict may have come before its owner has learned its place */
    ngx_http_dsem_ticket_withdraw(ticket);

    ticket->notifying = 1;
    ngx_queue_insert_tail(ticket->state == NGX_HTTP_DSEM_TICKET_HELD
                          ? &tickets->granted : &tickets->others,
                          &ticket->notify);

    ngx_post_event(&tickets->notify, &ngx_posted_events);
}


/* its owner leaves, or knows already, and is not notified any more */

static ngx_inline void
ngx_http_dsem_ticket_withdraw(ngx_http_dsem_ticket_t *ticket)
{
    if (ticket->notifying) {
        ngx_queue_remove(&ticket->notify);
        ticket->notifying = 0;
    }
}


static void
ngx_http_dsem_ticket_notify_handler(ngx_event_t *ev)
{
    ngx_uint_t                n;
    ngx_queue_t              *q;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    /* notices that are given meanwhile do not post it to this turn */
    ngx_post_event(ev, &ngx_posted_next_events);

    for (n = 0; n < NGX_HTTP_DSEM_TICKET_NOTIFIED; n++) {

        if (!ngx_queue_empty(&tickets->granted)) {
            q = ngx_queue_head(&tickets->granted);

        } else if (!ngx_queue_empty(&tickets->others)) {
            q = ngx_queue_head(&tickets->others);

        } else {
            ngx_delete_posted_event(ev);
            return;
        }

        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, notify);
        ngx_http_dsem_ticket_withdraw(ticket);

        /* may release this ticket, or others */
        ticket->handler(ticket->data);
    }
}
