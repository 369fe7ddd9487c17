
/*
 * Samples: how a request ended at the upstream, for "limit=auto".
 *
 * The time is that of the upstream, all tries together: neither the wait for
 * another permit, nor a slow client of a buffered response is in it.  The last
 * try decides whether it was an error: a status of 500 to 599 of the upstream,
 * a timeout, no connection, or a response that breaks off.  Responses from the
 * cache and of nginx itself are no samples; nor are upgraded connections, which
 * last as long as their clients like.
 *
 * Called by: ctx, before the permits of a claim are released.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_claim.h"
#include "ngx_http_dsem_semaphore.h"


static ngx_http_upstream_state_t *ngx_http_dsem_sample_state(
    ngx_http_request_t *r, ngx_uint_t first, ngx_msec_t *time);


/* the claim has a ticket; failed: the upstream, after the header */

void
ngx_http_dsem_sample(ngx_http_request_t *r, ngx_http_dsem_claim_t *claim,
    ngx_uint_t failed)
{
    ngx_msec_t                  time;
    ngx_uint_t                  status;
    ngx_http_dsem_sample_e      result;
    ngx_http_upstream_state_t  *state;

    state = ngx_http_dsem_sample_state(r, claim->states, &time);

    if (state == NULL || state->status == NGX_HTTP_SWITCHING_PROTOCOLS) {
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
ngx_http_dsem_sample_state(ngx_http_request_t *r, ngx_uint_t first,
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
