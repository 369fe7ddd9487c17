
/*
 * Fallback: what a worker may admit by itself while Redis cannot be asked.
 *
 * Only arithmetic, so that the rule can be read in one place.  In the end
 * each worker has its share.  Until a lease has passed, what others had is
 * still running, so a worker uses no more than it had itself; nor more than
 * its share, because what it admits last is still running when the others
 * begin.  The sum stays below the limit, where the limit is not below the
 * number of sessions and no request outlives the lease.
 *
 * Called by: local.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fallback.h"


/*
 * How many permits of "limit" this worker may have out: "had" is what it
 * had when Redis was last told, "fleet" how many sessions share the limit,
 * "forgotten" whether a lease has passed since Redis last answered.
 */

ngx_int_t
ngx_http_dsem_fallback_limit(ngx_int_t limit, ngx_int_t had,
    ngx_uint_t fleet, ngx_uint_t forgotten)
{
    ngx_int_t  share;

    if (limit == 0) {
        return 0;
    }

    share = ngx_max(limit / (ngx_int_t) ngx_max(fleet, 1), 1);

    return forgotten ? share : ngx_min(had, share);
}


/* how many requests may wait in this worker: its share of the queue */

ngx_int_t
ngx_http_dsem_fallback_queue(ngx_int_t queue, ngx_uint_t fleet)
{
    if (queue == 0) {
        return 0;
    }

    return ngx_max(queue / (ngx_int_t) ngx_max(fleet, 1), 1);
}
