
/*
 * Local: requests that are admitted without asking Redis.
 *
 * A worker's own permits first, whatever "dsem_on_error" says: until the
 * fence Redis counts them for this worker, so one that comes free may serve
 * the next request while the connection is lost, a reply is late, or the
 * state recovers.
 *
 * "dsem_on_error local" goes on after the fence.  Until a lease has passed
 * requests that others admitted are still running, so a worker uses no more
 * than it had itself; nor more than its share, because the requests that it
 * admits last are still running when the others begin with theirs.  In the
 * end each worker has its share of the limit.  The sum stays below the limit,
 * unless that is below the number of sessions or a request outlives a quarter
 * of the lease.
 *
 * A pool has no shares: those of a server with one permit would be 1 for each
 * worker.  A worker goes on with what it had at each server, as long as Redis
 * is unavailable, and the sums stay below the limits, unless these had been
 * lowered just before; one that had nothing, or whose permits may be those of
 * others, after an overage, admits one request at a time after the lease, at
 * one server while the same ones are usable.
 *
 * Requests are served in the order of the queue: class, then start tag where
 * it is fair, then age.  One that is heavier than all that the worker may have
 * waits for Redis, and is stepped over meanwhile, as Redis does with a ticket
 * that a lowered limit has made too heavy.
 *
 * Called by: dispatch (at the end of a turn, Redis is unavailable), declare
 * (it recovers), semaphore (whether a request has a chance).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_shards.h"
#include "ngx_http_dsem_waiting.h"


static void ngx_http_dsem_local_step_over(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_most(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_shown(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_limit(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_allowed(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_server(ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_local_first(ngx_http_dsem_account_t *account,
    uint64_t list);
static ngx_int_t ngx_http_dsem_local_places(ngx_http_dsem_account_t *account,
    ngx_int_t queue);
static ngx_int_t ngx_http_dsem_local_share(ngx_int_t n);
static void ngx_http_dsem_local_reject(ngx_http_dsem_ticket_t *ticket);
static void ngx_http_dsem_local_end(ngx_queue_t *list, ngx_uint_t pass);
static ngx_int_t ngx_http_dsem_local_admit(ngx_http_dsem_ticket_t *ticket);


/*
 * Without Redis: is there a permit for one more, beside those that wait?  Some
 * of these have come in this turn, and were let in for a permit.
 */

ngx_uint_t
ngx_http_dsem_local_now(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    int64_t  wanted;

    if (ngx_http_dsem_session_ready(account->session)
        && account->synced
        && account->session->recovery == 0
        && !ngx_http_dsem_account_recovering(account))
    {
        return 0;
    }

    ngx_http_dsem_local_step_over(account);

    wanted = account->wanted + ask->weight;

    if (wanted <= ngx_http_dsem_ledger_own_usable(account)) {
        return 1;
    }

    if (!ask->local || !ngx_http_dsem_session_unavailable(account->session)) {
        return 0;
    }

    if (account->servers) {
        return account->wanted == 0
               && ngx_http_dsem_local_server(account)
                  != NGX_HTTP_DSEM_NO_SERVER;
    }

    return account->held + wanted <= ngx_http_dsem_local_limit(account);
}


/*
 * Redis is unavailable, and there is none: is there a place in the queue?  The
 * last ticket leaves a full one that is fair for a request that comes before
 * it, and may wait.
 */

ngx_uint_t
ngx_http_dsem_local_place(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask)
{
    ngx_http_dsem_ticket_t  *last;

    if (ask->weight > ngx_http_dsem_account_local_limit(account)) {
        return 0;
    }

    /* R2: full queue */
    if ((ngx_int_t) account->nasks
        < ngx_http_dsem_local_places(account, ask->queue))
    {
        return 1;
    }

    if (!ask->fair || ask->queue < 1 || account->fair == NULL) {
        return 0;
    }

    /* R9: drop from a full queue, also one that is set aside */

    ngx_http_dsem_waiting_return(account, NGX_MAX_INT_T_VALUE);

    last = ngx_http_dsem_waiting_last(account);

    if (last == NULL
        || last->class < ask->class
        || (last->class == ask->class
            && last->fair.start <= ngx_http_dsem_fair_start(account->fair,
                                                  ask->class, &ask->key)))
    {
        return 0;
    }

    ngx_http_dsem_local_reject(last);

    return 1;
}


/*
 * Whatever comes free here, the first one cannot be served on it if it is
 * heavier than all that this worker may have: it is set aside until it may
 * have more, or Redis is available.
 */

static void
ngx_http_dsem_local_step_over(ngx_http_dsem_account_t *account)
{
    ngx_int_t                most;
    ngx_http_dsem_ticket_t  *ticket;

    most = ngx_http_dsem_local_most(account);

    ngx_http_dsem_waiting_return(account, most);

    /* R7: queue order */

    while (most) {
        ticket = ngx_http_dsem_waiting_first(account);

        if (ticket == NULL || ticket->weight <= most) {
            return;
        }

        ngx_http_dsem_waiting_aside(ticket);
    }
}


/*
 * What this worker may have out, and so one request at most; 0: none is served
 * now, heavy or light.
 */

static ngx_int_t
ngx_http_dsem_local_most(ngx_http_dsem_account_t *account)
{
    if (!ngx_http_dsem_session_unavailable(account->session)) {
        return NGX_MAX_INT_T_VALUE;
    }

    return ngx_http_dsem_lease_fenced(&account->session->lease)
           ? ngx_http_dsem_local_limit(account)
           : ngx_max(account->last_reported - account->lowered, 0);
}


/*
 * The limit that a request sees on a permit of this worker, or without one.
 * -1: of a pool, which has the sum over its servers already.
 */

static ngx_int_t
ngx_http_dsem_local_shown(ngx_http_dsem_account_t *account)
{
    return account->servers ? -1
                            : ngx_min(ngx_http_dsem_account_limit(account),
                                      ngx_http_dsem_local_most(account));
}


/* the permits that this worker may have out after the fence */

static ngx_int_t
ngx_http_dsem_local_limit(ngx_http_dsem_account_t *account)
{
    ngx_int_t  share;

    if (!ngx_http_dsem_lease_fenced(&account->session->lease)) {
        return 0;
    }

    share = ngx_http_dsem_local_share(ngx_http_dsem_local_allowed(account));

    return ngx_http_dsem_shards_over(account->session)
           ? share
           : ngx_min(account->last_reported, share);
}


/* the limit; 0 in a pause, which an outage does not end */

static ngx_int_t
ngx_http_dsem_local_allowed(ngx_http_dsem_account_t *account)
{
    return ngx_http_dsem_limits_paused(&account->session->limits,
                                       &account->node.str,
                                       account->node.node.key)
           ? 0 : ngx_http_dsem_account_local_limit(account);
}


/*
 * Of a pool, after the fence: the server at which this worker may have most
 * permits more of what it had there; NGX_HTTP_DSEM_NO_SERVER: at none.
 */

static ngx_int_t
ngx_http_dsem_local_server(ngx_http_dsem_account_t *account)
{
    uint64_t                      list;
    ngx_int_t                     limit, room, most, server;
    ngx_uint_t                    i;
    ngx_http_dsem_servers_t      *servers;
    ngx_http_dsem_servers_row_t  *row;

    if (!ngx_http_dsem_lease_fenced(&account->session->lease)) {
        return NGX_HTTP_DSEM_NO_SERVER;
    }

    servers = account->servers;
    list = ngx_http_dsem_servers_usable(&account->node.str, servers);
    limit = ngx_http_dsem_local_allowed(account);

    if (account->disowned || account->last_reported == 0) {
        return (limit && account->held == 0)
               ? ngx_http_dsem_local_first(account, list)
               : NGX_HTTP_DSEM_NO_SERVER;
    }

    most = 0;
    server = NGX_HTTP_DSEM_NO_SERVER;

    for (i = 0; i < servers->n; i++) {
        row = &servers->rows[i];

        room = ngx_min(servers->servers[i].limit, limit);
        room = ngx_min(row->last_reported, room) - row->held;

        if (room > most && (list & ((uint64_t) 1 << i))) {
            most = room;
            server = i;
        }
    }

    return server;
}


/* that of a worker that had nothing: each of a node has another one */

static ngx_int_t
ngx_http_dsem_local_first(ngx_http_dsem_account_t *account, uint64_t list)
{
    uint32_t                  hash;
    ngx_uint_t                n;
    ngx_http_dsem_session_t  *session;

    session = account->session;
    n = ngx_http_dsem_servers_count(list);

    if (n == 0 || !ngx_http_dsem_shards_over(session)) {
        return NGX_HTTP_DSEM_NO_SERVER;
    }

    hash = ngx_crc32_short(session->node.data, session->node.len);

    return ngx_http_dsem_servers_nth(account->servers, list,
                                     1 + (hash + ngx_worker) % n);
}


/*
 * The requests that may wait here: this worker's share of the queue; until
 * the fence also as many as waited when Redis was lost, as they had places.
 */

static ngx_int_t
ngx_http_dsem_local_places(ngx_http_dsem_account_t *account, ngx_int_t queue)
{
    ngx_int_t  share;

    share = ngx_http_dsem_local_share(queue);

    if (ngx_http_dsem_lease_fenced(&account->session->lease)) {
        return share;
    }

    return ngx_max(share, (ngx_int_t) account->last_waiting);
}


/* this worker's share of a limit or a queue: at least 1, unless that is 0 */

static ngx_int_t
ngx_http_dsem_local_share(ngx_int_t n)
{
    /* R17: share of a worker */

    if (n == 0) {
        return 0;
    }

    return ngx_max(n / (ngx_int_t) ngx_http_dsem_shards_fleet(), 1);
}


/*
 * Redis is unavailable: each waiting request is admitted, goes on waiting
 * for a permit of this worker, or has its verdict now.
 */

void
ngx_http_dsem_local_begin(ngx_http_dsem_account_t *account)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    /* their places in the queue are void, their order is not */

    while (!ngx_queue_empty(&account->tickets)) {
        q = ngx_queue_last(&account->tickets);
        ngx_http_dsem_ticket_unsend(
                            ngx_queue_data(q, ngx_http_dsem_ticket_t, queue));
    }

    ngx_http_dsem_local_serve(account);
    ngx_http_dsem_local_end(&account->asks, 0);

    /* the first of the others may have waited behind one that was ended */

    ngx_http_dsem_local_serve(account);

    /* the queue is cut down to this worker's part of it, from its end */

    ngx_http_dsem_waiting_return(account, NGX_MAX_INT_T_VALUE);

    for ( ;; ) {
        ticket = ngx_http_dsem_waiting_last(account);

        if (ticket == NULL
            || (ngx_int_t) account->nasks
               <= ngx_http_dsem_local_places(account, ticket->queue_limit))
        {
            return;
        }

        ngx_http_dsem_local_reject(ticket);
    }
}


static void
ngx_http_dsem_local_reject(ngx_http_dsem_ticket_t *ticket)
{
    ngx_http_dsem_local_answer(ticket->account, ticket->weight,
                               &ticket->answer);
    ngx_http_dsem_ticket_end(ticket, NGX_HTTP_DSEM_VERDICT_REJECTED);
}


/*
 * Of a rejection while Redis is unavailable: the limit that a heavier request
 * exceeds, for others what this worker may have out.
 */

void
ngx_http_dsem_local_answer(ngx_http_dsem_account_t *account, ngx_int_t weight,
    ngx_http_dsem_answer_t *answer)
{
    ngx_int_t  limit;

    answer->local = 1;
    answer->in_use = account->held;

    limit = ngx_http_dsem_account_local_limit(account);
    answer->heavy = (weight > limit);

    if (!answer->heavy) {
        limit = ngx_http_dsem_local_shown(account);
    }

    if (limit >= 0) {
        answer->limit = limit;
    }
}


/* the state recovers: requests of "dsem_on_error pass" do not wait for it */

void
ngx_http_dsem_local_pass(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_local_serve(account);
    ngx_http_dsem_local_end(&account->tickets, 1);
    ngx_http_dsem_local_end(&account->asks, 1);
}


/*
 * Requests that "dsem_on_error" decides now: those of "pass" only, or all
 * but those of "local".  One with a place in the fleet's queue leaves it first.
 */

static void
ngx_http_dsem_local_end(ngx_queue_t *list, ngx_uint_t pass)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    for (q = ngx_queue_head(list);
         q != ngx_queue_sentinel(list);
         /* void */)
    {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        q = ngx_queue_next(q);

        if (ticket->handler
            && (pass ? ticket->pass : !ticket->local)
            && ngx_http_dsem_ticket_requeue(ticket) == NGX_OK)
        {
            ngx_http_dsem_ticket_end(ticket,
                                     NGX_HTTP_DSEM_VERDICT_UNAVAILABLE);
        }
    }
}


/* admits from the head as long as there are permits for it */

void
ngx_http_dsem_local_serve(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_ticket_t  *ticket;

    for ( ;; ) {
        ngx_http_dsem_local_step_over(account);

        ticket = ngx_http_dsem_waiting_first(account);

        if (ticket == NULL || ngx_http_dsem_local_admit(ticket) != NGX_OK) {
            return;
        }
    }
}


/*
 * On an own permit, which Redis counts, or on one of the local limit.
 * NGX_DECLINED: there is none now.  A request with a place in the fleet's
 * queue leaves it.  The limit of a pool is that of one server, its ticket has
 * the sum already.
 */

static ngx_int_t
ngx_http_dsem_local_admit(ngx_http_dsem_ticket_t *ticket)
{
    ngx_int_t                 limit, server;
    ngx_uint_t                own;
    ngx_http_dsem_account_t  *account;

    account = ticket->account;
    limit = ngx_http_dsem_local_shown(account);
    server = NGX_HTTP_DSEM_NO_SERVER;

    if (account->servers) {
        server = ngx_http_dsem_ledger_own_server(account);
        own = (server != NGX_HTTP_DSEM_NO_SERVER);

    } else {
        own = (ticket->weight <= ngx_http_dsem_ledger_own(account));
    }

    if (own) {
        if (ngx_http_dsem_ticket_requeue(ticket) != NGX_OK) {
            return NGX_DECLINED;
        }

        ticket->server = server;

        ngx_http_dsem_ledger_hand_over(account, ticket->weight, server);
        ngx_http_dsem_ticket_admit(ticket, account->held, limit);

        return NGX_OK;
    }

    if (!ticket->local
        || !ngx_http_dsem_session_unavailable(account->session))
    {
        return NGX_DECLINED;
    }

    if (account->servers) {
        server = ngx_http_dsem_local_server(account);

        if (server == NGX_HTTP_DSEM_NO_SERVER) {
            return NGX_DECLINED;
        }

    } else {
        limit = ngx_http_dsem_local_limit(account);

        /* R1: room for a permit */
        if (account->held + ticket->weight > limit) {
            return NGX_DECLINED;
        }
    }

    ticket->server = server;
    ngx_http_dsem_ledger_admit(account, ticket->weight, server);

    ticket->answer.local = 1;
    ngx_http_dsem_ticket_admit(ticket, account->held, limit);

    return NGX_OK;
}
