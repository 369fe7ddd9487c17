
/*
 * What Redis says to a sync, carried into the account and its tickets.
 *
 * Every number here is Redis's word about tickets that may have moved on
 * meanwhile: one that is not known any more is passed over.  The reply to a
 * command of an older epoch is not looked at, and where counts differ
 * nothing is guessed: the session begins anew.
 *
 * Called by: redis (the reply to a sync) and declare (a semaphore's keys are
 * not ours).  The order of values is that of lua/sync.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_sync_reply.h"


/* keys that another program uses are complained of so often at most, ms */
#define NGX_HTTP_DSEM_BROKEN_PERIOD   60000

/* values in the reply to a sync, before those for cancels, asks, checks */
#define NGX_HTTP_DSEM_SYNC_IN_USE     0
#define NGX_HTTP_DSEM_SYNC_LIMIT      1
#define NGX_HTTP_DSEM_SYNC_WAITING    2
#define NGX_HTTP_DSEM_SYNC_RECOVERY   3
#define NGX_HTTP_DSEM_SYNC_HELD       4
#define NGX_HTTP_DSEM_SYNC_TICKETS    5
#define NGX_HTTP_DSEM_SYNC_MAY_KEEP   6
#define NGX_HTTP_DSEM_SYNC_VALUES     7


/* verdicts on an ask, as in lua/sync.lua */
typedef enum {
    NGX_HTTP_DSEM_ASK_REFUSED = 0,
    NGX_HTTP_DSEM_ASK_GRANTED,
    NGX_HTTP_DSEM_ASK_QUEUED,
    NGX_HTTP_DSEM_ASK_RECOVERING
} ngx_http_dsem_ask_e;


/* what became of a checked ticket, as in lua/sync.lua */
typedef enum {
    NGX_HTTP_DSEM_CHECK_ABSENT = 0,
    NGX_HTTP_DSEM_CHECK_QUEUED,
    NGX_HTTP_DSEM_CHECK_REFUSED
} ngx_http_dsem_check_e;


static ngx_int_t ngx_http_dsem_sync_read(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_sync_read_cancels(ngx_http_dsem_sync_t *sync,
    int64_t *value);
static ngx_int_t ngx_http_dsem_sync_read_asks(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply, int64_t *value);
static void ngx_http_dsem_sync_usage(ngx_http_dsem_account_t *account,
    int64_t *values);
static void ngx_http_dsem_sync_contended(ngx_http_dsem_account_t *account,
    ngx_uint_t full);
static ngx_int_t ngx_http_dsem_sync_read_checks(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply, int64_t *value);
static ngx_int_t ngx_http_dsem_sync_grant(uint64_t number,
    int64_t *values);


/* the reply to a sync; frees what it was sent with */

void
ngx_http_dsem_sync_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_sync_t *sync = data;

    ngx_int_t                 rc;
    ngx_http_dsem_account_t  *account;

    if (reply == NULL || sync->epoch != ngx_http_dsem_session_epoch()) {
        ngx_free(sync);
        return;
    }

    account = sync->account;
    account->inflight--;

    switch (reply->status) {

    case NGX_HTTP_DSEM_REPLY_OK:
        rc = ngx_http_dsem_sync_read(sync, reply);
        break;

    case NGX_HTTP_DSEM_REPLY_BROKEN:
        ngx_http_dsem_sync_broken(account);
        rc = NGX_OK;
        break;

    default:
        ngx_http_dsem_session_resync("session unknown to redis", 1);
        rc = NGX_ERROR;
        break;
    }

    ngx_free(sync);

    if (rc == NGX_OK) {
        /* what had to wait for this answer, or the end of the account */
        ngx_http_dsem_account_post(account);
    }
}


/* NGX_ERROR: the session begins anew, the account may be gone */

static ngx_int_t
ngx_http_dsem_sync_read(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply)
{
    int64_t     *value;
    ngx_uint_t   i, n;

    n = NGX_HTTP_DSEM_SYNC_VALUES + sync->ncancels + 3 * sync->nasks
        + sync->nchecks;

    if (reply->nvalues < n) {
        ngx_http_dsem_redis_drop(ngx_http_dsem_session_redis(),
                                 "reply too short");
        return NGX_ERROR;
    }

    if (sync->account->broken) {
        /* somebody has cleared the keys, and with them our permits */
        ngx_http_dsem_session_resync("semaphore keys usable again", 0);
        return NGX_ERROR;
    }

    value = reply->values + NGX_HTTP_DSEM_SYNC_VALUES;

    ngx_http_dsem_sync_usage(sync->account, reply->values);

    ngx_http_dsem_sync_read_cancels(sync, value);
    value += sync->ncancels;

    if (ngx_http_dsem_sync_read_asks(sync, reply, value) != NGX_OK) {
        return NGX_ERROR;
    }

    value += 3 * sync->nasks;

    if (sync->check
        && ngx_http_dsem_sync_read_checks(sync, reply, value) != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = n; i < reply->nvalues; i++) {
        if (ngx_http_dsem_sync_grant(reply->values[i], reply->values)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_http_dsem_sync_read_cancels(ngx_http_dsem_sync_t *sync, int64_t *value)
{
    ngx_uint_t               i;
    ngx_http_dsem_ticket_t  *ticket;

    for (i = 0; i < sync->ncancels; i++) {
        ticket = ngx_http_dsem_ticket_find(sync->tickets[i].number);

        if (ticket == NULL) {
            /* refused meanwhile: it is not in the queue, and has nothing */
            continue;
        }

        if (value[i]) {
            ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);

        } else {
            ngx_http_dsem_ticket_too_late(ticket);
        }
    }
}


static ngx_int_t
ngx_http_dsem_sync_read_asks(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply, int64_t *value)
{
    int64_t                  *values;
    ngx_uint_t                i;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_account_t  *account;

    account = sync->account;
    values = reply->values;

    for (i = 0; i < sync->nasks; i++, value += 3) {
        ticket = ngx_http_dsem_ticket_find(
                                   sync->tickets[sync->ncancels + i].number);

        if (ticket == NULL) {
            /* a message has been faster */
            continue;
        }

        switch (value[0]) {

        case NGX_HTTP_DSEM_ASK_GRANTED:
            if (ngx_http_dsem_sync_grant(sync->tickets[sync->ncancels
                                                       + i].number,
                                         values)
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            break;

        case NGX_HTTP_DSEM_ASK_QUEUED:
            ngx_http_dsem_sync_contended(account, 0);
            ngx_http_dsem_ticket_queued(ticket, value[1], value[2],
                                        values[NGX_HTTP_DSEM_SYNC_IN_USE],
                                        values[NGX_HTTP_DSEM_SYNC_LIMIT]);
            break;

        case NGX_HTTP_DSEM_ASK_RECOVERING:
            ngx_http_dsem_account_pause(account,
                                   values[NGX_HTTP_DSEM_SYNC_RECOVERY] + 1);
            ngx_http_dsem_ticket_again(ticket);
            break;

        default: /* NGX_HTTP_DSEM_ASK_REFUSED */
            ngx_http_dsem_sync_contended(account, 1);
            ticket->answer.in_use = values[NGX_HTTP_DSEM_SYNC_IN_USE];
            ticket->answer.limit = values[NGX_HTTP_DSEM_SYNC_LIMIT];
            ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);
            break;
        }
    }

    return NGX_OK;
}


static void
ngx_http_dsem_sync_usage(ngx_http_dsem_account_t *account, int64_t *values)
{
    account->usage.in_use = values[NGX_HTTP_DSEM_SYNC_IN_USE];
    account->usage.limit = values[NGX_HTTP_DSEM_SYNC_LIMIT];
    account->usage.waiting = values[NGX_HTTP_DSEM_SYNC_WAITING];

    ngx_http_dsem_idle_told(account, values[NGX_HTTP_DSEM_SYNC_MAY_KEEP]);
}


/* what is to be expected is told from it when the account is gone */

static void
ngx_http_dsem_sync_contended(ngx_http_dsem_account_t *account,
    ngx_uint_t full)
{
    ngx_http_dsem_hint_usage(&account->node.str, account->node.node.key,
                             &account->usage, full);
}


/*
 * Absence from the queue proves nothing, the account's counts do: only when
 * they say the same have the absent tickets been granted.
 */

static ngx_int_t
ngx_http_dsem_sync_read_checks(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply, int64_t *value)
{
    int64_t                       held, queued, *values;
    ngx_uint_t                    i;
    ngx_http_dsem_ticket_t       *ticket;
    ngx_http_dsem_sync_ticket_t  *told;

    values = reply->values;
    held = sync->held;
    queued = sync->unchecked;

    for (i = 0; i < sync->nchecks; i++) {
        if (value[i] == NGX_HTTP_DSEM_CHECK_ABSENT) {
            held += sync->tickets[i].weight;

        } else if (value[i] == NGX_HTTP_DSEM_CHECK_QUEUED) {
            queued++;
        }
    }

    if (held != values[NGX_HTTP_DSEM_SYNC_HELD]
        || queued != values[NGX_HTTP_DSEM_SYNC_TICKETS])
    {
        ngx_http_dsem_session_resync("counts differ", 1);
        return NGX_ERROR;
    }

    for (i = 0; i < sync->nchecks; i++) {
        told = &sync->tickets[i];

        if (value[i] == NGX_HTTP_DSEM_CHECK_ABSENT
            && ngx_http_dsem_sync_grant(told->number, values) != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (value[i] == NGX_HTTP_DSEM_CHECK_REFUSED) {
            ticket = ngx_http_dsem_ticket_find(told->number);

            if (ticket) {
                ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);
            }
        }
    }

    return NGX_OK;
}


/* a ticket that is not known any more was granted by a message before */

static ngx_int_t
ngx_http_dsem_sync_grant(uint64_t number, int64_t *values)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = ngx_http_dsem_ticket_find(number);

    if (ticket
        && ngx_http_dsem_ticket_grant(ticket,
                                      values[NGX_HTTP_DSEM_SYNC_IN_USE],
                                      values[NGX_HTTP_DSEM_SYNC_LIMIT])
           != NGX_OK)
    {
        ngx_http_dsem_session_resync("lease may have expired", 0);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* concerns this semaphore only; goes on when somebody has cleared the keys */

void
ngx_http_dsem_sync_broken(ngx_http_dsem_account_t *account)
{
    static ngx_msec_t  said;
    static ngx_uint_t  ever;

    if (!ever || ngx_current_msec - said >= NGX_HTTP_DSEM_BROKEN_PERIOD) {
        ever = 1;
        said = ngx_current_msec;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: semaphore \"%V\" unusable (key \"%V\" or \"%V\" "
                      "in redis is of another type), delete the key",
                      &account->node.str, &account->key,
                      &account->queue_key);
    }

    ngx_http_dsem_idle_forget(account);

    account->broken = (account->held != 0);
    account->pending_release = 0;

    ngx_http_dsem_account_fail(account);
}
