
/*
 * The backoff: pauses between attempts to connect.
 *
 * A peer may accept a connection, or even the session, and close it at once:
 * only a connection that was usable for a heartbeat makes the pauses begin
 * anew.  The first ones are short: after a restart of Redis within half a
 * second the worker is connected before the default connect timeout.  The
 * longest keeps the mean of ten seconds below two attempts a second at an
 * address, whatever the peer does.  With a short lease it is shorter: workers
 * that return more than a quarter of a lease after the first one may exceed
 * limits.
 *
 * Called by: breaker and subscription, each for its own connection.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_backoff.h"


/* ms after the first failure, the second...; then the longest */
static ngx_msec_t  ngx_http_dsem_backoff_pauses[] = { 1, 110, 160, 210 };


/* replies have proved that the peer is Redis and accepts this worker */

void
ngx_http_dsem_backoff_usable(ngx_http_dsem_backoff_t *backoff)
{
    if (!backoff->usable) {
        backoff->usable = 1;
        backoff->since = ngx_current_msec;
    }
}


/* the connection is gone, or was not made */

void
ngx_http_dsem_backoff_lost(ngx_http_dsem_backoff_t *backoff,
    ngx_msec_t heartbeat)
{
    if (backoff->usable && ngx_current_msec - backoff->since >= heartbeat) {
        backoff->failures = 0;
    }

    backoff->usable = 0;
    backoff->failures++;
}


/*
 * ms before the next attempt, once the connection is lost; the time that the
 * last one took is part of it.  A quarter is random, so that a fleet does not
 * reconnect in step.
 */

ngx_msec_t
ngx_http_dsem_backoff_pause(ngx_http_dsem_backoff_t *backoff,
    ngx_msec_t longest)
{
    ngx_uint_t      n;
    ngx_msec_t      pause;
    ngx_msec_int_t  took, left;

    n = backoff->failures ? backoff->failures - 1 : 0;
    pause = longest;

    if (n < sizeof(ngx_http_dsem_backoff_pauses) / sizeof(ngx_msec_t)) {
        pause = ngx_min(ngx_http_dsem_backoff_pauses[n], longest);
    }

    took = ngx_current_msec - backoff->next;
    left = pause - (ngx_msec_t) ngx_random() % (pause / 4 + 1);
    left = ngx_max(left - ngx_max(took, 0), 1);

    backoff->next = ngx_current_msec + left;

    return left;
}
