
/*
 * Declare: what an account has, sent to Redis in a new epoch.
 *
 * The figures are absolute and replace all that older epochs have sent: it
 * does not matter any more what of that was lost or executed late.  A ticket
 * keeps its place; one that Redis has never seen is asked for again.
 *
 * Called by: dispatch, when the session begins a new epoch; sync_reply, when
 * Redis has refused a command, after which what it counts may differ.  The
 * order of arguments and values is that of lua/declare.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_sync.h"
#include "ngx_http_dsem_ticket.h"
#include "ngx_http_dsem_waiting.h"


/* ms between log lines for keys of another type */
#define NGX_HTTP_DSEM_DECLARE_LOG_TIME     60000

/* tickets in one call: Redis is not kept busy for long */
#define NGX_HTTP_DSEM_DECLARE_MAX_BATCH    128

/* arguments of every declare, and for each ticket; one more where it is fair */
#define NGX_HTTP_DSEM_DECLARE_ARGS         4
#define NGX_HTTP_DSEM_DECLARE_TICKET_ARGS  4

/* flags, a sum; of a pool: its list, and permits held by server */
#define NGX_HTTP_DSEM_DECLARE_MORE         1
#define NGX_HTTP_DSEM_DECLARE_POOL         2
#define NGX_HTTP_DSEM_DECLARE_POOL_ARGS    2


/* a command that is sent; freed when its reply has come or never will */
typedef struct {
    ngx_http_dsem_session_t  *session;
    ngx_http_dsem_account_t  *account;     /* valid as long as the epoch */
    ngx_uint_t                more;        /* unsigned:1, not the first */
    ngx_uint_t                n;
    uint64_t                  tickets[1];
} ngx_http_dsem_declare_t;


static ngx_int_t ngx_http_dsem_declare_send(
    ngx_http_dsem_declare_t *declare, ngx_queue_t **q);
static ngx_int_t ngx_http_dsem_declare_servers(
    ngx_http_dsem_account_t *account, ngx_http_dsem_resp_t *command);
static void ngx_http_dsem_declare_ticket(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ticket_t *ticket, ngx_http_dsem_resp_t *command);
static ngx_uint_t ngx_http_dsem_declare_queued(
    ngx_http_dsem_account_t *account, ngx_http_dsem_sync_t *sync);
static void ngx_http_dsem_declare_unusable(ngx_http_dsem_account_t *account,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_declare_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_declare_over(ngx_http_dsem_account_t *account,
    ngx_int_t over);
static ngx_int_t ngx_http_dsem_declare_read(ngx_http_dsem_declare_t *declare,
    ngx_http_dsem_reply_t *reply);


/*
 * Declares an account, if there is anything in it; to be called once per
 * account and epoch.  "calls" is raised by the number of calls, for each of
 * which ngx_http_dsem_handshake_declared() is called.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_declare(ngx_http_dsem_account_t *account, ngx_uint_t *calls)
{
    ngx_uint_t                n, left;
    ngx_msec_t                recovery;
    ngx_queue_t              *q;
    ngx_http_dsem_declare_t  *declare;

    recovery = account->session->recovery;

    if (recovery) {
        ngx_http_dsem_local_pass(account);
        ngx_http_dsem_account_pause(account, recovery + 1);
    }

    ngx_http_dsem_waiting_return(account, NGX_MAX_INT_T_VALUE);
    ngx_http_dsem_ledger_declared(account, recovery != 0);

    if (ngx_http_dsem_ledger_sum(account) == 0 && account->ntickets == 0) {
        return NGX_OK;
    }

    q = ngx_queue_head(&account->tickets);
    left = account->ntickets;

    do {
        n = ngx_min(left, NGX_HTTP_DSEM_DECLARE_MAX_BATCH);

        declare = ngx_alloc(sizeof(ngx_http_dsem_declare_t)
                            + n * sizeof(uint64_t), ngx_cycle->log);
        if (declare == NULL) {
            return NGX_ERROR;
        }

        declare->session = account->session;
        declare->account = account;
        declare->more = (left < account->ntickets);
        declare->n = n;

        if (ngx_http_dsem_declare_send(declare, &q) != NGX_OK) {
            ngx_free(declare);
            return NGX_ERROR;
        }

        account->inflight++;
        (*calls)++;

        left -= n;

    } while (left);

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_declare_send(ngx_http_dsem_declare_t *declare, ngx_queue_t **q)
{
    ngx_str_t                 keys[4];
    ngx_uint_t                i, nkeys, nargs;
    ngx_http_dsem_resp_t     *command;
    ngx_http_dsem_redis_t    *redis;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_account_t  *account;

    account = declare->account;
    redis = account->session->redis;

    keys[0] = account->key;
    keys[1] = account->queue_key;
    nkeys = 2;
    nargs = NGX_HTTP_DSEM_DECLARE_TICKET_ARGS;

    if (account->fair) {
        keys[nkeys++] = account->fair->key;
        keys[nkeys++] = account->fair->drops_key;
        nargs++;
    }

    command = ngx_http_dsem_redis_begin(redis, NGX_HTTP_DSEM_SCRIPT_DECLARE,
                      keys, nkeys, NGX_HTTP_DSEM_DECLARE_ARGS
                      + (account->servers ? NGX_HTTP_DSEM_DECLARE_POOL_ARGS
                                          : 0)
                      + declare->n * nargs);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_number(command,
                              ngx_http_dsem_account_stated_limit(account));
    ngx_http_dsem_resp_number(command, ngx_http_dsem_ledger_sum(account));
    ngx_http_dsem_resp_number(command,
                              (declare->more ? NGX_HTTP_DSEM_DECLARE_MORE : 0)
                              + (account->servers ? NGX_HTTP_DSEM_DECLARE_POOL
                                                  : 0));
    ngx_http_dsem_resp_number(command, declare->n);

    if (account->servers
        && ngx_http_dsem_declare_servers(account, command) != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < declare->n; i++) {
        ticket = ngx_queue_data(*q, ngx_http_dsem_ticket_t, queue);
        *q = ngx_queue_next(*q);

        declare->tickets[i] = ticket->number;

        ngx_http_dsem_declare_ticket(account, ticket, command);
    }

    return ngx_http_dsem_redis_call(redis, ngx_http_dsem_declare_handler,
                                    declare);
}


/* the servers that this worker can use, and its permits by server */

static ngx_int_t
ngx_http_dsem_declare_servers(ngx_http_dsem_account_t *account,
    ngx_http_dsem_resp_t *command)
{
    u_char                   *last, *text;
    uint64_t                  list;
    ngx_http_dsem_servers_t  *servers;

    servers = account->servers;

    /* first, DNS may have brought new names */

    list = ngx_http_dsem_servers_usable(&account->node.str, servers);

    text = ngx_alloc(ngx_http_dsem_servers_size(servers), ngx_cycle->log);
    if (text == NULL) {
        return NGX_ERROR;
    }

    last = ngx_http_dsem_servers_list(servers, list, text);
    ngx_http_dsem_resp_bytes(command, text, last - text);

    last = ngx_http_dsem_servers_counts(servers, 1, text);
    ngx_http_dsem_resp_bytes(command, text, last - text);

    ngx_free(text);

    return NGX_OK;
}


static void
ngx_http_dsem_declare_ticket(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ticket_t *ticket, ngx_http_dsem_resp_t *command)
{
    ngx_str_t  key;

    ngx_http_dsem_resp_number(command, ticket->number);
    ngx_http_dsem_resp_number(command, ticket->weight);
    ngx_http_dsem_resp_number(command, ticket->place);
    ngx_http_dsem_resp_number(command, ticket->epoch);

    if (!account->fair) {
        return;
    }

    if (ticket->fair.key == NULL) {
        ngx_http_dsem_resp_bytes(command, "-", 1);
        return;
    }

    /* cost and key, by which Redis computes later places again */

    ngx_http_dsem_fair_name(&ticket->fair, &key);
    ngx_http_dsem_resp_numbers_name(command, &ticket->fair.cost, 1, &key);
}


static void
ngx_http_dsem_declare_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_declare_t *declare = data;

    ngx_int_t                 rc;
    ngx_http_dsem_session_t  *session;

    session = declare->session;

    if (reply == NULL) {
        ngx_free(declare);
        return;
    }

    declare->account->inflight--;

    rc = ngx_http_dsem_declare_read(declare, reply);

    ngx_free(declare);

    if (rc == NGX_OK) {
        ngx_http_dsem_handshake_declared(session);
    }
}


static ngx_int_t
ngx_http_dsem_declare_read(ngx_http_dsem_declare_t *declare,
    ngx_http_dsem_reply_t *reply)
{
    int64_t                 *value;
    ngx_uint_t               i;
    ngx_http_dsem_ticket_t  *ticket;

    if (reply->status != NGX_HTTP_DSEM_REPLY_OK) {
        ngx_http_dsem_declare_refused(declare->account, reply, NULL);
        return NGX_OK;
    }

    if (reply->nvalues < 1 + declare->n) {
        ngx_http_dsem_redis_drop(declare->session->redis, "reply too short");
        return NGX_ERROR;
    }

    if (!declare->more) {
        ngx_http_dsem_declare_over(declare->account, reply->values[0]);
    }

    value = reply->values + 1;

    for (i = 0; i < declare->n; i++) {
        ticket = ngx_http_dsem_waiting_find(declare->tickets[i]);

        if (ticket == NULL) {
            continue;
        }

        if (value[i]) {
            ngx_http_dsem_ticket_placed(ticket, value[i],
                                        declare->session->identity.epoch);

        } else {
            ngx_http_dsem_ticket_unsend(ticket);
        }
    }

    return NGX_OK;
}


/*
 * More permits are counted than the limit allows.  While Redis recovers what
 * others had before counts until they have declared: of what the local limit
 * has admitted here no more is an overage than is above the limit now, and so
 * each worker answers for its own part, in the order in which they declare.
 */

static void
ngx_http_dsem_declare_over(ngx_http_dsem_account_t *account, ngx_int_t over)
{
    char       *cause;
    ngx_int_t   excess;

    excess = ngx_min(over - account->excess, account->held);
    excess = ngx_max(excess, 0);

    cause = ngx_http_dsem_session_cause(account->session);

    if (cause) {
        ngx_http_dsem_session_overage(&account->node.str, excess, cause);
        account->admitted = 0;

    } else if (account->admitted) {
        account->admitted = ngx_min(account->admitted, excess);
        return;
    }

    /* the next epoch may find the same */
    account->excess += excess;
}


/*
 * Concerns this semaphore only, until its keys are deleted.  "mixed": until the
 * last permit of the other kind is released; the key counts it.  What Redis may
 * count still, in use or not, or have in the queue, is declared after the next
 * command that it executes, unless it counts what this worker has.  Later
 * commands may be executed: what they ask for waits for their replies.
 *
 * sync     whose reply it is; NULL: it is that of a declaration
 */

void
ngx_http_dsem_declare_refused(ngx_http_dsem_account_t *account,
    ngx_http_dsem_reply_t *reply, ngx_http_dsem_sync_t *sync)
{
    ngx_int_t                 counted;
    ngx_uint_t                i;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_verdict_e   verdict;

    ngx_http_dsem_declare_unusable(account, reply);

    verdict = (reply->status == NGX_HTTP_DSEM_REPLY_MIXED)
              ? NGX_HTTP_DSEM_VERDICT_MIXED : NGX_HTTP_DSEM_VERDICT_BROKEN;

    counted = sync ? sync->released + ngx_http_dsem_ledger_sum(account) : 0;
    account->broken |= (account->held != 0
                        || counted != 0
                        || ngx_http_dsem_declare_queued(account, sync));

    ngx_http_dsem_ledger_clear(account);

    for (i = 0; sync && i < sync->nasks; i++) {
        ticket = ngx_http_dsem_waiting_find(
                                   sync->tickets[sync->ncancels + i].number);

        if (ticket) {
            ngx_http_dsem_ticket_end(ticket, verdict);
        }
    }

    ngx_http_dsem_tickets_end(account, verdict, sync && account->inflight);

    /* a posted account is not freed: it is flushed once more */
    ngx_http_dsem_account_post(account);
}


/*
 * Whether Redis may have tickets in the queue that end here, and may grant
 * permits to them: those of older replies, also of canceled requests, and of
 * other parts of a declaration.  Not those that this command has asked for.
 */

static ngx_uint_t
ngx_http_dsem_declare_queued(ngx_http_dsem_account_t *account,
    ngx_http_dsem_sync_t *sync)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    if (sync == NULL) {
        return account->ntickets != 0;
    }

    for (q = ngx_queue_head(&account->tickets);
         q != ngx_queue_sentinel(&account->tickets);
         q = ngx_queue_next(q))
    {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);

        if (ticket->state == NGX_HTTP_DSEM_TICKET_QUEUED) {
            return 1;
        }
    }

    return 0;
}


/* to delete another key than the one that is broken may exceed the limit */

static void
ngx_http_dsem_declare_unusable(ngx_http_dsem_account_t *account,
    ngx_http_dsem_reply_t *reply)
{
    ngx_str_t  *key;

    static ngx_msec_t  logged;
    static ngx_uint_t  ever;

    if (ever && ngx_current_msec - logged < NGX_HTTP_DSEM_DECLARE_LOG_TIME) {
        return;
    }

    ever = 1;
    logged = ngx_current_msec;

    if (reply->status == NGX_HTTP_DSEM_REPLY_MIXED) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: semaphore \"%V\" unusable (%s elsewhere), "
                      "give the pool another name",
                      &account->node.str,
                      account->servers ? "a pool here, and a plain semaphore"
                                       : "a plain semaphore here, and a pool");
        return;
    }

    /* the other one is that of the tags */
    key = ngx_http_dsem_resp_broken_key(reply, &account->key,
                  &account->queue_key,
                  account->fair ? &account->fair->key : &account->queue_key);

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "dsem: semaphore \"%V\" unusable (key \"%V\" in redis is of "
                  "another type), delete the key",
                  &account->node.str, key);
}
