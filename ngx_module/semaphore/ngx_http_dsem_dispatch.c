
/*
 * Dispatch: when accounts are synced.
 *
 * Joins the sessions to their accounts.  A new epoch resets and declares
 * those of its session; in a ready session the posted ones are synced at the
 * end of each turn of the event loop; while Redis is unavailable they are
 * served without it.  Messages are hints, which may be lost: waiting accounts
 * are polled.
 *
 * Called by: semaphore (init), module (exit); nginx and the session, through
 * handlers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_auto.h"
#include "ngx_http_dsem_dispatch.h"
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_order.h"
#include "ngx_http_dsem_shards.h"
#include "ngx_http_dsem_survey.h"
#include "ngx_http_dsem_sync.h"
#include "ngx_http_dsem_ticket.h"
#include "ngx_http_dsem_waiting.h"


/* ms; the longest delay of a waiting request by a lost message */
#define NGX_HTTP_DSEM_POLL_INTERVAL   800

/* a round trip before a release: ms, or a part of the hold time */
#define NGX_HTTP_DSEM_PROBE_MIN       2
#define NGX_HTTP_DSEM_PROBE_PART      16

/* accounts of a session without a ticket that a poll compares: 20 a second */
#define NGX_HTTP_DSEM_POLL_CHECKS     16

/* unanswered syncs of one account; lua/include/fair_named.lua has it, too */
#define NGX_HTTP_DSEM_MAX_INFLIGHT    8


static void ngx_http_dsem_dispatch_flush_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_dsem_dispatch_flush(
    ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_dispatch_sync(
    ngx_http_dsem_account_t *account);
static ngx_uint_t ngx_http_dsem_dispatch_hold_back(
    ngx_http_dsem_account_t *account, ngx_uint_t late);
static void ngx_http_dsem_dispatch_recover(
    ngx_http_dsem_account_t *account);
static void ngx_http_dsem_dispatch_delay(ngx_http_dsem_account_t *account);
static void ngx_http_dsem_dispatch_replied(void *data);
static void ngx_http_dsem_dispatch_poll_within(ngx_msec_t time);
static void ngx_http_dsem_dispatch_poll_handler(ngx_event_t *ev);
static void ngx_http_dsem_dispatch_event(ngx_http_dsem_session_t *session,
    ngx_http_dsem_event_e event);
static ngx_uint_t ngx_http_dsem_dispatch_reset(
    ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_dispatch_declare(
    ngx_http_dsem_session_t *session, ngx_uint_t room, ngx_uint_t *calls);


typedef struct {
    ngx_event_t  poll;
    /* accounts of each session, until Redis replies */
    ngx_queue_t  held_back[NGX_HTTP_DSEM_SHARDS];
} ngx_http_dsem_dispatch_t;


static ngx_http_dsem_dispatch_t  ngx_http_dsem_dispatch;


static ngx_http_dsem_session_handlers_t  ngx_http_dsem_dispatch_handlers = {
    ngx_http_dsem_dispatch_event,
    ngx_http_dsem_dispatch_declare,
    ngx_http_dsem_dispatch_replied,
    ngx_http_dsem_idle_report,
    ngx_http_dsem_message
};


/* starts the worker's sessions; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_dispatch_init(ngx_http_dsem_session_settings_t *settings)
{
    ngx_uint_t    i;
    ngx_event_t  *poll;

    if (ngx_http_dsem_shards_start(settings, &ngx_http_dsem_dispatch_handlers)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_auto_init() != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_dsem_survey_init(settings);
    ngx_http_dsem_order_init(settings);
    ngx_http_dsem_ticket_init();
    ngx_http_dsem_accounts_init(ngx_http_dsem_dispatch_flush_handler);

    ngx_memzero(&ngx_http_dsem_dispatch, sizeof(ngx_http_dsem_dispatch_t));

    for (i = 0; i < NGX_HTTP_DSEM_SHARDS; i++) {
        ngx_queue_init(&ngx_http_dsem_dispatch.held_back[i]);
    }

    poll = &ngx_http_dsem_dispatch.poll;

    poll->handler = ngx_http_dsem_dispatch_poll_handler;
    poll->data = poll;
    poll->log = ngx_cycle->log;
    poll->cancelable = 1;

    return NGX_OK;
}


/*
 * With the worker.  The bye voids all that Redis counts for it, but waiting
 * sessions learn of released permits from a sync only: those that could not
 * be sent yet are sent before it.
 */

void
ngx_http_dsem_dispatch_exit(void)
{
    ngx_http_dsem_session_t  *session;
    ngx_http_dsem_account_t  *account;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        for (account = ngx_http_dsem_account_next(session, NULL);
             account;
             account = ngx_http_dsem_account_next(session, account))
        {
            if (!ngx_http_dsem_session_ready(session) || !account->synced) {
                continue;
            }

            ngx_http_dsem_ledger_give_back_idle(account, account->idle);

            if (ngx_http_dsem_ledger_releasable(account) == 0) {
                continue;
            }

            if (ngx_http_dsem_sync_changes(account, 0) != NGX_OK) {
                break;
            }
        }
    }

    ngx_http_dsem_shards_stop();

    ngx_http_dsem_auto_exit();
    ngx_http_dsem_order_exit();
    ngx_http_dsem_survey_exit();
}


/* the end of a turn of the event loop */

static void
ngx_http_dsem_dispatch_flush_handler(ngx_event_t *ev)
{
    ngx_uint_t                shards;
    ngx_queue_t              *q, *dirty;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_session_t  *session;

    shards = 0;
    dirty = ngx_http_dsem_accounts_dirty();

    while (!ngx_queue_empty(dirty)) {
        q = ngx_queue_head(dirty);
        ngx_queue_remove(q);

        account = ngx_queue_data(q, ngx_http_dsem_account_t, dirty);
        account->posted = 0;
        shards |= (ngx_uint_t) 1 << account->session->shard;

        if (ngx_http_dsem_dispatch_flush(account) != NGX_OK) {
            /* all of its session have been reset, this one may be gone */
            continue;
        }

        ngx_http_dsem_account_done(account);
    }

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        if (shards & ((ngx_uint_t) 1 << session->shard)) {
            ngx_http_dsem_session_drain(session);
        }
    }
}


/*
 * Serves or syncs one account, as far as the state of the session allows;
 * commands that have to wait are sent when a reply has come.  NGX_ERROR: the
 * connection was dropped, the account must not be touched any more.
 */

static ngx_int_t
ngx_http_dsem_dispatch_flush(ngx_http_dsem_account_t *account)
{
    ngx_uint_t  late;

    ngx_http_dsem_dispatch_poll_within(NGX_HTTP_DSEM_POLL_INTERVAL);

    if (!ngx_http_dsem_session_ready(account->session) || !account->synced) {
        ngx_http_dsem_local_serve(account);
        return NGX_OK;
    }

    late = ngx_http_dsem_redis_late(account->session->redis);

    if (!late) {
        ngx_http_dsem_idle_serve(account);
    }

    if (account->session->recovery && !account->recovering) {
        ngx_http_dsem_account_pause(account, account->session->recovery + 1);
    }

    if (ngx_http_dsem_account_recovering(account)) {
        ngx_http_dsem_dispatch_recover(account);

        if (account->pass_due) {
            account->pass_due = 0;
            ngx_http_dsem_local_pass(account);

        } else {
            ngx_http_dsem_local_serve(account);
        }
    }

    if (ngx_http_dsem_dispatch_hold_back(account, late)) {
        return NGX_OK;
    }

    if (account->check_due) {

        /* counts can be compared only if no other command is unanswered */

        if (account->inflight) {
            return NGX_OK;
        }

        if (ngx_http_dsem_sync_check(account) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return ngx_http_dsem_dispatch_sync(account);
}


/*
 * Until the end of the recovery; what the local limit has admitted is compared
 * with the limit right before it, as no worker releases permits until then.
 */

static void
ngx_http_dsem_dispatch_recover(ngx_http_dsem_account_t *account)
{
    ngx_msec_t  left, declared;

    left = account->ask_after - ngx_current_msec;

    if (account->admitted) {
        declared = NGX_HTTP_DSEM_SYNC_DECLARED(account->session);

        if (left > declared) {
            left -= declared;

        } else if (account->inflight == 0 && !account->broken) {
            account->refresh = 1;
        }
    }

    ngx_http_dsem_dispatch_poll_within(left);
}


static ngx_int_t
ngx_http_dsem_dispatch_sync(ngx_http_dsem_account_t *account)
{
    ngx_uint_t  nasks;

    while (account->inflight < NGX_HTTP_DSEM_MAX_INFLIGHT) {

        nasks = account->recovering ? 0 : account->nasks;

        if (nasks == 0
            && account->ncancels == 0
            && !account->refresh
            && ngx_http_dsem_ledger_releasable(account) == 0)
        {
            break;
        }

        if (ngx_http_dsem_sync_changes(account, nasks) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * A permit whose release is on its way can serve no request: if Redis does
 * not reply, it lies idle until the lease ends.  While requests wait here,
 * it is therefore sent only to a Redis that has replied just now, and
 * serves them if the reply is late, as do permits that are idle then, but for
 * those that are too many.  Nothing else has to happen here before it is.
 */

static ngx_uint_t
ngx_http_dsem_dispatch_hold_back(ngx_http_dsem_account_t *account,
    ngx_uint_t late)
{
    ngx_msec_t              worth;
    ngx_uint_t              waits;
    ngx_http_dsem_redis_t  *redis;

    redis = account->session->redis;
    waits = (ngx_http_dsem_waiting_first(account) != NULL);

    if (late) {

        if (waits) {
            ngx_http_dsem_ledger_give_back_idle(account, account->idle);
        }

        ngx_http_dsem_local_serve(account);

    } else if (!waits || ngx_http_dsem_ledger_releasable(account) == 0) {

        if (waits && account->idle && account->inflight) {
            ngx_http_dsem_redis_await(redis);
            ngx_http_dsem_dispatch_delay(account);
        }

        return 0;
    }

    worth = account->hold_time >> NGX_HTTP_DSEM_HOLD_TIME_SHIFT;
    worth = ngx_max(worth / NGX_HTTP_DSEM_PROBE_PART,
                    NGX_HTTP_DSEM_PROBE_MIN);

    if (ngx_http_dsem_redis_probe(redis, worth) == NGX_OK) {
        return 0;
    }

    ngx_http_dsem_dispatch_delay(account);

    return 1;
}


/* it is posted when Redis has replied, or is late */

static void
ngx_http_dsem_dispatch_delay(ngx_http_dsem_account_t *account)
{
    if (account->delayed) {
        return;
    }

    account->delayed = 1;
    ngx_queue_insert_tail(
                    &ngx_http_dsem_dispatch.held_back[account->session->shard],
                    &account->held_back);
}


/* Redis has replied, or is late: what was held back can go on */

static void
ngx_http_dsem_dispatch_replied(void *data)
{
    ngx_http_dsem_session_t *session = data;

    ngx_queue_t              *q, *held_back;
    ngx_http_dsem_account_t  *account;

    held_back = &ngx_http_dsem_dispatch.held_back[session->shard];

    while (!ngx_queue_empty(held_back)) {
        q = ngx_queue_head(held_back);
        ngx_queue_remove(q);

        account = ngx_queue_data(q, ngx_http_dsem_account_t, held_back);

        account->delayed = 0;
        ngx_http_dsem_account_post(account);
    }
}


/* the next poll comes after this time at most, in ms */

static void
ngx_http_dsem_dispatch_poll_within(ngx_msec_t time)
{
    ngx_event_t  *poll;

    poll = &ngx_http_dsem_dispatch.poll;

    if (poll->timer_set) {

        if ((ngx_msec_int_t) (poll->timer.key - ngx_current_msec)
            <= (ngx_msec_int_t) time)
        {
            return;
        }

        ngx_del_timer(poll);
    }

    ngx_add_timer(poll, time);
}


/*
 * Accounts that wait compare counts at every poll, all others once a lease,
 * which finds lost keys and keeps the others from expiring.  Where there are
 * many, each has its turn less often: Redis bears a worker with thousands of
 * names that are held, but not used.
 */

static void
ngx_http_dsem_dispatch_poll_handler(ngx_event_t *ev)
{
    ngx_uint_t                checks;
    ngx_http_dsem_session_t  *session;
    ngx_http_dsem_account_t  *account;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        checks = 0;
        account = ngx_http_dsem_account_next(session, NULL);

        if (account) {
            ngx_http_dsem_dispatch_poll_within(NGX_HTTP_DSEM_POLL_INTERVAL);
        }

        for ( /* void */ ;
             account;
             account = ngx_http_dsem_account_next(session, account))
        {
            ngx_http_dsem_counters_keep(&account->counted);

            if (account->fair) {
                ngx_http_dsem_fair_show(account->fair, &account->node.str,
                                        account->node.node.key);
            }

            if (account->ntickets
                || (ngx_current_msec - account->last_check
                    >= session->lease.length
                    && checks++ < NGX_HTTP_DSEM_POLL_CHECKS))
            {
                account->check_due = 1;
            }

            /* are its keys usable again? has an order ended? */
            account->refresh |= account->broken
                                || (account->lowered && account->nasks
                                    && account->recovering);

            if (account->check_due
                || account->broken
                || account->nasks
                || account->pending_release
                || account->admitted
                || !account->synced)
            {
                ngx_http_dsem_account_post(account);
            }
        }
    }
}


static void
ngx_http_dsem_dispatch_event(ngx_http_dsem_session_t *session,
    ngx_http_dsem_event_e event)
{
    ngx_uint_t                counted;
    ngx_http_dsem_account_t  *account, *next;

    counted = 0;

    if (event == NGX_HTTP_DSEM_EVENT_RESET) {
        ngx_http_dsem_hints_not_full();
        ngx_http_dsem_dispatch_replied(session);
    }

    for (account = ngx_http_dsem_account_next(session, NULL);
         account;
         account = next)
    {
        next = ngx_http_dsem_account_next(session, account);

        switch (event) {

        case NGX_HTTP_DSEM_EVENT_RESET:
            counted |= ngx_http_dsem_dispatch_reset(account);
            break;

        case NGX_HTTP_DSEM_EVENT_READY:
            /* a lowered limit may have been raised */
            account->refresh |= (account->lowered != 0);

            if (session->recovery == 0) {
                account->recovering = 0;

                /*
                 * permits may be free, which no other command grants; or more
                 * are in use than the limit
                 */

                if (account->ntickets || account->admitted) {
                    account->refresh = 1;
                }
            }

            break;

        case NGX_HTTP_DSEM_EVENT_UNAVAILABLE:
            ngx_http_dsem_local_begin(account);
            break;

        default: /* NGX_HTTP_DSEM_EVENT_EXPIRED */
            ngx_http_dsem_ledger_disown(account);
            continue;
        }

        /* it may serve a request now, or be empty */
        ngx_http_dsem_account_post(account);
    }

    if (counted) {
        ngx_http_dsem_session_drain(session);
    }
}


/*
 * A new epoch, or none: tickets stay, all that was sent is void.  True if
 * Redis counted something for the account.
 */

static ngx_uint_t
ngx_http_dsem_dispatch_reset(ngx_http_dsem_account_t *account)
{
    ngx_uint_t  counted;

    counted = account->inflight || ngx_http_dsem_ledger_sum(account) != 0;

    if (account->inflight || account->ntickets || account->unclaimed) {
        /* releases may be lost, and grants: others may wait for these */
        account->refresh = 1;
    }

    ngx_http_dsem_tickets_reset(account);
    ngx_http_dsem_ledger_reset(account);

    return counted;
}


static ngx_int_t
ngx_http_dsem_dispatch_declare(ngx_http_dsem_session_t *session,
    ngx_uint_t room, ngx_uint_t *calls)
{
    ngx_http_dsem_account_t  *account;

    *calls = 0;

    while (*calls < room) {

        account = ngx_http_dsem_account_undeclared(session);
        if (account == NULL) {
            return NGX_OK;
        }

        if (ngx_http_dsem_declare(account, calls) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}
