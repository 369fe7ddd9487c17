
/*
 * How a request is suspended while it waits, and resumed.
 *
 * Owns the handlers of its events in between: a client that leaves is seen
 * at once, and ends the request, as it would while an upstream is waited
 * for.  The phases are where they were when it goes on.
 *
 * Called by: verdict.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_suspend.h"


/* whether streams can be of QUIC, also for an nginx that was built apart */
#define NGX_HTTP_DSEM_QUIC                                                    \
    (nginx_version >= 1025000 && (NGX_QUIC || NGX_COMPAT))


static void ngx_http_dsem_suspend_write_handler(ngx_http_request_t *r);


/* until it is resumed; NGX_ERROR: it cannot wait */

ngx_int_t
ngx_http_dsem_suspend(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "dsem request suspended");

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_dsem_suspend_write_handler;

#if (NGX_HTTP_DSEM_QUIC)

    if (c->quic && c->write->error) {
        ngx_post_event(c->write, &ngx_posted_events);
    }

#endif

    /* a close that is there already gives no further event */

    if (c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);

    } else if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* who waits for a permit has nothing to write */

static void
ngx_http_dsem_suspend_write_handler(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

#if (NGX_HTTP_DSEM_QUIC)

    /* a stream whose answer is not wanted: no read event tells */

    if (c->quic && c->write->error) {
        c->error = 1;

        ngx_log_error(NGX_LOG_INFO, c->log, 0,
                      "client prematurely closed stream");

        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }

#endif

    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


/* runs its phases again; the request may be gone afterwards */

void
ngx_http_dsem_resume(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "dsem request resumed");

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}
