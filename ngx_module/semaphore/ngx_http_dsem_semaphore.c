
/*
 * Semaphores as a request sees them: it acquires permits, has one verdict,
 * and releases.
 *
 * The only door of this folder for requests, but for the estimates of hint.
 *
 * Called by: acquire, result (which counts), ctx (release), module (init).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"
#include "ngx_http_dsem_dispatch.h"
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_semaphore.h"
#include "ngx_http_dsem_shards.h"
#include "ngx_http_dsem_waiting.h"


static ngx_int_t ngx_http_dsem_semaphore_limit(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
static ngx_http_dsem_ticket_t *ngx_http_dsem_semaphore_reuse(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
static ngx_int_t ngx_http_dsem_semaphore_known(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
static ngx_uint_t ngx_http_dsem_semaphore_asked(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_semaphore_configure(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
static void ngx_http_dsem_semaphore_watch_handler(ngx_event_t *ev);
static ngx_http_dsem_counted_t *ngx_http_dsem_semaphore_counted(
    ngx_http_dsem_ask_t *ask, ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_counted_t *own);


static ngx_uint_t  ngx_http_dsem_semaphore_max_waiting;


/*
 * Starts the worker's sessions.  At most max_waiting requests wait at once,
 * for all semaphores together.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_semaphore_init(ngx_http_dsem_session_settings_t *settings,
    ngx_uint_t max_waiting)
{
    ngx_http_dsem_semaphore_max_waiting = max_waiting;

    return ngx_http_dsem_dispatch_init(settings);
}


/*
 * Acquires permits; ask->name must be valid only during the call.  Returns a
 * ticket: ask->handler will be called, and the owner must release it once,
 * whatever the verdict; if that is there already, no handler is called.
 * Returns NULL: there is nothing to release, the verdict is in answer.
 */

ngx_http_dsem_ticket_t *
ngx_http_dsem_semaphore_acquire(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_answer_t *answer)
{
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_session_t  *session;

    account = ngx_http_dsem_account_find(&ask->name, ask->hash);

    if (account) {
        ticket = ngx_http_dsem_semaphore_reuse(account, ask);
        if (ticket) {
            return ticket;
        }
    }

    ngx_memzero(answer, sizeof(ngx_http_dsem_answer_t));

    answer->verdict = NGX_HTTP_DSEM_VERDICT_UNAVAILABLE;
    answer->limit = ngx_http_dsem_semaphore_limit(account, ask);
    answer->in_use = -1;

    session = account ? account->session
                      : ngx_http_dsem_shards_use(&ask->name);

    if (account == NULL
        && !ask->local
        && ngx_http_dsem_session_unavailable(session))
    {
        return NULL;
    }

    if (account == NULL) {
        account = ngx_http_dsem_account_get(session, &ask->name, ask->hash,
                                            ask->pool);
        if (account == NULL) {
            return NULL;
        }

        ngx_http_dsem_semaphore_configure(account, ask);
    }

    if (!ngx_http_dsem_servers_of(account->servers, ask->pool)) {
        answer->verdict = NGX_HTTP_DSEM_VERDICT_MIXED;
        return NULL;
    }

    ticket = ngx_http_dsem_semaphore_asked(account, ask, answer)
             ? ngx_http_dsem_ticket_create(account, ask) : NULL;

    if (ticket == NULL) {
        ngx_http_dsem_account_done(account);
    }

    return ticket;
}


/* as this node has it; the account may be NULL */

static ngx_int_t
ngx_http_dsem_semaphore_limit(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    return ngx_http_dsem_servers_permits(ask->pool,
                                         account ? account->servers : NULL,
                                         ask->limit);
}


/*
 * Whether the request is to ask, or to wait: as long as Redis can be asked, and
 * not too many do so.  Otherwise the verdict is in answer.
 */

static ngx_uint_t
ngx_http_dsem_semaphore_asked(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask, ngx_http_dsem_answer_t *answer)
{
    ngx_uint_t  full, unavailable;

    full = (ngx_http_dsem_waiting_total(ask->dry_run)
            >= ngx_http_dsem_semaphore_max_waiting);

    if (ngx_http_dsem_local_now(account, ask)) {
        return 1;
    }

    unavailable = ngx_http_dsem_session_unavailable(account->session);

    if (unavailable && !ask->local) {
        return 0;
    }

    /* "dsem_on_error pass" covers recovery */

    if (ask->pass
        && (ngx_http_dsem_account_recovering(account)
            || (full && account->session->recovery)))
    {
        return 0;
    }

    if (full) {
        answer->verdict = NGX_HTTP_DSEM_VERDICT_WORKER_FULL;
        return 0;
    }

    if (unavailable && !ngx_http_dsem_local_place(account, ask)) {
        answer->verdict = NGX_HTTP_DSEM_VERDICT_REJECTED;
        ngx_http_dsem_local_answer(account, ask->weight, answer);
        return 0;
    }

    return 1;
}


/* a ticket that holds idle permits at once; NULL: they do not cover it */

static ngx_http_dsem_ticket_t *
ngx_http_dsem_semaphore_reuse(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_int_t                server;
    ngx_http_dsem_ticket_t  *ticket;

    if (!ngx_http_dsem_servers_of(account->servers, ask->pool)) {
        /* refused; an account that empties makes room for another one */
        ngx_http_dsem_ledger_give_back_idle(account, account->idle);
        return NULL;
    }

    ngx_http_dsem_semaphore_configure(account, ask);

    /*
     * requests that asked before come first: those of this turn, and those
     * whose reply is late, which idle permits serve at its end
     */

    if (account->nasks
        || (account->idle < account->wanted + ask->weight
            && account->wanted
            && ngx_http_dsem_redis_late(account->session->redis)))
    {
        return NULL;
    }

    server = NGX_HTTP_DSEM_NO_SERVER;

    if (account->servers == NULL) {

        if (!ngx_http_dsem_ledger_reuse(account, ask->weight)) {
            return NULL;
        }

    } else {

        server = ngx_http_dsem_ledger_reuse_server(account);

        if (server == NGX_HTTP_DSEM_NO_SERVER) {
            return NULL;
        }
    }

    ticket = ngx_http_dsem_ticket_create_held(account, ask);
    if (ticket == NULL) {
        ngx_http_dsem_ledger_give_back(account, ask->weight, server);
        return NULL;
    }

    ticket->server = server;

    return ticket;
}


/* the configuration of the last request counts, but strict stays */

static void
ngx_http_dsem_semaphore_configure(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_event_t  *watch;

    account->limit = ask->limit;
    account->auto_limit = ask->auto_limit;
    account->reuse = ask->reuse;
    account->strict |= ask->strict;

    if (ask->fair && account->fair == NULL) {
        /* NULL: no memory, the request is served in order of arrival */
        account->fair = ngx_http_dsem_fair_create(
                             ngx_http_dsem_redis_keys(account->session->redis),
                             &account->node.str);

        if (account->fair) {
            watch = &account->fair->watch;

            watch->handler = ngx_http_dsem_semaphore_watch_handler;
            watch->data = account;
            watch->log = ngx_cycle->log;
            watch->cancelable = 1;
        }
    }
}


/* keys whose requests run too long are charged with the next sync */

static void
ngx_http_dsem_semaphore_watch_handler(ngx_event_t *ev)
{
    ngx_http_dsem_account_t *account = ev->data;

    if (ngx_http_dsem_fair_debts(account->fair)) {
        account->refresh = 1;
        ngx_http_dsem_account_post(account);
    }
}


/*
 * "queue=auto": how many requests may wait, so that nearly all of them
 * have a permit before their timeout, in ms.  If n requests are served within
 * it on average, the number that is served varies by the root of n: two of
 * these are left out, else half of those at the end of the queue would wait in
 * vain.  While the time is unknown for which permits are held, or how many
 * servers DNS has brought, all may wait.
 */

ngx_int_t
ngx_http_dsem_semaphore_drains(ngx_http_dsem_ask_t *ask, ngx_msec_t timeout)
{
    uint64_t                  drains;
    ngx_int_t                 n, root, limit;
    ngx_msec_t                hold_time;
    ngx_http_dsem_account_t  *account;

    account = ngx_http_dsem_account_find(&ask->name, ask->hash);

    hold_time = account ? account->hold_time
                        : ngx_http_dsem_hint_hold_time(&ask->name, ask->hash);

    if (hold_time == 0
        || (account == NULL && ask->pool && ask->pool->resolve))
    {
        return ngx_http_dsem_semaphore_max_waiting;
    }

    /* that of a pool is a sum */
    limit = ngx_min(ngx_http_dsem_semaphore_known(account, ask),
                    NGX_HTTP_DSEM_MAX_LIMIT);

    drains = ((uint64_t) limit * timeout << NGX_HTTP_DSEM_HOLD_TIME_SHIFT)
             / hold_time / ask->weight;

    n = ngx_min(drains, ngx_http_dsem_semaphore_max_waiting);

    for (root = 0; (root + 1) * (root + 1) <= n; root++) { /* void */ }

    return ngx_max(n - 2 * root, 1);
}


/*
 * The limit in force as far as this node knows: by the last reply; where there
 * is none, as after a pause or in an outage, what its workers have seen last.
 * Of "limit=auto" also the one found where a lower one is tried: that lasts for
 * a moment.  The account may be NULL.
 */

static ngx_int_t
ngx_http_dsem_semaphore_known(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_int_t                 limit, found;
    ngx_http_dsem_limits_t   *limits;
    ngx_http_dsem_literal_t  *literal;

    limit = account ? account->usage.limit : -1;

    if (ask->pool) {
        return (limit > 0) ? limit
                           : ngx_http_dsem_semaphore_limit(account, ask);
    }

    limits = &ngx_http_dsem_shards_session(&ask->name)->limits;

    if (ask->auto_limit) {
        literal = ngx_http_dsem_limits_find(limits, &ask->name, ask->hash);
        found = literal ? ngx_http_dsem_limits_local(literal) : -1;
        limit = ngx_max(limit, found);

        return (limit == -1) ? ask->limit : limit;
    }

    return (limit == -1) ? ngx_http_dsem_limits_lower(limits, &ask->name,
                                                      ask->hash, ask->limit,
                                                      ask->limit)
                         : limit;
}


/*
 * Whether a recent reply has shown that there is neither a permit nor a
 * place for such an ask, and none has become idle here; if so, answer has the
 * usage of the semaphore.  In a fair queue a request may take the place of
 * another; in a pool the figures are of several servers, which not every node
 * can use.
 */

ngx_uint_t
ngx_http_dsem_semaphore_full(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_answer_t *answer)
{
    ngx_http_dsem_usage_t    *usage;
    ngx_http_dsem_account_t  *account;

    usage = ngx_http_dsem_hint_full(&ask->name, ask->hash, ask->limit);

    /* R1: room for a permit; R2: full queue */

    if (usage == NULL
        || ask->fair
        || ask->pool
        || usage->in_use + ask->weight <= usage->limit
        || usage->waiting < ask->queue
        || ngx_http_dsem_session_unavailable(
                                    ngx_http_dsem_shards_session(&ask->name)))
    {
        return 0;
    }

    account = ngx_http_dsem_account_find(&ask->name, ask->hash);

    if (account && account->idle) {
        return 0;
    }

    ngx_memzero(answer, sizeof(ngx_http_dsem_answer_t));

    answer->verdict = NGX_HTTP_DSEM_VERDICT_REJECTED;
    answer->in_use = usage->in_use;
    answer->limit = usage->limit;

    return 1;
}


/* the result of a request; its ticket may be NULL */

void
ngx_http_dsem_semaphore_count(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_ticket_t *ticket, ngx_http_dsem_count_e result)
{
    ngx_http_dsem_counted_t  own, *counted;

    counted = ngx_http_dsem_semaphore_counted(ask, ticket, &own);

    ngx_http_dsem_counters_add(counted, result, 1);
    ngx_http_dsem_counters_dry(counted, ask->dry_run);
}


/* it has waited in the queue, in ms */

void
ngx_http_dsem_semaphore_waited(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_ticket_t *ticket, ngx_msec_t time)
{
    ngx_http_dsem_counted_t  own;

    ngx_http_dsem_counters_observe(
                     ngx_http_dsem_semaphore_counted(ask, ticket, &own),
                     NGX_HTTP_DSEM_VALUE_WAIT, time);
}


/* the row that an account keeps saves the search */

static ngx_http_dsem_counted_t *
ngx_http_dsem_semaphore_counted(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_ticket_t *ticket, ngx_http_dsem_counted_t *own)
{
    if (ticket && ticket->account) {
        return &ticket->account->counted;
    }

    ngx_memzero(own, sizeof(ngx_http_dsem_counted_t));

    own->name = &ask->name;
    own->hash = ask->hash;

    return own;
}


/* "limit=auto": how a request ended that is to be released now */

void
ngx_http_dsem_semaphore_sample(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_sample_e result, ngx_msec_t time)
{
    if (ticket->state == NGX_HTTP_DSEM_TICKET_HELD) {
        ngx_http_dsem_auto_add(ticket->account, ticket->weight, result, time);
    }
}


/* the server of a ticket's permit, of a pool; or NULL */

ngx_str_t *
ngx_http_dsem_semaphore_server(ngx_http_dsem_ticket_t *ticket)
{
    if (ticket->state != NGX_HTTP_DSEM_TICKET_HELD
        || ticket->server == NGX_HTTP_DSEM_NO_SERVER)
    {
        return NULL;
    }

    return &ticket->account->servers->servers[ticket->server].name;
}


/* a grant of a pool may be late: its server has failed meanwhile */

ngx_uint_t
ngx_http_dsem_semaphore_usable(ngx_http_dsem_ticket_t *ticket)
{
    uint64_t                  list;
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    if (account->servers == NULL || ticket->server == NGX_HTTP_DSEM_NO_SERVER)
    {
        return 1;
    }

    list = ngx_http_dsem_servers_usable(&account->node.str, account->servers);

    return (list >> ticket->server) & 1;
}


/* the servers of a pool that can be used may have changed */

void
ngx_http_dsem_semaphore_servers(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_account_t  *account;

    account = ngx_http_dsem_account_find(name, hash);

    if (account == NULL || account->servers == NULL) {
        return;
    }

    ngx_http_dsem_ledger_give_back_unusable(account);

    if (account->ntickets) {
        account->refresh = 1;
        ngx_http_dsem_account_post(account);
    }
}


/* ms for which it has held its permits; 0: it holds none */

ngx_msec_t
ngx_http_dsem_semaphore_hold_time(ngx_http_dsem_ticket_t *ticket)
{
    return (ticket->state == NGX_HTTP_DSEM_TICKET_HELD)
           ? ngx_current_msec - ticket->granted : 0;
}


/*
 * The owner leaves: its permits come free, or its ticket leaves the queue.
 * The ticket must not be used any more.  failed: by the server of its permit.
 */

void
ngx_http_dsem_semaphore_release(ngx_http_dsem_ticket_t *ticket,
    ngx_uint_t failed)
{
    ngx_msec_t                hold_time;
    ngx_http_dsem_account_t  *account;

    account = ticket->account;

    switch (ticket->state) {

    case NGX_HTTP_DSEM_TICKET_HELD:
        hold_time = ngx_current_msec - ticket->granted;

        ngx_http_dsem_counters_observe(&account->counted,
                                       NGX_HTTP_DSEM_VALUE_HOLD, hold_time);

        if (ticket->fair.key) {
            ngx_http_dsem_fair_release(account->fair, &ticket->fair,
                                       ticket->weight, hold_time,
                                       account->hold_time
                                       >> NGX_HTTP_DSEM_HOLD_TIME_SHIFT);
        }

        if (!ngx_http_dsem_ledger_keep(account, ticket->weight, hold_time,
                                       ticket->server, failed))
        {
            ngx_http_dsem_ledger_give_back(account, ticket->weight,
                                           ticket->server);
        }

        ngx_http_dsem_ticket_free(ticket);
        break;

    case NGX_HTTP_DSEM_TICKET_ENDED:
        ngx_http_dsem_ticket_free(ticket);
        break;

    default: /* NEW, ASKED, QUEUED */
        ngx_http_dsem_ticket_cancel(ticket);
        break;
    }
}
