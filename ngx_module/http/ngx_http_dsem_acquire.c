
/*
 * Acquiring: claim after claim, wait, decide.
 *
 * Owns the way of a request to its one verdict, the suspended request and
 * its timer, and the figures for logs and variables.  A request passes by
 * NGX_DECLINED, never by NGX_OK: this module grants no access.  In a dry run
 * the same way is taken beside the request, which is never suspended.
 *
 * Called by: handler (it enters a location, its body is read), ticket (a
 * verdict, from a posted event), hold (the worker exits).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_acquire.h"
#include "ngx_http_dsem_refusal.h"
#include "ngx_http_dsem_result.h"
#include "ngx_http_dsem_shards.h"


/* whether streams can be of QUIC, also for an nginx that was built apart */
#define NGX_HTTP_DSEM_QUIC                                                    \
    (nginx_version >= 1025000 && (NGX_QUIC || NGX_COMPAT))


static void ngx_http_dsem_acquire_claims(ngx_http_dsem_ctx_t *ctx);
static ngx_uint_t ngx_http_dsem_acquire_unusable(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim);
static ngx_uint_t ngx_http_dsem_acquire_again(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_acquire_queued(ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_acquire_server(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim);
static void ngx_http_dsem_acquire_verdict(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_acquire_note(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_acquire_unasked(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim);
static ngx_uint_t ngx_http_dsem_acquire_count(ngx_str_t *name,
    ngx_uint_t passed);
static void ngx_http_dsem_acquire_refuse(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_status_e status);
static void ngx_http_dsem_acquire_decide(ngx_http_dsem_ctx_t *ctx,
    ngx_int_t rc);
static void ngx_http_dsem_acquire_handler(void *data);
static void ngx_http_dsem_acquire_settle(ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_acquire_start_timer(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim);
static void ngx_http_dsem_acquire_timer_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_dsem_acquire_suspend(ngx_http_dsem_ctx_t *ctx);
static ngx_int_t ngx_http_dsem_acquire_watch(ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_acquire_cleanup(void *data);
static void ngx_http_dsem_acquire_write_handler(ngx_http_request_t *r);


/*
 * Acquires all claims that have no permit yet.  NGX_AGAIN: the request waits,
 * and runs its phases when there is a verdict; any other result is for the
 * phase engine.
 */

ngx_int_t
ngx_http_dsem_acquire(ngx_http_dsem_ctx_t *ctx)
{
    if (!ctx->decided) {
        ctx->started = ngx_current_msec - ctx->wait_time;
        ngx_http_dsem_acquire_claims(ctx);

        if (ctx->conf->hold_warn) {
            ngx_http_dsem_ctx_watch(ctx);
        }
    }

    if (ctx->conf->dry_run) {

        if (!ctx->decided) {
            (void) ngx_http_dsem_acquire_watch(ctx);
        }

        ctx->rc = NGX_DECLINED;
        return NGX_DECLINED;
    }

    if (!ctx->decided
        && ngx_http_dsem_acquire_suspend(ctx) != NGX_OK)
    {
        ngx_http_dsem_ctx_release_all(ctx);
        ngx_http_dsem_acquire_decide(ctx, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }

    return ctx->decided ? ctx->rc : NGX_AGAIN;
}


/* a request that has no chance now need not send its body first */

void
ngx_http_dsem_acquire_reject_early(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t               i;
    ngx_http_dsem_claim_t   *claim;
    ngx_http_dsem_answer_t   answer;

    if (ctx->conf->dry_run) {
        return;
    }

    for (i = ctx->current; i < ctx->nclaims; i++) {
        claim = &ctx->claims[i];

        if (ngx_http_dsem_semaphore_full(&claim->ask, &answer)) {
            ngx_http_dsem_acquire_verdict(ctx, claim, &answer);
            return;
        }
    }
}


/* a value is not a number: nothing can be acquired */

void
ngx_http_dsem_acquire_invalid(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim)
{
    ngx_http_dsem_acquire_unasked(ctx, claim);
    ctx->invalid = 1;

    claim->ask.dry_run = ctx->conf->dry_run;

    ngx_http_dsem_ctx_release_all(ctx);
    ngx_http_dsem_result_invalid(claim);
    ngx_http_dsem_acquire_refuse(ctx, NGX_HTTP_DSEM_STATUS_ERROR);
}


/*
 * The worker exits before there can be a permit that is of use.  A request that
 * is suspended has to be resumed.
 */

void
ngx_http_dsem_acquire_exit(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_claim_t  *claim;

    claim = &ctx->claims[ctx->current];

    if (claim->ticket) {
        ngx_http_dsem_acquire_note(ctx, claim, &claim->ticket->answer);

    } else {
        ngx_http_dsem_acquire_unasked(ctx, claim);
    }

    ctx->exiting = 1;

    ngx_http_dsem_result_invalid(claim);
    ngx_http_dsem_acquire_refuse(ctx, NGX_HTTP_DSEM_STATUS_ERROR);
}


/* one after the other, until a verdict has to be waited for */

static void
ngx_http_dsem_acquire_claims(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_claim_t   *claim;
    ngx_http_dsem_answer_t   answer;

    while (!ctx->decided) {

        if (ctx->current == ctx->nclaims) {
            ngx_http_dsem_acquire_decide(ctx, NGX_DECLINED);
            return;
        }

        claim = &ctx->claims[ctx->current];

        claim->ask.handler = ngx_http_dsem_acquire_handler;
        claim->ask.data = ctx;
        claim->ask.dry_run = ctx->conf->dry_run;
        claim->ask.reuse = ctx->conf->reuse;
        claim->ask.local = (ctx->conf->on_error
                            == NGX_HTTP_DSEM_ON_ERROR_LOCAL);
        claim->ask.pass = (ctx->conf->on_error
                           == NGX_HTTP_DSEM_ON_ERROR_PASS);

        if (claim->ticket) {
            /* granted when the request was redirected */
            answer = claim->ticket->answer;
            ngx_http_dsem_acquire_verdict(ctx, claim, &answer);
            continue;
        }

        if (!claim->again) {

            if (claim->ask.pool && ngx_http_dsem_acquire_unusable(ctx, claim))
            {
                continue;
            }

            claim->waits = ngx_current_msec;
        }

        claim->ticket = ngx_http_dsem_semaphore_acquire(&claim->ask, &answer);

        if (claim->ticket) {
            answer = claim->ticket->answer;
        }

        if (answer.verdict == NGX_HTTP_DSEM_VERDICT_WAITING) {

            if (ctx->conf->dry_run || !ctx->request->filter_finalize) {
                ngx_http_dsem_acquire_start_timer(ctx, claim);
                return;
            }

            /* nginx would close the connection of a suspended request */
            answer.verdict = NGX_HTTP_DSEM_VERDICT_UNAVAILABLE;
        }

        ngx_http_dsem_acquire_verdict(ctx, claim, &answer);
    }
}


/*
 * No server of a pool can be used now: no permit is asked for, and nginx
 * answers that no upstream is live.
 */

static ngx_uint_t
ngx_http_dsem_acquire_unusable(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim)
{
    if (ctx->conf->dry_run
        || ngx_http_dsem_servers_usable(&claim->ask.name, NULL))
    {
        return 0;
    }

    ngx_http_dsem_acquire_unasked(ctx, claim);
    ctx->status = NGX_HTTP_DSEM_STATUS_ERROR;
    ctx->weight = claim->ask.weight;
    ctx->dry_run = 0;

    claim->unusable = 1;
    ngx_http_dsem_result_invalid(claim);

    ctx->current++;

    return 1;
}


/*
 * A server may fail between the grant and its arrival, or another worker of
 * the node has seen it fail: the request asks again, and waits for any other
 * one for as long as it would have.  It has waited all the same.
 */

static ngx_uint_t
ngx_http_dsem_acquire_again(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = claim->ticket;

    if (answer->verdict != NGX_HTTP_DSEM_VERDICT_GRANTED
        || ctx->conf->dry_run
        || ngx_http_dsem_semaphore_usable(ticket))
    {
        return 0;
    }

    claim->again = 1;
    claim->position = answer->position;
    claim->ticket = NULL;

    ngx_http_dsem_semaphore_release(ticket, 1);

    return 1;
}


/* the verdict of one semaphore */

static void
ngx_http_dsem_acquire_verdict(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer)
{
    if (answer->position == 0) {
        answer->position = claim->position;
    }

    if (claim->ask.pool && ngx_http_dsem_acquire_again(ctx, claim, answer)) {
        return;
    }

    ngx_http_dsem_acquire_note(ctx, claim, answer);
    ngx_http_dsem_result_verdict(claim, answer);

    switch (answer->verdict) {

    case NGX_HTTP_DSEM_VERDICT_WAITING:
    case NGX_HTTP_DSEM_VERDICT_GRANTED:
        if (answer->local) {
            ctx->status = NGX_HTTP_DSEM_STATUS_DEGRADED;

        } else if (answer->position) {
            ngx_http_dsem_acquire_queued(ctx);
        }

        if (answer->verdict == NGX_HTTP_DSEM_VERDICT_WAITING) {
            return;
        }

        if (claim->ask.pool) {
            ngx_http_dsem_acquire_server(ctx, claim);
        }

        break;

    case NGX_HTTP_DSEM_VERDICT_WORKER_FULL:
        ctx->worker_full = 1;
        /* fall through */

    case NGX_HTTP_DSEM_VERDICT_REJECTED:
        ctx->local = (ctx->worker_full || answer->local);
        ngx_http_dsem_acquire_refuse(ctx, NGX_HTTP_DSEM_STATUS_REJECTED);
        return;

    case NGX_HTTP_DSEM_VERDICT_MIXED:
    case NGX_HTTP_DSEM_VERDICT_BROKEN:
    case NGX_HTTP_DSEM_VERDICT_UNAVAILABLE:
        ctx->mixed = (answer->verdict == NGX_HTTP_DSEM_VERDICT_MIXED);
        ctx->broken = (answer->verdict == NGX_HTTP_DSEM_VERDICT_BROKEN);
        ngx_http_dsem_ctx_release(ctx, claim);

        if (ctx->conf->on_error != NGX_HTTP_DSEM_ON_ERROR_PASS) {
            ngx_http_dsem_acquire_refuse(ctx, NGX_HTTP_DSEM_STATUS_ERROR);
            return;
        }

        ctx->status = NGX_HTTP_DSEM_STATUS_DEGRADED;
        break;
    }

    ctx->current++;
}


/* a wait of a dry run is none any more once the request really waits */

static void
ngx_http_dsem_acquire_queued(ngx_http_dsem_ctx_t *ctx)
{
    if (ctx->status == NGX_HTTP_DSEM_STATUS_PASSED) {
        ctx->status = NGX_HTTP_DSEM_STATUS_QUEUED;
        ctx->dry_run = ctx->conf->dry_run;

    } else if (ctx->status == NGX_HTTP_DSEM_STATUS_QUEUED) {
        ctx->dry_run &= ctx->conf->dry_run;
    }
}


/* the name outlives the permit; without memory the request gets to none */

static void
ngx_http_dsem_acquire_server(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim)
{
    ngx_str_t  *name;

    name = ngx_http_dsem_semaphore_server(claim->ticket);

    ctx->server.len = 0;

    if (name) {
        ctx->server.data = ngx_pstrdup(ctx->request->pool, name);

        if (ctx->server.data) {
            ctx->server.len = name->len;
        }
    }
}


static void
ngx_http_dsem_acquire_note(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer)
{
    /* of several semaphores, the one that queued the request is noted */

    if (answer->verdict == NGX_HTTP_DSEM_VERDICT_GRANTED
        && answer->position == 0
        && ctx->status == NGX_HTTP_DSEM_STATUS_QUEUED)
    {
        return;
    }

    ctx->name = claim->ask.name;
    ctx->key = claim->ask.key;
    ctx->position = answer->position;
    ctx->limit = answer->limit;
    ctx->in_use = answer->in_use;
    ctx->weight = claim->ask.weight;
    ctx->heavy = answer->local ? answer->heavy : ctx->weight > ctx->limit;
}


/* no permit is asked for: the figures are not there */

static void
ngx_http_dsem_acquire_unasked(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim)
{
    ctx->name = claim->ask.name;
    ctx->key = claim->ask.key;
    ctx->position = 0;
    ctx->limit = -1;
    ctx->in_use = -1;
}


/*
 * A request is passed or refused without the Redis of this name: counted for
 * the log.  0: that is available.
 */

static ngx_uint_t
ngx_http_dsem_acquire_count(ngx_str_t *name, ngx_uint_t passed)
{
    ngx_http_dsem_redis_t  *redis;

    redis = ngx_http_dsem_shards_session(name)->redis;

    return redis && ngx_http_dsem_redis_handled(redis, passed);
}


static void
ngx_http_dsem_acquire_refuse(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_status_e status)
{
    ctx->status = status;
    ctx->dry_run = ctx->conf->dry_run;
    ctx->wait_time = ngx_current_msec - ctx->started;

    ngx_http_dsem_ctx_release_all(ctx);
    ngx_http_dsem_refusal_log(ctx);

    if (!ctx->invalid) {
        (void) ngx_http_dsem_acquire_count(&ctx->name, ctx->dry_run);
    }

    if (ctx->dry_run) {
        ngx_http_dsem_acquire_decide(ctx, NGX_DECLINED);
        return;
    }

    ctx->refused = 1;
    ngx_http_dsem_acquire_decide(ctx, ngx_http_dsem_refusal_code(ctx));
}


static void
ngx_http_dsem_acquire_decide(ngx_http_dsem_ctx_t *ctx, ngx_int_t rc)
{
    ngx_uint_t  i;

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "dsem decided: %i, status:%d, waited:%M", rc,
                   (int) ctx->status, ngx_current_msec - ctx->started);

    ctx->decided = 1;
    ctx->rc = rc;
    ctx->wait_time = ngx_current_msec - ctx->started;

    if (ctx->suspended.next) {
        ngx_queue_remove(&ctx->suspended);
        ctx->suspended.next = NULL;
    }

    if (ctx->status == NGX_HTTP_DSEM_STATUS_DEGRADED && !ctx->counted) {
        ctx->counted = 1;

        for (i = 0; i < ctx->nclaims; i++) {
            if (ngx_http_dsem_acquire_count(&ctx->claims[i].ask.name, 1)) {
                break;
            }
        }
    }

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }
}


/* a verdict, or in a dry run a place in the queue */

static void
ngx_http_dsem_acquire_handler(void *data)
{
    ngx_http_dsem_ctx_t *ctx = data;

    ngx_http_dsem_claim_t   *claim;
    ngx_http_dsem_answer_t   answer;

    ngx_http_set_log_request(ctx->request->connection->log, ctx->request);

    claim = &ctx->claims[ctx->current];
    answer = claim->ticket->answer;

    ngx_http_dsem_acquire_verdict(ctx, claim, &answer);

    if (answer.verdict == NGX_HTTP_DSEM_VERDICT_WAITING) {
        return;
    }

    ngx_http_dsem_acquire_claims(ctx);

    if (ctx->conf->hold_warn) {
        ngx_http_dsem_ctx_watch(ctx);
    }

    if (ctx->decided && !ctx->conf->dry_run) {
        ngx_http_dsem_acquire_resume(ctx->request);
    }
}


/* the request needs its permits no longer */

void
ngx_http_dsem_acquire_end(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_acquire_settle(ctx);
    ngx_http_dsem_ctx_release_all(ctx);
}


/* a request of a dry run may end in the turn of its verdict, which is noted */

static void
ngx_http_dsem_acquire_settle(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_ticket_t  *ticket;

    if (ctx->decided
        || ctx->released
        || ctx->current == ctx->nclaims
        || !ctx->conf->dry_run)
    {
        return;
    }

    ticket = ctx->claims[ctx->current].ticket;

    if (ticket
        && ticket->answer.verdict != NGX_HTTP_DSEM_VERDICT_WAITING
        && ngx_http_dsem_ticket_seen(ticket))
    {
        ngx_http_dsem_acquire_handler(ctx);
    }
}


static void
ngx_http_dsem_acquire_start_timer(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim)
{
    ngx_msec_int_t  timeout, left;

    timeout = claim->timeout - (ngx_current_msec - claim->waits);

    if (ctx->patience) {
        left = ctx->patience - (ngx_current_msec - ctx->started);
        timeout = ngx_min(timeout, left);
    }

    /* not cancelable: an exiting worker serves its waiting requests */

    ctx->timer.handler = ngx_http_dsem_acquire_timer_handler;
    ctx->timer.data = ctx;
    ctx->timer.log = ctx->request->connection->log;

    /* nginx does not move a timer by less than 300 ms */

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }

    ngx_add_timer(&ctx->timer, ngx_max(timeout, 1));
}


static void
ngx_http_dsem_acquire_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_ctx_t    *ctx;
    ngx_http_dsem_claim_t  *claim;

    ctx = ev->data;

    ngx_http_set_log_request(ctx->request->connection->log, ctx->request);

    claim = &ctx->claims[ctx->current];

    if (claim->ticket->answer.verdict != NGX_HTTP_DSEM_VERDICT_WAITING) {
        /* in this turn, and the notice of it is to come */
        return;
    }

    ngx_http_dsem_acquire_note(ctx, claim, &claim->ticket->answer);
    ngx_http_dsem_result_timeout(claim);

    /* Redis gave it no place, or is lost: others may have a permit */
    ctx->local = (claim->ticket->answer.position == 0
                  || ngx_http_dsem_session_unavailable(
                               ngx_http_dsem_shards_session(&ctx->name)));

    ngx_http_dsem_acquire_refuse(ctx, NGX_HTTP_DSEM_STATUS_TIMEOUT);

    if (!ctx->conf->dry_run) {
        ngx_http_dsem_acquire_resume(ctx->request);
    }
}


/*
 * Until it is resumed.  A client that leaves is seen at once, and ends the
 * request, as it would during an upstream response.  NGX_ERROR: the request
 * cannot wait.
 */

static ngx_int_t
ngx_http_dsem_acquire_suspend(ngx_http_dsem_ctx_t *ctx)
{
    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    r = ctx->request;
    c = r->connection;

    if (ngx_http_dsem_acquire_watch(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "dsem request suspended");

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_dsem_acquire_write_handler;

#if (NGX_HTTP_DSEM_QUIC)

    if (c->quic && c->write->error) {
        ngx_post_event(c->write, &ngx_posted_events);
    }

#endif

    /* a close that came before gives no further event */

    if (c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);

    } else if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * The log phase runs ours last, when the status has been logged: what a request
 * ends with is decided before.
 */

static ngx_int_t
ngx_http_dsem_acquire_watch(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_cleanup_t  *cln;

    cln = ngx_http_cleanup_add(ctx->request, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_dsem_acquire_cleanup;
    cln->data = ctx;

    return NGX_OK;
}


static void
ngx_http_dsem_acquire_cleanup(void *data)
{
    ngx_http_dsem_ctx_t *ctx = data;

    ngx_http_dsem_acquire_settle(ctx);

    if (!ctx->decided) {
        ngx_http_dsem_acquire_abort(ctx);
    }
}


/*
 * There is no verdict yet, and the client has left; it may have waited.  A
 * request of a dry run has passed, and keeps what it would have had.
 */

void
ngx_http_dsem_acquire_abort(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_claim_t  *claim;

    if (!ctx->conf->dry_run) {
        ctx->status = NGX_HTTP_DSEM_STATUS_NONE;

        if (ctx->current < ctx->nclaims
            && ctx->claims[ctx->current].ticket)
        {
            claim = &ctx->claims[ctx->current];
            ngx_http_dsem_acquire_note(ctx, claim, &claim->ticket->answer);
            ctx->status = NGX_HTTP_DSEM_STATUS_ABORTED;
        }
    }

    ngx_http_dsem_ctx_release_all(ctx);
    ngx_http_dsem_acquire_decide(ctx, NGX_DECLINED);
}


/* a suspended request has nothing to write */

static void
ngx_http_dsem_acquire_write_handler(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

#if (NGX_HTTP_DSEM_QUIC)

    /* a stream that is reset has no read event */

    if (c->quic && c->write->error) {
        c->error = 1;

        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "client prematurely closed stream");

        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }

#endif

    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


/* runs its phases again; the request may be gone afterwards */

void
ngx_http_dsem_acquire_resume(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "dsem request resumed");

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}
