
/*
 * Results: each claim of a request is counted once, and is a sample for
 * "limit=auto" if it was at the upstream.
 *
 * A claim that is asked has one result, in the counters of the node; one that
 * a redirected request keeps has had it.  A semaphore that has granted its
 * permits has passed the request, whatever becomes of the next claim.  The
 * refusals of a dry run (ask.dry_run) are apart, as the request passes all the
 * same.  The times waited are those of requests that were queued or timed
 * out: as many as have these results.
 *
 * Called by: acquire (verdicts), ctx (a request leaves), pool (a request that
 * has no claim).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_result.h"


static void ngx_http_dsem_result(ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_count_e result);
static void ngx_http_dsem_result_waited(ngx_http_dsem_claim_t *claim);
static ngx_http_upstream_state_t *ngx_http_dsem_result_state(
    ngx_http_request_t *r, ngx_uint_t first, ngx_msec_t *time);


/* a place in the queue is no result yet; idempotent */

void
ngx_http_dsem_result_verdict(ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_answer_t *answer)
{
    if (claim->counted) {
        return;
    }

    switch (answer->verdict) {

    case NGX_HTTP_DSEM_VERDICT_WAITING:
        return;

    case NGX_HTTP_DSEM_VERDICT_GRANTED:
        if (answer->local) {
            ngx_http_dsem_result(claim, NGX_HTTP_DSEM_COUNT_DEGRADED);

        } else if (answer->position) {
            ngx_http_dsem_result_waited(claim);
            ngx_http_dsem_result(claim, NGX_HTTP_DSEM_COUNT_QUEUED);

        } else {
            ngx_http_dsem_result(claim, NGX_HTTP_DSEM_COUNT_PASSED);
        }

        return;

    case NGX_HTTP_DSEM_VERDICT_REJECTED:
    case NGX_HTTP_DSEM_VERDICT_WORKER_FULL:
        ngx_http_dsem_result(claim, claim->ask.dry_run
                                    ? NGX_HTTP_DSEM_COUNT_REJECTED_DRY_RUN
                                    : NGX_HTTP_DSEM_COUNT_REJECTED);
        return;

    case NGX_HTTP_DSEM_VERDICT_UNAVAILABLE:
    case NGX_HTTP_DSEM_VERDICT_MIXED:
    case NGX_HTTP_DSEM_VERDICT_BROKEN:

        if (claim->ask.pass) {
            ngx_http_dsem_result(claim, NGX_HTTP_DSEM_COUNT_DEGRADED);
            return;
        }

        ngx_http_dsem_result_invalid(claim);
        return;
    }
}


void
ngx_http_dsem_result_timeout(ngx_http_dsem_claim_t *claim)
{
    ngx_http_dsem_result_waited(claim);
    ngx_http_dsem_result(claim, claim->ask.dry_run
                                ? NGX_HTTP_DSEM_COUNT_TIMEOUT_DRY_RUN
                                : NGX_HTTP_DSEM_COUNT_TIMEOUT);
}


/* a value that is no number, or Redis could not be asked */

void
ngx_http_dsem_result_invalid(ngx_http_dsem_claim_t *claim)
{
    ngx_http_dsem_result(claim, claim->ask.dry_run
                                ? NGX_HTTP_DSEM_COUNT_ERROR_DRY_RUN
                                : NGX_HTTP_DSEM_COUNT_ERROR);
}


/*
 * Its ticket is released.  Without a result the request has left while it
 * waited; a request of a dry run has passed, and ended before the verdict, or
 * in the turn of it.
 */

void
ngx_http_dsem_result_left(ngx_http_dsem_claim_t *claim)
{
    if (!claim->ask.dry_run) {
        ngx_http_dsem_result(claim, NGX_HTTP_DSEM_COUNT_ABORTED);

    } else if (claim->ticket->answer.verdict
               != NGX_HTTP_DSEM_VERDICT_WAITING)
    {
        ngx_http_dsem_result_verdict(claim, &claim->ticket->answer);

    } else if (claim->ticket->answer.position) {
        ngx_http_dsem_result_waited(claim);
        ngx_http_dsem_result(claim, NGX_HTTP_DSEM_COUNT_QUEUED);

    } else {
        ngx_http_dsem_result(claim, NGX_HTTP_DSEM_COUNT_PASSED);
    }
}


static void
ngx_http_dsem_result_waited(ngx_http_dsem_claim_t *claim)
{
    ngx_http_dsem_semaphore_waited(&claim->ask, claim->ticket,
                                   ngx_current_msec - claim->waits);
}


static void
ngx_http_dsem_result(ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_count_e result)
{
    claim->counted = 1;

    ngx_http_dsem_semaphore_count(&claim->ask, claim->ticket, result);
}


/*
 * How a request ended at the upstream, for "limit=auto", before its permits are
 * released.  The time is that of the upstream, all tries together: neither the
 * wait for another permit, nor a slow client of a buffered response is in it.
 * The last try decides whether it was an error: a status of 500 to 599 of the
 * upstream, a timeout, no connection, or a response that breaks off.  Responses
 * from the cache and of nginx itself are no samples; nor are upgraded
 * connections and tunnels, which last as long as their clients like.
 *
 * r        the request, or the subrequest that updates the cache for it
 * claim    it has a ticket
 * failed   the upstream has, after the header
 */

void
ngx_http_dsem_result_sample(ngx_http_request_t *r, ngx_http_dsem_claim_t *claim,
    ngx_uint_t failed)
{
    ngx_msec_t                  time;
    ngx_uint_t                  status;
    ngx_http_dsem_sample_e      result;
    ngx_http_upstream_state_t  *state;

    state = ngx_http_dsem_result_state(r, r == r->main ? claim->states : 0,
                                       &time);

    if (state == NULL || r->upstream->upgrade) {
        return;
    }

    status = state->status;

    if (status > NGX_HTTP_SWITCHING_PROTOCOLS && status < NGX_HTTP_OK) {
        /* nginx keeps that of early hints */
        status = r->upstream->headers_in.status_n;
    }

    if (failed || status >= NGX_HTTP_INTERNAL_SERVER_ERROR) {
        result = NGX_HTTP_DSEM_SAMPLE_ERROR;

    } else if (status == 0 || r->connection->error) {
        result = NGX_HTTP_DSEM_SAMPLE_ABORTED;

    } else {
        result = NGX_HTTP_DSEM_SAMPLE_OK;
    }

    ngx_http_dsem_semaphore_sample(claim->ticket, result, time);
}


/*
 * The last try of the last upstream, and the time of all of its tries; NULL:
 * no upstream was tried.  Those before "first" are of an earlier location.
 */

static ngx_http_upstream_state_t *
ngx_http_dsem_result_state(ngx_http_request_t *r, ngx_uint_t first,
    ngx_msec_t *time)
{
    ngx_uint_t                  i;
    ngx_http_upstream_state_t  *state;

    if (r->upstream_states == NULL || r->upstream_states->nelts <= first) {
        return NULL;
    }

    state = r->upstream_states->elts;
    *time = 0;

    /* an internal redirect begins with a state without a peer */

    for (i = r->upstream_states->nelts; i > first; i--) {

        if (state[i - 1].peer == NULL) {
            break;
        }

        if (state[i - 1].response_time != (ngx_msec_t) -1) {
            *time += state[i - 1].response_time;
        }
    }

    return (i == r->upstream_states->nelts)
           ? NULL : &state[r->upstream_states->nelts - 1];
}
