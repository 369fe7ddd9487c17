
/*
 * Accounts: what this worker has of each semaphore.
 *
 * Owns the accounts and knows which of them Redis has been told of in this
 * epoch, which have something to say, and which counts are due to be
 * compared.  An account exists only while there is something in it, so that
 * names that clients invent leave nothing behind.
 *
 * Called by: semaphore (the life of the session), ticket and sync_reply
 * (there is something to say).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_account.h"
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_drain.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_sync.h"


/* how long a lost message can cost a waiter: then counts are compared */
#define NGX_HTTP_DSEM_POLL_INTERVAL  800


typedef struct {
    ngx_str_t           key;           /* "<prefix>:{0}" */
    ngx_msec_t          lease;

    ngx_rbtree_t        names;
    ngx_rbtree_node_t   names_sentinel;
    ngx_queue_t         synced;        /* accounts that Redis knows of */
    ngx_queue_t         undeclared;    /* those still to be declared */

    ngx_queue_t         dirty;
    ngx_event_t         flush;
    ngx_event_t         poll;
} ngx_http_dsem_accounts_t;


static ngx_http_dsem_account_t *ngx_http_dsem_account_lookup(ngx_str_t *name,
    uint32_t hash);
static ngx_http_dsem_account_t *ngx_http_dsem_account_create(ngx_str_t *name,
    uint32_t hash);
static ngx_http_dsem_account_t *ngx_http_dsem_account_next(
    ngx_http_dsem_account_t *account);
static void ngx_http_dsem_account_flush_handler(ngx_event_t *ev);
static void ngx_http_dsem_account_poll_handler(ngx_event_t *ev);
static ngx_msec_t ngx_http_dsem_account_poll(
    ngx_http_dsem_account_t *account);
static void ngx_http_dsem_account_reset(ngx_http_dsem_account_t *account);


static ngx_http_dsem_accounts_t  ngx_http_dsem_accounts;


/*
 * key is the shard's, lease in ms; both stay valid as long as the worker.
 */

void
ngx_http_dsem_account_init(ngx_str_t *key, ngx_msec_t lease)
{
    ngx_http_dsem_accounts_t  *accounts;

    accounts = &ngx_http_dsem_accounts;

    ngx_memzero(accounts, sizeof(ngx_http_dsem_accounts_t));

    accounts->key = *key;
    accounts->lease = lease;

    ngx_rbtree_init(&accounts->names, &accounts->names_sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_queue_init(&accounts->synced);
    ngx_queue_init(&accounts->undeclared);
    ngx_queue_init(&accounts->dirty);

    accounts->flush.handler = ngx_http_dsem_account_flush_handler;
    accounts->flush.log = ngx_cycle->log;

    accounts->poll.handler = ngx_http_dsem_account_poll_handler;
    accounts->poll.log = ngx_cycle->log;
    accounts->poll.data = accounts;
    accounts->poll.cancelable = 1;
}


/*
 * The account of the semaphore with this encoded name, made if there is
 * none.  It goes with ngx_http_dsem_account_done().  NULL: no memory.
 */

ngx_http_dsem_account_t *
ngx_http_dsem_account_get(ngx_str_t *name)
{
    uint32_t                  hash;
    ngx_http_dsem_account_t  *account;

    hash = ngx_crc32_short(name->data, name->len);
    account = ngx_http_dsem_account_lookup(name, hash);

    return account ? account : ngx_http_dsem_account_create(name, hash);
}


/* the same if there is one, else NULL */

ngx_http_dsem_account_t *
ngx_http_dsem_account_find(ngx_str_t *name)
{
    return ngx_http_dsem_account_lookup(name, ngx_crc32_short(name->data,
                                                              name->len));
}


static ngx_http_dsem_account_t *
ngx_http_dsem_account_lookup(ngx_str_t *name, uint32_t hash)
{
    ngx_str_node_t  *node;

    node = ngx_str_rbtree_lookup(&ngx_http_dsem_accounts.names, name, hash);

    if (node == NULL) {
        return NULL;
    }

    return (ngx_http_dsem_account_t *)
                   ((u_char *) node - offsetof(ngx_http_dsem_account_t, node));
}


static ngx_http_dsem_account_t *
ngx_http_dsem_account_create(ngx_str_t *name, uint32_t hash)
{
    size_t                     len;
    u_char                    *p;
    ngx_http_dsem_account_t   *account;
    ngx_http_dsem_accounts_t  *accounts;

    accounts = &ngx_http_dsem_accounts;

    len = accounts->key.len + sizeof(":s:") - 1 + name->len;

    account = ngx_calloc(sizeof(ngx_http_dsem_account_t) + 2 * len,
                         ngx_cycle->log);
    if (account == NULL) {
        return NULL;
    }

    account->key.data = (u_char *) account + sizeof(ngx_http_dsem_account_t);
    account->key.len = len;

    p = ngx_cpymem(account->key.data, accounts->key.data, accounts->key.len);
    p = ngx_cpymem(p, ":s:", sizeof(":s:") - 1);

    account->node.str.data = p;
    account->node.str.len = name->len;
    account->node.node.key = hash;

    p = ngx_cpymem(p, name->data, name->len);

    account->queue_key.data = p;
    account->queue_key.len = len;

    p = ngx_cpymem(p, accounts->key.data, accounts->key.len);
    p = ngx_cpymem(p, ":q:", sizeof(":q:") - 1);
    ngx_memcpy(p, name->data, name->len);

    ngx_queue_init(&account->tickets);
    ngx_queue_init(&account->asks);
    ngx_queue_init(&account->cancels);

    account->checked = ngx_current_msec;

    ngx_http_dsem_idle_init(account);

    ngx_rbtree_insert(&accounts->names, &account->node.node);

    /* before an epoch has begun it is one of those still to be declared */

    account->synced = ngx_http_dsem_session_begun();
    ngx_queue_insert_tail(account->synced ? &accounts->synced
                                          : &accounts->undeclared,
                          &account->queue);

    if (!accounts->poll.timer_set) {
        ngx_add_timer(&accounts->poll, NGX_HTTP_DSEM_POLL_INTERVAL);
    }

    return account;
}


/* all of them: the one after this, or the first for NULL; NULL: no more */

static ngx_http_dsem_account_t *
ngx_http_dsem_account_next(ngx_http_dsem_account_t *account)
{
    ngx_queue_t               *q;
    ngx_http_dsem_accounts_t  *accounts;

    accounts = &ngx_http_dsem_accounts;

    q = account ? ngx_queue_next(&account->queue)
                : ngx_queue_head(&accounts->synced);

    if (q == ngx_queue_sentinel(&accounts->synced)) {
        q = ngx_queue_head(&accounts->undeclared);
    }

    if (q == ngx_queue_sentinel(&accounts->undeclared)) {
        return NULL;
    }

    return ngx_queue_data(q, ngx_http_dsem_account_t, queue);
}


/* frees the account if nothing is left in it; to be called last */

void
ngx_http_dsem_account_done(ngx_http_dsem_account_t *account)
{
    if (account->held
        || account->idle
        || account->ntickets
        || account->nasks
        || account->pending_release
        || account->inflight
        || account->posted)
    {
        return;
    }

    ngx_http_dsem_idle_forget(account);

    ngx_rbtree_delete(&ngx_http_dsem_accounts.names, &account->node.node);
    ngx_queue_remove(&account->queue);

    ngx_free(account);
}


/* something is to be said: at the end of this turn of the event loop */

void
ngx_http_dsem_account_post(ngx_http_dsem_account_t *account)
{
    if (account->posted) {
        return;
    }

    if (ngx_exiting) {
        ngx_http_dsem_drain_start();
    }

    account->posted = 1;
    ngx_queue_insert_tail(&ngx_http_dsem_accounts.dirty, &account->dirty);

    ngx_post_event(&ngx_http_dsem_accounts.flush, &ngx_posted_events);
}


/* Redis recovers what it has lost, and grants nothing for so many ms */

void
ngx_http_dsem_account_pause(ngx_http_dsem_account_t *account,
    ngx_msec_t pause)
{
    ngx_event_t  *poll;

    account->ask_after = ngx_current_msec + pause;
    account->recovering = 1;

    poll = &ngx_http_dsem_accounts.poll;

    if (poll->timer_set && pause < NGX_HTTP_DSEM_POLL_INTERVAL) {
        ngx_del_timer(poll);
        ngx_add_timer(poll, pause);
    }
}


static void
ngx_http_dsem_account_flush_handler(ngx_event_t *ev)
{
    ngx_queue_t              *q, *dirty;
    ngx_http_dsem_account_t  *account;

    dirty = &ngx_http_dsem_accounts.dirty;

    while (!ngx_queue_empty(dirty)) {
        q = ngx_queue_head(dirty);
        ngx_queue_remove(q);

        account = ngx_queue_data(q, ngx_http_dsem_account_t, dirty);
        account->posted = 0;

        if (ngx_http_dsem_sync_send(account) != NGX_OK) {
            /* all accounts have been reset, this one may be gone */
            continue;
        }

        ngx_http_dsem_account_done(account);
    }

    if (ngx_exiting) {
        ngx_http_dsem_drain_settle(ngx_http_dsem_session_ready()
                                    && !ngx_http_dsem_accounts_busy());
    }
}


/*
 * Messages may be lost: who waits compares counts at every poll, who only
 * holds does so once a lease, which also keeps its keys from expiring.
 */

static void
ngx_http_dsem_account_poll_handler(ngx_event_t *ev)
{
    ngx_msec_t                next, pause;
    ngx_http_dsem_account_t  *account;

    next = NGX_TIMER_INFINITE;

    for (account = ngx_http_dsem_account_next(NULL);
         account;
         account = ngx_http_dsem_account_next(account))
    {
        pause = ngx_http_dsem_account_poll(account);
        next = ngx_min(next, pause);
    }

    if (next != NGX_TIMER_INFINITE) {
        ngx_add_timer(ev, next);
    }
}


/* returns after how many ms it is to be looked at again */

static ngx_msec_t
ngx_http_dsem_account_poll(ngx_http_dsem_account_t *account)
{
    if (account->ntickets
        || ngx_current_msec - account->checked >= ngx_http_dsem_accounts.lease)
    {
        account->check = 1;
    }

    if (account->check || account->nasks || account->pending_release) {
        ngx_http_dsem_account_post(account);
    }

    if (account->recovering && account->ask_after > ngx_current_msec) {
        return ngx_min(NGX_HTTP_DSEM_POLL_INTERVAL,
                       account->ask_after - ngx_current_msec);
    }

    return NGX_HTTP_DSEM_POLL_INTERVAL;
}


/*
 * All that Redis was told, or was about to be told, is void.  Tickets stay
 * where they are, but for those whose owner has left.
 */

void
ngx_http_dsem_accounts_reset(void)
{
    ngx_queue_t               *q;
    ngx_http_dsem_account_t   *account;
    ngx_http_dsem_accounts_t  *accounts;

    accounts = &ngx_http_dsem_accounts;

    while (!ngx_queue_empty(&accounts->synced)) {
        q = ngx_queue_head(&accounts->synced);
        account = ngx_queue_data(q, ngx_http_dsem_account_t, queue);

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&accounts->undeclared, q);
    }

    for (q = ngx_queue_head(&accounts->undeclared);
         q != ngx_queue_sentinel(&accounts->undeclared);
         /* void */)
    {
        account = ngx_queue_data(q, ngx_http_dsem_account_t, queue);
        q = ngx_queue_next(q);

        ngx_http_dsem_account_reset(account);
        ngx_http_dsem_account_done(account);
    }
}


static void
ngx_http_dsem_account_reset(ngx_http_dsem_account_t *account)
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
        }
    }

    if (account->synced) {
        /* what Redis may believe to be here, until the lease ends */
        account->last_reported = account->held + account->idle + account->pending_release;
    }

    ngx_http_dsem_idle_forget(account);

    account->pending_release = 0;
    account->inflight = 0;
    account->check = 0;
    account->synced = 0;
    account->recovering = 0;
    account->broken = 0;
}


/* the next account that Redis has to be told of, or NULL */

ngx_http_dsem_account_t *
ngx_http_dsem_accounts_undeclared(void)
{
    ngx_queue_t  *list;

    list = &ngx_http_dsem_accounts.undeclared;

    if (ngx_queue_empty(list)) {
        return NULL;
    }

    return ngx_queue_data(ngx_queue_head(list), ngx_http_dsem_account_t,
                          queue);
}


/* Redis has been told, or need not be: from now on differences are sent */

void
ngx_http_dsem_account_synced(ngx_http_dsem_account_t *account)
{
    ngx_msec_t  recovery;

    account->synced = 1;
    account->checked = ngx_current_msec;

    recovery = ngx_http_dsem_session_recovery();

    if (recovery) {
        ngx_http_dsem_account_pause(account, recovery + 1);
    }

    ngx_queue_remove(&account->queue);
    ngx_queue_insert_tail(&ngx_http_dsem_accounts.synced, &account->queue);
}


/* the session is ready: whatever has piled up can be said */

void
ngx_http_dsem_accounts_post(void)
{
    ngx_queue_t  *q, *list;

    list = &ngx_http_dsem_accounts.synced;

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list);
         q = ngx_queue_next(q))
    {
        ngx_http_dsem_account_post(
                           ngx_queue_data(q, ngx_http_dsem_account_t, queue));
    }
}


/* grants may have been missed: who waits compares counts */

void
ngx_http_dsem_accounts_check(void)
{
    ngx_queue_t              *q, *list;
    ngx_http_dsem_account_t  *account;

    list = &ngx_http_dsem_accounts.synced;

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list);
         q = ngx_queue_next(q))
    {
        account = ngx_queue_data(q, ngx_http_dsem_account_t, queue);

        if (account->ntickets) {
            account->check = 1;
            ngx_http_dsem_account_post(account);
        }
    }
}


/* nobody should wait for Redis any more */

void
ngx_http_dsem_accounts_away(void)
{
    ngx_http_dsem_account_t  *account;

    for (account = ngx_http_dsem_account_next(NULL);
         account;
         account = ngx_http_dsem_account_next(account))
    {
        ngx_http_dsem_local_away(account);

        /* nothing may be left in it */
        ngx_http_dsem_account_post(account);
    }
}


/* true while any permit is held */

ngx_uint_t
ngx_http_dsem_accounts_holding(void)
{
    ngx_http_dsem_account_t  *account;

    for (account = ngx_http_dsem_account_next(NULL);
         account;
         account = ngx_http_dsem_account_next(account))
    {
        if (account->held) {
            return 1;
        }
    }

    return 0;
}


/* true while there is something to tell Redis, or its answer is missing */

ngx_uint_t
ngx_http_dsem_accounts_busy(void)
{
    ngx_queue_t              *q, *list;
    ngx_http_dsem_account_t  *account;

    if (!ngx_queue_empty(&ngx_http_dsem_accounts.undeclared)) {
        return 1;
    }

    list = &ngx_http_dsem_accounts.synced;

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list);
         q = ngx_queue_next(q))
    {
        account = ngx_queue_data(q, ngx_http_dsem_account_t, queue);

        if (account->idle
            || account->pending_release
            || account->ncancels
            || account->inflight)
        {
            return 1;
        }
    }

    return 0;
}


/* tells all who wait for this semaphore that it cannot be asked */

void
ngx_http_dsem_account_fail(ngx_http_dsem_account_t *account)
{
    ngx_uint_t    i;
    ngx_queue_t  *q, *lists[2];

    lists[0] = &account->tickets;
    lists[1] = &account->asks;

    for (i = 0; i < 2; i++) {
        while (!ngx_queue_empty(lists[i])) {
            q = ngx_queue_head(lists[i]);
            ngx_http_dsem_ticket_end(
                             ngx_queue_data(q, ngx_http_dsem_ticket_t, queue),
                             NGX_HTTP_DSEM_VERDICT_UNAVAILABLE);
        }
    }

    /* keeps it, and with it what is held, until somebody looks again */
    ngx_http_dsem_account_post(account);
}
