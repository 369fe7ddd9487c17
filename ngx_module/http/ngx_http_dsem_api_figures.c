
/*
 * Figures: what this node has counted and what Redis has of the fleet, joined
 * by the names of the semaphores.
 *
 * Both come in the order of the names.  The number of rows is bounded: the
 * counts of the names beyond it are added to those of the other names, so
 * that sums stay true.
 *
 * Called by: api_semaphores and api_metrics, in one turn of the event loop
 * with the answer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_figures.h"
#include "ngx_http_dsem_monotonic.h"


/* an answer of more semaphores would take a worker too long */
#define NGX_HTTP_DSEM_API_MAX_ROWS  2000


static void ngx_http_dsem_api_figures_state(
    ngx_http_dsem_api_figures_t *figures);
static ngx_int_t ngx_http_dsem_api_figures_join(ngx_pool_t *pool,
    ngx_http_dsem_api_figures_t *figures, ngx_array_t *counted);
static ngx_int_t ngx_http_dsem_api_figures_order(
    ngx_http_dsem_figures_t *local, ngx_http_dsem_survey_semaphore_t *fleet);
static void ngx_http_dsem_api_figures_row(
    ngx_http_dsem_api_figures_t *figures, ngx_http_dsem_figures_t *local,
    ngx_http_dsem_survey_semaphore_t *fleet);
static void ngx_http_dsem_api_figures_fold(ngx_http_dsem_figures_t *other,
    ngx_http_dsem_figures_t *figures);
static void ngx_http_dsem_api_figures_add(ngx_http_dsem_histogram_t *sum,
    ngx_http_dsem_histogram_t *histogram);
static ngx_uint_t ngx_http_dsem_api_figures_known(
    ngx_http_dsem_survey_semaphore_t *fleet);
static int ngx_libc_cdecl ngx_http_dsem_api_nodes_cmp(const void *one,
    const void *two);


const char *const  ngx_http_dsem_api_counts[NGX_HTTP_DSEM_NCOUNTS] = {
    "passed", "queued", "rejected", "timeout", "error", "degraded",
    "aborted", "rejected_dry_run", "timeout_dry_run", "error_dry_run",
    "reclaimed", "overage"
};


static ngx_http_dsem_figures_t  ngx_http_dsem_api_nothing = { 0 };


/* all that is known; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_api_figures(ngx_pool_t *pool,
    ngx_http_dsem_api_figures_t *figures)
{
    ngx_array_t  *counted;

    counted = ngx_http_dsem_counters_read(pool);
    if (counted == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_api_figures_state(figures);

    return ngx_http_dsem_api_figures_join(pool, figures, counted);
}


/*
 * One semaphore, as the only row.
 *
 * Returns NGX_OK, NGX_DECLINED when it is not known here nor in Redis, or
 * NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_api_figures_one(ngx_pool_t *pool, ngx_str_t *name,
    ngx_http_dsem_api_figures_t *figures)
{
    ngx_int_t                          rc;
    ngx_http_dsem_figures_t           *local;
    ngx_http_dsem_survey_semaphore_t  *fleet;

    local = ngx_palloc(pool, sizeof(ngx_http_dsem_figures_t));

    if (local == NULL
        || ngx_array_init(&figures->rows, pool, 1,
                          sizeof(ngx_http_dsem_api_row_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_api_figures_state(figures);

    rc = ngx_http_dsem_counters_read_one(name, local);
    fleet = ngx_http_dsem_survey_find(name);

    if (fleet && !ngx_http_dsem_api_figures_known(fleet)) {
        fleet = NULL;
    }

    if (rc != NGX_OK) {

        if (fleet == NULL) {
            return NGX_DECLINED;
        }

        local = NULL;
    }

    ngx_http_dsem_api_figures_row(figures, local, fleet);

    return NGX_OK;
}


static void
ngx_http_dsem_api_figures_state(ngx_http_dsem_api_figures_t *figures)
{
    uint64_t  now;

    figures->survey = ngx_http_dsem_survey();
    figures->age = -1;
    figures->partial = 0;

    if (figures->survey) {
        now = ngx_http_dsem_monotonic();

        figures->age = (now > figures->survey->read)
                       ? (int64_t) (now - figures->survey->read) : 0;
        figures->partial = figures->survey->partial;
    }

    ngx_http_dsem_survey_redis(&figures->redis);
}


/* counted: its last element is that of the other names */

static ngx_int_t
ngx_http_dsem_api_figures_join(ngx_pool_t *pool,
    ngx_http_dsem_api_figures_t *figures, ngx_array_t *counted)
{
    ngx_int_t                          order;
    ngx_uint_t                         i, j, n, m;
    ngx_http_dsem_figures_t           *local;
    ngx_http_dsem_survey_semaphore_t  *fleet;

    local = counted->elts;
    n = counted->nelts - 1;
    figures->other = local[n];

    fleet = NULL;
    m = 0;

    if (figures->survey) {
        fleet = figures->survey->semaphores.elts;
        m = figures->survey->semaphores.nelts;
    }

    if (ngx_array_init(&figures->rows, pool,
                       ngx_min(n + m, NGX_HTTP_DSEM_API_MAX_ROWS) + 1,
                       sizeof(ngx_http_dsem_api_row_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    i = 0;
    j = 0;

    while (i < n || j < m) {

        order = ngx_http_dsem_api_figures_order(i < n ? &local[i] : NULL,
                                                j < m ? &fleet[j] : NULL);

        ngx_http_dsem_api_figures_row(figures, order <= 0 ? &local[i] : NULL,
                                      order >= 0 ? &fleet[j] : NULL);

        i += (order <= 0);
        j += (order >= 0);
    }

    return NGX_OK;
}


/* which of them has the lower name; 0: it is that of both */

static ngx_int_t
ngx_http_dsem_api_figures_order(ngx_http_dsem_figures_t *local,
    ngx_http_dsem_survey_semaphore_t *fleet)
{
    if (fleet == NULL) {
        return -1;
    }

    if (local == NULL) {
        return 1;
    }

    return ngx_memn2cmp(local->name.data, fleet->name.data, local->name.len,
                        fleet->name.len);
}


/* the array has room for all rows */

static void
ngx_http_dsem_api_figures_row(ngx_http_dsem_api_figures_t *figures,
    ngx_http_dsem_figures_t *local, ngx_http_dsem_survey_semaphore_t *fleet)
{
    ngx_http_dsem_api_row_t  *row;

    if (figures->rows.nelts >= NGX_HTTP_DSEM_API_MAX_ROWS) {

        figures->partial = 1;

        if (local) {
            ngx_http_dsem_api_figures_fold(&figures->other, local);
        }

        return;
    }

    row = ngx_array_push(&figures->rows);

    row->name = local ? local->name : fleet->name;
    row->local = local ? local : &ngx_http_dsem_api_nothing;
    row->fleet = fleet;
}


static void
ngx_http_dsem_api_figures_fold(ngx_http_dsem_figures_t *other,
    ngx_http_dsem_figures_t *figures)
{
    ngx_uint_t               i;
    ngx_http_dsem_period_t  *to, *from;

    for (i = 0; i < NGX_HTTP_DSEM_NCOUNTS; i++) {
        other->counts[i] += figures->counts[i];
    }

    ngx_http_dsem_api_figures_add(&other->wait, &figures->wait);
    ngx_http_dsem_api_figures_add(&other->hold, &figures->hold);

    other->in_use += figures->in_use;
    other->idle += figures->idle;
    other->waiting += figures->waiting;
    other->most_in_use = ngx_max(other->most_in_use, figures->most_in_use);
    other->most_waiting = ngx_max(other->most_waiting,
                                  figures->most_waiting);

    /* the last one is the same two minutes in both */

    for (i = 1; i <= ngx_min(other->nperiods, figures->nperiods); i++) {
        to = &other->periods[other->nperiods - i];
        from = &figures->periods[figures->nperiods - i];

        to->passed += from->passed;
        to->rejected += from->rejected;
        to->timeout += from->timeout;
        to->error += from->error;
    }
}


static void
ngx_http_dsem_api_figures_add(ngx_http_dsem_histogram_t *sum,
    ngx_http_dsem_histogram_t *histogram)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS; i++) {
        sum->buckets[i] += histogram->buckets[i];
    }

    sum->sum += histogram->sum;
}


/* Redis answers for any name, also for one that it knows nothing of */

static ngx_uint_t
ngx_http_dsem_api_figures_known(ngx_http_dsem_survey_semaphore_t *fleet)
{
    return fleet->limit >= 0
           || fleet->configured >= 0
           || fleet->order
           || fleet->held > 0
           || fleet->waiting > 0
           || fleet->holders.nelts;
}


/* what workers have told, of what is held */

ngx_int_t
ngx_http_dsem_api_idle(ngx_http_dsem_survey_semaphore_t *fleet)
{
    ngx_int_t                idle;
    ngx_uint_t               i;
    ngx_http_dsem_holder_t  *holder;

    idle = 0;
    holder = fleet->holders.elts;

    for (i = 0; i < fleet->holders.nelts; i++) {
        idle += holder[i].idle;
    }

    return ngx_min(idle, fleet->held);
}


/*
 * Sums up holders by node, in the order of the nodes.
 *
 * holders   ngx_http_dsem_holder_t, they stay as they are
 * nodes     result, ngx_http_dsem_api_node_t
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_api_nodes(ngx_pool_t *pool, ngx_array_t *holders,
    ngx_array_t *nodes)
{
    ngx_uint_t                 i;
    ngx_http_dsem_holder_t    *holder, **sorted;
    ngx_http_dsem_api_node_t  *node;

    if (ngx_array_init(nodes, pool, 4, sizeof(ngx_http_dsem_api_node_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    sorted = ngx_palloc(pool, (holders->nelts + 1)
                              * sizeof(ngx_http_dsem_holder_t *));
    if (sorted == NULL) {
        return NGX_ERROR;
    }

    holder = holders->elts;

    for (i = 0; i < holders->nelts; i++) {
        sorted[i] = &holder[i];
    }

    ngx_qsort(sorted, holders->nelts, sizeof(ngx_http_dsem_holder_t *),
              ngx_http_dsem_api_nodes_cmp);

    node = NULL;

    for (i = 0; i < holders->nelts; i++) {

        if (node == NULL
            || node->node.len != sorted[i]->node.len
            || ngx_memcmp(node->node.data, sorted[i]->node.data,
                          node->node.len)
               != 0)
        {
            node = ngx_array_push(nodes);
            if (node == NULL) {
                return NGX_ERROR;
            }

            ngx_memzero(node, sizeof(ngx_http_dsem_api_node_t));
            node->node = sorted[i]->node;
        }

        node->in_use += ngx_max(sorted[i]->held - sorted[i]->idle, 0);
        node->idle += sorted[i]->idle;
        node->waiting += sorted[i]->waiting;
        node->sessions++;
    }

    return NGX_OK;
}


static int ngx_libc_cdecl
ngx_http_dsem_api_nodes_cmp(const void *one, const void *two)
{
    ngx_http_dsem_holder_t  *first, *second;

    first = *(ngx_http_dsem_holder_t **) one;
    second = *(ngx_http_dsem_holder_t **) two;

    return (int) ngx_memn2cmp(first->node.data, second->node.data,
                              first->node.len, second->node.len);
}
