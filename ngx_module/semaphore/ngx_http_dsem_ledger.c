
/*
 * The ledger: the permits of one account.
 *
 * Owns held, idle and pending release, whose sum is what Redis counts for this
 * session.  While it is not declared, and until the fence, Redis counts
 * "last_reported" instead, which holds all that is held.  Only the verbs of
 * this file (hold, reuse, keep, give back, hand over, report, declared, clear)
 * change them.  What is held and idle is shown in the counters of the node,
 * too.
 *
 * Called by: ticket (a request begins and ends), idle, local, sync,
 * declare, dispatch (a new epoch).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_ledger.h"


static ngx_inline void ngx_http_dsem_account_add_held(
    ngx_http_dsem_account_t *account, ngx_int_t weight);
static ngx_inline void ngx_http_dsem_account_add_idle(
    ngx_http_dsem_account_t *account, ngx_int_t weight);


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
    if (account->hold_time == 0) {
        account->hold_time = hold_time << NGX_HTTP_DSEM_HOLD_TIME_SHIFT;

    } else {
        account->hold_time += hold_time - (account->hold_time
                                           >> NGX_HTTP_DSEM_HOLD_TIME_SHIFT);
    }

    account->hold_time = ngx_max(account->hold_time, 1);

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


static ngx_inline void
ngx_http_dsem_account_add_held(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    account->held += weight;
    account->counted.cell->in_use += (int32_t) weight;
}


static ngx_inline void
ngx_http_dsem_account_add_idle(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    account->idle += weight;
    account->idle_low = ngx_min(account->idle_low, account->idle);
    account->counted.cell->idle += (int32_t) weight;
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

    if (account->tick.timer_set) {
        ngx_del_timer(&account->tick);
    }
}


/*
 * From now on differences are sent.  "keep": own permits that no request
 * holds are declared with the rest; Redis would not grant them to others now.
 * Where Redis counted more until now, tickets of others may wait for it.
 */

void
ngx_http_dsem_account_declared(ngx_http_dsem_account_t *account,
    ngx_uint_t keep)
{
    account->pending_release = keep ? ngx_http_dsem_account_own(account) : 0;

    if (account->last_reported > ngx_http_dsem_account_sum(account)) {
        account->refresh = 1;
    }

    account->last_reported = 0;

    account->synced = 1;

    ngx_http_dsem_account_checked(account);
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

        ngx_http_dsem_account_undeclare(account);
    }

    ngx_http_dsem_account_clear(account);
    ngx_http_dsem_account_forget_usage(account);

    account->inflight = 0;
    account->check = 0;
    account->synced = 0;
    account->recovering = 0;
    account->broken = 0;
}
