
/*
 * The verdict on a request: asks for one permit after the other, and decides.
 *
 * Owns the way to the one verdict, its timer, and what the record says of it
 * for logs and variables.  A request passes by NGX_DECLINED, never by NGX_OK:
 * nobody is let in here.  In a dry run it never waits: the wait goes on
 * beside it, and a refusal is noted only.
 *
 * Called by: request (it enters a location), body (it is there), tell (an
 * answer, from a posted event).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_refusal.h"
#include "ngx_http_dsem_suspend.h"
#include "ngx_http_dsem_verdict.h"


static void ngx_http_dsem_verdict_advance(ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_verdict_answered(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_verdict_note(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer);
static void ngx_http_dsem_verdict_refuse(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_request_status_e status);
static void ngx_http_dsem_verdict_decide(ngx_http_dsem_ctx_t *ctx,
    ngx_int_t rc);
static void ngx_http_dsem_verdict_handler(void *data);
static void ngx_http_dsem_verdict_dry_run(ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_verdict_timer_handler(ngx_event_t *ev);
static ngx_http_dsem_claim_t *ngx_http_dsem_verdict_waiting(
    ngx_http_dsem_ctx_t *ctx);


void
ngx_http_dsem_verdict_init(ngx_http_dsem_ctx_t *ctx)
{
    /* not cancelable: a worker that exits serves those who wait */
    ctx->timer.handler = ngx_http_dsem_verdict_timer_handler;
    ctx->timer.data = ctx;
    ctx->timer.log = ctx->request->connection->log;
}


/* a value that is no number: what it asks for cannot be known */

void
ngx_http_dsem_verdict_invalid(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim)
{
    ctx->name = claim->ask.name;
    ctx->invalid = 1;
    ctx->position = 0;
    ctx->limit = -1;
    ctx->in_use = -1;

    ngx_http_dsem_request_release_all(ctx);
    ngx_http_dsem_verdict_refuse(ctx, NGX_HTTP_DSEM_STATUS_ERROR);
}


/* what has no room for it now need not read its body first */

void
ngx_http_dsem_verdict_reject_early(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t               i;
    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_answer_t   answer;

    if (ctx->conf->dry_run) {
        return;
    }

    for (i = ctx->current; i < ctx->nclaims; i++) {
        claim = &ctx->claims[i];

        if (ngx_http_dsem_semaphore_full(&claim->ask, &answer)) {
            ngx_http_dsem_verdict_answered(ctx, claim, &answer);
            return;
        }
    }
}


/*
 * Asks for what is wanted and not had yet.  NGX_AGAIN: the request waits,
 * and runs its phases when there is a verdict; else the result is for the
 * phase engine.
 */

ngx_int_t
ngx_http_dsem_verdict_acquire(ngx_http_dsem_ctx_t *ctx)
{
    if (!ctx->decided) {
        ctx->started = ngx_current_msec - ctx->wait_time;
        ngx_http_dsem_verdict_advance(ctx);
    }

    if (!ctx->decided && ngx_http_dsem_suspend(ctx->request) != NGX_OK) {
        ngx_http_dsem_request_release_all(ctx);
        ngx_http_dsem_verdict_decide(ctx, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }

    return ctx->decided ? ctx->rc : NGX_AGAIN;
}


/* asks for one after the other, until one has to be waited for */

static void
ngx_http_dsem_verdict_advance(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_answer_t   answer;

    while (!ctx->decided) {

        if (ctx->current == ctx->nclaims) {
            ngx_http_dsem_verdict_decide(ctx, NGX_DECLINED);
            return;
        }

        claim = &ctx->claims[ctx->current];

        claim->ask.handler = ngx_http_dsem_verdict_handler;
        claim->ask.data = ctx;
        claim->ask.early = ctx->conf->dry_run;
        claim->ask.reuse = ctx->conf->reuse;
        claim->ask.local = (ctx->conf->on_error
                           == NGX_HTTP_DSEM_ON_ERROR_LOCAL);

        claim->ticket = ngx_http_dsem_semaphore_acquire(&claim->ask, &answer);

        if (claim->ticket) {
            answer = *ngx_http_dsem_ticket_answer(claim->ticket);
        }

        if (answer.verdict == NGX_HTTP_DSEM_VERDICT_WAITING) {

            /* nginx moves a timer by less than 300 ms not at all */

            if (ctx->timer.timer_set) {
                ngx_del_timer(&ctx->timer);
            }

            ngx_add_timer(&ctx->timer, claim->timeout);
            return;
        }

        ngx_http_dsem_verdict_answered(ctx, claim, &answer);
    }
}


/* one verdict of one semaphore */

static void
ngx_http_dsem_verdict_answered(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer)
{
    ngx_http_dsem_verdict_note(ctx, claim, answer);

    switch (answer->verdict) {

    case NGX_HTTP_DSEM_VERDICT_WAITING:
    case NGX_HTTP_DSEM_VERDICT_GRANTED:
        if (answer->local) {
            ctx->status = NGX_HTTP_DSEM_STATUS_DEGRADED;

        } else if (answer->position
                   && ctx->status == NGX_HTTP_DSEM_STATUS_PASSED)
        {
            ctx->status = NGX_HTTP_DSEM_STATUS_QUEUED;
        }

        if (answer->verdict == NGX_HTTP_DSEM_VERDICT_WAITING) {
            ctx->dry_run = 1;
        }

        break;

    case NGX_HTTP_DSEM_VERDICT_WORKER_FULL:
        ctx->worker_full = 1;
        /* fall through */

    case NGX_HTTP_DSEM_VERDICT_REJECTED:
        ngx_http_dsem_verdict_refuse(ctx, NGX_HTTP_DSEM_STATUS_REJECTED);
        return;

    case NGX_HTTP_DSEM_VERDICT_UNAVAILABLE:
        ngx_http_dsem_claim_release(claim);

        if (ctx->conf->on_error != NGX_HTTP_DSEM_ON_ERROR_PASS) {
            ngx_http_dsem_verdict_refuse(ctx, NGX_HTTP_DSEM_STATUS_ERROR);
            return;
        }

        ctx->status = NGX_HTTP_DSEM_STATUS_DEGRADED;
        break;
    }

    ctx->current++;
}


static void
ngx_http_dsem_verdict_note(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_answer_t *answer)
{
    /* of several semaphores, the one that made it wait is of interest */

    if (answer->verdict == NGX_HTTP_DSEM_VERDICT_GRANTED
        && answer->position == 0
        && ctx->status == NGX_HTTP_DSEM_STATUS_QUEUED)
    {
        return;
    }

    ctx->name = claim->ask.name;
    ctx->position = answer->position;
    ctx->limit = answer->limit;
    ctx->in_use = answer->in_use;
    ctx->weight = claim->ask.weight;
}


static void
ngx_http_dsem_verdict_refuse(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_request_status_e status)
{
    ctx->status = status;
    ctx->wait_time = ngx_current_msec - ctx->started;

    ngx_http_dsem_request_release_all(ctx);
    ngx_http_dsem_refusal_log(ctx);

    if (ctx->conf->dry_run) {
        ctx->dry_run = 1;
        ngx_http_dsem_verdict_decide(ctx, NGX_DECLINED);
        return;
    }

    ctx->refused = 1;
    ngx_http_dsem_verdict_decide(ctx, ngx_http_dsem_refusal_code(ctx));
}


static void
ngx_http_dsem_verdict_decide(ngx_http_dsem_ctx_t *ctx, ngx_int_t rc)
{
    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "dsem decided: %i, status:%d, waited:%M", rc,
                   (int) ctx->status,
                   ngx_current_msec - ctx->started);

    ctx->decided = 1;
    ctx->rc = rc;
    ctx->wait_time = ngx_current_msec - ctx->started;

    /* in a dry run the wait goes on beside the request */

    if (ctx->timer.timer_set && !ctx->dry_run) {
        ngx_del_timer(&ctx->timer);
    }
}


static void
ngx_http_dsem_verdict_handler(void *data)
{
    ngx_http_dsem_ctx_t  *ctx = data;

    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_answer_t   answer;

    ngx_http_set_log_request(ctx->request->connection->log,
                             ctx->request);

    if (ctx->decided) {
        ngx_http_dsem_verdict_dry_run(ctx);
        return;
    }

    claim = &ctx->claims[ctx->current];
    answer = *ngx_http_dsem_ticket_answer(claim->ticket);

    if (answer.verdict == NGX_HTTP_DSEM_VERDICT_WAITING && answer.position == 0) {
        /* in a dry run, the verdict on a line before this one */
        return;
    }

    ngx_http_dsem_verdict_answered(ctx, claim, &answer);
    ngx_http_dsem_verdict_advance(ctx);

    if (ctx->decided) {
        ngx_http_dsem_resume(ctx->request);
    }
}


/* a dry run: the request is being served while its ticket waits */

static void
ngx_http_dsem_verdict_dry_run(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t             i;
    ngx_http_dsem_claim_t  *claim;

    for (i = 0; i < ctx->nclaims; i++) {
        claim = &ctx->claims[i];

        if (claim->ticket == NULL) {
            continue;
        }

        switch (ngx_http_dsem_ticket_answer(claim->ticket)->verdict) {

        case NGX_HTTP_DSEM_VERDICT_WAITING:
            return;

        case NGX_HTTP_DSEM_VERDICT_GRANTED:
            break;

        default:
            ngx_http_dsem_claim_release(claim);
            break;
        }
    }

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }
}


static void
ngx_http_dsem_verdict_timer_handler(ngx_event_t *ev)
{
    ngx_uint_t               decided;
    ngx_http_dsem_claim_t    *claim;
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ev->data;

    ngx_http_set_log_request(ctx->request->connection->log,
                             ctx->request);

    decided = ctx->decided;
    claim = ngx_http_dsem_verdict_waiting(ctx);

    if (claim == NULL) {
        return;
    }

    ngx_http_dsem_verdict_note(ctx, claim,
                               ngx_http_dsem_ticket_answer(claim->ticket));
    ngx_http_dsem_verdict_refuse(ctx, NGX_HTTP_DSEM_STATUS_TIMEOUT);

    if (!decided) {
        ngx_http_dsem_resume(ctx->request);
    }
}


/* what the request waits for, in a dry run beside being served; or NULL */

static ngx_http_dsem_claim_t *
ngx_http_dsem_verdict_waiting(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t             i;
    ngx_http_dsem_claim_t  *claim;

    for (i = 0; i < ctx->nclaims; i++) {
        claim = &ctx->claims[i];

        if (claim->ticket
            && ngx_http_dsem_ticket_answer(claim->ticket)->verdict
               == NGX_HTTP_DSEM_VERDICT_WAITING)
        {
            return claim;
        }
    }

    return NULL;
}
