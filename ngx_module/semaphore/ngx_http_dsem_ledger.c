
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
 * A permit of a pool has a server: the same counts by server are the rows of
 * account->servers, whose sums are those of the account.
 *
 * Called by: ticket (a request begins and ends), idle, local, sync,
 * declare, dispatch (a new epoch).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_ledger.h"


/* what happens to all rows of a pool at once */
typedef enum {
    NGX_HTTP_DSEM_ROWS_CLEAR = 0,  /* none is idle, or to be given back */
    NGX_HTTP_DSEM_ROWS_SENT,       /* nothing is to be given back */
    NGX_HTTP_DSEM_ROWS_KEEP,       /* own permits are, and are declared */
    NGX_HTTP_DSEM_ROWS_LOSE        /* Redis counts them until the lease ends */
} ngx_http_dsem_rows_e;


static ngx_inline ngx_uint_t ngx_http_dsem_ledger_reusable(
    ngx_http_dsem_account_t *account, ngx_int_t weight);
static ngx_inline void ngx_http_dsem_ledger_measure(
    ngx_http_dsem_account_t *account, ngx_int_t weight, ngx_msec_t hold_time);
static void ngx_http_dsem_ledger_give_back_row(
    ngx_http_dsem_account_t *account, ngx_http_dsem_servers_row_t *row,
    ngx_int_t idle);
static ngx_inline void ngx_http_dsem_ledger_add_held(
    ngx_http_dsem_account_t *account, ngx_int_t weight);
static ngx_inline void ngx_http_dsem_ledger_add_idle(
    ngx_http_dsem_account_t *account, ngx_int_t weight);
static ngx_int_t ngx_http_dsem_ledger_row_own(
    ngx_http_dsem_account_t *account, ngx_http_dsem_servers_row_t *row);
static void ngx_http_dsem_ledger_rows(ngx_http_dsem_account_t *account,
    ngx_http_dsem_rows_e verb);
static void ngx_http_dsem_ledger_lower(ngx_http_dsem_account_t *account);


/* whether this worker can use a server of a pool now */
#define ngx_http_dsem_ledger_usable(account, server)                         \
    ((ngx_http_dsem_servers_usable(&(account)->node.str, (account)->servers)  \
      >> (server)) & 1)


/* of a pool, and only there a ticket has a server */
#define ngx_http_dsem_ledger_row(account, server)                            \
    (&(account)->servers->rows[server])


/* by the local limit: more may be held now than Redis counts */

void
ngx_http_dsem_ledger_admit(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server)
{
    ngx_http_dsem_ledger_hold(account, weight, server);

    account->admitted = ngx_max(account->admitted,
                                account->held - account->last_reported);
}


/* granted by Redis, or admitted without it */

void
ngx_http_dsem_ledger_hold(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server)
{
    ngx_http_dsem_ledger_add_held(account, weight);

    if (server != NGX_HTTP_DSEM_NO_SERVER) {
        ngx_http_dsem_ledger_row(account, server)->held += weight;
    }
}


/*
 * Idle permits for a request: true if they cover it.  Otherwise they go back
 * with its ask, so that no request waits for permits that lie here.
 */

ngx_uint_t
ngx_http_dsem_ledger_reuse(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    if (account->idle == 0) {
        return 0;
    }

    if (!ngx_http_dsem_ledger_reusable(account, weight)) {
        ngx_http_dsem_ledger_give_back_idle(account, account->idle);
        return 0;
    }

    ngx_http_dsem_ledger_add_idle(account, -weight);
    ngx_http_dsem_ledger_add_held(account, weight);
    account->reused = 1;

    return 1;
}


/* permits are idle only in a session that is ready */

static ngx_inline ngx_uint_t
ngx_http_dsem_ledger_reusable(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    if (account->idle < weight
        || account->limit != account->sent_limit
        || account->reuse == 0
        || account->strict
        || ngx_http_dsem_lease_fenced(&account->session->lease))
    {
        return 0;
    }

    return 1;
}


/*
 * Of a pool: an idle permit for a request, at the server at which requests of
 * this worker hold fewest, of equal ones that with most idle permits.  Those of
 * servers that it cannot use now go back.  NGX_HTTP_DSEM_NO_SERVER: none is
 * left.
 */

ngx_int_t
ngx_http_dsem_ledger_reuse_server(ngx_http_dsem_account_t *account)
{
    ngx_uint_t                    i;
    ngx_http_dsem_servers_t      *servers;
    ngx_http_dsem_servers_row_t  *row, *best;

    if (account->idle == 0) {
        return NGX_HTTP_DSEM_NO_SERVER;
    }

    ngx_http_dsem_ledger_give_back_unusable(account);

    if (!ngx_http_dsem_ledger_reusable(account, 1)) {
        ngx_http_dsem_ledger_give_back_idle(account, account->idle);
        return NGX_HTTP_DSEM_NO_SERVER;
    }

    best = NULL;
    servers = account->servers;

    for (i = 0; i < servers->n; i++) {
        row = &servers->rows[i];

        if (row->idle
            && (best == NULL
                || row->held < best->held
                || (row->held == best->held && row->idle > best->idle)))
        {
            best = row;
        }
    }

    if (best == NULL) {
        /* never so: each idle permit of a pool has a server */
        return NGX_HTTP_DSEM_NO_SERVER;
    }

    best->idle--;
    best->held++;

    ngx_http_dsem_ledger_add_idle(account, -1);
    ngx_http_dsem_ledger_add_held(account, 1);
    account->reused = 1;

    return best - servers->rows;
}


/*
 * A request's permits come free after a hold time in ms: true if they stay for
 * the next one, otherwise they have to be given back.  None stays before Redis
 * has replied that it recalls it: the semaphore may have been paused meanwhile.
 * Asks that await their reply are no reason to give permits back as long as
 * there is room for them: every request would take away the permit of the next.
 * If they must wait, the reply will recall idle permits.  server: of a pool's
 * permit; failed: there, so that the next request may get another one.
 */

ngx_uint_t
ngx_http_dsem_ledger_keep(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_msec_t hold_time, ngx_int_t server,
    ngx_uint_t failed)
{
    ngx_http_dsem_ledger_measure(account, weight, hold_time);

    if (!account->keep_sent
        || !account->keep_acked
        || !account->keep_allowed
        || account->refresh
        || account->disowned
        || failed
        || !account->synced
        || account->idle + weight > account->share
        || (account->demand
            && account->usage.in_use + account->demand
               > account->usage.limit)
        || ngx_exiting)
    {
        return 0;
    }

    if (server != NGX_HTTP_DSEM_NO_SERVER) {

        if (!ngx_http_dsem_ledger_usable(account, server)) {
            /* it has failed; others may be able to use it */
            return 0;
        }

        ngx_http_dsem_ledger_row(account, server)->held -= weight;
        ngx_http_dsem_ledger_row(account, server)->idle += weight;
    }

    ngx_http_dsem_ledger_add_held(account, -weight);
    ngx_http_dsem_ledger_add_idle(account, weight);

    if (!account->tick.timer_set) {
        account->idle_low = account->idle;
        ngx_add_timer(&account->tick, ngx_max(account->reuse / 2, 1));
    }

    if (account->nasks || account->demand) {
        /* served from idle permits before they are sent, or if Redis is late */
        ngx_http_dsem_account_post(account);
    }

    return 1;
}


/* means of the semaphore, in eighths of ms */

static ngx_inline void
ngx_http_dsem_ledger_measure(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_msec_t hold_time)
{
    double  permit_time;

    permit_time = (double) hold_time * weight;

    if (account->hold_time == 0) {
        account->hold_time = hold_time << NGX_HTTP_DSEM_HOLD_TIME_SHIFT;
        account->permit_time = permit_time
                               * (1 << NGX_HTTP_DSEM_HOLD_TIME_SHIFT);

    } else {
        account->hold_time += hold_time - (account->hold_time
                                           >> NGX_HTTP_DSEM_HOLD_TIME_SHIFT);
        account->permit_time += permit_time
                                - account->permit_time
                                  / (1 << NGX_HTTP_DSEM_HOLD_TIME_SHIFT);
    }

    account->hold_time = ngx_max(account->hold_time, 1);
}


static ngx_inline void
ngx_http_dsem_ledger_add_held(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    account->held += weight;
    account->session->held += weight;
    account->counted.cell->in_use += (int32_t) weight;
}


static ngx_inline void
ngx_http_dsem_ledger_add_idle(ngx_http_dsem_account_t *account,
    ngx_int_t weight)
{
    account->idle += weight;
    account->idle_low = ngx_min(account->idle_low, account->idle);
    account->counted.cell->idle += (int32_t) weight;
}


/* a request's permits come free and go back */

void
ngx_http_dsem_ledger_give_back(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server)
{
    ngx_http_dsem_servers_row_t  *row;

    ngx_http_dsem_ledger_add_held(account, -weight);

    if (server != NGX_HTTP_DSEM_NO_SERVER) {
        row = ngx_http_dsem_ledger_row(account, server);
        row->held -= weight;
        row->pending_release += account->synced ? weight : 0;
    }

    ngx_http_dsem_account_hint(account);
    ngx_http_dsem_hint_not_full(&account->node.str, account->node.node.key);

    if (account->synced) {
        account->pending_release += weight;
    }

    ngx_http_dsem_account_post(account);
}


/* granted after the request had left: no request ever held them */

void
ngx_http_dsem_ledger_give_back_late(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server)
{
    ngx_http_dsem_servers_row_t  *row;

    account->pending_release += weight;
    account->unclaimed += weight;

    if (server != NGX_HTTP_DSEM_NO_SERVER) {
        row = ngx_http_dsem_ledger_row(account, server);
        row->pending_release += weight;
        row->unclaimed += weight;
    }

    ngx_http_dsem_account_post(account);
}


/* idle permits go back; of a pool the same part of those of each server */

void
ngx_http_dsem_ledger_give_back_idle(ngx_http_dsem_account_t *account,
    ngx_int_t idle)
{
    int64_t                       of;
    ngx_int_t                     n, left;
    ngx_uint_t                    i;
    ngx_http_dsem_servers_t      *servers;
    ngx_http_dsem_servers_row_t  *row, *most;

    if (idle == 0) {
        return;
    }

    servers = account->servers;

    if (servers == NULL) {
        account->pending_release += idle;
        ngx_http_dsem_ledger_add_idle(account, -idle);

        ngx_http_dsem_account_post(account);
        return;
    }

    of = account->idle;
    left = idle;

    for (i = 0; i < servers->n; i++) {
        row = &servers->rows[i];

        n = (ngx_int_t) (row->idle * (int64_t) idle / of);
        left -= n;

        ngx_http_dsem_ledger_give_back_row(account, row, n);
    }

    /* each part was rounded down, by less than one */

    for ( /* void */ ; left; left--) {
        most = servers->rows;

        for (i = 1; i < servers->n; i++) {
            if (servers->rows[i].idle > most->idle) {
                most = &servers->rows[i];
            }
        }

        ngx_http_dsem_ledger_give_back_row(account, most, 1);
    }
}


static void
ngx_http_dsem_ledger_give_back_row(ngx_http_dsem_account_t *account,
    ngx_http_dsem_servers_row_t *row, ngx_int_t idle)
{
    row->idle -= idle;
    row->pending_release += idle;

    account->pending_release += idle;
    ngx_http_dsem_ledger_add_idle(account, -idle);

    ngx_http_dsem_account_post(account);
}


/* of a pool: idle permits of servers that this worker cannot use any more */

void
ngx_http_dsem_ledger_give_back_unusable(ngx_http_dsem_account_t *account)
{
    uint64_t                      list;
    ngx_uint_t                    i;
    ngx_http_dsem_servers_row_t  *row;

    if (account->idle == 0) {
        return;
    }

    list = ngx_http_dsem_servers_usable(&account->node.str, account->servers);

    for (i = 0; i < account->servers->n; i++) {
        row = &account->servers->rows[i];

        if (row->idle && !(list & ((uint64_t) 1 << i))) {
            ngx_http_dsem_ledger_give_back_row(account, row, row->idle);
        }
    }
}


/*
 * The permits that Redis certainly counts for this worker and that no request
 * holds: they may serve the next one without asking.  None after the fence.
 * Where more is in use than the limit, as many as that go back; of a pool at
 * each server, as Redis replies the sum.
 */

ngx_int_t
ngx_http_dsem_ledger_own(ngx_http_dsem_account_t *account)
{
    ngx_int_t   own;
    ngx_uint_t  i;

    if (account->disowned
        || ngx_http_dsem_lease_own_fenced(&account->session->lease))
    {
        return 0;
    }

    if (account->servers) {
        own = 0;

        /* more may be held at one server than Redis counts there */

        for (i = 0; i < account->servers->n; i++) {
            own += ngx_http_dsem_ledger_row_own(account,
                                                &account->servers->rows[i]);
        }

        return own;
    }

    own = account->synced
          ? account->pending_release
            - ngx_max(account->unclaimed, account->lowered)
          : ngx_max(account->last_reported - account->held, 0)
            - account->lowered;

    return ngx_max(own, 0);
}


/* of these, of a pool, those at servers that this worker can use now */

ngx_int_t
ngx_http_dsem_ledger_own_usable(ngx_http_dsem_account_t *account)
{
    uint64_t                  list;
    ngx_int_t                 own;
    ngx_uint_t                i;
    ngx_http_dsem_servers_t  *servers;

    own = ngx_http_dsem_ledger_own(account);
    servers = account->servers;

    if (servers == NULL || own == 0) {
        return own;
    }

    own = 0;
    list = ngx_http_dsem_servers_usable(&account->node.str, servers);

    for (i = 0; i < servers->n; i++) {
        if (list & ((uint64_t) 1 << i)) {
            own += ngx_http_dsem_ledger_row_own(account, &servers->rows[i]);
        }
    }

    return own;
}


static ngx_int_t
ngx_http_dsem_ledger_row_own(ngx_http_dsem_account_t *account,
    ngx_http_dsem_servers_row_t *row)
{
    ngx_int_t  own;

    own = account->synced
          ? row->pending_release - ngx_max(row->unclaimed, account->lowered)
          : ngx_max(row->last_reported - row->held, 0) - account->lowered;

    return ngx_max(own, 0);
}


/*
 * Of a pool: the server with most own permits of those that this worker can
 * use now; NGX_HTTP_DSEM_NO_SERVER: there are none.
 */

ngx_int_t
ngx_http_dsem_ledger_own_server(ngx_http_dsem_account_t *account)
{
    uint64_t                  list;
    ngx_int_t                 own, most, server;
    ngx_uint_t                i;
    ngx_http_dsem_servers_t  *servers;

    most = 0;
    server = NGX_HTTP_DSEM_NO_SERVER;

    if (ngx_http_dsem_ledger_own(account) == 0) {
        return server;
    }

    servers = account->servers;
    list = ngx_http_dsem_servers_usable(&account->node.str, servers);

    for (i = 0; i < servers->n; i++) {
        own = ngx_http_dsem_ledger_row_own(account, &servers->rows[i]);

        if (own > most && (list & ((uint64_t) 1 << i))) {
            most = own;
            server = i;
        }
    }

    return server;
}


/* own permits pass to a request instead of going back */

void
ngx_http_dsem_ledger_hand_over(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server)
{
    ngx_http_dsem_servers_row_t  *row;

    if (account->synced) {
        account->pending_release -= weight;
    }

    if (server != NGX_HTTP_DSEM_NO_SERVER) {
        row = ngx_http_dsem_ledger_row(account, server);
        row->held += weight;
        row->pending_release -= account->synced ? weight : 0;
    }

    ngx_http_dsem_ledger_add_held(account, weight);
}


/*
 * The lease had expired: Redis may have granted to others what requests hold
 * here.  Nothing of that is handed over, or the overage would go on with new
 * requests.
 */

void
ngx_http_dsem_ledger_disown(ngx_http_dsem_account_t *account)
{
    account->disowned = 1;

    if (!account->synced) {
        account->last_reported = 0;
    }
}


/* Redis counts all of it, and the limit is kept */

void
ngx_http_dsem_ledger_owned(ngx_http_dsem_account_t *account)
{
    account->disowned = 0;
}


/*
 * The permits that the next sync gives back.  While Redis recovers they
 * would lie idle there, and wait for the next request of this worker
 * instead, unless it exits.
 */

ngx_int_t
ngx_http_dsem_ledger_releasable(ngx_http_dsem_account_t *account)
{
    return (account->recovering && !ngx_exiting) ? 0
                                                 : account->pending_release;
}


/* a sync is sent: returns the permits that it gives back */

ngx_int_t
ngx_http_dsem_ledger_report(ngx_http_dsem_account_t *account)
{
    ngx_int_t  weight;

    weight = ngx_http_dsem_ledger_releasable(account);
    account->pending_release -= weight;

    if (account->servers && weight) {
        /* all of them: "releasable" is nothing, or all that is pending */
        ngx_http_dsem_ledger_rows(account, NGX_HTTP_DSEM_ROWS_SENT);
    }

    if (account->pending_release == 0) {
        account->unclaimed = 0;
    }

    return weight;
}


ngx_int_t
ngx_http_dsem_ledger_sum(ngx_http_dsem_account_t *account)
{
    return account->held + account->idle + account->pending_release;
}


/*
 * Permits counted by Redis, or -1, without those that no request holds here,
 * idle or about to go back.  Grants that Redis has counted since then are seen
 * in what requests hold.
 */

ngx_int_t
ngx_http_dsem_ledger_in_use(ngx_http_dsem_account_t *account,
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
ngx_http_dsem_ledger_clear(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_ledger_add_idle(account, -account->idle);
    account->pending_release = 0;
    account->unclaimed = 0;
    ngx_http_dsem_ledger_rows(account, NGX_HTTP_DSEM_ROWS_CLEAR);
    account->keep_sent = 0;
    account->keep_acked = 0;
    account->keep_allowed = (account->ntickets == 0);

    if (account->tick.timer_set) {
        ngx_del_timer(&account->tick);
    }
}


/*
 * From now on differences are sent.  "keep": own permits that no request
 * holds are declared with the rest; Redis would not grant them to others now.
 * Where Redis counted more until now, tickets of others may wait for it, and
 * so much has gone back of what had to.
 */

void
ngx_http_dsem_ledger_declared(ngx_http_dsem_account_t *account,
    ngx_uint_t keep)
{
    ngx_int_t  gone;

    account->pending_release = keep ? ngx_http_dsem_ledger_own(account) : 0;

    ngx_http_dsem_ledger_rows(account, account->pending_release
                                        ? NGX_HTTP_DSEM_ROWS_KEEP
                                        : NGX_HTTP_DSEM_ROWS_CLEAR);

    gone = account->last_reported - ngx_http_dsem_ledger_sum(account);

    if (gone > 0) {
        account->refresh = 1;

        if (account->lowered != NGX_MAX_INT_T_VALUE) {
            account->lowered = ngx_max(account->lowered - gone, 0);
        }
    }

    account->last_reported = 0;
    account->admitted = ngx_min(account->admitted, account->held);

    account->synced = 1;

    ngx_http_dsem_account_checked(account);
}


/* by server, what the caller does to the sums */

static void
ngx_http_dsem_ledger_rows(ngx_http_dsem_account_t *account,
    ngx_http_dsem_rows_e verb)
{
    ngx_uint_t                    i;
    ngx_http_dsem_servers_row_t  *row;

    if (account->servers == NULL) {
        return;
    }

    for (i = 0; i < account->servers->n; i++) {
        row = &account->servers->rows[i];

        switch (verb) {

        case NGX_HTTP_DSEM_ROWS_KEEP:
            row->pending_release = ngx_http_dsem_ledger_row_own(account,
                                                                row);
            row->unclaimed = 0;
            break;

        case NGX_HTTP_DSEM_ROWS_LOSE:
            row->last_reported = row->held + row->idle + row->pending_release
                                 - row->unclaimed;
            break;

        case NGX_HTTP_DSEM_ROWS_SENT:
            row->pending_release = 0;
            row->unclaimed = 0;
            break;

        default: /* NGX_HTTP_DSEM_ROWS_CLEAR */
            row->idle = 0;
            row->pending_release = 0;
            row->unclaimed = 0;
            break;
        }
    }
}


/* a new epoch: all commands so far are void, sent or not */

void
ngx_http_dsem_ledger_reset(ngx_http_dsem_account_t *account)
{
    if (account->synced) {
        /* Redis counts them until the lease ends */
        account->last_reported = ngx_http_dsem_ledger_sum(account)
                                 - account->unclaimed;
        account->last_waiting = account->ntickets + account->nasks;
        ngx_http_dsem_ledger_rows(account, NGX_HTTP_DSEM_ROWS_LOSE);
        ngx_http_dsem_ledger_lower(account);

        ngx_http_dsem_account_undeclare(account);
    }

    ngx_http_dsem_ledger_clear(account);
    ngx_http_dsem_account_forget_usage(account);

    if (account->servers) {
        ngx_http_dsem_servers_reset(account->servers);
    }

    account->inflight = 0;
    account->check = NULL;
    account->check_due = 0;
    account->synced = 0;
    account->recovering = 0;
    account->broken = 0;
}


/*
 * Redis is lost while more is in use than the limit, or in a pause: what had to
 * go back serves no request until a reply decides anew.  Each worker holds back
 * its part, or all together would hold back a multiple.  A probe of
 * "limit=auto" lowers the limit for a moment only.  Of a pool the numbers of
 * its servers are unknown, unless that is none at all.
 */

static void
ngx_http_dsem_ledger_lower(ngx_http_dsem_account_t *account)
{
    int64_t    part;
    ngx_int_t  in_use, over;

    if (account->lowered == 0
        || account->lowered == NGX_MAX_INT_T_VALUE)
    {
        return;
    }

    if (account->servers) {
        account->lowered = (account->usage.limit == 0)
                           ? NGX_MAX_INT_T_VALUE : 0;
        return;
    }

    over = account->lowered;
    in_use = ngx_max(account->usage.in_use, over);

    if (account->auto_limit) {
        over = ngx_min(over,
                       in_use - ngx_http_dsem_account_local_limit(account));
        over = ngx_max(over, 0);
    }

    part = (int64_t) over * account->last_reported;

    account->lowered = (ngx_int_t) ((part + in_use - 1) / in_use);
}


/*
 * Redis recovers.  Others may not have declared yet that they have less: what
 * a reply before has shown goes on, unless the limit has been raised, or the
 * pause has ended; and certain is what this worker alone has above the limit.
 * Of a pool only that all goes back.
 *
 * counted    permits that Redis has for this worker
 */

void
ngx_http_dsem_ledger_lower_recovering(ngx_http_dsem_account_t *account,
    ngx_int_t limit, ngx_int_t counted)
{
    ngx_http_dsem_literal_t  *literal;

    if (account->lowered == NGX_MAX_INT_T_VALUE
        || limit > account->lowered_to)
    {
        account->lowered = 0;
    }

    if (account->servers) {
        account->lowered = (limit == 0) ? NGX_MAX_INT_T_VALUE : 0;
        return;
    }

    literal = ngx_http_dsem_account_literal(account);

    if (literal && ngx_http_dsem_limits_probed(literal, limit)) {
        limit = ngx_http_dsem_account_local_limit(account);
    }

    account->lowered = ngx_max(account->lowered, counted - limit);
}
