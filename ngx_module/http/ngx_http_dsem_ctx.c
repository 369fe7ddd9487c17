
/*
 * The context of a request: what it claims, what it holds, its verdict.
 *
 * Owns the tickets of the request.  The cleanup of the pool is registered
 * before anything is acquired, and releasing is idempotent: every way in
 * which a request can end releases once.  The context itself is the worker's:
 * the cleanup keeps it for the next request, or frees it.  Nothing may refer
 * to it after that; with NGX_DEBUG_PALLOC none is kept, so that a sanitizer
 * sees what does.
 *
 * Called by: handler, redirect, body, acquire, filter and variables.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"
#include "ngx_http_dsem_result.h"


#if (NGX_DEBUG_PALLOC)
#define NGX_HTTP_DSEM_SPARE_CTXS  0
#else
#define NGX_HTTP_DSEM_SPARE_CTXS  1024
#endif


typedef struct {
    ngx_http_dsem_ctx_t  *first;        /* by next */
    ngx_uint_t            n;
} ngx_http_dsem_spare_ctxs_t;


static void ngx_http_dsem_ctx_cleanup(void *data);
static ngx_http_dsem_claim_t *ngx_http_dsem_ctx_holds(
    ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_ctx_overdue_handler(ngx_event_t *ev);


static ngx_http_dsem_spare_ctxs_t  ngx_http_dsem_spare_ctxs;


/* the context of this request, wherever it has been redirected; or NULL */

ngx_http_dsem_ctx_t *
ngx_http_dsem_ctx_find(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_dsem_ctx_t  *ctx;

    /* subrequests share the pool */

    for (cln = r->pool->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_dsem_ctx_cleanup) {
            continue;
        }

        ctx = cln->data;

        if (ctx->request == r) {
            return ctx;
        }
    }

    return NULL;
}


/* the same, created if there is none; NULL: no memory */

ngx_http_dsem_ctx_t *
ngx_http_dsem_ctx_get(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t          *cln;
    ngx_http_dsem_ctx_t         *ctx;
    ngx_http_dsem_spare_ctxs_t  *spare;

    ctx = ngx_http_dsem_ctx_find(r);

    if (ctx) {
        return ctx;
    }

    cln = ngx_pool_cleanup_add(r->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    spare = &ngx_http_dsem_spare_ctxs;
    ctx = spare->first;

    if (ctx) {
        spare->first = ctx->next;
        spare->n--;

    } else {
        ctx = ngx_calloc(sizeof(ngx_http_dsem_ctx_t), r->connection->log);
        if (ctx == NULL) {
            return NULL;
        }
    }

    ngx_memzero(ctx, offsetof(ngx_http_dsem_ctx_t, timer));

    ctx->released = 1;
    ctx->request = r;

    cln->handler = ngx_http_dsem_ctx_cleanup;
    cln->data = ctx;

    return ctx;
}


static void
ngx_http_dsem_ctx_cleanup(void *data)
{
    ngx_http_dsem_ctx_t *ctx = data;

    ngx_http_dsem_spare_ctxs_t  *spare;

    ngx_http_dsem_ctx_release_all(ctx);

    spare = &ngx_http_dsem_spare_ctxs;

    if (spare->n == NGX_HTTP_DSEM_SPARE_CTXS) {
        ngx_free(ctx);
        return;
    }

    ctx->next = spare->first;
    spare->first = ctx;
    spare->n++;
}


/*
 * Room for the claims of the next location, while those of the last one are
 * still in use.  NULL: no memory.
 */

ngx_http_dsem_claim_t *
ngx_http_dsem_ctx_claims(ngx_http_dsem_ctx_t *ctx, ngx_uint_t n)
{
    if (ctx->claims == NULL && n <= NGX_HTTP_DSEM_CTX_CLAIMS) {
        return ctx->first;
    }

    return ngx_palloc(ctx->request->pool, n * sizeof(ngx_http_dsem_claim_t));
}


/*
 * Into a location with these claims: keeps the permits that the list begins
 * with, unless its server has failed, and releases all others, before the rest
 * is acquired.  A redirected request never holds permits that it does not need
 * while it waits.
 */

void
ngx_http_dsem_ctx_enter(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claims, ngx_uint_t nclaims)
{
    ngx_uint_t              i, n;
    ngx_http_dsem_claim_t  *held;

    n = ngx_min(nclaims, ctx->nclaims);

    for (i = 0; i < n; i++) {
        held = &ctx->claims[i];

        if (!ngx_http_dsem_claim_granted(held)
            || held->spent
            || !ngx_http_dsem_claim_same(held, &claims[i])
            || held->ask.weight < claims[i].ask.weight)
        {
            break;
        }

        claims[i].ticket = held->ticket;
        claims[i].states = held->states;
        claims[i].waits = held->waits;
        held->ticket = NULL;

        if (ngx_http_dsem_ticket_seen(claims[i].ticket)) {
            /* granted in this turn, while its request of a dry run went on */
            break;
        }

        ngx_http_dsem_result_verdict(held, &claims[i].ticket->answer);
        claims[i].counted = 1;
    }

    /* that of a pool, whose claim is the last one */

    if (nclaims && (i == 0 || claims[i - 1].ask.pool == NULL)) {
        ctx->server.len = 0;
    }

    ngx_http_dsem_ctx_release_all(ctx);

    ctx->claims = claims;
    ctx->nclaims = nclaims;
    ctx->current = i;
    ctx->released = 0;
    ctx->failed = 0;
}


/* an event of this request, the same one each time; NULL: no memory */

ngx_event_t *
ngx_http_dsem_ctx_event(ngx_http_dsem_ctx_t *ctx, ngx_event_t **event,
    ngx_event_handler_pt handler)
{
    ngx_event_t  *ev;

    if (*event == NULL) {
        ev = ngx_pcalloc(ctx->request->pool, sizeof(ngx_event_t));
        if (ev == NULL) {
            return NULL;
        }

        ev->handler = handler;
        ev->data = ctx;
        ev->log = ctx->request->connection->log;

        *event = ev;
    }

    return *event;
}


/*
 * "dsem_hold_warn", which is on: the time begins with the first permit that
 * the request holds, also if it waits for others.  Without memory, and if it
 * holds nothing, nothing is watched.
 */

void
ngx_http_dsem_ctx_watch(ngx_http_dsem_ctx_t *ctx)
{
    ngx_msec_t              held, warn;
    ngx_event_t            *ev;
    ngx_http_dsem_claim_t  *claim;

    claim = ngx_http_dsem_ctx_holds(ctx);

    if (claim == NULL || ctx->warned) {
        return;
    }

    ev = ngx_http_dsem_ctx_event(ctx, &ctx->overdue,
                                 ngx_http_dsem_ctx_overdue_handler);

    if (ev == NULL || ev->timer_set) {
        return;
    }

    ev->cancelable = 1;

    held = ngx_http_dsem_semaphore_hold_time(claim->ticket);
    warn = ctx->conf->hold_warn;

    ngx_add_timer(ev, warn > held ? warn - held : 1);
}


/* the claim whose permits it has held for the longest time; NULL: none */

static ngx_http_dsem_claim_t *
ngx_http_dsem_ctx_holds(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t              i;
    ngx_http_dsem_claim_t  *claim;

    for (i = 0; i < ctx->nclaims; i++) {
        claim = &ctx->claims[i];

        if (ngx_http_dsem_claim_granted(claim)) {
            return claim;
        }
    }

    return NULL;
}


static void
ngx_http_dsem_ctx_overdue_handler(ngx_event_t *ev)
{
    ngx_http_dsem_ctx_t *ctx = ev->data;

    ngx_connection_t       *c;
    ngx_http_dsem_claim_t  *claim;

    claim = ngx_http_dsem_ctx_holds(ctx);

    if (claim == NULL) {
        return;
    }

    c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    ngx_log_error(NGX_LOG_WARN, c->log, 0,
                  "dsem: permits of \"%V\" held for %M ms by a request, "
                  "longer than \"dsem_hold_warn\"",
                  &claim->ask.name,
                  ngx_http_dsem_semaphore_hold_time(claim->ticket));

    ctx->warned = 1;
}


/* as if it had just come into its location: it holds nothing */

void
ngx_http_dsem_ctx_restart(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t  i;

    ngx_http_dsem_ctx_release_all(ctx);

    for (i = 0; i < ctx->nclaims; i++) {
        ctx->claims[i].counted = 0;
    }

    ctx->current = 0;
    ctx->released = 0;
}


/* its permits, or its place in the queue; idempotent */

void
ngx_http_dsem_ctx_release(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_claim_t *claim)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = claim->ticket;

    if (ticket) {

        if (!claim->counted) {
            ngx_http_dsem_result_left(claim);
        }

        if (claim->ask.auto_limit) {
            ngx_http_dsem_result_sample(ctx->update ? ctx->update
                                                    : ctx->request,
                                        claim, ctx->failed);
        }

        claim->ticket = NULL;
        ngx_http_dsem_semaphore_release(ticket, claim->spent);
    }
}


/* the last acquired first; idempotent */

void
ngx_http_dsem_ctx_release_all(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t  i;

    if (ctx->released) {
        return;
    }

    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }

    if (ctx->overdue && ctx->overdue->timer_set) {
        ngx_del_timer(ctx->overdue);
    }

    if (ctx->redirect && ctx->redirect->posted) {
        ngx_delete_posted_event(ctx->redirect);
    }

    if (ctx->left && ctx->left->posted) {
        ngx_delete_posted_event(ctx->left);
    }

    for (i = ctx->nclaims; i > 0; i--) {
        ngx_http_dsem_ctx_release(ctx, &ctx->claims[i - 1]);
    }

    ctx->released = 1;
}
