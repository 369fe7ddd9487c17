
/*
 * The text of metrics: the format of Prometheus, or OpenMetrics.
 *
 * Called by: api_metrics.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_prometheus.h"


/* the older format knows no type "info", and names a counter as its samples */

void
ngx_http_dsem_prometheus_head(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric)
{
    const char                *suffix, *type;
    ngx_http_dsem_api_text_t  *text;

    text = &metrics->list.text;
    type = metric->type;
    suffix = "";

    if (!metrics->open) {

        if (*type == 'c') {
            suffix = "_total";

        } else if (*type == 'i') {
            suffix = "_info";
            type = "gauge";
        }
    }

    ngx_http_dsem_api_text_put(text, "# HELP ");
    ngx_http_dsem_prometheus_word(text, metric->name);
    ngx_http_dsem_prometheus_word(text, suffix);
    ngx_http_dsem_api_text_put(text, " ");
    ngx_http_dsem_prometheus_word(text, metric->help);

    ngx_http_dsem_api_text_put(text, "\n# TYPE ");
    ngx_http_dsem_prometheus_word(text, metric->name);
    ngx_http_dsem_prometheus_word(text, suffix);
    ngx_http_dsem_api_text_put(text, " ");
    ngx_http_dsem_prometheus_word(text, type);
    ngx_http_dsem_api_text_put(text, "\n");
}


void
ngx_http_dsem_prometheus_word(ngx_http_dsem_api_text_t *text, const char *word)
{
    ngx_http_dsem_api_text_write(text, (u_char *) word, ngx_strlen(word));
}


/* names of semaphores and nodes need no escape, but nothing relies on that */

void
ngx_http_dsem_prometheus_label(ngx_http_dsem_api_text_t *text, ngx_str_t *value)
{
    u_char  *p, *first, *last;

    first = value->data;
    last = value->data + value->len;

    for (p = first; p < last; p++) {

        if (*p != '\\' && *p != '"' && *p != '\n') {
            continue;
        }

        ngx_http_dsem_api_text_write(text, first, p - first);
        ngx_http_dsem_api_text_put(text, "\\");
        first = p;

        if (*p == '\n') {
            ngx_http_dsem_api_text_put(text, "n");
            first = p + 1;
        }
    }

    ngx_http_dsem_api_text_write(text, first, last - first);
}


/*
 * The first half of a sample.
 *
 * part   what is appended to the name
 * row    the semaphore; NULL: none
 */

void
ngx_http_dsem_prometheus_name(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, const char *part,
    ngx_http_dsem_api_row_t *row)
{
    ngx_http_dsem_prometheus_word(&metrics->list.text, metric->name);
    ngx_http_dsem_prometheus_word(&metrics->list.text, part);

    if (row) {
        ngx_http_dsem_api_text_put(&metrics->list.text, "{semaphore=\"");
        ngx_http_dsem_prometheus_label(&metrics->list.text, &row->name);
        ngx_http_dsem_api_text_put(&metrics->list.text, "\"");
    }
}


/*
 * A whole sample.
 *
 * row     the semaphore; NULL: none
 * label   another one beside "semaphore"; NULL: none
 */

void
ngx_http_dsem_prometheus_sample(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row,
    const char *label, const char *value, uint64_t n)
{
    ngx_http_dsem_prometheus_name(metrics, metric,
                                  (*metric->type == 'c') ? "_total" : "", row);

    if (label) {
        ngx_http_dsem_api_text_put(&metrics->list.text, ",");
        ngx_http_dsem_prometheus_word(&metrics->list.text, label);
        ngx_http_dsem_api_text_put(&metrics->list.text, "=\"");
        ngx_http_dsem_prometheus_word(&metrics->list.text, value);
        ngx_http_dsem_api_text_put(&metrics->list.text, "\"");
    }

    if (row) {
        ngx_http_dsem_api_text_put(&metrics->list.text, "}");
    }

    ngx_http_dsem_api_text_put(&metrics->list.text, " ");
    ngx_http_dsem_api_text_number(&metrics->list.text, n);
    ngx_http_dsem_api_text_put(&metrics->list.text, "\n");
}


/* a time, which is written in seconds; part: of a name with several series */

void
ngx_http_dsem_prometheus_seconds(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, const char *part,
    ngx_http_dsem_api_row_t *row, uint64_t msec)
{
    ngx_http_dsem_prometheus_name(metrics, metric, part, row);

    if (row) {
        ngx_http_dsem_api_text_put(&metrics->list.text, "}");
    }

    ngx_http_dsem_api_text_put(&metrics->list.text, " ");
    ngx_http_dsem_api_text_seconds(&metrics->list.text, msec);
    ngx_http_dsem_api_text_put(&metrics->list.text, "\n");
}
