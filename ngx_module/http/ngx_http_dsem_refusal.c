
/*
 * Refusals: status code and headers for the client, a log line for the
 * operator.
 *
 * One line per refusal, at "dsem_log_level", with its reason and the usage
 * of the semaphore.  The README quotes them.
 *
 * Called by: acquire, once the context has its status; filter, when the
 * header of the response is sent.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_refusal.h"


/* seconds of "dsem_retry_after auto" */
#define NGX_HTTP_DSEM_RETRY_MIN  1
#define NGX_HTTP_DSEM_RETRY_MAX  30


static ngx_int_t ngx_http_dsem_refusal_retry_after(
    ngx_http_dsem_ctx_t *ctx);
static ngx_int_t ngx_http_dsem_refusal_seconds(
    ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_refusal_log_rejected(
    ngx_http_dsem_ctx_t *ctx, char *dry);
static void ngx_http_dsem_refusal_log_timeout(
    ngx_http_dsem_ctx_t *ctx, char *dry);
static void ngx_http_dsem_refusal_log_failed(
    ngx_http_dsem_ctx_t *ctx, char *dry);


/* the status code for this reason, as "dsem_status" says */

ngx_int_t
ngx_http_dsem_refusal_code(ngx_http_dsem_ctx_t *ctx)
{
    switch (ctx->status) {

    case NGX_HTTP_DSEM_STATUS_REJECTED:
        return ctx->conf->status_full;

    case NGX_HTTP_DSEM_STATUS_TIMEOUT:
        return ctx->conf->status_timeout;

    default: /* NGX_HTTP_DSEM_STATUS_ERROR */
        return ctx->conf->status_error;
    }
}


/*
 * The headers of the response of a refused request.  A program that asks for
 * a permit to hold reads why it has none, as the codes may be the same: all are
 * taken, or this node cannot grant one.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_refusal_headers(ngx_http_dsem_ctx_t *ctx)
{
    ngx_str_t  *status;

    static ngx_str_t  rejected = ngx_string("REJECTED");
    static ngx_str_t  timeout = ngx_string("TIMEOUT");
    static ngx_str_t  error = ngx_string(NGX_HTTP_DSEM_REFUSAL_ERROR);

    if (ctx->conf->hold) {

        if (ctx->status == NGX_HTTP_DSEM_STATUS_ERROR || ctx->local) {
            status = &error;

        } else {
            status = (ctx->status == NGX_HTTP_DSEM_STATUS_TIMEOUT) ? &timeout
                                                                   : &rejected;
        }

        if (ngx_http_dsem_answer_header(ctx->request,
                                        NGX_HTTP_DSEM_REFUSAL_HEADER, status)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return ngx_http_dsem_refusal_retry_after(ctx);
}


/* as "dsem_retry_after" says; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_dsem_refusal_retry_after(ngx_http_dsem_ctx_t *ctx)
{
    u_char                         *p;
    ngx_int_t                       seconds;
    ngx_str_t                       value;
    ngx_http_request_t             *r;
    ngx_http_dsem_answer_cursor_t   cursor;

    r = ctx->request;
    seconds = ngx_http_dsem_refusal_seconds(ctx);

    ngx_memzero(&cursor, sizeof(ngx_http_dsem_answer_cursor_t));

    /* an error page that comes from elsewhere may have its own header */

    if (seconds == NGX_DECLINED
        || r->headers_out.status < NGX_HTTP_BAD_REQUEST
        || ngx_http_dsem_answer_sent(&r->headers_out.headers, "Retry-After",
                                     &cursor))
    {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value.data = p;
    value.len = ngx_sprintf(p, "%i", seconds) - p;

    return ngx_http_dsem_answer_header(r, "Retry-After", &value);
}


/*
 * NGX_DECLINED: no header, as a retry is of no use, or the header is off.  A
 * quarter of the time more or less spreads the retries of many clients.
 *
 * A program whose worker exits can ask the next worker at once: 0, which it
 * reads nowhere else.
 */

static ngx_int_t
ngx_http_dsem_refusal_seconds(ngx_http_dsem_ctx_t *ctx)
{
    ngx_int_t  msec, seconds;

    seconds = ctx->conf->retry_after;

    if (ctx->exiting && ctx->conf->hold) {
        return 0;
    }

    if (seconds == NGX_HTTP_DSEM_RETRY_OFF
        || ctx->status == NGX_HTTP_DSEM_STATUS_ERROR
        || ctx->heavy)
    {
        return NGX_DECLINED;
    }

    if (seconds != NGX_HTTP_DSEM_RETRY_AUTO) {
        return seconds;
    }

    msec = ngx_http_dsem_hint_wait(&ctx->name, 0);
    msec = ngx_min(msec, NGX_HTTP_DSEM_RETRY_MAX * 1000);
    msec = msec * (75 + ngx_random() % 51) / 100;

    seconds = (msec + 999) / 1000;
    seconds = ngx_max(seconds, NGX_HTTP_DSEM_RETRY_MIN);

    return ngx_min(seconds, NGX_HTTP_DSEM_RETRY_MAX);
}


void
ngx_http_dsem_refusal_log(ngx_http_dsem_ctx_t *ctx)
{
    char  *dry;

    dry = ctx->conf->dry_run ? ", dry run" : "";

    switch (ctx->status) {

    case NGX_HTTP_DSEM_STATUS_REJECTED:
        ngx_http_dsem_refusal_log_rejected(ctx, dry);
        break;

    case NGX_HTTP_DSEM_STATUS_TIMEOUT:
        ngx_http_dsem_refusal_log_timeout(ctx, dry);
        break;

    default: /* NGX_HTTP_DSEM_STATUS_ERROR */

        /* a wrong value has been logged */

        if (!ctx->invalid) {
            ngx_http_dsem_refusal_log_failed(ctx, dry);
        }

        break;
    }
}


static void
ngx_http_dsem_refusal_log_rejected(ngx_http_dsem_ctx_t *ctx, char *dry)
{
    ngx_log_t   *log;
    ngx_uint_t   level;

    log = ctx->request->connection->log;
    level = ctx->conf->log_level;

    if (ctx->worker_full) {
        ngx_log_error(level, log, 0,
                      "dsem rejected%s: \"dsem_max_waiting\" reached in this "
                      "worker, semaphore \"%V\"",
                      dry, &ctx->name);
        return;
    }

    if (ctx->heavy) {
        ngx_log_error(level, log, 0,
                      "dsem rejected%s: weight %i exceeds limit %i of "
                      "semaphore \"%V\"",
                      dry, ctx->weight, ctx->limit, &ctx->name);
        return;
    }

    if (ctx->local) {
        /* the permits of others are unknown */
        ngx_log_error(level, log, 0,
                      "dsem rejected%s: semaphore \"%V\" has %i permits in use "
                      "in this worker and its share of the queue is full, "
                      "redis unavailable",
                      dry, &ctx->name, ctx->in_use);
        return;
    }

    ngx_log_error(level, log, 0,
                  "dsem rejected%s: semaphore \"%V\" has %i of %i permits "
                  "in use and its queue is full",
                  dry, &ctx->name, ctx->in_use, ctx->limit);
}


static void
ngx_http_dsem_refusal_log_timeout(ngx_http_dsem_ctx_t *ctx, char *dry)
{
    ngx_log_t   *log;
    ngx_uint_t   level;

    log = ctx->request->connection->log;
    level = ctx->conf->log_level;

    if (ctx->position == 0) {
        ngx_log_error(level, log, 0,
                      "dsem timeout%s: no permit of semaphore \"%V\" within "
                      "%M ms, not queued by redis",
                      dry, &ctx->name, ctx->wait_time);
        return;
    }

    if (ctx->in_use < 0) {
        ngx_log_error(level, log, 0,
                      "dsem timeout%s: no permit of semaphore \"%V\" within "
                      "%M ms, connection to redis lost meanwhile",
                      dry, &ctx->name, ctx->wait_time);
        return;
    }

    ngx_log_error(level, log, 0,
                  "dsem timeout%s: no permit of semaphore \"%V\" within %M "
                  "ms, %i of %i in use when queued",
                  dry, &ctx->name, ctx->wait_time, ctx->in_use,
                  ctx->limit);
}


static void
ngx_http_dsem_refusal_log_failed(ngx_http_dsem_ctx_t *ctx, char *dry)
{
    ngx_log_t   *log;
    ngx_uint_t   level;

    log = ctx->request->connection->log;
    level = ctx->conf->log_level;

    if (ctx->exiting) {
        ngx_log_error(level, log, 0,
                      "dsem error%s: worker exits, request cannot wait for "
                      "semaphore \"%V\" any more", dry, &ctx->name);
        return;
    }

    if (ctx->mixed) {
        ngx_log_error(level, log, 0,
                      "dsem error%s: semaphore \"%V\" unusable (it is a pool "
                      "for some requests and none for others)",
                      dry, &ctx->name);
        return;
    }

    if (ctx->broken) {
        /* the worker has logged which */
        ngx_log_error(level, log, 0,
                      "dsem error%s: semaphore \"%V\" unusable (a key of it in "
                      "redis is of another type)", dry, &ctx->name);
        return;
    }

    if (ctx->request->filter_finalize) {
        ngx_log_error(level, log, 0,
                      "dsem error%s: request cannot wait for semaphore \"%V\" "
                      "after a filter error", dry, &ctx->name);
        return;
    }

    ngx_log_error(level, log, 0,
                  "dsem error%s: redis unavailable for semaphore \"%V\"",
                  dry, &ctx->name);
}
