
/*
 * Turns: answers with all semaphores, which are written in pieces, and kept.
 *
 * An answer may have thousands of semaphores, and a zone has many more: to
 * read, sort and write all of it would keep other requests waiting.  The first
 * piece, which mostly is the whole answer, is made at once.  After that each
 * turn of the event loop makes one piece, of the request that has waited
 * longest: many such requests take as much of a turn as one.  A worker that
 * exits makes them all.
 *
 * To write an answer costs as much as some proxied requests.  A worker writes
 * a few in a tenth of a second, and repeats the last of them where more are
 * asked for.  A client that asks rarely always gets an answer of now, and one
 * that asks after a change by the API of this node an answer of after it: there
 * is a new survey then, and the text of another one is not repeated.  The
 * memory stays with the worker, as much as the longest answer that was asked
 * for often.
 *
 * Called by: api_semaphores, api_metrics.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_api_turns.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_module.h"


/* ms: a timer that never comes so far keeps a worker that exits */
#define NGX_HTTP_DSEM_API_TURNS_KEEP  60000

/* ms */
#define NGX_HTTP_DSEM_API_CACHE_TIME    100

/* what is written in this time: answers, of which a long one is several */
#define NGX_HTTP_DSEM_API_CACHE_ANSWERS  8
#define NGX_HTTP_DSEM_API_CACHE_LONG     16384


typedef struct {
    u_char      *data;
    size_t       size;
    size_t       len;       /* 0: none */
    ngx_msec_t   began;
    ngx_uint_t   written;   /* since then */
    ngx_uint_t   survey;    /* number of that which is shown */
} ngx_http_dsem_api_cached_t;


/* of this worker; all zero: never used */
typedef struct {
    ngx_queue_t                  queue;
    ngx_event_t                  event;
    ngx_http_dsem_api_cached_t   cached[NGX_HTTP_DSEM_API_NCACHES];
} ngx_http_dsem_api_turns_t;


static ngx_int_t ngx_http_dsem_api_turns_repeat(ngx_http_dsem_api_list_t *list);
static ngx_int_t ngx_http_dsem_api_turns_piece(ngx_http_dsem_api_list_t *list);
static ngx_int_t ngx_http_dsem_api_turns_end(ngx_http_dsem_api_list_t *list,
    ngx_int_t rc);
static void ngx_http_dsem_api_turns_cache(ngx_http_dsem_api_list_t *list);
static void ngx_http_dsem_api_turns_wait(ngx_http_dsem_api_list_t *list);
static void ngx_http_dsem_api_turns_post(void);
static void ngx_http_dsem_api_turns_left(void);
static void ngx_http_dsem_api_turns_handler(ngx_event_t *ev);
static void ngx_http_dsem_api_turns_cleanup(void *data);


static ngx_http_dsem_api_turns_t  ngx_http_dsem_api_all_turns;


ngx_int_t
ngx_http_dsem_api_turns(ngx_http_request_t *r, ngx_http_dsem_api_list_t *list)
{
    ngx_int_t                   rc;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);

    list->request = r;
    list->survey = ngx_http_dsem_survey_number();
    ngx_http_dsem_api_text_init(&list->text, r->pool);

    if (ngx_http_dsem_api_turns_repeat(list) == NGX_OK) {
        return ngx_http_dsem_answer_send(r, NGX_HTTP_OK, list->type,
                                         &list->text);
    }

    if (ngx_http_dsem_api_figures_begin(r->pool, &dmcf->literals,
                                        &list->figures)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_dsem_api_turns_piece(list);

    if (rc != NGX_AGAIN) {
        return ngx_http_dsem_api_turns_end(list, rc);
    }

    if (ngx_http_dsem_answer_cleanup(r, ngx_http_dsem_api_turns_cleanup, list)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_dsem_api_turns_wait(list);

    return ngx_http_dsem_answer_later(r);
}


/* NGX_OK: the text is there; NGX_DECLINED: it is to be written */

static ngx_int_t
ngx_http_dsem_api_turns_repeat(ngx_http_dsem_api_list_t *list)
{
    ngx_http_dsem_api_cached_t  *cached;

    cached = &ngx_http_dsem_api_all_turns.cached[list->which];

    if (ngx_current_msec - cached->began >= NGX_HTTP_DSEM_API_CACHE_TIME
        || cached->survey != list->survey)
    {
        cached->began = ngx_current_msec;
        cached->written = 0;
        cached->len = 0;
        cached->survey = list->survey;
    }

    if (cached->len == 0) {
        return NGX_DECLINED;
    }

    /* a copy: the next text may take the place of this one while it is sent */

    return ngx_http_dsem_api_text_copy(&list->text, cached->data, cached->len);
}


/* of the figures first, then of the text; NGX_OK: it is whole */

static ngx_int_t
ngx_http_dsem_api_turns_piece(ngx_http_dsem_api_list_t *list)
{
    ngx_int_t  rc;

    rc = NGX_OK;

    if (!list->complete) {
        rc = ngx_http_dsem_api_figures_read(&list->figures);
        list->complete = (rc == NGX_OK);
    }

    return (rc == NGX_OK) ? list->piece(list) : rc;
}


/*
 * The result may be NGX_AGAIN, too: the client takes the answer slowly.  It
 * never means that there is more to be written.
 */

static ngx_int_t
ngx_http_dsem_api_turns_end(ngx_http_dsem_api_list_t *list, ngx_int_t rc)
{
    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_dsem_api_turns_cache(list);

    return ngx_http_dsem_answer_send(list->request, NGX_HTTP_OK, list->type,
                                     &list->text);
}


/* a text was written; the last one of a time is kept */

static void
ngx_http_dsem_api_turns_cache(ngx_http_dsem_api_list_t *list)
{
    off_t                        size;
    u_char                      *p;
    ngx_chain_t                 *cl;
    ngx_http_dsem_api_cached_t  *cached;

    cached = &ngx_http_dsem_api_all_turns.cached[list->which];

    cl = ngx_http_dsem_api_text_end(&list->text, &size);

    if (cl == NULL || cached->survey != list->survey) {
        return;
    }

    cached->written += 1 + size / NGX_HTTP_DSEM_API_CACHE_LONG;

    if (cached->written < NGX_HTTP_DSEM_API_CACHE_ANSWERS) {
        return;
    }

    if ((size_t) size > cached->size) {

        if (cached->data) {
            ngx_free(cached->data);
        }

        cached->size = 0;

        cached->data = ngx_alloc(size, ngx_cycle->log);
        if (cached->data == NULL) {
            return;
        }

        cached->size = size;
    }

    p = cached->data;

    for ( /* void */ ; cl; cl = cl->next) {
        p = ngx_cpymem(p, cl->buf->pos, cl->buf->last - cl->buf->pos);
    }

    cached->len = size;
}


static void
ngx_http_dsem_api_turns_wait(ngx_http_dsem_api_list_t *list)
{
    ngx_http_dsem_api_turns_t  *turns;

    turns = &ngx_http_dsem_api_all_turns;

    if (turns->event.handler == NULL) {
        ngx_queue_init(&turns->queue);

        turns->event.handler = ngx_http_dsem_api_turns_handler;
        turns->event.data = turns;
        turns->event.log = ngx_cycle->log;
    }

    ngx_queue_insert_tail(&turns->queue, &list->queue);
    list->waiting = 1;

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, list->request->connection->log, 0,
                   "dsem api waits for the next turn");

    ngx_http_dsem_api_turns_post();
}


/* an event that is posted by a posted one would run in the same turn */

static void
ngx_http_dsem_api_turns_post(void)
{
    ngx_event_t  *ev;

    ev = &ngx_http_dsem_api_all_turns.event;

    if (!ev->posted) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }

    /* without a timer a worker exits, whatever is posted */

    if (!ev->timer_set) {
        ngx_add_timer(ev, NGX_HTTP_DSEM_API_TURNS_KEEP);
    }
}


/* a request has left the queue */

static void
ngx_http_dsem_api_turns_left(void)
{
    ngx_event_t  *ev;

    ev = &ngx_http_dsem_api_all_turns.event;

    if (ev->timer_set && ngx_queue_empty(&ngx_http_dsem_api_all_turns.queue)) {
        ngx_del_timer(ev);
    }
}


static void
ngx_http_dsem_api_turns_handler(ngx_event_t *ev)
{
    ngx_int_t                  rc;
    ngx_queue_t               *q, *queue;
    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_dsem_api_list_t  *list;

    queue = &ngx_http_dsem_api_all_turns.queue;

    if (ngx_queue_empty(queue)) {
        return;
    }

    q = ngx_queue_head(queue);
    list = ngx_queue_data(q, ngx_http_dsem_api_list_t, queue);

    ngx_queue_remove(q);
    list->waiting = 0;

    if (!ngx_queue_empty(queue)) {
        ngx_http_dsem_api_turns_post();
    }

    ngx_http_dsem_api_turns_left();

    r = list->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    rc = ngx_http_dsem_api_turns_piece(list);

    if (rc == NGX_AGAIN) {
        ngx_http_dsem_api_turns_wait(list);
        return;
    }

    ngx_http_finalize_request(r, ngx_http_dsem_api_turns_end(list, rc));

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_dsem_api_turns_cleanup(void *data)
{
    ngx_http_dsem_api_list_t *list = data;

    if (list->waiting) {
        ngx_queue_remove(&list->queue);
        list->waiting = 0;

        ngx_http_dsem_api_turns_left();
    }
}
