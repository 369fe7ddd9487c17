
/*
 * The end of an old worker with "worker_shutdown_timeout".
 *
 * nginx closes all connections without a word when that time is over.  So the
 * worker ends its holds shortly before, and refuses requests that wait for a
 * permit:
 *
 *   2 periods before     holds end; programs that wait are refused, and those
 *                        that come to wait
 *   1 period before      all other requests that wait are refused
 *   1/4 period before    the last ones are, which came to wait late
 *
 * These timers are before that of nginx: a worker that stood still for all of
 * them runs them first.
 *
 * Called by: hold, at the start of a worker and before it asks or begins;
 * handler, when a request waits.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_acquire.h"
#include "ngx_http_dsem_shutdown.h"


/* ms, the longest; a fourth of a "worker_shutdown_timeout" below 2 s */
#define NGX_HTTP_DSEM_SHUTDOWN_PERIOD  500


/* of this worker */
typedef struct {
    ngx_queue_t                 suspended;  /* requests that wait */
    ngx_event_t                 timer;
    ngx_msec_t                  timeout;    /* 0: the worker waits for all */
    ngx_msec_t                  period;
    ngx_msec_t                  ends;       /* of holds, by ngx_current_msec */
    ngx_http_dsem_shutdown_pt   handler;
    unsigned                    exiting:1;  /* "ends" is set */
} ngx_http_dsem_shutdown_t;


static void ngx_http_dsem_shutdown_begin(ngx_event_t *ev);
static void ngx_http_dsem_shutdown_timer_handler(ngx_event_t *ev);
static ngx_uint_t ngx_http_dsem_shutdown_waits(
    ngx_http_dsem_shutdown_t *shutdown, ngx_http_dsem_ctx_t *ctx);
static void ngx_http_dsem_shutdown_next(ngx_http_dsem_shutdown_t *shutdown);


static ngx_http_dsem_shutdown_t  ngx_http_dsem_shutdown;


/*
 * A worker begins to exit by setting the timer of "worker_shutdown_timeout" and
 * closing idle connections.  This takes one, without a socket, to know when.
 *
 * NGX_ERROR: there is no connection.
 */

ngx_int_t
ngx_http_dsem_shutdown_init(ngx_cycle_t *cycle,
    ngx_http_dsem_shutdown_pt handler)
{
    ngx_core_conf_t           *ccf;
    ngx_connection_t          *c;
    ngx_http_dsem_shutdown_t  *shutdown;

    shutdown = &ngx_http_dsem_shutdown;
    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    ngx_queue_init(&shutdown->suspended);

    if (ccf->shutdown_timeout == 0) {
        return NGX_OK;
    }

    c = ngx_get_connection(0, cycle->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    c->data = shutdown;
    c->idle = 1;

    c->read->handler = ngx_http_dsem_shutdown_begin;
    c->read->log = cycle->log;

    shutdown->timeout = ccf->shutdown_timeout;
    shutdown->period = ngx_min(shutdown->timeout / 4,
                               NGX_HTTP_DSEM_SHUTDOWN_PERIOD);
    shutdown->handler = handler;

    shutdown->timer.handler = ngx_http_dsem_shutdown_timer_handler;
    shutdown->timer.data = shutdown;
    shutdown->timer.log = cycle->log;
    shutdown->timer.cancelable = 1;

    return NGX_OK;
}


static void
ngx_http_dsem_shutdown_begin(ngx_event_t *ev)
{
    ngx_msec_t                 left;
    ngx_connection_t          *c;
    ngx_http_dsem_shutdown_t  *shutdown;

    c = ev->data;
    shutdown = c->data;

    ngx_free_connection(c);

    /* no socket is left open, nor closed */
    c->fd = (ngx_socket_t) -1;

    left = shutdown->timeout - 2 * shutdown->period;

    shutdown->ends = ngx_current_msec + left;
    shutdown->exiting = 1;

    ngx_add_timer(&shutdown->timer, left);
}


static void
ngx_http_dsem_shutdown_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_shutdown_t *shutdown = ev->data;

    ngx_queue_t          *q, suspended;
    ngx_http_request_t   *r;
    ngx_http_dsem_ctx_t  *ctx;

    /* what is resumed may end others: each one leaves the queue that has it */

    ngx_queue_init(&suspended);

    if (!ngx_queue_empty(&shutdown->suspended)) {
        ngx_queue_add(&suspended, &shutdown->suspended);
        ngx_queue_init(&shutdown->suspended);
    }

    while (!ngx_queue_empty(&suspended)) {
        q = ngx_queue_head(&suspended);
        ctx = ngx_queue_data(q, ngx_http_dsem_ctx_t, suspended);

        if (ngx_http_dsem_shutdown_waits(shutdown, ctx)) {
            ngx_queue_remove(q);
            ngx_queue_insert_tail(&shutdown->suspended, q);
            ngx_http_dsem_shutdown_next(shutdown);
            continue;
        }

        r = ctx->request;

        ngx_http_set_log_request(r->connection->log, r);

        ngx_http_dsem_acquire_exit(ctx);
        ngx_http_dsem_acquire_resume(r);
    }

    /* last, as those that wait would get the permits of holders */

    shutdown->handler();
}


/*
 * One with a verdict of this turn gets to know it at its end: it may have its
 * permit then, or wait for that of another semaphore.  One that comes to wait
 * late, as its body did, has some time for the reply of Redis: a permit may be
 * free.
 */

static ngx_uint_t
ngx_http_dsem_shutdown_waits(ngx_http_dsem_shutdown_t *shutdown,
    ngx_http_dsem_ctx_t *ctx)
{
    ngx_msec_int_t            over, waited, period;
    ngx_http_dsem_verdict_e   verdict;

    verdict = ctx->claims[ctx->current].ticket->answer.verdict;

    if (verdict != NGX_HTTP_DSEM_VERDICT_WAITING) {
        return 1;
    }

    if (ctx->conf->hold) {
        return 0;
    }

    over = ngx_current_msec - shutdown->ends;
    waited = ngx_current_msec - ctx->started;
    period = shutdown->period;

    return over < period || (over < period * 7 / 4 && waited < period / 2);
}


/* not in this turn: that of a timer ends when there is none that has expired */

static void
ngx_http_dsem_shutdown_next(ngx_http_dsem_shutdown_t *shutdown)
{
    ngx_msec_int_t  over, left, period;

    if (!shutdown->timer.timer_set) {
        over = ngx_current_msec - shutdown->ends;
        period = shutdown->period;

        left = ((over < period) ? period : period * 7 / 4) - over;

        ngx_add_timer(&shutdown->timer, ngx_max(left, 1));
    }
}


/* holds have ended, or are about to: there must be no new ones */

ngx_uint_t
ngx_http_dsem_shutdown_near(void)
{
    ngx_http_dsem_shutdown_t  *shutdown;

    shutdown = &ngx_http_dsem_shutdown;

    return shutdown->exiting
           && (ngx_msec_int_t) (shutdown->ends - ngx_current_msec) <= 0;
}


/* a request of any location waits for its permit, until it is decided */

void
ngx_http_dsem_shutdown_suspended(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_shutdown_t  *shutdown;

    shutdown = &ngx_http_dsem_shutdown;

    if (shutdown->timeout == 0 || ctx->suspended.next) {
        return;
    }

    ngx_queue_insert_tail(&shutdown->suspended, &ctx->suspended);

    if (ngx_http_dsem_shutdown_near()) {
        ngx_http_dsem_shutdown_next(shutdown);
    }
}
