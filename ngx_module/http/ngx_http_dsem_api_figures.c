
/*
 * Figures: what this node has counted and what Redis has of the fleet, joined
 * by the names of the semaphores.
 *
 * Both come in the order of the names.  The number of rows is bounded: first
 * those with figures of the fleet, and with literal names, then others.  The
 * counts of all others are added to those of the other names, so that sums
 * stay true.  What the node has is read in pieces, one in a turn of the event
 * loop.
 *
 * Called by: api_turns, api_semaphores and api_metrics.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_figures.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_text.h"


/* an answer of more semaphores would take a worker too long */
#define NGX_HTTP_DSEM_API_MAX_ROWS  2000


static ngx_uint_t ngx_http_dsem_api_figures_wants(void *data,
    ngx_str_t *name);
static void ngx_http_dsem_api_figures_state(
    ngx_http_dsem_api_figures_t *figures);
static ngx_int_t ngx_http_dsem_api_figures_join(
    ngx_http_dsem_api_figures_t *figures);
static ngx_str_t *ngx_http_dsem_api_figures_lower(ngx_str_t *one,
    ngx_str_t *two);


const char *const  ngx_http_dsem_api_counts[NGX_HTTP_DSEM_NCOUNTS] = {
    "passed", "queued", "rejected", "timeout", "error", "degraded",
    "aborted", "rejected_dry_run", "timeout_dry_run", "error_dry_run",
    "reclaimed", "overage"
};


/* in the order of AUTO_REASON in lua/include/auto_rule.lua */
static const char *const  ngx_http_dsem_api_figures_reasons[] = {
    "starting", "not used", "probing", "latency", "errors", "bound"
};


static ngx_http_dsem_figures_t  ngx_http_dsem_api_nothing = { .limit = -1 };


/*
 * All semaphores, by ngx_http_dsem_api_figures_read() until it is complete.
 *
 * literals   ngx_http_dsem_limits_pair_t, sorted by name
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_api_figures_begin(ngx_pool_t *pool, ngx_array_t *literals,
    ngx_http_dsem_api_figures_t *figures)
{
    ngx_uint_t                        n;
    ngx_http_dsem_counters_reader_t  *reader;

    figures->literals = literals;

    if (ngx_http_dsem_survey_hold(pool, &figures->survey) != NGX_OK) {
        return NGX_ERROR;
    }

    n = figures->survey ? figures->survey->semaphores.nelts : 0;

    reader = &figures->reader;

    reader->wants = ngx_http_dsem_api_figures_wants;
    reader->data = figures;
    reader->spare = NGX_HTTP_DSEM_API_MAX_ROWS
                    - ngx_min(n, NGX_HTTP_DSEM_API_MAX_ROWS);

    return ngx_http_dsem_figures_begin(reader, pool);
}


static ngx_uint_t
ngx_http_dsem_api_figures_wants(void *data, ngx_str_t *name)
{
    ngx_http_dsem_api_figures_t *figures = data;

    return (figures->survey
            && ngx_http_dsem_text_find(&figures->survey->semaphores, name))
           || ngx_http_dsem_text_find(figures->literals, name);
}


/* the next piece; NGX_AGAIN: there is more, NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_api_figures_read(ngx_http_dsem_api_figures_t *figures)
{
    ngx_int_t                 rc;
    ngx_uint_t                i;
    ngx_http_dsem_api_row_t  *row;

    rc = ngx_http_dsem_figures_read(&figures->reader);

    if (rc != NGX_OK) {
        return rc;
    }

    ngx_http_dsem_api_figures_state(figures);

    if (ngx_http_dsem_api_figures_join(figures) != NGX_OK) {
        return NGX_ERROR;
    }

    row = figures->rows.elts;

    for (i = 0; i < figures->rows.nelts; i++) {

        if (row[i].fleet
            && ngx_http_dsem_api_pool(figures->reader.pool, row[i].fleet,
                                      &row[i].pool)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * One semaphore, as the only row.
 *
 * Returns NGX_OK, NGX_DECLINED when neither this node nor Redis has it, or
 * NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_api_figures_one(ngx_pool_t *pool, ngx_array_t *literals,
    ngx_str_t *name, ngx_http_dsem_api_figures_t *figures)
{
    int64_t                            age;
    ngx_int_t                          rc;
    ngx_http_dsem_api_row_t           *row;
    ngx_http_dsem_figures_t           *local;
    ngx_http_dsem_limits_pair_t       *literal;
    ngx_http_dsem_survey_semaphore_t  *fleet;

    figures->literals = literals;
    figures->reader.partial = 0;

    local = ngx_palloc(pool, sizeof(ngx_http_dsem_figures_t));

    if (local == NULL
        || ngx_http_dsem_survey_hold(pool, &figures->survey) != NGX_OK
        || ngx_array_init(&figures->rows, pool, 1,
                          sizeof(ngx_http_dsem_api_row_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_api_figures_state(figures);

    rc = ngx_http_dsem_figures_read_one(name, local);
    fleet = ngx_http_dsem_survey_find(name);

    /* Redis answers for any name */

    if (fleet && !fleet->in_redis) {
        fleet = NULL;
    }

    /* it may have been read by name, before the survey was */

    if (fleet) {
        age = (int64_t) (ngx_http_dsem_monotonic() - fleet->read);
        figures->age = ngx_max(figures->age, age);
    }

    literal = ngx_http_dsem_text_find(figures->literals, name);

    if (rc != NGX_OK && fleet == NULL && literal == NULL) {
        return NGX_DECLINED;
    }

    row = ngx_array_push(&figures->rows);

    row->name = *name;
    row->local = (rc == NGX_OK) ? local : &ngx_http_dsem_api_nothing;
    row->fleet = fleet;
    row->pool = NULL;
    row->literal = literal;

    return fleet ? ngx_http_dsem_api_pool(pool, fleet, &row->pool) : NGX_OK;
}


static void
ngx_http_dsem_api_figures_state(ngx_http_dsem_api_figures_t *figures)
{
    uint64_t  now;

    figures->age = -1;
    figures->partial = figures->reader.partial;

    if (figures->survey) {
        now = ngx_http_dsem_monotonic();

        figures->age = (now > figures->survey->read)
                       ? (int64_t) (now - figures->survey->read) : 0;
        figures->partial |= figures->survey->partial;
    }

    ngx_http_dsem_survey_redis(&figures->redis);
}


/* all three are in the order of the names, and a name may be in each */

static ngx_int_t
ngx_http_dsem_api_figures_join(ngx_http_dsem_api_figures_t *figures)
{
    ngx_str_t                         *name;
    ngx_uint_t                         i, j, k, n, m, l;
    ngx_http_dsem_api_row_t           *row;
    ngx_http_dsem_figures_t          **local;
    ngx_http_dsem_limits_pair_t       *pair;
    ngx_http_dsem_survey_semaphore_t  *fleet;

    local = figures->reader.names.elts;
    n = figures->reader.names.nelts;

    fleet = figures->survey ? figures->survey->semaphores.elts : NULL;
    m = figures->survey ? figures->survey->semaphores.nelts : 0;

    pair = figures->literals->elts;
    l = figures->literals->nelts;

    if (ngx_array_init(&figures->rows, figures->reader.pool, n + m + l + 1,
                       sizeof(ngx_http_dsem_api_row_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    i = 0;
    j = 0;
    k = 0;

    while (i < n || j < m || k < l) {
        name = ngx_http_dsem_api_figures_lower(NULL,
                                               i < n ? &local[i]->name : NULL);
        name = ngx_http_dsem_api_figures_lower(name,
                                               j < m ? &fleet[j].name : NULL);
        name = ngx_http_dsem_api_figures_lower(name,
                                               k < l ? &pair[k].name : NULL);

        row = ngx_array_push(&figures->rows);

        row->name = *name;
        row->local = &ngx_http_dsem_api_nothing;
        row->fleet = NULL;
        row->pool = NULL;
        row->literal = NULL;

        if (i < n && ngx_http_dsem_text_order(&local[i]->name, name) == 0) {
            row->local = local[i++];
        }

        if (j < m && ngx_http_dsem_text_order(&fleet[j], name) == 0) {
            row->fleet = &fleet[j++];
        }

        if (k < l && ngx_http_dsem_text_order(&pair[k], name) == 0) {
            row->literal = &pair[k++];
        }
    }

    return NGX_OK;
}


/* each may be NULL */

static ngx_str_t *
ngx_http_dsem_api_figures_lower(ngx_str_t *one, ngx_str_t *two)
{
    if (one == NULL || two == NULL) {
        return one ? one : two;
    }

    return (ngx_http_dsem_text_order(one, two) <= 0) ? one : two;
}


/* idle permits as of the last heartbeats, a part of those held */

ngx_int_t
ngx_http_dsem_api_figures_idle(ngx_http_dsem_survey_semaphore_t *fleet)
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
ngx_http_dsem_api_figures_nodes(ngx_pool_t *pool, ngx_array_t *holders,
    ngx_array_t *nodes)
{
    ngx_uint_t                 i, n;
    ngx_http_dsem_holder_t    *holder;
    ngx_http_dsem_api_node_t  *node;

    if (ngx_array_init(nodes, pool, 4, sizeof(ngx_http_dsem_api_node_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    holder = holders->elts;

    for (i = 0; i < holders->nelts; i++) {

        node = ngx_array_push(nodes);
        if (node == NULL) {
            return NGX_ERROR;
        }

        node->node = holder[i].node;
        node->in_use = ngx_max(holder[i].held - holder[i].idle, 0);
        node->idle = holder[i].idle;
        node->waiting = holder[i].waiting;
        node->sessions = 1;
    }

    node = nodes->elts;

    ngx_qsort(node, nodes->nelts, sizeof(ngx_http_dsem_api_node_t),
              ngx_http_dsem_text_order);

    for (i = 0, n = 0; i < nodes->nelts; i++) {

        if (n && ngx_http_dsem_text_order(&node[n - 1], &node[i]) == 0) {
            node[n - 1].in_use += node[i].in_use;
            node[n - 1].idle += node[i].idle;
            node[n - 1].waiting += node[i].waiting;
            node[n - 1].sessions++;
            continue;
        }

        node[n++] = node[i];
    }

    nodes->nelts = n;

    return NGX_OK;
}


/* the word of a reason; Redis may have newer scripts than this node */

const char *
ngx_http_dsem_api_figures_reason(ngx_int_t reason)
{
    if (reason < 0 || reason >= NGX_HTTP_DSEM_API_REASONS) {
        return "unknown";
    }

    return ngx_http_dsem_api_figures_reasons[reason];
}
