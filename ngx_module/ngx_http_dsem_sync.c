
/*
 * Sync: what an account tells Redis in one turn.
 *
 * Composes "sync" from an account: what goes back, what is withdrawn, what is
 * asked for, and now and then which tickets should be in the queue.  What a
 * command was sent with is kept beside it, because the account has moved on
 * when the answer comes, which sync_reply reads.
 *
 * Called by: account (something is to be said).  The order of arguments is
 * that of lua/sync.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_sync.h"
#include "ngx_http_dsem_sync_reply.h"


/* unanswered syncs of one account */
#define NGX_HTTP_DSEM_MAX_INFLIGHT    8

/* asks or cancels in one sync: Redis is not kept busy for long */
#define NGX_HTTP_DSEM_MAX_BATCH       128

/* tickets that one check looks at, the oldest */
#define NGX_HTTP_DSEM_MAX_CHECKED     256

/* what the session may do, as a sum, as in lua/sync.lua */
#define NGX_HTTP_DSEM_MAY_SET_LIMIT   1
#define NGX_HTTP_DSEM_KEEPS_PERMITS   2


static ngx_http_dsem_sync_t *ngx_http_dsem_sync_create(
    ngx_http_dsem_account_t *account, ngx_uint_t ncancels, ngx_uint_t nasks,
    ngx_uint_t nchecks);
static ngx_int_t ngx_http_dsem_sync_check(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_sync_changes(
    ngx_http_dsem_account_t *account, ngx_uint_t nasks);
static ngx_int_t ngx_http_dsem_sync_release(
    ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_sync_begin(ngx_http_dsem_sync_t *sync);
static void ngx_http_dsem_sync_ticket(ngx_http_dsem_sync_ticket_t *told,
    ngx_http_dsem_ticket_t *ticket);
static ngx_int_t ngx_http_dsem_sync_call(ngx_http_dsem_sync_t *sync);
static ngx_int_t ngx_http_dsem_sync_lost(ngx_http_dsem_sync_t *sync);


/*
 * Sends what the account has to say, if it may speak now; what has to wait
 * is sent when an answer has come.  NGX_ERROR: the connection was dropped,
 * and the account must not be touched any more.
 */

ngx_int_t
ngx_http_dsem_sync_send(ngx_http_dsem_account_t *account)
{
    ngx_uint_t  nasks;

    if (ngx_http_dsem_session_away()) {
        ngx_http_dsem_local_serve(account);
        return NGX_OK;
    }

    if (!ngx_http_dsem_session_ready() || !account->synced) {
        return NGX_OK;
    }

    ngx_http_dsem_idle_serve(account);

    if (account->recovering
        && (ngx_msec_int_t) (ngx_current_msec - account->ask_after) >= 0)
    {
        account->recovering = 0;
    }

    if (account->recovering) {
        ngx_http_dsem_local_hand_over(account);
    }

    if (account->check) {

        /* counts can be compared only when nothing else is under way */

        if (account->inflight) {
            return NGX_OK;
        }

        if (ngx_http_dsem_sync_check(account) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    while (account->inflight < NGX_HTTP_DSEM_MAX_INFLIGHT) {

        nasks = account->recovering ? 0 : account->nasks;

        if (nasks == 0
            && account->ncancels == 0
            && !account->refresh
            && ngx_http_dsem_sync_release(account) == 0)
        {
            break;
        }

        if (ngx_http_dsem_sync_changes(account, nasks) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_http_dsem_sync_t *
ngx_http_dsem_sync_create(ngx_http_dsem_account_t *account,
    ngx_uint_t ncancels, ngx_uint_t nasks, ngx_uint_t nchecks)
{
    size_t                 size;
    ngx_http_dsem_sync_t  *sync;

    size = sizeof(ngx_http_dsem_sync_t)
           + (ncancels + nasks + nchecks)
             * sizeof(ngx_http_dsem_sync_ticket_t);

    sync = ngx_alloc(size, ngx_cycle->log);
    if (sync == NULL) {
        return NULL;
    }

    sync->account = account;
    sync->epoch = ngx_http_dsem_session_epoch();
    sync->held = account->held + account->idle + account->pending_release
                 - ngx_http_dsem_sync_release(account);
    sync->ncancels = ncancels;
    sync->nasks = nasks;
    sync->nchecks = nchecks;
    sync->check = 0;

    return sync;
}


/* what was lost with the memory is settled by a new declaration */

static ngx_int_t
ngx_http_dsem_sync_lost(ngx_http_dsem_sync_t *sync)
{
    if (sync) {
        ngx_free(sync);
    }

    ngx_http_dsem_redis_drop(ngx_http_dsem_session_redis(), "no memory");

    return NGX_ERROR;
}


/*
 * Tickets that are believed to be in the queue, the oldest first, whether
 * their owner is still there or not.  Whoever is not there has been granted
 * and the message was lost, if the weights add up.
 */

static ngx_int_t
ngx_http_dsem_sync_check(ngx_http_dsem_account_t *account)
{
    ngx_uint_t               i, n;
    ngx_queue_t             *q;
    ngx_http_dsem_sync_t    *sync;
    ngx_http_dsem_ticket_t  *ticket;

    n = ngx_min(account->ntickets, NGX_HTTP_DSEM_MAX_CHECKED);

    sync = ngx_http_dsem_sync_create(account, 0, 0, n);

    if (sync == NULL || ngx_http_dsem_sync_begin(sync) != NGX_OK) {
        return ngx_http_dsem_sync_lost(sync);
    }

    sync->check = 1;
    sync->unchecked = account->ntickets - n;

    q = ngx_queue_head(&account->tickets);

    for (i = 0; i < n; i++) {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        q = ngx_queue_next(q);

        ngx_http_dsem_sync_ticket(&sync->tickets[i], ticket);
    }

    account->check = 0;
    account->checked = ngx_current_msec;

    return ngx_http_dsem_sync_call(sync);
}


static ngx_int_t
ngx_http_dsem_sync_changes(ngx_http_dsem_account_t *account,
    ngx_uint_t nasks)
{
    ngx_uint_t                    i, ncancels;
    ngx_queue_t                  *q;
    ngx_http_dsem_sync_t         *sync;
    ngx_http_dsem_redis_t        *redis;
    ngx_http_dsem_ticket_t       *ticket;
    ngx_http_dsem_sync_ticket_t  *told;

    nasks = ngx_min(nasks, NGX_HTTP_DSEM_MAX_BATCH);
    ncancels = ngx_min(account->ncancels, NGX_HTTP_DSEM_MAX_BATCH);

    sync = ngx_http_dsem_sync_create(account, ncancels, nasks, 0);

    if (sync == NULL || ngx_http_dsem_sync_begin(sync) != NGX_OK) {
        return ngx_http_dsem_sync_lost(sync);
    }

    if (nasks) {
        account->told_limit = account->limit;
    }

    redis = ngx_http_dsem_session_redis();
    told = sync->tickets;

    for (i = 0; i < ncancels; i++) {
        q = ngx_queue_head(&account->cancels);
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, cancel);

        ngx_http_dsem_sync_ticket(told++, ticket);

        ngx_queue_remove(q);
        ticket->canceling = 0;
        account->ncancels--;
    }

    for (i = 0; i < nasks; i++) {
        q = ngx_queue_head(&account->asks);
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

        ngx_http_dsem_sync_ticket(told++, ticket);
        ngx_http_dsem_redis_number(redis, ticket->class);
        ngx_http_dsem_redis_number(redis, ticket->queue_limit);

        ngx_http_dsem_ticket_asked(ticket, sync->epoch);
    }

    return ngx_http_dsem_sync_call(sync);
}


/*
 * What is given back now.  While Redis recovers it would lie idle there, so
 * it is kept for the next request of this worker; not by one that exits.
 */

static ngx_int_t
ngx_http_dsem_sync_release(ngx_http_dsem_account_t *account)
{
    return (account->recovering && !ngx_exiting) ? 0 : account->pending_release;
}


static ngx_int_t
ngx_http_dsem_sync_begin(ngx_http_dsem_sync_t *sync)
{
    u_char                   *p;
    ngx_int_t                 may, release;
    ngx_str_t                 keys[3], *key;
    ngx_http_dsem_redis_t    *redis;
    ngx_http_dsem_account_t  *account;

    static u_char             orders[NGX_HTTP_DSEM_KEY_LEN
                                     + sizeof(":orders")];

    account = sync->account;
    redis = ngx_http_dsem_session_redis();
    key = ngx_http_dsem_session_key();

    p = ngx_cpymem(orders, key->data, key->len);
    p = ngx_cpymem(p, ":orders", sizeof(":orders") - 1);

    keys[0].data = orders;
    keys[0].len = p - orders;
    keys[1] = account->key;
    keys[2] = account->queue_key;

    if (ngx_http_dsem_redis_begin(redis, NGX_HTTP_DSEM_SCRIPT_SYNC, keys, 3,
                                  8 + 2 * sync->ncancels + 4 * sync->nasks
                                  + 2 * sync->nchecks)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_redis_number(redis, ngx_http_dsem_session_generation());
    ngx_http_dsem_redis_string(redis, &account->node.str);
    ngx_http_dsem_redis_number(redis, account->limit);

    may = ngx_http_dsem_session_current() ? NGX_HTTP_DSEM_MAY_SET_LIMIT : 0;

    if (ngx_http_dsem_idle_keeps(account)) {
        may |= NGX_HTTP_DSEM_KEEPS_PERMITS;
    }

    ngx_http_dsem_redis_number(redis, may);

    account->last_sync = ngx_current_msec;
    account->refresh = 0;

    release = ngx_http_dsem_sync_release(account);
    account->pending_release -= release;

    ngx_http_dsem_redis_number(redis, release);
    ngx_http_dsem_redis_number(redis, sync->ncancels);
    ngx_http_dsem_redis_number(redis, sync->nasks);
    ngx_http_dsem_redis_number(redis, sync->nchecks);

    return NGX_OK;
}


static void
ngx_http_dsem_sync_ticket(ngx_http_dsem_sync_ticket_t *told,
    ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_redis_t  *redis;

    told->number = ticket->number;
    told->weight = ticket->weight;

    redis = ngx_http_dsem_session_redis();

    ngx_http_dsem_redis_number(redis, told->number);
    ngx_http_dsem_redis_number(redis, told->weight);
}


static ngx_int_t
ngx_http_dsem_sync_call(ngx_http_dsem_sync_t *sync)
{
    if (ngx_http_dsem_redis_call(ngx_http_dsem_session_redis(),
                                 ngx_http_dsem_sync_handler, sync)
        != NGX_OK)
    {
        return ngx_http_dsem_sync_lost(sync);
    }

    sync->account->inflight++;

    ngx_log_debug5(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem sync \"%V\": cancels:%ui asks:%ui checks:%ui "
                   "inflight:%ui", &sync->account->node.str, sync->ncancels,
                   sync->nasks, sync->nchecks, sync->account->inflight);

    return NGX_OK;
}
