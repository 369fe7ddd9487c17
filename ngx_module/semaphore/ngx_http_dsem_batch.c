
/*
 * Batch: the changes of several quiet accounts in one call.
 *
 * Gathers, in one turn of the event loop, accounts with nothing but releases
 * and asks that Redis can most probably execute without a look at a queue.
 * One alone is synced as usual.  An account that is gathered, or whose part is
 * unanswered, sends nothing else.  Redis leaves alone what turns out not to be
 * quiet, and that part goes by a sync of its own: a wrong guess costs a round
 * trip and nothing else.
 *
 * Called by: dispatch (in a turn and at its end, a new epoch), redis
 * (replies).  The order of arguments and values is that of lua/syncs.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_batch.h"
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_sync.h"
#include "ngx_http_dsem_sync_reply.h"
#include "ngx_http_dsem_waiting.h"


/* accounts of one call; as in syncs.lua */
#define NGX_HTTP_DSEM_BATCH_MAX       16

/* asks of one account; with more a sync of its own costs little for each */
#define NGX_HTTP_DSEM_BATCH_MAX_ASKS  16

/* the part of the limit that is left free, as far as this worker knows */
#define NGX_HTTP_DSEM_BATCH_MARGIN    4


/* a call that is sent; freed when its reply has come or never will */
typedef struct {
    ngx_http_dsem_session_t   *session;
    uint64_t                   epoch;
    ngx_uint_t                 nparts;
    ngx_http_dsem_sync_t      *parts[NGX_HTTP_DSEM_BATCH_MAX];
} ngx_http_dsem_batch_call_t;


/* of one session */
typedef struct {
    ngx_http_dsem_account_t   *accounts[NGX_HTTP_DSEM_BATCH_MAX];
    ngx_uint_t                 n;
} ngx_http_dsem_batch_t;


static ngx_uint_t ngx_http_dsem_batch_quiet(
    ngx_http_dsem_account_t *account);
static ngx_uint_t ngx_http_dsem_batch_room(
    ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_batch_send_alone(
    ngx_http_dsem_account_t *account);
static ngx_int_t ngx_http_dsem_batch_compose(
    ngx_http_dsem_batch_call_t *call);
static ngx_http_dsem_resp_t *ngx_http_dsem_batch_begin(
    ngx_http_dsem_session_t *session);
static void ngx_http_dsem_batch_free(ngx_http_dsem_batch_call_t *call);
static void ngx_http_dsem_batch_handler(void *data,
    ngx_http_dsem_reply_t *reply);


static ngx_http_dsem_batch_t  ngx_http_dsem_batches[NGX_HTTP_DSEM_SHARDS];


/*
 * NGX_OK: the changes of the account are sent at the end of this turn;
 * NGX_DECLINED: they need a sync of their own; NGX_ERROR: others were sent,
 * and the connection was dropped.
 */

ngx_int_t
ngx_http_dsem_batch_gather(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_batch_t  *batch;

    batch = &ngx_http_dsem_batches[account->session->shard];

    if (!ngx_http_dsem_batch_quiet(account)
        || !ngx_http_dsem_batch_room(account))
    {
        return NGX_DECLINED;
    }

    account->batched = 1;
    batch->accounts[batch->n++] = account;

    return batch->n < NGX_HTTP_DSEM_BATCH_MAX ? NGX_OK
                                              : ngx_http_dsem_batch_send(
                                                            account->session);
}


/* changes that the quiet path of the scripts knows, after all others */

static ngx_uint_t
ngx_http_dsem_batch_quiet(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_literal_t  *literal;

    if (account->nasks == 0
        && ngx_http_dsem_account_releasable(account) == 0)
    {
        return 0;
    }

    if (account->nasks > NGX_HTTP_DSEM_BATCH_MAX_ASKS
        || account->ntickets
        || account->ncancels
        || account->refresh
        || account->inflight
        || account->recovering
        || account->broken
        || ngx_exiting)
    {
        return 0;
    }

    /* a sync asks for the node with the lower limit */

    literal = ngx_http_dsem_account_literal(account);

    return literal == NULL
           || literal->told
           || literal->max
           || ngx_http_dsem_account_limit(account) == account->limit;
}


/* permits for all asks, by the last reply or where none is known */

static ngx_uint_t
ngx_http_dsem_batch_room(ngx_http_dsem_account_t *account)
{
    int64_t                   in_use;
    ngx_int_t                 limit;
    ngx_queue_t              *q;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_literal_t  *literal;

    if (account->usage.limit < 0) {
        return !ngx_http_dsem_hint_contended(&account->node.str,
                                             account->node.node.key);
    }

    in_use = account->usage.in_use
             - ngx_http_dsem_account_releasable(account);

    for (q = ngx_queue_head(&account->asks);
         q != ngx_queue_sentinel(&account->asks);
         q = ngx_queue_next(q))
    {
        ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        in_use += ticket->weight;
    }

    literal = ngx_http_dsem_account_literal(account);

    /* a limit that is found may be above the one of the start */

    limit = (literal && literal->max)
            ? account->usage.limit
            : ngx_min(account->usage.limit, account->limit);

    return account->usage.waiting == 0
           && in_use <= limit - limit / NGX_HTTP_DSEM_BATCH_MARGIN;
}


/*
 * Sends what was gathered for a session.  NGX_ERROR: the connection was
 * dropped, and none of its accounts must be touched any more.
 */

ngx_int_t
ngx_http_dsem_batch_send(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_batch_t       *batch;
    ngx_http_dsem_batch_call_t  *call;

    batch = &ngx_http_dsem_batches[session->shard];

    if (batch->n == 0) {
        return NGX_OK;
    }

    if (batch->n == 1) {
        batch->n = 0;
        return ngx_http_dsem_batch_send_alone(batch->accounts[0]);
    }

    call = ngx_alloc(sizeof(ngx_http_dsem_batch_call_t), ngx_cycle->log);

    if (call) {
        call->session = session;
        call->epoch = session->identity.epoch;
        call->nparts = 0;

        if (ngx_http_dsem_batch_compose(call) == NGX_OK
            && ngx_http_dsem_redis_call(session->redis,
                                        ngx_http_dsem_batch_handler, call)
               == NGX_OK)
        {
            ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                           "dsem syncs: %ui", batch->n);

            batch->n = 0;

            return NGX_OK;
        }

        ngx_http_dsem_batch_free(call);
    }

    /* a lack of memory is settled by a new declaration */

    while (batch->n) {
        batch->accounts[--batch->n]->batched = 0;
    }

    ngx_http_dsem_redis_drop(session->redis, "no memory");

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_dsem_batch_send_alone(ngx_http_dsem_account_t *account)
{
    account->batched = 0;

    return ngx_http_dsem_sync_changes(account, account->nasks);
}


/* NGX_ERROR: no memory, or Redis is not up */

static ngx_int_t
ngx_http_dsem_batch_compose(ngx_http_dsem_batch_call_t *call)
{
    ngx_uint_t              i;
    ngx_http_dsem_resp_t   *command;
    ngx_http_dsem_sync_t   *part;
    ngx_http_dsem_batch_t  *batch;

    batch = &ngx_http_dsem_batches[call->session->shard];

    command = ngx_http_dsem_batch_begin(call->session);
    if (command == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < batch->n; i++) {
        part = ngx_http_dsem_sync_part(batch->accounts[i], command);
        if (part == NULL) {
            return NGX_ERROR;
        }

        call->parts[call->nparts++] = part;
    }

    return NGX_OK;
}


static ngx_http_dsem_resp_t *
ngx_http_dsem_batch_begin(ngx_http_dsem_session_t *session)
{
    ngx_str_t                 keys[2 * NGX_HTTP_DSEM_BATCH_MAX];
    ngx_uint_t                i, nargs;
    ngx_http_dsem_batch_t    *batch;
    ngx_http_dsem_account_t  *account;

    batch = &ngx_http_dsem_batches[session->shard];
    nargs = 0;

    for (i = 0; i < batch->n; i++) {
        account = batch->accounts[i];

        keys[2 * i] = account->key;
        keys[2 * i + 1] = account->queue_key;

        nargs += NGX_HTTP_DSEM_SYNC_PART_ARGS + account->nasks;
    }

    return ngx_http_dsem_redis_begin_packed(session->redis,
                      NGX_HTTP_DSEM_SCRIPT_SYNCS, keys, 2 * batch->n,
                      &session->generation, 1, nargs);
}


static void
ngx_http_dsem_batch_free(ngx_http_dsem_batch_call_t *call)
{
    while (call->nparts) {
        ngx_free(call->parts[--call->nparts]);
    }

    ngx_free(call);
}


static void
ngx_http_dsem_batch_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_batch_call_t *call = data;

    ngx_uint_t                i;
    ngx_http_dsem_reply_t     rest;
    ngx_http_dsem_session_t  *session;

    session = call->session;

    if (reply == NULL || call->epoch != session->identity.epoch) {
        ngx_http_dsem_batch_free(call);
        return;
    }

    if (reply->status != NGX_HTTP_DSEM_REPLY_OK) {
        ngx_http_dsem_handshake_resync(session, "session unknown to redis", 1);
        ngx_http_dsem_batch_free(call);
        return;
    }

    rest = *reply;

    for (i = 0; i < call->nparts; i++) {
        if (ngx_http_dsem_sync_part_read(call->parts[i], &rest) != NGX_OK) {
            ngx_http_dsem_batch_free(call);
            return;
        }
    }

    ngx_http_dsem_batch_free(call);

    if (rest.nvalues) {
        ngx_http_dsem_redis_drop(session->redis, "unexpected reply");
    }
}


/* a new epoch of a session: nothing is sent of what was gathered for it */

void
ngx_http_dsem_batch_reset(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_batches[session->shard].n = 0;
}
