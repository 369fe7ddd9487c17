
/*
 * Sync replies: what Redis has done with a sync.
 *
 * The tickets of a command are in its record, as the account has moved on
 * when the reply comes: a ticket that is unknown by then is passed over.  A
 * reply to a command of an older epoch is ignored, and where counts differ
 * nothing is guessed: the session begins anew.
 *
 * Called by: redis (replies of what sync has sent).  The order of values is
 * that of lua/sync.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_auto.h"
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_sync.h"
#include "ngx_http_dsem_ticket.h"
#include "ngx_http_dsem_waiting.h"


/* values of every reply; then for each cancel, ask and check */
#define NGX_HTTP_DSEM_SYNC_IN_USE        0
#define NGX_HTTP_DSEM_SYNC_LIMIT         1
#define NGX_HTTP_DSEM_SYNC_WAITING       2
#define NGX_HTTP_DSEM_SYNC_RECOVERY      3
#define NGX_HTTP_DSEM_SYNC_HELD          4
#define NGX_HTTP_DSEM_SYNC_TICKETS       5
#define NGX_HTTP_DSEM_SYNC_MAY_KEEP      6
#define NGX_HTTP_DSEM_SYNC_MORE          7
#define NGX_HTTP_DSEM_SYNC_VALUES        8
#define NGX_HTTP_DSEM_SYNC_ASK_VALUES    3

/* of a pool two more, behind the first ones */
#define NGX_HTTP_DSEM_SYNC_EACH          8
#define NGX_HTTP_DSEM_SYNC_OVER          9
#define NGX_HTTP_DSEM_SYNC_POOL_VALUES   2


typedef enum {
    /* R15: codes in replies */
    NGX_HTTP_DSEM_ASK_REJECTED = 0,
    NGX_HTTP_DSEM_ASK_GRANTED,
    NGX_HTTP_DSEM_ASK_QUEUED,
    NGX_HTTP_DSEM_ASK_RECOVERING
} ngx_http_dsem_ask_e;


typedef enum {
    NGX_HTTP_DSEM_CHECK_ABSENT = 0,
    NGX_HTTP_DSEM_CHECK_QUEUED,
    NGX_HTTP_DSEM_CHECK_REJECTED
} ngx_http_dsem_check_e;


static ngx_int_t ngx_http_dsem_sync_reply_read(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply);
static ngx_uint_t ngx_http_dsem_sync_reply_kept(ngx_http_dsem_sync_t *sync,
    int64_t *values);
static void ngx_http_dsem_sync_reply_usage(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_sync_reply_limit(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply, ngx_int_t limit);
static void ngx_http_dsem_sync_reply_over(ngx_http_dsem_sync_t *sync,
    int64_t *values, ngx_int_t limit, ngx_int_t over);
static void ngx_http_dsem_sync_reply_admitted(ngx_http_dsem_sync_t *sync,
    ngx_int_t over);
static void ngx_http_dsem_sync_reply_cancels(ngx_http_dsem_sync_t *sync,
    int64_t *value);
static ngx_int_t ngx_http_dsem_sync_reply_asks(ngx_http_dsem_sync_t *sync,
    int64_t *value);
static ngx_int_t ngx_http_dsem_sync_reply_ask(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_ticket_t *ticket, int64_t *value);
static ngx_int_t ngx_http_dsem_sync_reply_checks(ngx_http_dsem_sync_t *sync,
    int64_t *values, int64_t *value, int64_t *last);
static void ngx_http_dsem_sync_reply_unchecked(ngx_http_dsem_sync_t *sync,
    int64_t *value, int64_t *last, int64_t *held, int64_t *queued);
static ngx_http_dsem_sync_ticket_t *ngx_http_dsem_sync_reply_checked(
    ngx_http_dsem_sync_t *sync, uint64_t number);
static ngx_int_t ngx_http_dsem_sync_reply_others(ngx_http_dsem_sync_t *sync,
    int64_t *value, int64_t *last);
static ngx_int_t ngx_http_dsem_sync_reply_place_absent(
    ngx_http_dsem_sync_t *sync, int64_t *value, ngx_int_t *left);
static ngx_int_t ngx_http_dsem_sync_reply_servers(ngx_http_dsem_sync_t *sync,
    int64_t *value, int64_t *last);
static ngx_uint_t ngx_http_dsem_sync_reply_counted(ngx_http_dsem_sync_t *sync);
static void ngx_http_dsem_sync_reply_reject(ngx_http_dsem_account_t *account,
    uint64_t number);
static ngx_int_t ngx_http_dsem_sync_reply_grant(
    ngx_http_dsem_account_t *account, uint64_t number, ngx_int_t server);


void
ngx_http_dsem_sync_reply_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_sync_t *sync = data;

    ngx_int_t                 rc;
    ngx_http_dsem_account_t  *account;

    if (reply == NULL) {
        ngx_free(sync);
        return;
    }

    account = sync->account;
    account->inflight--;

    if (account->check == sync) {
        account->check = NULL;
    }

    if (account->servers) {
        ngx_http_dsem_servers_answered(account->servers, sync->stated);
    }

    rc = NGX_OK;

    if (reply->status != NGX_HTTP_DSEM_REPLY_OK) {
        ngx_http_dsem_declare_refused(account, reply, sync);

    } else {
        rc = ngx_http_dsem_sync_reply_read(sync, reply);
    }

    ngx_free(sync);

    if (rc == NGX_OK) {
        /* for commands that had to wait, or the end of the account */
        ngx_http_dsem_account_post(account);
    }
}


/* NGX_ERROR: the session begins anew, the account may be gone */

static ngx_int_t
ngx_http_dsem_sync_reply_read(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply)
{
    int64_t                  *values, *value, *last;
    ngx_uint_t                n;
    ngx_http_dsem_account_t  *account;

    values = reply->values;
    account = sync->account;

    n = NGX_HTTP_DSEM_SYNC_VALUES
        + (account->servers ? NGX_HTTP_DSEM_SYNC_POOL_VALUES : 0);

    if (reply->nvalues < n
                         + sync->ncancels
                         + sync->nasks * NGX_HTTP_DSEM_SYNC_ASK_VALUES
                         + sync->nchecks
                         + ngx_http_dsem_sync_reply_counted(sync))
    {
        ngx_http_dsem_redis_drop(sync->session->redis, "reply too short");
        return NGX_ERROR;
    }

    if (account->broken && !ngx_http_dsem_sync_reply_kept(sync, values)) {
        /* permits of this worker are not counted, or those that it released */
        ngx_http_dsem_handshake_resync(sync->session,
                                       "semaphore keys usable again", 0);
        return NGX_ERROR;
    }

    account->broken = 0;

    value = values + n;
    last = values + reply->nvalues;

    account->keep_acked = sync->keep;

    ngx_http_dsem_sync_reply_usage(sync, reply);

    ngx_http_dsem_sync_reply_cancels(sync, value);
    value += sync->ncancels;

    if (ngx_http_dsem_sync_reply_asks(sync, value) != NGX_OK) {
        return NGX_ERROR;
    }

    value += sync->nasks * NGX_HTTP_DSEM_SYNC_ASK_VALUES;

    if (sync->check
        && ngx_http_dsem_sync_reply_checks(sync, values, value, last)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    value += sync->nchecks + ngx_http_dsem_sync_reply_counted(sync);

    return ngx_http_dsem_sync_reply_others(sync, value, last);
}


/*
 * The first reply after one that the keys are of another type: Redis counts
 * what this worker has, as only the queue was unusable, and may still be.  The
 * session does not begin anew for that, once a poll.
 */

static ngx_uint_t
ngx_http_dsem_sync_reply_kept(ngx_http_dsem_sync_t *sync, int64_t *values)
{
    return sync->nasks == 0
           && values[NGX_HTTP_DSEM_SYNC_HELD] == sync->held
           && values[NGX_HTTP_DSEM_SYNC_TICKETS] == 0
           && ngx_http_dsem_ledger_sum(sync->account) == sync->held;
}


/* other tickets of this session that were granted, or dropped */

static ngx_int_t
ngx_http_dsem_sync_reply_others(ngx_http_dsem_sync_t *sync, int64_t *value,
    int64_t *last)
{
    uint64_t                  number;
    ngx_int_t                 server;
    ngx_http_dsem_account_t  *account;

    account = sync->account;

    for ( /* void */ ; value < last; value++) {

        if (*value < 0) {
            ngx_http_dsem_sync_reply_reject(account, 0 - (uint64_t) *value);
            continue;
        }

        number = *value;
        server = NGX_HTTP_DSEM_NO_SERVER;

        if (account->servers && value + 1 < last) {
            server = ngx_http_dsem_servers_nth(account->servers, sync->list,
                                               *++value);
        }

        if (ngx_http_dsem_sync_reply_grant(account, number, server) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* values of a check of a pool that count permits by server */

static ngx_uint_t
ngx_http_dsem_sync_reply_counted(ngx_http_dsem_sync_t *sync)
{
    return (sync->account->servers && sync->nchecks)
           ? ngx_http_dsem_servers_count(sync->list) : 0;
}


static void
ngx_http_dsem_sync_reply_usage(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply)
{
    int64_t                  *values;
    ngx_int_t                 limit, over;
    ngx_msec_t                recovery;
    ngx_http_dsem_account_t  *account;

    values = reply->values;
    account = sync->account;

    account->usage.in_use = values[NGX_HTTP_DSEM_SYNC_IN_USE];
    account->usage.waiting = values[NGX_HTTP_DSEM_SYNC_WAITING];

    /* of a pool an order may make it more than 32 bits hold */
    account->usage.limit = (ngx_int_t) ngx_min(
                                              values[NGX_HTTP_DSEM_SYNC_LIMIT],
                                              NGX_MAX_INT_T_VALUE);

    ngx_http_dsem_counters_most(&account->counted,
                                ngx_http_dsem_ledger_in_use(account,
                                                      account->usage.in_use),
                                account->usage.waiting, account->usage.limit);

    if (account->fair) {
        ngx_http_dsem_fair_contend(account->fair, account->usage.waiting > 0);
    }

    recovery = values[NGX_HTTP_DSEM_SYNC_RECOVERY];

    if (recovery) {
        ngx_http_dsem_account_pause(account, recovery + 1);
        ngx_http_dsem_session_set_recovery(account->session, recovery);
    }

    limit = account->usage.limit;
    over = account->usage.in_use - limit;

    if (account->servers) {
        /* of the sums one server may be above its limit, others below */
        limit = values[NGX_HTTP_DSEM_SYNC_EACH];
        over = values[NGX_HTTP_DSEM_SYNC_OVER];
    }

    ngx_http_dsem_sync_reply_limit(sync, reply, limit);
    ngx_http_dsem_sync_reply_over(sync, values, limit, over);
    ngx_http_dsem_idle_update(account, values[NGX_HTTP_DSEM_SYNC_MAY_KEEP]);

    /* the work of one call is bounded; Redis has left some of it */
    account->refresh |= (values[NGX_HTTP_DSEM_SYNC_MORE] != 0);
}


/*
 * What is in force in an outage, too.  While Redis recovers not all
 * configurations are registered again; that of "limit=auto" is kept elsewhere.
 */

static void
ngx_http_dsem_sync_reply_limit(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_reply_t *reply, ngx_int_t limit)
{
    int64_t                  *values;
    ngx_int_t                 own;
    ngx_http_dsem_limits_t   *limits;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_literal_t  *literal;

    values = reply->values;
    account = sync->account;
    limits = &account->session->limits;
    own = -1;

    if (values[NGX_HTTP_DSEM_SYNC_RECOVERY] == 0) {
        literal = ngx_http_dsem_account_literal(account);

        if (literal) {
            own = ngx_http_dsem_limits_seen(limits, literal, limit,
                                            reply->sent);

        } else if (account->servers == NULL) {
            own = sync->limit;
        }
    }

    ngx_http_dsem_limits_seen_lower(limits,
                                ngx_http_dsem_session_newest(account->session),
                                &account->node.str, account->node.node.key,
                                own, limit,
                                values[NGX_HTTP_DSEM_SYNC_MAY_KEEP] < 0,
                                reply->sent);
}


/* permits above the limit, below 0: room for more */

static void
ngx_http_dsem_sync_reply_over(ngx_http_dsem_sync_t *sync, int64_t *values,
    ngx_int_t limit, ngx_int_t over)
{
    ngx_int_t                 in_force;
    ngx_http_dsem_account_t  *account;

    account = sync->account;
    in_force = limit;

    if (account->admitted
        && values[NGX_HTTP_DSEM_SYNC_RECOVERY]
           <= (int64_t) NGX_HTTP_DSEM_SYNC_DECLARED(account->session))
    {
        ngx_http_dsem_sync_reply_admitted(sync, over);
    }

    if (account->admitted == 0) {

        /*
         * What may be out above the configured limit without a fault: permits
         * of before the limit was lowered, and those of a raised one, of an
         * order that is lost with the state.
         */

        account->excess = ngx_max(over, 0);

        limit -= ngx_http_dsem_account_limit(account);

        if (limit > 0) {
            account->excess += account->servers
                               ? limit * (ngx_int_t) account->servers->n
                               : limit;
        }
    }

    if (values[NGX_HTTP_DSEM_SYNC_RECOVERY]) {
        ngx_http_dsem_ledger_lower_recovering(account, in_force,
                                              values[NGX_HTTP_DSEM_SYNC_HELD]);

    } else {

        if (over <= 0) {
            ngx_http_dsem_ledger_owned(account);
        }

        account->lowered = ngx_max(over, 0);
    }

    account->lowered_to = in_force;

    if (values[NGX_HTTP_DSEM_SYNC_MAY_KEEP] < 0) {
        /* paused: all that come free */
        account->lowered = NGX_MAX_INT_T_VALUE;
    }
}


/*
 * All workers have declared what ran without Redis: of what this one has
 * admitted so much is an overage as is above the limit.  That has gone back
 * with this sync, and ran until now, too; of a pool at a server that may not
 * be one of those above their limits.
 */

static void
ngx_http_dsem_sync_reply_admitted(ngx_http_dsem_sync_t *sync, ngx_int_t over)
{
    ngx_http_dsem_account_t  *account;

    account = sync->account;

    if (account->servers == NULL) {
        over += sync->released;
    }

    ngx_http_dsem_session_overage(&account->node.str,
                                  ngx_min(account->admitted, over),
                                  "requests were admitted while redis was "
                                  "unavailable");
    account->admitted = 0;
}


static void
ngx_http_dsem_sync_reply_cancels(ngx_http_dsem_sync_t *sync, int64_t *value)
{
    ngx_uint_t               i;
    ngx_http_dsem_ticket_t  *ticket;

    for (i = 0; i < sync->ncancels; i++) {
        ticket = ngx_http_dsem_waiting_find(sync->tickets[i].number);

        if (ticket == NULL) {
            /* rejected meanwhile: not in the queue, without permits */
            continue;
        }

        if (value[i]) {
            ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);

        } else {
            ngx_http_dsem_ticket_cancel_late(ticket);
        }
    }
}


static ngx_int_t
ngx_http_dsem_sync_reply_asks(ngx_http_dsem_sync_t *sync, int64_t *value)
{
    ngx_uint_t               i;
    ngx_http_dsem_ticket_t  *ticket;

    for (i = 0; i < sync->nasks; i++) {
        ticket = ngx_http_dsem_waiting_find(
                                   sync->tickets[sync->ncancels + i].number);

        /* NULL: a message has been faster */

        if (ticket
            && ngx_http_dsem_sync_reply_ask(sync, ticket, value) != NGX_OK)
        {
            return NGX_ERROR;
        }

        value += NGX_HTTP_DSEM_SYNC_ASK_VALUES;
    }

    return NGX_OK;
}


/* verdict, place and position of one ticket */

static ngx_int_t
ngx_http_dsem_sync_reply_ask(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_ticket_t *ticket, int64_t *value)
{
    ngx_int_t                 server;
    ngx_http_dsem_usage_t    *usage;
    ngx_http_dsem_account_t  *account;

    account = sync->account;
    usage = &account->usage;

    switch (value[0]) {

    case NGX_HTTP_DSEM_ASK_GRANTED:
        server = account->servers
                 ? ngx_http_dsem_servers_nth(account->servers, sync->list,
                                             value[1])
                 : NGX_HTTP_DSEM_NO_SERVER;

        return ngx_http_dsem_sync_reply_grant(account, ticket->number, server);

    case NGX_HTTP_DSEM_ASK_QUEUED:
        ngx_http_dsem_account_contended(account, sync->limit, 0);
        ngx_http_dsem_ticket_queued(ticket, value[1], value[2],
                                    usage->in_use, usage->limit);
        return NGX_OK;

    case NGX_HTTP_DSEM_ASK_RECOVERING:
        if (ticket->pass) {
            ngx_http_dsem_ticket_end(ticket,
                                     NGX_HTTP_DSEM_VERDICT_UNAVAILABLE);
        } else {
            ngx_http_dsem_ticket_unsend(ticket);
        }

        return NGX_OK;

    default: /* NGX_HTTP_DSEM_ASK_REJECTED */
        ngx_http_dsem_account_contended(account, sync->limit, 1);
        ngx_http_dsem_auto_full(account);
        ticket->answer.in_use = usage->in_use;
        ticket->answer.limit = usage->limit;
        ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);
        return NGX_OK;
    }
}


/*
 * Absence from the queue proves nothing, the account's counts do: only if
 * they agree have the absent tickets been granted.
 */

static ngx_int_t
ngx_http_dsem_sync_reply_checks(ngx_http_dsem_sync_t *sync, int64_t *values,
    int64_t *value, int64_t *last)
{
    int64_t     held, queued, *rest;
    ngx_uint_t  i;

    held = sync->held;
    queued = sync->unchecked - sync->granted;

    for (i = 0; i < sync->nchecks; i++) {
        if (value[i] == NGX_HTTP_DSEM_CHECK_ABSENT) {
            held += sync->tickets[i].weight;

        } else if (value[i] == NGX_HTTP_DSEM_CHECK_QUEUED) {
            queued++;
        }
    }

    if (sync->unchecked) {
        rest = value + sync->nchecks + ngx_http_dsem_sync_reply_counted(sync);

        ngx_http_dsem_sync_reply_unchecked(sync, rest, last, &held, &queued);
    }

    if (held != values[NGX_HTTP_DSEM_SYNC_HELD]
        || queued != values[NGX_HTTP_DSEM_SYNC_TICKETS]
        || (sync->sums
            && ngx_http_dsem_sync_reply_servers(sync, value, last) != NGX_OK))
    {
        if (sync->unchecked && !sync->account->check_failed) {
            /* a message about one of the others may be on its way */
            sync->account->check_failed = 1;
            return NGX_OK;
        }

        sync->account->check_failed = 0;
        ngx_http_dsem_handshake_resync(sync->session, "counts differ", 1);
        return NGX_ERROR;
    }

    sync->account->check_failed = 0;

    for (i = 0; i < sync->nchecks; i++) {

        if (value[i] == NGX_HTTP_DSEM_CHECK_ABSENT
            && ngx_http_dsem_sync_reply_grant(sync->account,
                                              sync->tickets[i].number,
                                              sync->tickets[i].server)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (value[i] == NGX_HTTP_DSEM_CHECK_REJECTED) {
            ngx_http_dsem_sync_reply_reject(sync->account,
                                            sync->tickets[i].number);
        }
    }

    return NGX_OK;
}


/*
 * Of a pool: the servers of absent tickets.  Those of grants by this call are
 * in the reply, those of messages that came since it was sent in the record.
 * What Redis counts beyond these, and beyond what the ledger had, are grants
 * whose messages were lost: as each is one permit, any assignment is right.
 * NGX_DECLINED: the counts by server differ.
 */

static ngx_int_t
ngx_http_dsem_sync_reply_servers(ngx_http_dsem_sync_t *sync, int64_t *value,
    int64_t *last)
{
    int64_t                      *pair;
    ngx_int_t                     left[NGX_HTTP_DSEM_MAX_SERVERS], server;
    ngx_uint_t                    i;
    ngx_http_dsem_servers_t      *servers;
    ngx_http_dsem_sync_ticket_t  *ticket;

    servers = sync->account->servers;
    pair = value + sync->nchecks;

    /* at servers that are not in the reply nothing can be found */

    ngx_memzero(left, sizeof(left));

    for (i = 0; i < servers->nsorted; i++) {
        server = servers->sorted[i];

        if (sync->list & ((uint64_t) 1 << server)) {
            left[server] = *pair++ - sync->sums[server];
        }
    }

    for ( /* void */ ; pair + 1 < last && *pair > 0; pair += 2) {
        server = ngx_http_dsem_servers_nth(servers, sync->list, pair[1]);

        if (server == NGX_HTTP_DSEM_NO_SERVER) {
            return NGX_DECLINED;
        }

        ticket = ngx_http_dsem_sync_reply_checked(sync, *pair);

        if (ticket) {
            ticket->server = server;

        } else {
            left[server]--;
        }
    }

    return ngx_http_dsem_sync_reply_place_absent(sync, value, left);
}


/*
 * The granted tickets whose server no message named: what the counts have
 * more.  NGX_DECLINED: these do not add up.
 */

static ngx_int_t
ngx_http_dsem_sync_reply_place_absent(ngx_http_dsem_sync_t *sync,
    int64_t *value, ngx_int_t *left)
{
    ngx_uint_t                    i, k;
    ngx_http_dsem_servers_t      *servers;
    ngx_http_dsem_sync_ticket_t  *ticket;

    servers = sync->account->servers;

    for (i = 0; i < sync->nchecks; i++) {
        ticket = &sync->tickets[i];

        if (value[i] == NGX_HTTP_DSEM_CHECK_ABSENT
            && ticket->server != NGX_HTTP_DSEM_NO_SERVER
            && (sync->list & ((uint64_t) 1 << ticket->server)))
        {
            left[ticket->server]--;
        }
    }

    k = 0;

    for (i = 0; i < sync->nchecks; i++) {
        ticket = &sync->tickets[i];

        if (value[i] != NGX_HTTP_DSEM_CHECK_ABSENT
            || ticket->server != NGX_HTTP_DSEM_NO_SERVER)
        {
            continue;
        }

        while (k < servers->n && left[k] <= 0) {
            k++;
        }

        if (k == servers->n) {
            return NGX_DECLINED;
        }

        left[k]--;
        ticket->server = k;
    }

    for (i = 0; i < servers->n; i++) {
        if (left[i] != 0) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/*
 * A message has granted a ticket, of a pool at a server, while a check is on
 * its way: Redis has counted it before, or does so just after it.
 */

void
ngx_http_dsem_sync_reply_granted(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t server)
{
    ngx_http_dsem_sync_t         *sync;
    ngx_http_dsem_account_t      *account;
    ngx_http_dsem_sync_ticket_t  *checked;

    account = ticket->account;
    sync = account->check;

    if (!ngx_http_dsem_session_ready(account->session)) {
        /* the check was freed with its call */
        return;
    }

    checked = ngx_http_dsem_sync_reply_checked(sync, ticket->number);

    if (checked) {
        checked->server = server;
        return;
    }

    /*
     * One that was queued when the check was sent, if any was beside it; one
     * whose ask follows the check has no reply yet.
     */

    if (sync->unchecked && ticket->state == NGX_HTTP_DSEM_TICKET_QUEUED) {
        sync->granted++;
        sync->held += ticket->weight;

        if (sync->sums) {
            sync->sums[server]++;
        }
    }
}


/* of the other tickets those that this call has granted, or named as dropped */

static void
ngx_http_dsem_sync_reply_unchecked(ngx_http_dsem_sync_t *sync, int64_t *value,
    int64_t *last, int64_t *held, int64_t *queued)
{
    uint64_t                 number;
    ngx_uint_t               dropped;
    ngx_http_dsem_ticket_t  *ticket;

    for ( /* void */ ; value < last; value++) {
        dropped = (*value < 0);
        number = dropped ? 0 - (uint64_t) *value : (uint64_t) *value;

        if (!dropped && sync->account->servers) {
            /* the number of its server */
            value++;
        }

        if (ngx_http_dsem_sync_reply_checked(sync, number)) {
            continue;
        }

        ticket = ngx_http_dsem_waiting_find(number);

        if (ticket) {
            (*queued)--;
            *held += dropped ? 0 : ticket->weight;
        }
    }
}


/* the one that a check has compared; NULL: it is not among these */

static ngx_http_dsem_sync_ticket_t *
ngx_http_dsem_sync_reply_checked(ngx_http_dsem_sync_t *sync, uint64_t number)
{
    ngx_uint_t  i;

    for (i = 0; i < sync->nchecks; i++) {
        if (sync->tickets[i].number == number) {
            return &sync->tickets[i];
        }
    }

    return NULL;
}


/* a ticket that Redis has taken out of the queue; it may be gone */

static void
ngx_http_dsem_sync_reply_reject(ngx_http_dsem_account_t *account,
    uint64_t number)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = ngx_http_dsem_waiting_find(number);

    if (ticket && ticket->account == account) {
        ticket->answer.in_use = account->usage.in_use;
        ticket->answer.limit = account->usage.limit;

        ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);
    }
}


/* an unknown ticket was granted by a message before */

static ngx_int_t
ngx_http_dsem_sync_reply_grant(ngx_http_dsem_account_t *account,
    uint64_t number, ngx_int_t server)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = ngx_http_dsem_waiting_find(number);

    if (ticket == NULL) {
        return NGX_OK;
    }

    if (account->servers && server == NGX_HTTP_DSEM_NO_SERVER) {
        ngx_http_dsem_redis_drop(account->session->redis,
                                 "no such server in the list");
        return NGX_ERROR;
    }

    if (ngx_http_dsem_ticket_grant(ticket, server, account->usage.in_use,
                                   account->usage.limit)
        != NGX_OK)
    {
        ngx_http_dsem_handshake_resync(account->session,
                                       "lease may have expired", 0);
        return NGX_ERROR;
    }

    return NGX_OK;
}
