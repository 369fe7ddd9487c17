
/*
 * Sync: all that an account sends to Redis in one turn.
 *
 * Composes "sync" from an account: permits that go back, tickets that are
 * canceled, tickets that are asked for, and now and then the tickets that
 * should be in the queue.  The record of the command stays beside it until
 * the reply has come.
 *
 * Called by: dispatch (when to send).  The order of arguments is that of
 * lua/sync.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_sync.h"
#include "ngx_http_dsem_ticket.h"


/* asks or cancels of one sync: Redis is not kept busy for long */
#define NGX_HTTP_DSEM_SYNC_MAX_BATCH     128

/* asks with a key in one call: each takes longer */
#define NGX_HTTP_DSEM_SYNC_MAX_FAIR      32

/* keys that one sync charges */
#define NGX_HTTP_DSEM_SYNC_MAX_CHARGES   8

/* tickets that one check compares, the oldest */
#define NGX_HTTP_DSEM_SYNC_MAX_CHECKED   256

/* pools with too many servers that are logged; ms between lines for one */
#define NGX_HTTP_DSEM_SYNC_FULL          16
#define NGX_HTTP_DSEM_SYNC_FULL_TIME     60000

/* behind the values: the name; then one argument per cancel, ask, check */
#define NGX_HTTP_DSEM_SYNC_ARGS          1

/* the values of a ticket, and of an ask */
#define NGX_HTTP_DSEM_SYNC_TICKET_NUMBERS  2
#define NGX_HTTP_DSEM_SYNC_ASK_NUMBERS     4

/* flags, a sum */
#define NGX_HTTP_DSEM_SYNC_SET_LIMIT     1
#define NGX_HTTP_DSEM_SYNC_KEEP          2
#define NGX_HTTP_DSEM_SYNC_LITERAL       4
#define NGX_HTTP_DSEM_SYNC_ASK_NODE      8
#define NGX_HTTP_DSEM_SYNC_POOL          16

/* of a pool behind the name: the list of servers, and releases by server */
#define NGX_HTTP_DSEM_SYNC_POOL_ARGS     2


/* values in the first argument, behind epoch and number */
typedef enum {
    NGX_HTTP_DSEM_SYNC_SENT_GENERATION = 0,
    NGX_HTTP_DSEM_SYNC_SENT_LIMIT,
    NGX_HTTP_DSEM_SYNC_SENT_FLAGS,
    NGX_HTTP_DSEM_SYNC_SENT_RELEASED,
    NGX_HTTP_DSEM_SYNC_SENT_CANCELS,
    NGX_HTTP_DSEM_SYNC_SENT_ASKS,
    NGX_HTTP_DSEM_SYNC_SENT_CHECKS,
    NGX_HTTP_DSEM_SYNC_NSENT
} ngx_http_dsem_sync_sent_e;


/* a pool whose log line is not old */
typedef struct {
    uint32_t                   hash;       /* CRC32 of its name */
    ngx_msec_t                 time;
    ngx_uint_t                 ever;       /* unsigned:1 */
} ngx_http_dsem_sync_full_t;


static ngx_http_dsem_sync_t *ngx_http_dsem_sync_create(
    ngx_http_dsem_account_t *account, ngx_uint_t ncancels,
    ngx_uint_t ncharges, ngx_uint_t nasks, ngx_uint_t nchecks);
static ngx_http_dsem_resp_t *ngx_http_dsem_sync_begin(
    ngx_http_dsem_sync_t *sync);
static void ngx_http_dsem_sync_values(ngx_http_dsem_sync_t *sync,
    int64_t *values);
static u_char *ngx_http_dsem_sync_servers(ngx_http_dsem_sync_t *sync,
    ngx_str_t *list, ngx_str_t *releases);
static void ngx_http_dsem_sync_full(ngx_http_dsem_account_t *account);
static void ngx_http_dsem_sync_charges(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_resp_t *command, ngx_http_dsem_fair_charge_t *charges,
    ngx_uint_t n);
static void ngx_http_dsem_sync_ticket(ngx_http_dsem_sync_ticket_t *sent,
    ngx_http_dsem_ticket_t *ticket, ngx_http_dsem_resp_t *command,
    ngx_uint_t nvalues);
static ngx_int_t ngx_http_dsem_sync_send(ngx_http_dsem_sync_t *sync);
static ngx_int_t ngx_http_dsem_sync_failed(ngx_http_dsem_session_t *session,
    ngx_http_dsem_sync_t *sync);


/*
 * Compares counts: lists the tickets that should be in the queue, the oldest
 * first, with and without an owner.  An absent one has been granted and the
 * message was lost, if the weights add up.  NGX_ERROR: the connection was
 * dropped, and the account must not be touched any more.
 */

ngx_int_t
ngx_http_dsem_sync_check(ngx_http_dsem_account_t *account)
{
    ngx_uint_t                    i, n;
    ngx_queue_t                  *q;
    ngx_http_dsem_resp_t         *command;
    ngx_http_dsem_sync_t         *sync;
    ngx_http_dsem_ticket_t       *ticket;
    ngx_http_dsem_servers_row_t  *row;

    n = ngx_min(account->ntickets, NGX_HTTP_DSEM_SYNC_MAX_CHECKED);

    sync = ngx_http_dsem_sync_create(account, 0, 0, 0, n);
    command = ngx_http_dsem_sync_begin(sync);

    if (command == NULL) {
        return ngx_http_dsem_sync_failed(account->session, sync);
    }

    sync->check = 1;
    sync->unchecked = account->ntickets - n;
    sync->granted = 0;
    account->check = sync;

    /* NULL: no ticket may lack its server */

    if (sync->sums) {
        for (i = 0; i < account->servers->n; i++) {
            row = &account->servers->rows[i];
            sync->sums[i] = row->held + row->idle + row->pending_release;
        }
    }

    q = ngx_queue_head(&account->tickets);

    for (i = 0; i < n; i++) {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        q = ngx_queue_next(q);

        ngx_http_dsem_sync_ticket(&sync->tickets[i], ticket, command,
                                  NGX_HTTP_DSEM_SYNC_TICKET_NUMBERS);
    }

    ngx_http_dsem_account_checked(account);

    return ngx_http_dsem_sync_send(sync);
}


/*
 * Sends the changes of an account: permits that go back, cancels, charges of
 * keys, which go as asks without a ticket, and at most this number of asks.
 * NGX_ERROR: the connection was dropped, and the account must not be touched
 * any more.
 */

ngx_int_t
ngx_http_dsem_sync_changes(ngx_http_dsem_account_t *account,
    ngx_uint_t nasks)
{
    ngx_uint_t                    i, ncancels, ncharges;
    ngx_queue_t                  *q;
    ngx_http_dsem_resp_t         *command;
    ngx_http_dsem_sync_t         *sync;
    ngx_http_dsem_ticket_t       *ticket;
    ngx_http_dsem_fair_charge_t   charges[NGX_HTTP_DSEM_SYNC_MAX_CHARGES];
    ngx_http_dsem_sync_ticket_t  *sent;

    ncharges = 0;

    if (account->fair) {
        nasks = ngx_min(nasks, NGX_HTTP_DSEM_SYNC_MAX_FAIR);
        ncharges = ngx_http_dsem_fair_charge(account->fair, charges,
                                             NGX_HTTP_DSEM_SYNC_MAX_CHARGES);
    }

    nasks = ngx_min(nasks, NGX_HTTP_DSEM_SYNC_MAX_BATCH);
    ncancels = ngx_min(account->ncancels, NGX_HTTP_DSEM_SYNC_MAX_BATCH);

    sync = ngx_http_dsem_sync_create(account, ncancels, ncharges, nasks, 0);
    command = ngx_http_dsem_sync_begin(sync);

    if (command == NULL) {
        return ngx_http_dsem_sync_failed(account->session, sync);
    }

    sent = sync->tickets;

    for (i = 0; i < ncancels; i++) {
        q = ngx_queue_head(&account->cancels);
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, cancel);

        ngx_http_dsem_sync_ticket(sent++, ticket, command,
                                  NGX_HTTP_DSEM_SYNC_TICKET_NUMBERS);

        ngx_queue_remove(q);
        ticket->canceling = 0;
        account->ncancels--;
    }

    ngx_http_dsem_sync_charges(sync, command, charges, ncharges);
    sent += ncharges;

    for (i = 0; i < nasks; i++) {
        q = ngx_queue_head(&account->asks);
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

        ngx_http_dsem_sync_ticket(sent++, ticket, command,
                                  NGX_HTTP_DSEM_SYNC_ASK_NUMBERS);

        ngx_http_dsem_ticket_sent(ticket, sync->session->identity.epoch);
    }

    return ngx_http_dsem_sync_send(sync);
}


static ngx_http_dsem_sync_t *
ngx_http_dsem_sync_create(ngx_http_dsem_account_t *account,
    ngx_uint_t ncancels, ngx_uint_t ncharges, ngx_uint_t nasks,
    ngx_uint_t nchecks)
{
    size_t                 size, more;
    ngx_http_dsem_sync_t  *sync;

    nasks += ncharges;

    size = sizeof(ngx_http_dsem_sync_t)
           + (ncancels + nasks + nchecks)
             * sizeof(ngx_http_dsem_sync_ticket_t);
    more = (account->servers && nchecks)
           ? account->servers->n * sizeof(ngx_int_t) : 0;

    sync = ngx_alloc(size + more, ngx_cycle->log);
    if (sync == NULL) {
        return NULL;
    }

    sync->sums = more ? (ngx_int_t *) ((u_char *) sync + size) : NULL;
    sync->list = 0;

    sync->session = account->session;
    sync->account = account;
    sync->ncancels = ncancels;
    sync->nasks = nasks;
    sync->ncharges = ncharges;
    sync->nchecks = nchecks;
    sync->check = 0;

    return sync;
}


/* NULL: no memory, or Redis is not up */

static ngx_http_dsem_resp_t *
ngx_http_dsem_sync_begin(ngx_http_dsem_sync_t *sync)
{
    u_char                   *texts;
    int64_t                   values[NGX_HTTP_DSEM_SYNC_NSENT];
    ngx_str_t                 keys[4], list, releases;
    ngx_uint_t                nkeys, nargs;
    ngx_http_dsem_resp_t     *command;
    ngx_http_dsem_redis_t    *redis;
    ngx_http_dsem_account_t  *account;

    if (sync == NULL || !ngx_http_dsem_redis_is_up(sync->session->redis)) {
        return NULL;
    }

    account = sync->account;
    redis = sync->session->redis;

    keys[0] = account->key;
    keys[1] = account->queue_key;
    nkeys = 2;

    if (account->fair) {
        keys[nkeys++] = account->fair->key;
        keys[nkeys++] = account->fair->drops_key;
    }

    if (!ngx_http_dsem_idle_allowed(account)) {
        /* Redis recalls none from a session whose last sync keeps none */
        ngx_http_dsem_ledger_give_back_idle(account, account->idle);
    }

    texts = NULL;
    nargs = NGX_HTTP_DSEM_SYNC_ARGS;

    if (account->servers) {
        texts = ngx_http_dsem_sync_servers(sync, &list, &releases);
        if (texts == NULL) {
            return NULL;
        }

        nargs += NGX_HTTP_DSEM_SYNC_POOL_ARGS;
    }

    ngx_http_dsem_sync_values(sync, values);

    command = ngx_http_dsem_redis_begin_packed(redis,
                      NGX_HTTP_DSEM_SCRIPT_SYNC, keys, nkeys, values,
                      NGX_HTTP_DSEM_SYNC_NSENT, nargs
                      + sync->ncancels + sync->nasks + sync->nchecks);

    ngx_http_dsem_resp_string(command, &account->node.str);

    if (texts) {
        ngx_http_dsem_resp_string(command, &list);
        ngx_http_dsem_resp_string(command, &releases);
        ngx_free(texts);
    }

    return command;
}


/* of the first argument; from now on the account has sent them */

static void
ngx_http_dsem_sync_values(ngx_http_dsem_sync_t *sync, int64_t *values)
{
    ngx_uint_t                flags, newest;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_literal_t  *literal;

    account = sync->account;

    account->keep_sent = ngx_http_dsem_idle_allowed(account);
    sync->keep = account->keep_sent;
    account->last_sync = ngx_current_msec;
    account->refresh = 0;

    /* a charge states none */

    if (sync->nasks > sync->ncharges) {
        account->sent_limit = account->limit;
    }

    flags = sync->keep ? NGX_HTTP_DSEM_SYNC_KEEP : 0;
    flags |= account->servers ? NGX_HTTP_DSEM_SYNC_POOL : 0;

    newest = ngx_http_dsem_session_newest(sync->session);
    literal = ngx_http_dsem_account_literal(account);

    if (literal) {
        flags |= NGX_HTTP_DSEM_SYNC_LITERAL;

        if (newest && ngx_http_dsem_limits_ask_node(literal)) {
            flags |= NGX_HTTP_DSEM_SYNC_ASK_NODE;
        }

    } else if (newest) {
        flags |= NGX_HTTP_DSEM_SYNC_SET_LIMIT;
    }

    sync->limit = account->limit;

    values[NGX_HTTP_DSEM_SYNC_SENT_GENERATION] = sync->session->generation;
    values[NGX_HTTP_DSEM_SYNC_SENT_LIMIT] = account->limit;
    values[NGX_HTTP_DSEM_SYNC_SENT_FLAGS] = flags;
    sync->released = ngx_http_dsem_ledger_report(account);
    values[NGX_HTTP_DSEM_SYNC_SENT_RELEASED] = sync->released;
    values[NGX_HTTP_DSEM_SYNC_SENT_CANCELS] = sync->ncancels;
    values[NGX_HTTP_DSEM_SYNC_SENT_ASKS] = sync->nasks;
    values[NGX_HTTP_DSEM_SYNC_SENT_CHECKS] = sync->nchecks;

    sync->held = ngx_http_dsem_ledger_sum(account);
}


/*
 * Of a pool: the servers that this worker can use now, always with their text,
 * as Redis may have forgotten the list meanwhile; and the permits that go
 * back.  Returns the memory of both, or NULL.
 */

static u_char *
ngx_http_dsem_sync_servers(ngx_http_dsem_sync_t *sync, ngx_str_t *list,
    ngx_str_t *releases)
{
    u_char                   *p, *texts;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_servers_t  *servers;

    account = sync->account;
    servers = account->servers;

    sync->list = ngx_http_dsem_servers_usable(&account->node.str, servers);

    if (servers->resolved && servers->resolved->full) {

        if (ngx_http_dsem_servers_vacate(servers)) {
            sync->list = ngx_http_dsem_servers_usable(&account->node.str,
                                                      servers);
        }

        if (servers->resolved->full) {
            ngx_http_dsem_sync_full(account);
        }
    }

    /* not before, DNS may have brought new names */

    texts = ngx_alloc(2 * ngx_http_dsem_servers_size(servers),
                      ngx_cycle->log);
    if (texts == NULL) {
        return NULL;
    }

    sync->stated = ngx_http_dsem_servers_stated(servers, sync->list);

    list->data = texts;
    p = ngx_http_dsem_servers_list(servers, sync->list, texts);
    list->len = p - texts;

    releases->data = p;

    if (ngx_http_dsem_ledger_releasable(account)) {
        p = ngx_http_dsem_servers_counts(servers, 0, p);
    }

    releases->len = p - releases->data;

    return texts;
}


/* once in a while for each pool: accounts come and go with its requests */

static void
ngx_http_dsem_sync_full(ngx_http_dsem_account_t *account)
{
    uint32_t                    hash;
    ngx_uint_t                  i, recent;
    ngx_http_dsem_sync_full_t  *line, *place;

    static ngx_http_dsem_sync_full_t  logged[NGX_HTTP_DSEM_SYNC_FULL];

    hash = account->node.node.key;
    place = NULL;

    for (i = 0; i < NGX_HTTP_DSEM_SYNC_FULL; i++) {
        line = &logged[i];

        recent = line->ever
                 && ngx_current_msec - line->time
                    < NGX_HTTP_DSEM_SYNC_FULL_TIME;

        if (recent && line->hash == hash) {
            return;
        }

        if (!recent && place == NULL) {
            place = line;
        }
    }

    if (place == NULL) {
        return;
    }

    place->ever = 1;
    place->hash = hash;
    place->time = ngx_current_msec;

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "dsem: pool \"%V\" has more than %d servers (addresses in "
                  "DNS, and those that requests still use), the others get no "
                  "permits", &account->node.str, NGX_HTTP_DSEM_MAX_SERVERS);
}


/* asks without a ticket, which a reply rejects: what keys owe */

static void
ngx_http_dsem_sync_charges(ngx_http_dsem_sync_t *sync,
    ngx_http_dsem_resp_t *command, ngx_http_dsem_fair_charge_t *charges,
    ngx_uint_t n)
{
    int64_t     values[NGX_HTTP_DSEM_SYNC_ASK_NUMBERS + 1];
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        sync->tickets[sync->ncancels + i].number = 0;
        sync->tickets[sync->ncancels + i].weight = 0;

        values[0] = 0;
        values[1] = 1;
        values[2] = charges[i].class;
        values[3] = 0;
        values[4] = charges[i].cost;

        ngx_http_dsem_resp_numbers_name(command, values,
                                        NGX_HTTP_DSEM_SYNC_ASK_NUMBERS + 1,
                                        &charges[i].key);
    }
}


/*
 * Number, weight, and of an ask also class and queue limit; behind them the
 * cost and the key, if it has one.  Of any other ticket the limit by which its
 * cost became a place is between these two.
 */

static void
ngx_http_dsem_sync_ticket(ngx_http_dsem_sync_ticket_t *sent,
    ngx_http_dsem_ticket_t *ticket, ngx_http_dsem_resp_t *command,
    ngx_uint_t nvalues)
{
    int64_t     values[NGX_HTTP_DSEM_SYNC_ASK_NUMBERS + 1];
    ngx_str_t   key;
    ngx_uint_t  n;

    sent->number = ticket->number;
    sent->weight = ticket->weight;
    sent->server = NGX_HTTP_DSEM_NO_SERVER;

    values[0] = sent->number;
    values[1] = sent->weight;
    values[2] = ticket->class;
    values[3] = ticket->queue_limit;

    if (ticket->fair.key == NULL) {
        ngx_http_dsem_resp_numbers(command, values, nvalues);
        return;
    }

    n = nvalues;
    values[n++] = ticket->fair.cost;

    if (nvalues == NGX_HTTP_DSEM_SYNC_TICKET_NUMBERS) {
        values[n++] = ticket->fair.limit;
    }

    ngx_http_dsem_fair_name(&ticket->fair, &key);

    ngx_http_dsem_resp_numbers_name(command, values, n, &key);
}


static ngx_int_t
ngx_http_dsem_sync_send(ngx_http_dsem_sync_t *sync)
{
    if (ngx_http_dsem_redis_call(sync->session->redis,
                                 ngx_http_dsem_sync_reply_handler, sync)
        != NGX_OK)
    {
        return ngx_http_dsem_sync_failed(sync->session, sync);
    }

    sync->account->inflight++;

    ngx_log_debug5(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem sync \"%V\": cancels:%ui asks:%ui checks:%ui "
                   "inflight:%ui", &sync->account->node.str, sync->ncancels,
                   sync->nasks, sync->nchecks, sync->account->inflight);

    return NGX_OK;
}


/* a lack of memory is settled by a new declaration */

static ngx_int_t
ngx_http_dsem_sync_failed(ngx_http_dsem_session_t *session,
    ngx_http_dsem_sync_t *sync)
{
    ngx_free(sync);

    ngx_http_dsem_redis_drop(session->redis, "no memory");

    return NGX_ERROR;
}
