
/*
 * Turns: answers with all semaphores, which are written in pieces.
 *
 * An answer may have thousands of semaphores, and a zone has many more: to
 * read, sort and write all of it would keep other requests waiting.  The first
 * piece, which mostly is the whole answer, is made at once.  After that each
 * turn of the event loop makes one piece, of the request that has waited
 * longest: many such requests take as much of a turn as one.  A worker that
 * exits makes them all.
 *
 * Called by: api_semaphores, api_metrics.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_api_cache.h"
#include "ngx_http_dsem_api_turns.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_module.h"


/* ms: a timer that never comes so far keeps a worker that exits */
#define NGX_HTTP_DSEM_API_TURNS_KEEP  60000


/* of this worker; all zero: never used */
typedef struct {
    ngx_queue_t                  queue;
    ngx_event_t                  event;
} ngx_http_dsem_api_turns_t;


static ngx_int_t ngx_http_dsem_api_turns_piece(ngx_http_dsem_api_list_t *list);
static ngx_int_t ngx_http_dsem_api_turns_end(ngx_http_dsem_api_list_t *list,
    ngx_int_t rc);
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
    ngx_http_cleanup_t         *cln;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);

    list->request = r;
    list->survey = ngx_http_dsem_survey_number();
    ngx_http_dsem_api_text_init(&list->text, r->pool);

    if (ngx_http_dsem_api_cache_get(list->which, list->survey, &list->text)
        == NGX_OK)
    {
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

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_dsem_api_turns_cleanup;
    cln->data = list;

    ngx_http_dsem_api_turns_wait(list);

    r->main->count++;

    r->write_event_handler = ngx_http_request_empty_handler;

    if (r == r->main) {
        r->read_event_handler = ngx_http_test_reading;
    }

    return NGX_DONE;
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

    ngx_http_dsem_api_cache_put(list->which, list->survey, &list->text);

    return ngx_http_dsem_answer_send(list->request, NGX_HTTP_OK, list->type,
                                     &list->text);
}


static void
ngx_http_dsem_api_turns_wait(ngx_http_dsem_api_list_t *list)
{
    ngx_http_dsem_api_turns_t  *turns;

    turns = &ngx_http_dsem_api_all_turns;

    if (turns->event.handler == NULL) {
        ngx_queue_init(&turns->queue);

        turns->event.handler = ngx_http_dsem_api_turns_handler;
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
