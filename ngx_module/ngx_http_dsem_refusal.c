
/*
 * Refusals: what the client is answered and what the operator reads.
 *
 * One sentence per refusal, at "dsem_log_level", which says what was wanted
 * and what was missing.  The README quotes them.
 *
 * Called by: verdict, once the record has its status; release, when the
 * answer's header goes out.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_refusal.h"


/* seconds of "dsem_retry_after auto" */
#define NGX_HTTP_DSEM_RETRY_MIN  1
#define NGX_HTTP_DSEM_RETRY_MAX  30


static ngx_int_t ngx_http_dsem_refusal_seconds(
    ngx_http_dsem_record_t *record);
static ngx_uint_t ngx_http_dsem_refusal_has_header(ngx_http_request_t *r);
static void ngx_http_dsem_refusal_log_rejected(
    ngx_http_dsem_record_t *record, char *dry);
static void ngx_http_dsem_refusal_log_timeout(
    ngx_http_dsem_record_t *record, char *dry);


/* the status code for this reason, as "dsem_status" says */

ngx_int_t
ngx_http_dsem_refusal_code(ngx_http_dsem_record_t *record)
{
    switch (record->status) {

    case NGX_HTTP_DSEM_STATUS_REJECTED:
        return record->conf->status_full;

    case NGX_HTTP_DSEM_STATUS_TIMEOUT:
        return record->conf->status_timeout;

    default: /* NGX_HTTP_DSEM_STATUS_ERROR */
        return record->conf->status_error;
    }
}


/*
 * Adds Retry-After, as "dsem_retry_after" says, to the answer in the place of
 * what the client wanted.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_refusal_header(ngx_http_dsem_record_t *record)
{
    u_char              *p;
    ngx_int_t            seconds;
    ngx_table_elt_t     *h;
    ngx_http_request_t  *r;

    r = record->request;
    seconds = ngx_http_dsem_refusal_seconds(record);

    if (seconds == 0
        || r->headers_out.status < NGX_HTTP_BAD_REQUEST
        || ngx_http_dsem_refusal_has_header(r))
    {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    ngx_str_set(&h->key, "Retry-After");
    h->value.data = p;
    h->value.len = ngx_sprintf(p, "%i", seconds) - p;

    return NGX_OK;
}


/*
 * 0: no header, as coming back later is of no use or not what is wanted.
 * A quarter of the time more or less keeps clients from coming back at once.
 */

static ngx_int_t
ngx_http_dsem_refusal_seconds(ngx_http_dsem_record_t *record)
{
    ngx_int_t  msec, seconds;

    seconds = record->conf->retry_after;

    if (seconds == NGX_HTTP_DSEM_RETRY_OFF
        || record->status == NGX_HTTP_DSEM_STATUS_ERROR
        || record->weight > record->limit)
    {
        return 0;
    }

    if (seconds != NGX_HTTP_DSEM_RETRY_AUTO) {
        return seconds;
    }

    msec = ngx_http_dsem_hint_wait(&record->name);
    msec = ngx_min(msec, NGX_HTTP_DSEM_RETRY_MAX * 1000);
    msec = msec * (75 + ngx_random() % 51) / 100;

    seconds = (msec + 999) / 1000;
    seconds = ngx_max(seconds, NGX_HTTP_DSEM_RETRY_MIN);

    return ngx_min(seconds, NGX_HTTP_DSEM_RETRY_MAX);
}


/* an error page that comes from elsewhere may have its own */

static ngx_uint_t
ngx_http_dsem_refusal_has_header(ngx_http_request_t *r)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    for (part = &r->headers_out.headers.part; part; part = part->next) {
        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            if (h[i].hash
                && h[i].key.len == sizeof("Retry-After") - 1
                && ngx_strncasecmp(h[i].key.data, (u_char *) "Retry-After",
                                   h[i].key.len)
                   == 0)
            {
                return 1;
            }
        }
    }

    return 0;
}


void
ngx_http_dsem_refusal_log(ngx_http_dsem_record_t *record)
{
    char  *dry;

    dry = record->conf->dry_run ? ", dry run" : "";

    switch (record->status) {

    case NGX_HTTP_DSEM_STATUS_REJECTED:
        ngx_http_dsem_refusal_log_rejected(record, dry);
        break;

    case NGX_HTTP_DSEM_STATUS_TIMEOUT:
        ngx_http_dsem_refusal_log_timeout(record, dry);
        break;

    default: /* NGX_HTTP_DSEM_STATUS_ERROR */

        if (record->invalid) {
            /* what is wrong has been said */
            break;
        }

        ngx_log_error(record->conf->log_level,
                      record->request->connection->log, 0,
                      "dsem error%s: redis unavailable for semaphore \"%V\"",
                      dry, &record->name);
        break;
    }
}


static void
ngx_http_dsem_refusal_log_rejected(ngx_http_dsem_record_t *record, char *dry)
{
    ngx_log_t   *log;
    ngx_uint_t   level;

    log = record->request->connection->log;
    level = record->conf->log_level;

    if (record->worker_full) {
        ngx_log_error(level, log, 0,
                      "dsem rejected%s: \"dsem_max_waiting\" reached in this "
                      "worker, semaphore \"%V\"",
                      dry, &record->name);
        return;
    }

    if (record->weight > record->limit) {
        ngx_log_error(level, log, 0,
                      "dsem rejected%s: weight %i exceeds limit %i of "
                      "semaphore \"%V\"",
                      dry, record->weight, record->limit, &record->name);
        return;
    }

    ngx_log_error(level, log, 0,
                  "dsem rejected%s: semaphore \"%V\" has %i of %i permits "
                  "in use and its queue is full",
                  dry, &record->name, record->in_use, record->limit);
}


static void
ngx_http_dsem_refusal_log_timeout(ngx_http_dsem_record_t *record, char *dry)
{
    ngx_log_t   *log;
    ngx_uint_t   level;

    log = record->request->connection->log;
    level = record->conf->log_level;

    if (record->position == 0) {
        ngx_log_error(level, log, 0,
                      "dsem timeout%s: no permit of semaphore \"%V\" within "
                      "%M ms, not queued by redis",
                      dry, &record->name, record->wait_time);
        return;
    }

    ngx_log_error(level, log, 0,
                  "dsem timeout%s: no permit of semaphore \"%V\" within %M "
                  "ms, %i of %i in use when queued",
                  dry, &record->name, record->wait_time, record->in_use,
                  record->limit);
}
