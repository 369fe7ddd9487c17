
/*
 * Accounts: what this worker has of each semaphore.
 *
 * Owns the accounts and their ledger: held, idle and pending release, whose
 * sum is what Redis counts for this session.  While it is not declared, and
 * until the fence, Redis counts "last_reported" instead, which holds all that
 * is held.  Only the verbs of this file (hold, reuse, keep, give back, hand
 * over, report, declared, clear) change them.  An account exists only while
 * there is something in it, so that names that clients invent leave nothing
 * behind.  What is held and idle is shown in the counters of the node, too.
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
static void ngx_http_dsem_account_measure(ngx_http_dsem_account_t *account,
    ngx_msec_t hold_time);
static void ngx_http_dsem_account_hint(ngx_http_dsem_account_t *account);
static ngx_inline void ngx_http_dsem_account_add_held(
    ngx_http_dsem_account_t *account, ngx_int_t weight);
static ngx_inline void ngx_http_dsem_account_add_idle(
    ngx_http_dsem_account_t *account, ngx_int_t weight);
static void ngx_http_dsem_account_forget_usage(
    ngx_http_dsem_account_t *account);


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
    ngx_str_node_t  *node;

    node = ngx_str_rbtree_lookup(&ngx_http_dsem_accounts.names, name, hash);

    if (node == NULL) {
        return NULL;
    }

    return (ngx_http_dsem_account_t *)
                   ((u_char *) node - offsetof(ngx_http_dsem_account_t, node));
}


/*
 * The same, created if there is none, for the session of its shard.  Where
 * Redis knows the session, an empty account need not be declared.
 * ngx_http_dsem_account_done() frees it.  NULL: no memory.
 */

ngx_http_dsem_account_t *
ngx_http_dsem_account_get(ngx_http_dsem_session_t *session, ngx_str_t *name,
    uint32_t hash)
{
    ngx_http_dsem_account_t        *account;
    ngx_http_dsem_account_lists_t  *lists;

    account = ngx_http_dsem_account_find(name, hash);

    if (account) {
        return account;
    }

    account = ngx_http_dsem_account_create(session, name, hash);

    if (account) {
        lists = ngx_http_dsem_account_lists(session);

        account->synced = ngx_http_dsem_session_greeted(session);
        ngx_queue_insert_tail(account->synced ? &lists->synced
                                              : &lists->undeclared,
                              &account->queue);
    }

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

    p = ngx_http_dsem_key_semaphore(keys, name, &account->key, p);
    (void) ngx_http_dsem_key_queue(keys, name, &account->queue_key, p);

    account->session = session;
    session->used = ngx_current_msec;

    /* every key ends with the name */

    account->node.str.data = p - name->len;
    account->node.str.len = name->len;
    account->node.node.key = hash;

    ngx_queue_init(&account->tickets);
    ngx_queue_init(&account->asks);
    ngx_queue_init(&account->cancels);

    account->literal = ngx_http_dsem_limits_find(&session->limits,
                                                 &account->node.str, hash);
    ngx_http_dsem_account_forget_usage(account);

    account->last_check = ngx_current_msec;
    account->may_keep = 1;
    account->hold_time = ngx_http_dsem_hint_hold_time(&account->node.str,
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


/*
 * The literal limit of its requests, or NULL.  A name may also have limits
 * from variables; and a single process goes on with the literal limits that
 * it was started with.
 */

ngx_http_dsem_literal_t *
ngx_http_dsem_account_literal(ngx_http_dsem_account_t *account)
{
    if (account->literal && account->literal->limit == account->limit) {
        return account->literal;
    }

    return NULL;
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

    return ngx_min(account->limit, literal->in_force);
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


/* Redis recovers its state, and grants nothing for so many ms */

void
ngx_http_dsem_account_pause(ngx_http_dsem_account_t *account,
    ngx_msec_t pause)
{
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


/* Redis grants permits again */

void
ngx_http_dsem_account_resume(ngx_http_dsem_account_t *account)
{
    if (account->recovering) {
        account->recovering = 0;
        ngx_http_dsem_account_post(account);
    }
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
        || account->posted
        || account->delayed
        || account->batched)
    {
        return;
    }

    /* what this worker had until Redis was lost */

    if (!account->synced
        && account->last_reported
        && !ngx_http_dsem_lease_over(&account->session->lease))
    {
        return;
    }

    if (account->tick.timer_set) {
        ngx_del_timer(&account->tick);
    }

    ngx_http_dsem_account_hint(account);
    ngx_http_dsem_counters_close(&account->counted);

    ngx_rbtree_delete(&ngx_http_dsem_accounts.names, &account->node.node);
    ngx_queue_remove(&account->queue);

    ngx_free(account);
}


/* the hold time outlives the account */

static void
ngx_http_dsem_account_hint(ngx_http_dsem_account_t *account)
{
    if (account->hold_time) {
        ngx_http_dsem_hint_set_hold_time(&account->node.str,
                                         account->node.node.key,
                                         account->hold_time);
    }
}


/* a request was queued, or rejected (full): hints for the next ones */

void
ngx_http_dsem_account_contended(ngx_http_dsem_account_t *account,
    ngx_uint_t full)
{
    ngx_http_dsem_account_hint(account);
    ngx_http_dsem_hint_set_usage(&account->node.str, account->node.node.key,
                                 &account->usage, full);
}


/* granted by Redis, or admitted without it */

void
ngx_http_dsem_account_hold(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    ngx_http_dsem_account_add_held(account, weight);
}


/*
 * Idle permits for a request: true if they cover it.  Otherwise they go back
 * with its ask, so that no request waits for permits that lie here.
 */

ngx_uint_t
ngx_http_dsem_account_reuse(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    if (account->idle == 0) {
        return 0;
    }

    /* permits are idle only in a session that is ready */

    if (account->idle < weight
        || account->limit != account->sent_limit
        || account->reuse == 0
        || account->strict
        || ngx_http_dsem_lease_fenced(&account->session->lease))
    {
        ngx_http_dsem_account_give_back_idle(account, account->idle);
        return 0;
    }

    ngx_http_dsem_account_add_idle(account, -weight);
    ngx_http_dsem_account_add_held(account, weight);
    account->reused = 1;

    return 1;
}


/*
 * A request's permits come free after so many ms: true if they stay for the
 * next one, otherwise they have to be given back.  None stays before Redis is
 * known to recall it: the semaphore may have been paused meanwhile.  Asks
 * that await their reply are no reason to give permits back as long as there
 * is room for them: every request would take away the permit of the next.
 * If they must wait, the reply will recall idle permits.
 */

ngx_uint_t
ngx_http_dsem_account_keep(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_msec_t hold_time)
{
    ngx_http_dsem_account_measure(account, hold_time);

    if (!account->sent_keep
        || !account->known_keep
        || !account->may_keep
        || account->refresh
        || account->disowned
        || !account->synced
        || account->idle + weight > account->share
        || (account->demand
            && account->usage.in_use + account->demand
               > account->usage.limit)
        || ngx_exiting)
    {
        return 0;
    }

    ngx_http_dsem_account_add_held(account, -weight);
    ngx_http_dsem_account_add_idle(account, weight);

    if (!account->tick.timer_set) {
        account->idle_low = account->idle;
        ngx_add_timer(&account->tick, ngx_max(account->reuse / 2, 1));
    }

    if (account->nasks) {
        /* they are served from the idle permits before they are sent */
        ngx_http_dsem_account_post(account);
    }

    return 1;
}


static void
ngx_http_dsem_account_measure(ngx_http_dsem_account_t *account,
    ngx_msec_t hold_time)
{
    if (account->hold_time == 0) {
        account->hold_time = hold_time << NGX_HTTP_DSEM_HOLD_TIME_SHIFT;

    } else {
        account->hold_time += hold_time - (account->hold_time
                                           >> NGX_HTTP_DSEM_HOLD_TIME_SHIFT);
    }

    account->hold_time = ngx_max(account->hold_time, 1);
}


static ngx_inline void
ngx_http_dsem_account_add_held(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    account->held += weight;
    account->counted.cell->in_use += weight;
}


static ngx_inline void
ngx_http_dsem_account_add_idle(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    account->idle += weight;
    account->idle_low = ngx_min(account->idle_low, account->idle);
    account->counted.cell->idle += weight;
}


/* a request's permits come free and go back */

void
ngx_http_dsem_account_give_back(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    ngx_http_dsem_account_add_held(account, -weight);

    ngx_http_dsem_account_hint(account);
    ngx_http_dsem_hint_not_full(&account->node.str, account->node.node.key);

    if (account->synced) {
        account->pending_release += weight;
    }

    ngx_http_dsem_account_post(account);
}


/* granted after the request had left: no request ever held them */

void
ngx_http_dsem_account_give_back_late(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    account->pending_release += weight;
    account->unclaimed += weight;

    ngx_http_dsem_account_post(account);
}


/* so many idle permits go back */

void
ngx_http_dsem_account_give_back_idle(ngx_http_dsem_account_t *account,
    ngx_int_t idle)
{
    if (idle == 0) {
        return;
    }

    account->pending_release += idle;
    ngx_http_dsem_account_add_idle(account, -idle);

    ngx_http_dsem_account_post(account);
}


/*
 * The permits that Redis certainly counts for this worker and that no request
 * holds: they may serve the next one without asking.  None after the fence.
 */

ngx_int_t
ngx_http_dsem_account_own(ngx_http_dsem_account_t *account)
{
    ngx_int_t  own;

    if (account->disowned
        || ngx_http_dsem_lease_own_fenced(&account->session->lease))
    {
        return 0;
    }

    own = account->synced ? account->pending_release - account->unclaimed
                          : account->last_reported - account->held;

    return ngx_max(own, 0);
}


/* own permits pass to a request instead of going back */

void
ngx_http_dsem_account_hand_over(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    if (account->synced) {
        account->pending_release -= weight;
    }

    ngx_http_dsem_account_add_held(account, weight);
}


/*
 * The lease had expired: Redis may have granted to others what requests hold
 * here.  Nothing of that is handed over, or the overage would go on with new
 * requests.
 */

void
ngx_http_dsem_account_disown(ngx_http_dsem_account_t *account)
{
    account->disowned = 1;

    if (!account->synced) {
        account->last_reported = 0;
    }
}


/* Redis counts all of it, and the limit is kept */

void
ngx_http_dsem_account_owned(ngx_http_dsem_account_t *account)
{
    account->disowned = 0;
}


/*
 * The permits that the next sync gives back.  While Redis recovers they
 * would lie idle there, and wait for the next request of this worker
 * instead, unless it exits.
 */

ngx_int_t
ngx_http_dsem_account_releasable(ngx_http_dsem_account_t *account)
{
    return (account->recovering && !ngx_exiting) ? 0
                                                 : account->pending_release;
}


/* a sync is sent: returns the permits that it gives back */

ngx_int_t
ngx_http_dsem_account_report(ngx_http_dsem_account_t *account)
{
    ngx_int_t  weight;

    weight = ngx_http_dsem_account_releasable(account);
    account->pending_release -= weight;

    if (account->pending_release == 0) {
        account->unclaimed = 0;
    }

    return weight;
}


/* a report was not executed: its permits are still to go back */

void
ngx_http_dsem_account_unreport(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t unclaimed)
{
    account->pending_release += weight;
    account->unclaimed += unclaimed;
}


ngx_int_t
ngx_http_dsem_account_sum(ngx_http_dsem_account_t *account)
{
    return account->held + account->idle + account->pending_release;
}


/*
 * So many permits are counted by Redis, or -1: the same without those that
 * no request holds here, idle or about to go back.  Grants that Redis has
 * counted since then are seen in what requests hold.
 */

ngx_int_t
ngx_http_dsem_account_in_use(ngx_http_dsem_account_t *account,
    ngx_int_t counted)
{
    if (counted < 0) {
        return counted;
    }

    counted -= account->idle + account->pending_release;

    return ngx_max(counted, account->held);
}


/* Redis counts only permits that are held, or nothing at all */

void
ngx_http_dsem_account_clear(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_account_add_idle(account, -account->idle);
    account->pending_release = 0;
    account->unclaimed = 0;
    account->sent_keep = 0;
    account->known_keep = 0;
    account->may_keep = (account->ntickets == 0);
    account->refresh = 0;

    if (account->tick.timer_set) {
        ngx_del_timer(&account->tick);
    }
}


/*
 * From now on differences are sent.  "keep": own permits that no request
 * holds are declared with the rest; Redis would not grant them to others now.
 */

void
ngx_http_dsem_account_declared(ngx_http_dsem_account_t *account,
    ngx_uint_t keep)
{
    account->pending_release = keep ? ngx_http_dsem_account_own(account) : 0;
    account->last_reported = 0;

    account->synced = 1;

    ngx_http_dsem_account_checked(account);
}


/* counts agree, or are being compared: it is the last to be checked again */

void
ngx_http_dsem_account_checked(ngx_http_dsem_account_t *account)
{
    account->check = 0;
    account->last_check = ngx_current_msec;

    ngx_queue_remove(&account->queue);
    ngx_queue_insert_tail(
                        &ngx_http_dsem_account_lists(account->session)->synced,
                        &account->queue);
}


/* a new epoch: all commands so far are void, sent or not */

void
ngx_http_dsem_account_reset(ngx_http_dsem_account_t *account)
{
    if (account->synced) {
        /* Redis counts them until the lease ends */
        account->last_reported = ngx_http_dsem_account_sum(account)
                                 - account->unclaimed;
        account->last_waiting = account->ntickets + account->nasks;

        ngx_queue_remove(&account->queue);
        ngx_queue_insert_tail(
                    &ngx_http_dsem_account_lists(account->session)->undeclared,
                    &account->queue);
    }

    ngx_http_dsem_account_clear(account);
    ngx_http_dsem_account_forget_usage(account);

    account->inflight = 0;
    account->batched = 0;
    account->check = 0;
    account->synced = 0;
    account->recovering = 0;
    account->broken = 0;
}


/* the next reply may come from a Redis that has lost everything */

static void
ngx_http_dsem_account_forget_usage(ngx_http_dsem_account_t *account)
{
    account->usage.in_use = -1;
    account->usage.limit = -1;
    account->usage.waiting = 0;
}
