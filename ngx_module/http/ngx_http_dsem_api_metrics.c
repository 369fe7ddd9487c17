
/*
 * GET /metrics: the figures for Prometheus, in the format that the client
 * asks for.
 *
 * A table has the metrics; all samples of one stand together.  The names
 * without a row of their own are one semaphore, "~other": no name begins so.
 * Its counters never fall, whichever names have rows.
 * Names from variables have no histograms of their own either, without
 * "metrics=full".  The text is written in pieces.
 *
 * Called by: api, when a survey is there or cannot be had.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api.h"
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_api_figures.h"
#include "ngx_http_dsem_api_prometheus.h"
#include "ngx_http_dsem_api_turns.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_shards.h"
#include "ngx_http_dsem_zone.h"


/*
 * once; for each row and the other names; for literal names and the other
 * names; for rows with figures of the fleet
 */
#define NGX_HTTP_DSEM_METRIC_ONCE       0
#define NGX_HTTP_DSEM_METRIC_LOCAL      1
#define NGX_HTTP_DSEM_METRIC_HISTOGRAM  2
#define NGX_HTTP_DSEM_METRIC_FLEET      3


static ngx_int_t ngx_http_dsem_metrics_list(ngx_http_dsem_api_list_t *list);
static void ngx_http_dsem_metrics_other(ngx_http_dsem_metrics_t *metrics);
static ngx_int_t ngx_http_dsem_metrics_write(ngx_http_dsem_metrics_t *metrics,
    off_t size);
static ngx_int_t ngx_http_dsem_metrics_rows(ngx_http_dsem_metrics_t *metrics,
    off_t size);

static void ngx_http_dsem_metric_info(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_redis(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_foreign(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_time(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_survey(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_recoveries(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_requests(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_histogram(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_local(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_permits(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_oldest(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_fleet(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_limit(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_server(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_found(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_reason(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_metric_held(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);


#define ngx_http_dsem_histogram(figure)                                       \
    NGX_HTTP_DSEM_METRIC_HISTOGRAM, offsetof(ngx_http_dsem_figures_t, figure)

#define ngx_http_dsem_local(figure)                                           \
    NGX_HTTP_DSEM_METRIC_LOCAL, offsetof(ngx_http_dsem_figures_t, figure)

#define ngx_http_dsem_fleet(figure)                                           \
    NGX_HTTP_DSEM_METRIC_FLEET,                                               \
    offsetof(ngx_http_dsem_survey_semaphore_t, figure)

#define ngx_http_dsem_once(state)  NGX_HTTP_DSEM_METRIC_ONCE, state


/* a counter is named without "_total" here */
static ngx_http_dsem_metric_t  ngx_http_dsem_metrics[] = {

    { "dsem", "info",
      "Version of the module, name of the node.",
      ngx_http_dsem_metric_info,
      ngx_http_dsem_once(0) },

    { "dsem_requests", "counter",
      "Requests of this node by their results.",
      ngx_http_dsem_metric_requests,
      ngx_http_dsem_local(values) },

    { "dsem_reclaimed_permits", "counter",
      "Permits of ended sessions that were released, as this node was told.",
      ngx_http_dsem_metric_local,
      ngx_http_dsem_local(values[NGX_HTTP_DSEM_COUNT_RECLAIMED]) },

    { "dsem_overage_permits", "counter",
      "Permits of this node in use beyond the limit.",
      ngx_http_dsem_metric_local,
      ngx_http_dsem_local(values[NGX_HTTP_DSEM_COUNT_OVERAGE]) },

    { "dsem_wait_seconds", "histogram",
      "Waits in the queue, of requests of this node that passed or timed out.",
      ngx_http_dsem_metric_histogram,
      ngx_http_dsem_histogram(values[NGX_HTTP_DSEM_VALUE_WAIT]) },

    { "dsem_hold_seconds", "histogram",
      "Times for which requests of this node held permits.",
      ngx_http_dsem_metric_histogram,
      ngx_http_dsem_histogram(values[NGX_HTTP_DSEM_VALUE_HOLD]) },

    { "dsem_node_permits", "gauge",
      "Permits that this node holds.",
      ngx_http_dsem_metric_permits,
      ngx_http_dsem_local(in_use) },

    { "dsem_node_waiting_requests", "gauge",
      "Requests of this node that wait.",
      ngx_http_dsem_metric_local,
      ngx_http_dsem_local(waiting) },

    { "dsem_oldest_hold_seconds", "gauge",
      "How long a request of this node has held a permit, at most.",
      ngx_http_dsem_metric_oldest,
      ngx_http_dsem_local(oldest_hold) },

    { "dsem_most_permits", "gauge",
      "Most permits in the fleet that this node has seen, with idle ones of "
      "other workers.",
      ngx_http_dsem_metric_local,
      ngx_http_dsem_local(most_in_use) },

    { "dsem_most_waiting_requests", "gauge",
      "Most requests waiting in the fleet, as this node has seen.",
      ngx_http_dsem_metric_local,
      ngx_http_dsem_local(most_waiting) },

    { "dsem_dry_run", "gauge",
      "Whether a dry run passed the last requests, 36 hours ago at most.",
      ngx_http_dsem_metric_local,
      ngx_http_dsem_local(dry_run) },

    { "dsem_limit_permits", "gauge",
      "Limit in force in the fleet.",
      ngx_http_dsem_metric_limit,
      ngx_http_dsem_fleet(limit) },

    { "dsem_configured_limit_permits", "gauge",
      "Limit of the configuration, without orders.",
      ngx_http_dsem_metric_limit,
      ngx_http_dsem_fleet(configured) },

    { "dsem_auto_limit", "gauge",
      "Limit that was found, with limit=auto.",
      ngx_http_dsem_metric_found,
      ngx_http_dsem_fleet(found) },

    { "dsem_auto_reason", "gauge",
      "Why the limit that was found is what it is: 1 for the reason.",
      ngx_http_dsem_metric_reason,
      ngx_http_dsem_fleet(found) },

    { "dsem_paused", "gauge",
      "Whether an order pauses the semaphore.",
      ngx_http_dsem_metric_fleet,
      ngx_http_dsem_fleet(paused) },

    { "dsem_fleet_permits", "gauge",
      "Permits that the fleet holds.",
      ngx_http_dsem_metric_held,
      ngx_http_dsem_fleet(held) },

    { "dsem_fleet_server_permits", "gauge",
      "Permits that the fleet holds of a server of a pool.",
      ngx_http_dsem_metric_server,
      NGX_HTTP_DSEM_METRIC_FLEET,
      offsetof(ngx_http_dsem_api_server_t, in_use) },

    { "dsem_fleet_server_limit_permits", "gauge",
      "Limit in force of a server of a pool that the fleet can use.",
      ngx_http_dsem_metric_server,
      NGX_HTTP_DSEM_METRIC_FLEET,
      offsetof(ngx_http_dsem_api_server_t, limit) },

    { "dsem_fleet_waiting_requests", "gauge",
      "Requests of the fleet that wait.",
      ngx_http_dsem_metric_fleet,
      ngx_http_dsem_fleet(waiting) },

    { "dsem_disagreeing_nodes", "gauge",
      "Configurations of live nodes that ask for another limit than the "
      "lowest, 8 at most.",
      ngx_http_dsem_metric_fleet,
      ngx_http_dsem_fleet(disagreements.nelts) },

    { "dsem_fleet_sessions", "gauge",
      "Worker processes of the fleet, as Redis counts them.",
      ngx_http_dsem_metric_survey,
      ngx_http_dsem_once(offsetof(ngx_http_dsem_survey_t, nsessions)) },

    { "dsem_fleet_nodes", "gauge",
      "Nodes of the fleet that have worker processes.",
      ngx_http_dsem_metric_survey,
      ngx_http_dsem_once(offsetof(ngx_http_dsem_survey_t, nodes.nelts)) },

    { "dsem_fleet_age_seconds", "gauge",
      "Age of the figures of the fleet.",
      ngx_http_dsem_metric_time,
      ngx_http_dsem_once(offsetof(ngx_http_dsem_api_figures_t, age)) },

    { "dsem_redis_up", "gauge",
      "Whether Redis is available to the worker that answers.",
      ngx_http_dsem_metric_redis,
      ngx_http_dsem_once(NGX_HTTP_DSEM_CONDITION_AVAILABLE) },

    { "dsem_redis_recovering", "gauge",
      "Whether Redis recovers its state and grants no permits.",
      ngx_http_dsem_metric_redis,
      ngx_http_dsem_once(NGX_HTTP_DSEM_CONDITION_RECOVERING) },

    { "dsem_redis_state_seconds", "gauge",
      "How long Redis has been in its state.",
      ngx_http_dsem_metric_time,
      ngx_http_dsem_once(offsetof(ngx_http_dsem_api_figures_t, redis.since)) },

    { "dsem_redis_recoveries", "counter",
      "Times that Redis had to recover its state, as this node has seen.",
      ngx_http_dsem_metric_recoveries,
      ngx_http_dsem_once(0) },

    { "dsem_foreign_messages", "counter",
      "Messages to workers of this node that another client published.",
      ngx_http_dsem_metric_foreign,
      ngx_http_dsem_once(0) },

    { NULL, NULL, NULL, NULL, 0, 0 }
};


/* OpenMetrics wants the decimals */
static const char  *ngx_http_dsem_metrics_bounds[NGX_HTTP_DSEM_NBUCKETS] = {
    "0.001", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0",
    "2.5", "5.0", "10.0", "30.0", "60.0", "+Inf"
};


ngx_int_t
ngx_http_dsem_api_metrics(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_str_t                      *accept;
    ngx_http_dsem_loc_conf_t       *dlcf;
    ngx_http_dsem_metrics_t        *metrics;
    ngx_http_dsem_answer_cursor_t   cursor;

    static char  type[] = "application/openmetrics-text";

    metrics = ngx_pcalloc(r->pool, sizeof(ngx_http_dsem_metrics_t));
    if (metrics == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    metrics->full = dlcf->full;

    /* Prometheus names it first, and never with a quality of zero */

    ngx_memzero(&cursor, sizeof(ngx_http_dsem_answer_cursor_t));

    while (!metrics->open) {
        accept = ngx_http_dsem_answer_sent(&r->headers_in.headers, "Accept",
                                          &cursor);

        if (accept == NULL) {
            break;
        }

        metrics->open = ngx_strlcasestrn(accept->data,
                                         accept->data + accept->len,
                                         (u_char *) type, sizeof(type) - 2)
                        != NULL;
    }

    metrics->list.figures.reader.series = 1;
    metrics->list.piece = ngx_http_dsem_metrics_list;
    metrics->list.type = metrics->open
                         ? "application/openmetrics-text; version=1.0.0; "
                           "charset=utf-8"
                         : "text/plain; version=0.0.4; charset=utf-8";
    metrics->list.which = NGX_HTTP_DSEM_API_CACHE_METRICS + metrics->open
                          + 2 * metrics->full;

    return ngx_http_dsem_api_turns(r, &metrics->list);
}


/* the next piece */

static ngx_int_t
ngx_http_dsem_metrics_list(ngx_http_dsem_api_list_t *list)
{
    off_t                     size;
    ngx_http_dsem_metrics_t  *metrics;

    metrics = (ngx_http_dsem_metrics_t *) list;

    if (metrics->metric == NULL) {
        metrics->metric = ngx_http_dsem_metrics;

        ngx_http_dsem_metrics_other(metrics);
    }

    size = ngx_http_dsem_api_text_len(&list->text);

    while (metrics->metric->name) {

        if (ngx_http_dsem_metrics_write(metrics, size) == NGX_AGAIN) {
            return NGX_AGAIN;
        }

        metrics->metric++;
        list->row = 0;
    }

    if (metrics->open) {
        ngx_http_dsem_api_text_put(&list->text, "# EOF\n");
    }

    return NGX_OK;
}


/*
 * A name has series, but none in this answer: its counts are not those of the
 * other names either, which would fall when the name has its series again.
 */

static void
ngx_http_dsem_metrics_other(ngx_http_dsem_metrics_t *metrics)
{
    ngx_uint_t                    i, n, k;
    ngx_http_dsem_figures_t      *other;
    ngx_http_dsem_api_row_t      *row;
    ngx_http_dsem_api_figures_t  *figures;

    figures = &metrics->list.figures;
    other = &figures->reader.other;

    /* histograms that are added up are those of all names */

    n = metrics->full ? NGX_HTTP_DSEM_NVALUES : NGX_HTTP_DSEM_NCOUNTS;

    for (k = 0; k < n; k++) {
        other->values[k] -= figures->reader.hidden[k];
    }

    if (metrics->full) {
        return;
    }

    /* histograms of names from variables are those of the other names */

    row = figures->rows.elts;

    for (i = 0; i < figures->rows.nelts; i++) {

        if (row[i].literal) {
            continue;
        }

        for (k = NGX_HTTP_DSEM_VALUE_WAIT; k < NGX_HTTP_DSEM_NVALUES; k++) {
            other->values[k] += row[i].local->values[k];
        }
    }
}


/* the rest of a metric; NGX_AGAIN: in another turn */

static ngx_int_t
ngx_http_dsem_metrics_write(ngx_http_dsem_metrics_t *metrics, off_t size)
{
    ngx_http_dsem_metric_t   *metric;
    ngx_http_dsem_api_row_t   other;

    metric = metrics->metric;

    if (metrics->list.row == 0) {
        ngx_http_dsem_prometheus_head(metrics, metric);
    }

    if (metric->kind == NGX_HTTP_DSEM_METRIC_ONCE) {
        metric->write(metrics, metric, NULL);
        return NGX_OK;
    }

    if (ngx_http_dsem_metrics_rows(metrics, size) == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (metric->kind != NGX_HTTP_DSEM_METRIC_FLEET) {
        ngx_str_set(&other.name, "~other");
        other.local = &metrics->list.figures.reader.other;
        other.fleet = NULL;
        other.pool = NULL;

        metric->write(metrics, metric, &other);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_metrics_rows(ngx_http_dsem_metrics_t *metrics, off_t size)
{
    ngx_http_dsem_metric_t    *metric;
    ngx_http_dsem_api_row_t   *row;
    ngx_http_dsem_api_list_t  *list;

    metric = metrics->metric;
    list = &metrics->list;

    while (list->row < list->figures.rows.nelts) {
        row = (ngx_http_dsem_api_row_t *) list->figures.rows.elts + list->row;

        /* behind the first row: a piece has one at least */

        if (list->row
            && ngx_http_dsem_api_text_len(&list->text) - size
               >= NGX_HTTP_DSEM_API_TEXT_PIECE)
        {
            return NGX_AGAIN;
        }

        list->row++;

        if ((metric->kind == NGX_HTTP_DSEM_METRIC_HISTOGRAM
             && !metrics->full && !row->literal)
            || (metric->kind == NGX_HTTP_DSEM_METRIC_FLEET
                && row->fleet == NULL))
        {
            continue;
        }

        metric->write(metrics, metric, row);
    }

    return NGX_OK;
}


static void
ngx_http_dsem_metric_info(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_get_module_main_conf(metrics->list.request,
                                         ngx_http_dsem_module);

    ngx_http_dsem_prometheus_name(metrics, metric, "_info", NULL);

    ngx_http_dsem_api_text_put(&metrics->list.text,
                               "{version=\"" NGX_HTTP_DSEM_VERSION
                               "\",node=\"");
    ngx_http_dsem_prometheus_label(&metrics->list.text, &dmcf->node);
    ngx_http_dsem_api_text_put(&metrics->list.text, "\"} 1\n");
}


static void
ngx_http_dsem_metric_requests(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_uint_t  i;

    for (i = 0; i <= NGX_HTTP_DSEM_COUNT_ERROR_DRY_RUN; i++) {
        ngx_http_dsem_prometheus_sample(metrics, metric, row, "result",
                                        ngx_http_dsem_api_counts[i],
                                        row->local->values[i]);
    }
}


static void
ngx_http_dsem_metric_histogram(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    uint64_t                   count, *buckets;
    ngx_uint_t                 i;
    ngx_http_dsem_api_text_t  *text;

    /* behind them is their sum */

    buckets = (uint64_t *) ((u_char *) row->local + metric->offset);

    text = &metrics->list.text;
    count = 0;

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS; i++) {
        count += buckets[i];

        ngx_http_dsem_prometheus_name(metrics, metric, "_bucket", row);
        ngx_http_dsem_api_text_put(text, ",le=\"");
        ngx_http_dsem_prometheus_word(text, ngx_http_dsem_metrics_bounds[i]);
        ngx_http_dsem_api_text_put(text, "\"} ");
        ngx_http_dsem_api_text_number(text, count);
        ngx_http_dsem_api_text_put(text, "\n");
    }

    ngx_http_dsem_prometheus_seconds(metrics, metric, "_sum", row,
                                     buckets[i]);

    ngx_http_dsem_prometheus_name(metrics, metric, "_count", row);
    ngx_http_dsem_api_text_put(text, "} ");
    ngx_http_dsem_api_text_number(text, count);
    ngx_http_dsem_api_text_put(text, "\n");
}


static void
ngx_http_dsem_metric_permits(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_prometheus_sample(metrics, metric, row, "state", "in_use",
                                    row->local->in_use);
    ngx_http_dsem_prometheus_sample(metrics, metric, row, "state", "idle",
                                    row->local->idle);
}


static void
ngx_http_dsem_metric_oldest(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_prometheus_seconds(metrics, metric, "", row,
                                     row->local->oldest_hold);
}


static void
ngx_http_dsem_metric_local(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    uint64_t  *n;

    n = (uint64_t *) ((u_char *) row->local + metric->offset);

    ngx_http_dsem_prometheus_sample(metrics, metric, row, NULL, NULL, *n);
}


/* none where it is unknown */

static void
ngx_http_dsem_metric_fleet(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_int_t  *n;

    n = (ngx_int_t *) ((u_char *) row->fleet + metric->offset);

    if (*n >= 0) {
        ngx_http_dsem_prometheus_sample(metrics, metric, row, NULL, NULL, *n);
    }
}


/* of a pool the sum over its servers */

static void
ngx_http_dsem_metric_limit(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_int_t  n;

    if (row->pool == NULL) {
        ngx_http_dsem_metric_fleet(metrics, metric, row);
        return;
    }

    n = (metric->offset == offsetof(ngx_http_dsem_survey_semaphore_t, limit))
        ? row->pool->limit : row->pool->configured;

    if (n >= 0) {
        ngx_http_dsem_prometheus_sample(metrics, metric, row, NULL, NULL, n);
    }
}


/* none where it is unknown; the limit of a server that is not usable is 0 */

static void
ngx_http_dsem_metric_server(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_int_t                    n;
    ngx_uint_t                   i;
    ngx_http_dsem_api_text_t    *text;
    ngx_http_dsem_api_server_t  *server;

    if (row->pool == NULL) {
        return;
    }

    text = &metrics->list.text;
    server = row->pool->servers.elts;

    for (i = 0; i < row->pool->servers.nelts; i++) {
        n = *(ngx_int_t *) ((u_char *) &server[i] + metric->offset);

        if (server[i].usable == 0
            && metric->offset == offsetof(ngx_http_dsem_api_server_t, limit))
        {
            n = 0;
        }

        if (n >= 0) {
            ngx_http_dsem_prometheus_name(metrics, metric, "", row);

            ngx_http_dsem_api_text_put(text, ",server=\"");
            ngx_http_dsem_prometheus_label(text, &server[i].name);
            ngx_http_dsem_api_text_put(text, "\"} ");
            ngx_http_dsem_api_text_number(text, n);
            ngx_http_dsem_api_text_put(text, "\n");
        }
    }
}


static void
ngx_http_dsem_metric_found(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_found_t  *found;

    found = row->fleet->found;

    if (found && found->limit >= 0) {
        ngx_http_dsem_prometheus_sample(metrics, metric, row, NULL, NULL,
                                        found->limit);
    }
}


static void
ngx_http_dsem_metric_reason(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_int_t               i;
    ngx_http_dsem_found_t  *found;

    found = row->fleet->found;

    for (i = 0; found && i < NGX_HTTP_DSEM_API_REASONS; i++) {
        ngx_http_dsem_prometheus_sample(metrics, metric, row, "reason",
                                        ngx_http_dsem_api_figures_reason(i),
                                        i == found->reason);
    }
}


static void
ngx_http_dsem_metric_held(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_int_t  idle;

    idle = ngx_http_dsem_api_figures_idle(row->fleet);

    ngx_http_dsem_prometheus_sample(metrics, metric, row, "state", "in_use",
                                    row->fleet->held - idle);
    ngx_http_dsem_prometheus_sample(metrics, metric, row, "state", "idle",
                                    idle);
}


static void
ngx_http_dsem_metric_survey(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    u_char  *survey;

    survey = (u_char *) metrics->list.figures.survey;

    if (survey) {
        ngx_http_dsem_prometheus_sample(metrics, metric, NULL, NULL, NULL,
                                  *(ngx_uint_t *) (survey + metric->offset));
    }
}


static void
ngx_http_dsem_metric_recoveries(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_session_t  *session;

    session = ngx_http_dsem_shards_next(NULL);

    ngx_http_dsem_prometheus_sample(metrics, metric, NULL, NULL, NULL,
                  ngx_http_dsem_zone_recoveries(session ? session->zone
                                                        : NULL));
}


static void
ngx_http_dsem_metric_foreign(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_session_t  *session;

    session = ngx_http_dsem_shards_next(NULL);

    ngx_http_dsem_prometheus_sample(metrics, metric, NULL, NULL, NULL,
                  ngx_http_dsem_memo_foreigners(session ? session->limits.memo
                                                        : NULL));
}


/* none where it is unknown */

static void
ngx_http_dsem_metric_time(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    int64_t  *ms;

    ms = (int64_t *) ((u_char *) &metrics->list.figures + metric->offset);

    if (*ms >= 0) {
        ngx_http_dsem_prometheus_seconds(metrics, metric, "", NULL, *ms);
    }
}


static void
ngx_http_dsem_metric_redis(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_prometheus_sample(metrics, metric, NULL, NULL, NULL,
                                    metrics->list.figures.redis.state
                                 == metric->offset);
}
