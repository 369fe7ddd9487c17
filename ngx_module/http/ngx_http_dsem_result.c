
/*
 * Results: each claim of a request is counted once.
 *
 * A claim that is asked has one result, in the counters of the node; one that
 * a redirected request keeps has had it.  A semaphore that has granted its
 * permits has passed the request, whatever becomes of the next claim.  The
 * refusals of a dry run (ask.dry_run) are apart, as the request passes all the
 * same.  The times waited are those of requests that were queued or timed
 * out: as many as have these results.
 *
 * Called by: acquire (verdicts), ctx (a request leaves).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_result.h"


static void ngx_http_dsem_result(ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_count_e result);
static void ngx_http_dsem_result_waited(ngx_http_dsem_claim_t *claim);


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
    case NGX_HTTP_DSEM_VERDICT_UNUSABLE:

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
