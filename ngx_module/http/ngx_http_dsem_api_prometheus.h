
/*
 * The text of metrics: the format of Prometheus, or OpenMetrics.
 */


#ifndef _NGX_HTTP_DSEM_API_PROMETHEUS_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_PROMETHEUS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_turns.h"


typedef struct ngx_http_dsem_metric_s  ngx_http_dsem_metric_t;


/* GET /metrics, while it is written */
typedef struct {
    ngx_http_dsem_api_list_t       list;
    ngx_http_dsem_metric_t        *metric;  /* to be written; NULL: none yet */
    ngx_uint_t                     open;    /* unsigned:1, OpenMetrics */
    ngx_uint_t                     full;    /* unsigned:1, "metrics=full" */
} ngx_http_dsem_metrics_t;


typedef void (*ngx_http_dsem_metric_pt)(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row);

struct ngx_http_dsem_metric_s {
    const char                    *name;
    const char                    *type;
    const char                    *help;
    ngx_http_dsem_metric_pt        write;
    ngx_uint_t                     kind;    /* how often it is called */
    ngx_uint_t                     offset;  /* of its figure */
};


void ngx_http_dsem_prometheus_head(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric);
void ngx_http_dsem_prometheus_word(ngx_http_dsem_api_text_t *text,
    const char *word);
void ngx_http_dsem_prometheus_label(ngx_http_dsem_api_text_t *text,
    ngx_str_t *value);

/* the name of a sample; row: the semaphore, or NULL; see the other half */
void ngx_http_dsem_prometheus_name(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, const char *part,
    ngx_http_dsem_api_row_t *row);

/* a whole sample; label: another one beside the semaphore, or NULL */
void ngx_http_dsem_prometheus_sample(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, ngx_http_dsem_api_row_t *row,
    const char *label, const char *value, uint64_t n);
void ngx_http_dsem_prometheus_seconds(ngx_http_dsem_metrics_t *metrics,
    ngx_http_dsem_metric_t *metric, const char *part,
    ngx_http_dsem_api_row_t *row, uint64_t msec);


#endif /* _NGX_HTTP_DSEM_API_PROMETHEUS_H_INCLUDED_ */
