
/*
 * Accounts: what this worker has of each semaphore.
 *
 * Owns the accounts: which there are, which of them Redis does not know yet,
 * and which have something to send.  An account exists only while there is
 * something in it, so that names that clients invent leave nothing behind.
 *
 * Called by: all of this folder.  Keeps the lists of tickets, and knows
 * neither their states nor the form of commands.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_account.h"


/* the accounts of one session */
typedef struct {
    ngx_queue_t                    synced;    /* in this epoch, by last_check */
    ngx_queue_t                    undeclared;
} ngx_http_dsem_account_lists_t;


typedef struct {
    ngx_rbtree_t                   names;     /* of all shards */
    ngx_rbtree_node_t              sentinel;
    ngx_http_dsem_account_lists_t  lists[NGX_HTTP_DSEM_SHARDS];

    ngx_queue_t                    dirty;
    ngx_event_t                    flush;
} ngx_http_dsem_accounts_t;


static ngx_http_dsem_account_t *ngx_http_dsem_account_create(
    ngx_http_dsem_session_t *session, ngx_str_t *name, uint32_t hash);


#define ngx_http_dsem_account_lists(session)                                  \
    (&ngx_http_dsem_accounts.lists[(session)->shard])


static ngx_http_dsem_accounts_t  ngx_http_dsem_accounts;


/*
 * flush is called at the end of a turn of the event loop in which an account
 * was posted
 */

void
ngx_http_dsem_accounts_init(ngx_event_handler_pt flush)
{
    ngx_uint_t                 i;
    ngx_http_dsem_accounts_t  *accounts;

    accounts = &ngx_http_dsem_accounts;

    ngx_memzero(accounts, sizeof(ngx_http_dsem_accounts_t));

    ngx_rbtree_init(&accounts->names, &accounts->sentinel,
                    ngx_str_rbtree_insert_value);

    for (i = 0; i < NGX_HTTP_DSEM_SHARDS; i++) {
        ngx_queue_init(&accounts->lists[i].synced);
        ngx_queue_init(&accounts->lists[i].undeclared);
    }

    ngx_queue_init(&accounts->dirty);

    accounts->flush.handler = flush;
    accounts->flush.log = ngx_cycle->log;
}


/* the posted accounts, by "dirty"; the flush handler empties the list */

ngx_queue_t *
ngx_http_dsem_accounts_dirty(void)
{
    return &ngx_http_dsem_accounts.dirty;
}


/* the account of the semaphore with this encoded name and hash, or NULL */

ngx_http_dsem_account_t *
ngx_http_dsem_account_find(ngx_str_t *name, uint32_t hash)
{
    return (ngx_http_dsem_account_t *)
               ngx_str_rbtree_lookup(&ngx_http_dsem_accounts.names, name, hash);
}


/*
 * Its account, created if there is none, for the session of its shard.  Where
 * Redis knows the session, an empty account need not be declared.
 * ngx_http_dsem_account_done() frees it.  pool: its servers, NULL: it is a
 * plain semaphore.  NULL: no memory.
 */

ngx_http_dsem_account_t *
ngx_http_dsem_account_get(ngx_http_dsem_session_t *session, ngx_str_t *name,
    uint32_t hash, ngx_http_dsem_pool_t *pool)
{
    ngx_http_dsem_account_t        *account;
    ngx_http_dsem_servers_t        *servers;
    ngx_http_dsem_account_lists_t  *lists;

    account = ngx_http_dsem_account_find(name, hash);

    if (account) {
        return account;
    }

    servers = NULL;

    if (pool) {
        servers = ngx_http_dsem_servers_create(pool);
        if (servers == NULL) {
            return NULL;
        }
    }

    account = ngx_http_dsem_account_create(session, name, hash);

    if (account == NULL) {
        if (servers) {
            ngx_http_dsem_servers_free(servers);
        }

        return NULL;
    }

    account->servers = servers;

    lists = ngx_http_dsem_account_lists(session);

    account->synced = ngx_http_dsem_session_greeted(session);
    ngx_queue_insert_tail(account->synced ? &lists->synced
                                          : &lists->undeclared,
                          &account->queue);

    return account;
}


static ngx_http_dsem_account_t *
ngx_http_dsem_account_create(ngx_http_dsem_session_t *session,
    ngx_str_t *name, uint32_t hash)
{
    size_t                    len;
    u_char                   *p;
    ngx_http_dsem_keys_t     *keys;
    ngx_http_dsem_account_t  *account;

    keys = ngx_http_dsem_redis_keys(session->redis);
    len = ngx_http_dsem_key_len(keys, name);

    account = ngx_calloc(sizeof(ngx_http_dsem_account_t) + 2 * len,
                         ngx_cycle->log);
    if (account == NULL) {
        return NULL;
    }

    p = (u_char *) account + sizeof(ngx_http_dsem_account_t);

    p = ngx_http_dsem_key_parts(keys, "s", name, &account->key, p);
    (void) ngx_http_dsem_key_parts(keys, "q", name, &account->queue_key, p);

    account->session = session;
    session->used = ngx_current_msec;
    session->naccounts++;

    /* every key ends with the name */

    account->node.str.data = p - name->len;
    account->node.str.len = name->len;
    account->node.node.key = hash;

    ngx_queue_init(&account->tickets);
    ngx_queue_init(&account->holders);
    ngx_queue_init(&account->asks);
    ngx_queue_init(&account->cancels);

    account->literal = ngx_http_dsem_limits_find(&session->limits,
                                                 &account->node.str, hash);
    ngx_http_dsem_account_forget_usage(account);

    account->last_check = ngx_current_msec;
    account->keep_allowed = 1;
    account->hold_time = ngx_http_dsem_hint_hold_time(&account->node.str,
                                                      hash);
    account->permit_time = ngx_http_dsem_hint_permit_time(&account->node.str,
                                                          hash);

    account->counted.name = &account->node.str;
    account->counted.hash = hash;

    ngx_http_dsem_counters_open(&account->counted);

    ngx_rbtree_insert(&ngx_http_dsem_accounts.names, &account->node.node);

    return account;
}


/*
 * All accounts of a session: the one after this, or the first for NULL; NULL:
 * no more.  Those that were checked longest ago come first.
 */

ngx_http_dsem_account_t *
ngx_http_dsem_account_next(ngx_http_dsem_session_t *session,
    ngx_http_dsem_account_t *account)
{
    ngx_queue_t                    *q;
    ngx_http_dsem_account_lists_t  *lists;

    lists = ngx_http_dsem_account_lists(session);

    q = account ? ngx_queue_next(&account->queue)
                : ngx_queue_head(&lists->synced);

    if (q == ngx_queue_sentinel(&lists->synced)) {
        q = ngx_queue_head(&lists->undeclared);
    }

    if (q == ngx_queue_sentinel(&lists->undeclared)) {
        return NULL;
    }

    return ngx_queue_data(q, ngx_http_dsem_account_t, queue);
}


/* the first account of a session that is still to be declared, or NULL */

ngx_http_dsem_account_t *
ngx_http_dsem_account_undeclared(ngx_http_dsem_session_t *session)
{
    ngx_queue_t  *list;

    list = &ngx_http_dsem_account_lists(session)->undeclared;

    if (ngx_queue_empty(list)) {
        return NULL;
    }

    return ngx_queue_data(ngx_queue_head(list), ngx_http_dsem_account_t,
                          queue);
}


/* counts agree, or are being compared: it is the last to be checked again */

void
ngx_http_dsem_account_checked(ngx_http_dsem_account_t *account)
{
    account->check_due = 0;
    account->last_check = ngx_current_msec;

    ngx_queue_remove(&account->queue);
    ngx_queue_insert_tail(
                        &ngx_http_dsem_account_lists(account->session)->synced,
                        &account->queue);
}


/* a new epoch: it is to be declared again */

void
ngx_http_dsem_account_undeclare(ngx_http_dsem_account_t *account)
{
    ngx_queue_remove(&account->queue);
    ngx_queue_insert_tail(
                    &ngx_http_dsem_account_lists(account->session)->undeclared,
                    &account->queue);
}


/*
 * The literal limit of its requests, or NULL.  A name may also have limits
 * from variables, and of these also the number that "auto" begins with; and a
 * single process goes on with the literal limits that it was started with.
 */

ngx_http_dsem_literal_t *
ngx_http_dsem_account_literal(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_literal_t  *literal;

    literal = account->literal;

    if (literal == NULL
        || literal->limit != account->limit
        || (literal->max != 0) != account->auto_limit)
    {
        return NULL;
    }

    return literal;
}


/* the limit as far as this worker knows: another node may ask for a lower */

ngx_int_t
ngx_http_dsem_account_limit(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_literal_t  *literal;

    literal = ngx_http_dsem_account_literal(account);

    if (literal == NULL || literal->in_force == -1) {
        return account->limit;
    }

    if (literal->max) {
        return literal->in_force;
    }

    return ngx_min(account->limit, literal->in_force);
}


/*
 * The limit while Redis cannot be asked: of "limit=auto" what the node found
 * last, as this worker may not have seen the name for long; of others, for the
 * same reason, the limit that it has seen in force, if that is lower.
 */

ngx_int_t
ngx_http_dsem_account_local_limit(ngx_http_dsem_account_t *account)
{
    ngx_int_t                 limit, seen;
    ngx_http_dsem_literal_t  *literal;

    literal = ngx_http_dsem_account_literal(account);
    seen = ngx_http_dsem_account_limit(account);

    if (literal && literal->max) {
        limit = ngx_http_dsem_limits_local(literal);
        return (limit == -1) ? seen : limit;
    }

    return ngx_http_dsem_limits_lower(&account->session->limits,
                                      &account->node.str,
                                      account->node.node.key, account->limit,
                                      seen);
}


/*
 * The limit for Redis where it knows none.  Of "limit=auto" neither that of
 * the start, nor one that an order or a probe has lowered for a while: permits
 * of before it are no overage.
 */

ngx_int_t
ngx_http_dsem_account_stated_limit(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_literal_t  *literal;

    literal = ngx_http_dsem_account_literal(account);

    if (literal == NULL || literal->max == 0) {
        return account->limit;
    }

    return ngx_max(ngx_http_dsem_limits_last(literal), literal->in_force);
}


/* it is flushed at the end of this turn of the event loop */

void
ngx_http_dsem_account_post(ngx_http_dsem_account_t *account)
{
    if (account->posted) {
        return;
    }

    account->posted = 1;
    ngx_queue_insert_tail(&ngx_http_dsem_accounts.dirty, &account->dirty);

    ngx_post_event(&ngx_http_dsem_accounts.flush, &ngx_posted_events);
}


/*
 * Redis recovers its state, and grants nothing for a time, in ms.  Asks that
 * were unsent when the recovery was unknown are checked once.
 */

void
ngx_http_dsem_account_pause(ngx_http_dsem_account_t *account,
    ngx_msec_t pause)
{
    if (!account->recovering) {
        account->pass_due = 1;
    }

    account->ask_after = ngx_current_msec + pause;
    account->recovering = 1;
}


/* true until the pause is over */

ngx_uint_t
ngx_http_dsem_account_recovering(ngx_http_dsem_account_t *account)
{
    if (account->recovering
        && (ngx_msec_int_t) (ngx_current_msec - account->ask_after) >= 0)
    {
        account->recovering = 0;
    }

    return account->recovering;
}


/* frees the account if it is empty; to be called last */

void
ngx_http_dsem_account_done(ngx_http_dsem_account_t *account)
{
    if (account->held
        || account->idle
        || account->ntickets
        || account->nasks
        || account->pending_release
        || account->inflight
        || account->refresh
        || account->broken
        || account->posted
        || account->delayed)
    {
        return;
    }

    /* what this worker had until Redis was lost; of a pool until it is back */

    if (!account->synced
        && account->last_reported
        && (account->servers
            || !ngx_http_dsem_lease_over(&account->session->lease)))
    {
        return;
    }

    if (account->tick.timer_set) {
        ngx_del_timer(&account->tick);
    }

    ngx_http_dsem_account_hint(account);
    ngx_http_dsem_counters_close(&account->counted);

    if (account->fair) {
        ngx_http_dsem_fair_free(account->fair);
    }

    if (account->servers) {
        ngx_http_dsem_servers_free(account->servers);
    }

    ngx_rbtree_delete(&ngx_http_dsem_accounts.names, &account->node.node);
    ngx_queue_remove(&account->queue);

    account->session->naccounts--;

    ngx_free(account);
}


/* the hold time outlives the account */

void
ngx_http_dsem_account_hint(ngx_http_dsem_account_t *account)
{
    if (account->hold_time) {
        ngx_http_dsem_hint_set_hold_time(&account->node.str,
                                         account->node.node.key,
                                         account->hold_time,
                                         account->permit_time);
    }
}


/* a request with this limit was queued, or rejected (full): a hint */

void
ngx_http_dsem_account_contended(ngx_http_dsem_account_t *account,
    ngx_int_t limit, ngx_uint_t full)
{
    ngx_http_dsem_account_hint(account);
    ngx_http_dsem_hint_set_usage(&account->node.str, account->node.node.key,
                                 &account->usage, limit, full);
}


/* the next reply may come from a Redis that has lost everything */

void
ngx_http_dsem_account_forget_usage(ngx_http_dsem_account_t *account)
{
    account->usage.in_use = -1;
    account->usage.limit = -1;
    account->usage.waiting = 0;

    if (account->fair) {
        ngx_http_dsem_fair_contend(account->fair, 0);
    }
}
