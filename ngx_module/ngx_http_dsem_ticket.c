
/*
 * Tickets: requests of this worker that wait for permits, or hold them.
 *
 * Owns the way of a ticket from the ask to the verdict, which tell carries to
 * the owner, and to its end.  A ticket lives until its owner has left and
 * Redis knows nothing of it any more, whichever comes last.
 *
 * Called by: semaphore (ask), wants (leave), sync and sync_reply (asked,
 * answered), idle and local (who is served without Redis), account (when a
 * session begins anew).  Only this file changes ticket->state and
 * account->held.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_account.h"
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_lease.h"
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_notify.h"


/* tickets kept for the next requests instead of being freed */
#define NGX_HTTP_DSEM_SPARE_TICKETS  1024


typedef struct {
    ngx_rbtree_t        numbers;       /* until held or ended */
    ngx_rbtree_node_t   sentinel;
    uint64_t            number;        /* of the last one */
    ngx_uint_t          waiting;       /* those whose owner waits */

    ngx_queue_t         spare;
    ngx_uint_t          nspare;
} ngx_http_dsem_tickets_t;


static ngx_http_dsem_ticket_t *ngx_http_dsem_ticket_alloc(void);
static void ngx_http_dsem_ticket_admit(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t in_use, ngx_int_t limit);
static void ngx_http_dsem_ticket_hold(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t in_use, ngx_int_t limit);
static void ngx_http_dsem_ticket_set_state(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_ticket_e state);
static void ngx_http_dsem_ticket_unlink(ngx_http_dsem_ticket_t *ticket);
static ngx_uint_t ngx_http_dsem_ticket_unexpected(
    ngx_http_dsem_ticket_t *ticket);


static ngx_http_dsem_tickets_t  ngx_http_dsem_tickets;


void
ngx_http_dsem_ticket_init(void)
{
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    ngx_memzero(tickets, sizeof(ngx_http_dsem_tickets_t));

    ngx_rbtree_init(&tickets->numbers, &tickets->sentinel,
                    ngx_rbtree_insert_value);

    ngx_queue_init(&tickets->spare);

    ngx_http_dsem_notify_init();
}


/*
 * A new ticket, to be asked for with the account's next sync.  NULL: no
 * memory.
 */

ngx_http_dsem_ticket_t *
ngx_http_dsem_ticket_create(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    ticket = ngx_http_dsem_ticket_alloc();
    if (ticket == NULL) {
        return NULL;
    }

    ticket->number = ++tickets->number;
    ticket->node.key = (ngx_rbtree_key_t) ticket->number;
    ticket->account = account;
    ticket->weight = ask->weight;
    ticket->class = ask->class;
    ticket->queue_limit = ask->queue;
    ticket->handler = ask->handler;
    ticket->data = ask->data;
    ticket->early = ask->early;
    ticket->local = ask->local;
    ticket->answer.limit = ask->limit;
    ticket->answer.in_use = -1;

    ngx_rbtree_insert(&tickets->numbers, &ticket->node);
    ngx_queue_insert_tail(&account->asks, &ticket->queue);
    account->nasks++;
    tickets->waiting++;

    ngx_http_dsem_idle_asked(account, ask);
    ngx_http_dsem_account_post(account);

    return ticket;
}


/* a ticket that holds idle permits at once; NULL: there are not enough */

ngx_http_dsem_ticket_t *
ngx_http_dsem_ticket_reuse(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_http_dsem_ticket_t  *ticket;

    ngx_http_dsem_idle_asked(account, ask);

    /* who has asked before in this turn comes first */

    if (account->nasks || !ngx_http_dsem_idle_take(account, ask->weight)) {
        return NULL;
    }

    ticket = ngx_http_dsem_ticket_alloc();
    if (ticket == NULL) {
        account->pending_release += ask->weight;
        ngx_http_dsem_account_post(account);
        return NULL;
    }

    ticket->account = account;
    ticket->weight = ask->weight;
    ticket->handler = ask->handler;
    ticket->data = ask->data;

    ngx_http_dsem_ticket_hold(ticket, account->usage.in_use,
                              account->usage.limit);

    return ticket;
}


static ngx_http_dsem_ticket_t *
ngx_http_dsem_ticket_alloc(void)
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

    ngx_memzero(ticket, sizeof(ngx_http_dsem_ticket_t));

    return ticket;
}


/* a ticket that is neither held nor ended, or NULL */

ngx_http_dsem_ticket_t *
ngx_http_dsem_ticket_find(uint64_t number)
{
    ngx_rbtree_node_t  *node, *sentinel;

    node = ngx_http_dsem_tickets.numbers.root;
    sentinel = ngx_http_dsem_tickets.numbers.sentinel;

    while (node != sentinel) {

        if (number == node->key) {
            return (ngx_http_dsem_ticket_t *)
                    ((u_char *) node - offsetof(ngx_http_dsem_ticket_t, node));
        }

        node = (number < node->key) ? node->left : node->right;
    }

    return NULL;
}


/* how many requests of this worker wait for Redis or for a permit */

ngx_uint_t
ngx_http_dsem_tickets_waiting(void)
{
    return ngx_http_dsem_tickets.waiting;
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


/* out of the list of asks, or of tickets, or of cancels, and of the tree */

static void
ngx_http_dsem_ticket_unlink(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    switch (ticket->state) {

    case NGX_HTTP_DSEM_TICKET_NEW:
        account->nasks--;
        break;

    case NGX_HTTP_DSEM_TICKET_ASKED:
    case NGX_HTTP_DSEM_TICKET_QUEUED:
        account->ntickets--;
        account->wanted -= ticket->weight;
        break;

    default: /* NGX_HTTP_DSEM_TICKET_HELD, NGX_HTTP_DSEM_TICKET_ENDED */
        return;
    }

    ngx_queue_remove(&ticket->queue);
    ngx_rbtree_delete(&ngx_http_dsem_tickets.numbers, &ticket->node);

    if (ticket->canceling) {
        ngx_queue_remove(&ticket->cancel);
        ticket->canceling = 0;
        account->ncancels--;
    }

    if (ticket->handler) {
        ngx_http_dsem_tickets.waiting--;
    }
}


void
ngx_http_dsem_ticket_free(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_tickets_t  *tickets;

    tickets = &ngx_http_dsem_tickets;

    ngx_http_dsem_ticket_unlink(ticket);

    ngx_http_dsem_notify_forget(ticket);

    if (tickets->nspare == NGX_HTTP_DSEM_SPARE_TICKETS) {
        ngx_free(ticket);
        return;
    }

    ngx_queue_insert_head(&tickets->spare, &ticket->queue);
    tickets->nspare++;
}


/* its ask is under way in this epoch */

void
ngx_http_dsem_ticket_asked(ngx_http_dsem_ticket_t *ticket, uint64_t epoch)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    ngx_queue_remove(&ticket->queue);
    account->nasks--;

    ngx_queue_insert_tail(&account->tickets, &ticket->queue);
    account->ntickets++;
    account->wanted += ticket->weight;

    ticket->epoch = epoch;
    ticket->place = 0;

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_ASKED);
}


/*
 * Redis has put its permits on this session's account.  NGX_DECLINED: the
 * lease may be over, nobody may be admitted, the session has to begin anew.
 */

ngx_int_t
ngx_http_dsem_ticket_grant(ngx_http_dsem_ticket_t *ticket, ngx_int_t in_use,
    ngx_int_t limit)
{
    if (ticket->handler == NULL) {

        /* a cancel that is under way will be told that it was too late */

        if (ticket->canceling) {
            ngx_http_dsem_ticket_too_late(ticket);
        }

        return NGX_OK;
    }

    if (ngx_http_dsem_lease_fenced()) {
        return NGX_DECLINED;
    }

    ngx_http_dsem_ticket_admit(ticket, in_use, limit);

    return NGX_OK;
}


/* Redis was not asked: the permits are this worker's own part */

void
ngx_http_dsem_ticket_grant_local(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t limit)
{
    ticket->answer.local = 1;

    ngx_http_dsem_ticket_admit(ticket, ticket->account->held + ticket->weight,
                               limit);
}


/* nor here: the permits were idle in this worker */

void
ngx_http_dsem_ticket_grant_idle(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_usage_t  *usage;

    usage = &ticket->account->usage;

    ngx_http_dsem_ticket_admit(ticket, usage->in_use, usage->limit);
}


/* it has waited, and its owner is told */

static void
ngx_http_dsem_ticket_admit(ngx_http_dsem_ticket_t *ticket, ngx_int_t in_use,
    ngx_int_t limit)
{
    ngx_http_dsem_ticket_unlink(ticket);
    ngx_http_dsem_ticket_hold(ticket, in_use, limit);
    ngx_http_dsem_notify(ticket);
}


static void
ngx_http_dsem_ticket_hold(ngx_http_dsem_ticket_t *ticket, ngx_int_t in_use,
    ngx_int_t limit)
{
    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_HELD);

    ticket->account->held += ticket->weight;

    ticket->granted = ngx_current_msec;
    ticket->answer.verdict = NGX_HTTP_DSEM_VERDICT_GRANTED;
    ticket->answer.in_use = in_use;
    ticket->answer.limit = limit;
}


/*
 * It will be served without its place in the queue: an ownerless ticket
 * with its number stays there and is canceled, or gives back the permits if
 * that comes too late.  NGX_ERROR: no memory, nothing has changed;
 * NGX_DECLINED: the ask is under way, its answer must come first.
 */

ngx_int_t
ngx_http_dsem_ticket_requeue(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_ticket_t   *place;
    ngx_http_dsem_account_t  *account;

    if (ticket->state == NGX_HTTP_DSEM_TICKET_NEW) {
        return NGX_OK;
    }

    if (ticket->state != NGX_HTTP_DSEM_TICKET_QUEUED) {
        return NGX_DECLINED;
    }

    place = ngx_alloc(sizeof(ngx_http_dsem_ticket_t), ngx_cycle->log);
    if (place == NULL) {
        return NGX_ERROR;
    }

    account = ticket->account;

    *place = *ticket;

    place->handler = NULL;
    place->notifying = 0;

    /* in the ticket's stead in the tree and in the list */

    ngx_rbtree_delete(&ngx_http_dsem_tickets.numbers, &ticket->node);
    place->node.key = (ngx_rbtree_key_t) place->number;
    ngx_rbtree_insert(&ngx_http_dsem_tickets.numbers, &place->node);

    ngx_queue_insert_after(&ticket->queue, &place->queue);

    place->canceling = 1;
    ngx_queue_insert_tail(&account->cancels, &place->cancel);
    account->ncancels++;

    /* the ticket itself is as if it had never been asked for */

    ngx_queue_remove(&ticket->queue);
    ngx_queue_insert_tail(&account->asks, &ticket->queue);
    account->nasks++;

    ticket->number = ++ngx_http_dsem_tickets.number;
    ticket->node.key = (ngx_rbtree_key_t) ticket->number;
    ngx_rbtree_insert(&ngx_http_dsem_tickets.numbers, &ticket->node);

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_NEW);
    ngx_http_dsem_account_post(account);

    return NGX_OK;
}


/* Redis has given it a place in the queue; position 1 is the head */

void
ngx_http_dsem_ticket_queued(ngx_http_dsem_ticket_t *ticket, int64_t place,
    ngx_int_t position, ngx_int_t in_use, ngx_int_t limit)
{
    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_QUEUED);

    ticket->place = place;
    ticket->answer.position = position;
    ticket->answer.in_use = in_use;
    ticket->answer.limit = limit;

    if (ticket->early && ticket->handler) {
        ngx_http_dsem_notify(ticket);
    }
}


/* it was declared: it has its place in the queue of this epoch */

void
ngx_http_dsem_ticket_placed(ngx_http_dsem_ticket_t *ticket, int64_t place,
    uint64_t epoch)
{
    if (ngx_http_dsem_ticket_unexpected(ticket)) {
        return;
    }

    ticket->place = place;
    ticket->epoch = epoch;

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_QUEUED);
}


/* Redis does not know it: it is asked for again, in its old order */

void
ngx_http_dsem_ticket_again(ngx_http_dsem_ticket_t *ticket)
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

    ngx_queue_remove(&ticket->queue);
    account->ntickets--;
    account->wanted -= ticket->weight;

    /* those that were asked for are older than most that were not */

    for (q = ngx_queue_head(&account->asks);
         q != ngx_queue_sentinel(&account->asks);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

        if (other->number > ticket->number) {
            break;
        }
    }

    /* in front of q */
    ngx_queue_insert_tail(q, &ticket->queue);
    account->nasks++;

    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_NEW);
}


/* an answer about a ticket that is not asked for is a broken invariant */

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


/* Redis knows nothing of it any more, and its owner, if any, is told why */

void
ngx_http_dsem_ticket_end(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_verdict_e verdict)
{
    if (ticket->handler == NULL) {
        ngx_http_dsem_ticket_free(ticket);
        return;
    }

    ngx_http_dsem_ticket_unlink(ticket);
    ngx_http_dsem_ticket_set_state(ticket, NGX_HTTP_DSEM_TICKET_ENDED);

    /* the account may go before the owner does */
    ticket->account = NULL;
    ticket->answer.verdict = verdict;

    ngx_http_dsem_notify(ticket);
}


/* granted after its owner had left: the permits go back */

void
ngx_http_dsem_ticket_too_late(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    account->pending_release += ticket->weight;
    ngx_http_dsem_account_post(account);

    ngx_http_dsem_ticket_free(ticket);
}


/*
 * The owner leaves: gives back what it holds, or steps out of the queue.
 * The ticket must not be used any more.
 */

void
ngx_http_dsem_ticket_release(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    switch (ticket->state) {

    case NGX_HTTP_DSEM_TICKET_ASKED:
    case NGX_HTTP_DSEM_TICKET_QUEUED:

        if (!account->synced) {
            /* its place is of an old epoch, and will not be declared */
            break;
        }

        ngx_http_dsem_notify_forget(ticket);

        ticket->handler = NULL;
        ngx_http_dsem_tickets.waiting--;

        ticket->canceling = 1;
        ngx_queue_insert_tail(&account->cancels, &ticket->cancel);
        account->ncancels++;

        ngx_http_dsem_account_post(account);
        return;

    case NGX_HTTP_DSEM_TICKET_HELD:

        account->held -= ticket->weight;

        ngx_http_dsem_hint_held(&account->node.str, account->node.node.key,
                                ngx_current_msec - ticket->granted);

        if (ngx_http_dsem_idle_keep(account, ticket->weight)) {
            ngx_http_dsem_ticket_free(ticket);
            return;
        }

        if (account->synced) {
            account->pending_release += ticket->weight;
        }

        break;

    case NGX_HTTP_DSEM_TICKET_NEW:
        break;

    case NGX_HTTP_DSEM_TICKET_ENDED:
        ngx_http_dsem_ticket_free(ticket);
        return;
    }

    ngx_http_dsem_ticket_free(ticket);
    ngx_http_dsem_account_post(account);
}


ngx_http_dsem_answer_t *
ngx_http_dsem_ticket_answer(ngx_http_dsem_ticket_t *ticket)
{
    return &ticket->answer;
}
