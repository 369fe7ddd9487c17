
/*
 * Idle permits: kept for the next request ("dsem_reuse"), which then needs
 * no round trip.
 *
 * For Redis they are held.  They stay only while nobody is known to wait, at
 * most this worker's fair share of the limit, and not for longer than
 * "dsem_reuse"; they go back at once when somebody has to wait, which a
 * message or any answer tells.  While they are used again and again Redis is
 * asked once in that time how things usage, so that a message that is lost,
 * an operator's order or a new limit is seen as late as that.
 *
 * Called by: ticket (somebody asks, a permit comes free), semaphore (a
 * message), sync (who asks in this turn, what to tell), sync_reply (an
 * answer), account (a new epoch).  Only this file changes account->idle.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_lease.h"
#include "ngx_http_dsem_hint.h"


/* so long nothing is kept after somebody had to wait, ms: no thrashing */
#define NGX_HTTP_DSEM_HOLD_OFF  1000


static void ngx_http_dsem_idle_set(ngx_http_dsem_account_t *account,
    ngx_int_t idle);
static void ngx_http_dsem_idle_timer_handler(ngx_event_t *ev);


void
ngx_http_dsem_idle_init(ngx_http_dsem_account_t *account)
{
    /* not cancelable: what is idle goes back before a worker exits */
    account->tick.handler = ngx_http_dsem_idle_timer_handler;
    account->tick.data = account;
    account->tick.log = ngx_cycle->log;

    account->may_keep = !ngx_http_dsem_hint_held_off(&account->node.str,
                                                    account->node.node.key);
}


/*
 * Whether permits that come free may stay, as Redis is told with each sync.
 * Nothing stays of which it was not told: it would not be recalled.
 */

ngx_uint_t
ngx_http_dsem_idle_keeps(ngx_http_dsem_account_t *account)
{
    account->told_keep = account->may_keep
                         && account->reuse
                         && !account->strict
                         && !ngx_exiting;

    return account->told_keep;
}


/*
 * A permit comes free: true when it stays, else it has to go back.  Asks
 * whose answer is under way are no reason to give it back as long as there
 * is room for them: that would take from each request what the next one
 * needs, and so on for ever.  If they must wait the answer will say so.
 */

ngx_uint_t
ngx_http_dsem_idle_keep(ngx_http_dsem_account_t *account, ngx_int_t weight)
{
    if (!account->told_keep
        || !account->may_keep
        || !account->synced
        || account->idle + weight > account->share
        || (account->wanted
            && account->usage.in_use + account->wanted
               > account->usage.limit)
        || ngx_exiting)
    {
        return 0;
    }

    ngx_http_dsem_idle_set(account, account->idle + weight);

    if (!account->tick.timer_set) {
        account->idle_low = account->idle;
        ngx_add_timer(&account->tick, ngx_max(account->reuse / 2, 1));
    }

    if (account->nasks) {
        /* see ngx_http_dsem_idle_serve() */
        ngx_http_dsem_account_post(account);
    }

    return 1;
}


/* what the line says of it: the last one that asks, but strict stays */

void
ngx_http_dsem_idle_asked(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    account->limit = ask->limit;
    account->reuse = ask->reuse;
    account->strict |= ask->strict;
}


/*
 * Somebody wants permits: true when idle ones serve it.  Else they go back
 * with its ask, so that nobody waits for what lies here.
 */

ngx_uint_t
ngx_http_dsem_idle_take(ngx_http_dsem_account_t *account, ngx_int_t weight)
{
    if (account->idle == 0) {
        return 0;
    }

    if (account->idle < weight
        || account->limit != account->told_limit
        || account->reuse == 0
        || account->strict
        || !ngx_http_dsem_session_ready()
        || ngx_http_dsem_lease_fenced())
    {
        ngx_http_dsem_idle_return(account);
        return 0;
    }

    ngx_http_dsem_idle_set(account, account->idle - weight);
    account->reused = 1;

    return 1;
}


/* what came free in this turn serves who asks in it, before Redis is asked */

void
ngx_http_dsem_idle_serve(ngx_http_dsem_account_t *account)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    while (account->idle && account->nasks) {
        q = ngx_queue_head(&account->asks);
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

        if (!ngx_http_dsem_idle_take(account, ticket->weight)) {
            return;
        }

        ngx_http_dsem_ticket_grant_idle(ticket);
    }
}


/* an answer has come */

void
ngx_http_dsem_idle_told(ngx_http_dsem_account_t *account,
    ngx_uint_t may_keep)
{
    account->share = account->usage.limit
                     / (ngx_int_t) ngx_max(ngx_http_dsem_session_fleet(), 1);

    if (!may_keep) {
        ngx_http_dsem_hint_hold_off(&account->node.str,
                                    account->node.node.key,
                                    NGX_HTTP_DSEM_HOLD_OFF);
        account->may_keep = 0;
        ngx_http_dsem_idle_return(account);
        return;
    }

    account->may_keep = !ngx_http_dsem_hint_held_off(&account->node.str,
                                                    account->node.node.key);
}


/* somebody waits; Redis is told what there is, even if it is nothing */

void
ngx_http_dsem_idle_recall(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_hint_hold_off(&account->node.str, account->node.node.key,
                                NGX_HTTP_DSEM_HOLD_OFF);

    account->may_keep = 0;
    account->refresh = 1;

    ngx_http_dsem_idle_return(account);
    ngx_http_dsem_account_post(account);
}


void
ngx_http_dsem_idle_return(ngx_http_dsem_account_t *account)
{
    if (account->idle == 0) {
        return;
    }

    account->pending_release += account->idle;
    ngx_http_dsem_idle_set(account, 0);

    ngx_http_dsem_account_post(account);
}


/* a new epoch: Redis counts only what is declared, or the account ends */

void
ngx_http_dsem_idle_forget(ngx_http_dsem_account_t *account)
{
    account->idle = 0;
    account->told_keep = 0;
    account->may_keep = (account->ntickets == 0);
    account->refresh = 0;

    if (account->tick.timer_set) {
        ngx_del_timer(&account->tick);
    }
}


static void
ngx_http_dsem_idle_set(ngx_http_dsem_account_t *account, ngx_int_t idle)
{
    account->idle = idle;
    account->idle_low = ngx_min(account->idle_low, idle);
}


/*
 * Twice in the time for which a permit may stay: what was not needed since
 * the last time goes back.
 */

static void
ngx_http_dsem_idle_timer_handler(ngx_event_t *ev)
{
    ngx_int_t                 low;
    ngx_http_dsem_account_t  *account;

    account = ev->data;

    low = ngx_exiting ? account->idle : account->idle_low;

    if (low) {
        account->pending_release += low;
        account->idle -= low;
    }

    account->idle_low = account->idle;

    if (account->reused
        && ngx_current_msec - account->last_sync >= account->reuse)
    {
        account->reused = 0;
        account->refresh = 1;
    }

    if (account->idle || account->reused || account->refresh) {
        ngx_add_timer(ev, ngx_max(account->reuse / 2, 1));
    }

    if (low || account->refresh) {
        ngx_http_dsem_account_post(account);
    }
}
