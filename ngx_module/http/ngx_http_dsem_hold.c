
/*
 * The content handler of "dsem_hold": a permit for as long as a client holds
 * its connection.
 *
 * A request that gets here has its permit, as any other one.  It is answered
 * with a line, and then never ends by itself: an empty line each interval
 * shows a peer that is gone, on both sides.  The end of the connection ends
 * the request, and the log phase gives the permit back.
 *
 * An old worker keeps its holders, as it does with websockets.  They get their
 * last line shortly before nginx would close their connections without a word.
 *
 * Called by: nginx, as the directive in conf has set; handler, for how long it
 * waits, and when it asks; shutdown, through its handler; module, at the start
 * and the exit of a worker.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_acquire.h"
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_hold.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_refusal.h"
#include "ngx_http_dsem_shutdown.h"


/* ms for a reply of Redis, for a program that does not want to wait */
#define NGX_HTTP_DSEM_HOLD_REPLY  1000


typedef struct {
    ngx_queue_t           queue;
    ngx_http_request_t   *request;
    ngx_http_dsem_ctx_t  *ctx;
    ngx_event_t           timer;    /* of the next line */
    ngx_msec_t            expires;  /* by ngx_current_msec; of "max" only */
    ngx_buf_t             line;
} ngx_http_dsem_hold_t;


static ngx_int_t ngx_http_dsem_hold_error(ngx_http_request_t *r,
    ngx_int_t code);
static ngx_int_t ngx_http_dsem_hold_seconds(u_char *p, u_char *last);
static u_char *ngx_http_dsem_hold_blanks(u_char *p, u_char *last);
static void ngx_http_dsem_hold_start(ngx_http_request_t *r);
static ngx_int_t ngx_http_dsem_hold_headers(ngx_http_dsem_hold_t *h);
static void ngx_http_dsem_hold_patience(ngx_http_request_t *r);
static void ngx_http_dsem_hold_option(ngx_http_request_t *r, int level,
    int name, int value);
static void ngx_http_dsem_hold_add(ngx_http_dsem_hold_t *h);
static void ngx_http_dsem_hold_wait(ngx_http_dsem_hold_t *h);
static void ngx_http_dsem_hold_timer_handler(ngx_event_t *ev);
static void ngx_http_dsem_hold_writer(ngx_http_request_t *r);
static void ngx_http_dsem_hold_written(ngx_http_request_t *r, ngx_int_t rc);
static ngx_int_t ngx_http_dsem_hold_line(ngx_http_dsem_hold_t *h,
    const char *text);
static ngx_int_t ngx_http_dsem_hold_last(ngx_http_dsem_hold_t *h,
    const char *text);
static ngx_int_t ngx_http_dsem_hold_send(ngx_http_request_t *r, ngx_buf_t *b,
    const char *text);
static void ngx_http_dsem_hold_end(ngx_http_dsem_hold_t *h,
    const char *text);
static void ngx_http_dsem_hold_cleanup(void *data);
static void ngx_http_dsem_hold_close(void);


/* those of this worker */
static ngx_queue_t  ngx_http_dsem_holds;


ngx_int_t
ngx_http_dsem_hold_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_http_dsem_ctx_t       *ctx;
    ngx_http_dsem_loc_conf_t  *dlcf;

    static ngx_str_t  methods = ngx_string("GET, POST");

    /* a subrequest is not limited, and its request would wait for ever */

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_POST)) || r != r->main) {
        return (ngx_http_dsem_answer_header(r, "Allow", &methods) == NGX_OK)
               ? NGX_HTTP_NOT_ALLOWED : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx = ngx_http_dsem_ctx_find(r);

    if (ctx == NULL || ctx->refused) {
        /* the page of an error: it must not say that it holds anything */
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    if (ctx->nclaims == 0 && !dlcf->dry_run) {
        /* any other request would not be limited */

        ngx_log_error(dlcf->log_level, r->connection->log, 0,
                      "dsem: no permit can be held (the name or the limit of "
                      "\"dsem\" is empty), request refused");

        return ngx_http_dsem_hold_error(r, dlcf->status_error);
    }

    rc = ngx_http_read_client_request_body(r, ngx_http_dsem_hold_start);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    return NGX_DONE;
}


/*
 * A refusal that no semaphore made; returns its code.  After that of a worker
 * which has ended its holders the next one can be asked at once.
 */

static ngx_int_t
ngx_http_dsem_hold_error(ngx_http_request_t *r, ngx_int_t code)
{
    static ngx_str_t  error = ngx_string(NGX_HTTP_DSEM_REFUSAL_ERROR);
    static ngx_str_t  at_once = ngx_string("0");

    if (ngx_http_dsem_answer_header(r, NGX_HTTP_DSEM_REFUSAL_HEADER, &error)
        != NGX_OK
        || (ngx_http_dsem_shutdown_near()
            && ngx_http_dsem_answer_header(r, "Retry-After", &at_once)
               != NGX_OK))
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return code;
}


/*
 * How long a program wants to wait for its permits: "Prefer: wait=10", seconds
 * (RFC 7240).  Never longer than the directive says; with 0 not at all, but for
 * Redis.  Returns ms, 0: it says nothing.
 */

ngx_msec_t
ngx_http_dsem_hold_prefer(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claims, ngx_uint_t nclaims)
{
    ngx_int_t                       seconds;
    ngx_str_t                      *value;
    ngx_uint_t                      i;
    ngx_http_dsem_answer_cursor_t   cursor;

    /* HEAD, PUT: a request that will hold nothing takes no place */

    seconds = (r->method & (NGX_HTTP_GET|NGX_HTTP_POST)) ? NGX_DECLINED : 0;

    ngx_memzero(&cursor, sizeof(ngx_http_dsem_answer_cursor_t));

    while (seconds == NGX_DECLINED) {
        value = ngx_http_dsem_answer_sent(&r->headers_in.headers, "Prefer",
                                          &cursor);

        seconds = value ? ngx_http_dsem_hold_seconds(value->data,
                                                     value->data + value->len)
                        : NGX_ERROR;
    }

    if (seconds == NGX_ERROR) {
        /* it says nothing, or nothing that can be read */
        return 0;
    }

    if (seconds) {
        seconds = ngx_min(seconds, (ngx_int_t) NGX_MAX_INT32_VALUE / 1000);
        return (ngx_msec_t) seconds * 1000;
    }

    for (i = 0; i < nclaims; i++) {
        claims[i].ask.queue = 0;
    }

    return NGX_HTTP_DSEM_HOLD_REPLY;
}


/* of "wait" in a list of preferences; NGX_DECLINED: it is not in there */

static ngx_int_t
ngx_http_dsem_hold_seconds(u_char *p, u_char *last)
{
    u_char      *q;
    ngx_uint_t   quoted;

    while (p < last) {
        p = ngx_http_dsem_hold_blanks(p, last);

        if (last - p > 4 && ngx_strncasecmp(p, (u_char *) "wait", 4) == 0) {
            q = ngx_http_dsem_hold_blanks(p + 4, last);

            if (q < last && *q == '=') {
                p = ngx_http_dsem_hold_blanks(q + 1, last);

                if (p < last && *p == '"') {
                    p++;
                }

                for (q = p; q < last && *q >= '0' && *q <= '9'; q++) {
                    /* void */
                }

                return ngx_atoi(p, q - p);
            }
        }

        /* a comma in quotes ends no preference */

        for (quoted = 0; p < last && (quoted || *p != ','); p++) {

            if (*p == '"') {
                quoted = !quoted;

            } else if (quoted && *p == '\\') {
                p++;
            }
        }

        p++;
    }

    return NGX_DECLINED;
}


static u_char *
ngx_http_dsem_hold_blanks(u_char *p, u_char *last)
{
    while (p < last && (*p == ' ' || *p == '\t')) {
        p++;
    }

    return p;
}


/*
 * Before it asks for its permit, which it would not hold any more, if its
 * worker has ended its holders.
 */

void
ngx_http_dsem_hold_ask(ngx_http_dsem_ctx_t *ctx)
{
    if (!ctx->decided
        && !ctx->conf->dry_run
        && ctx->current < ctx->nclaims
        && ngx_http_dsem_shutdown_near())
    {
        /* the time of its body is no wait */
        ctx->started = ngx_current_msec - ctx->wait_time;
        ngx_http_dsem_acquire_exit(ctx);
    }
}


/*
 * A request that waits gets no line: the system asks instead, as often, whether
 * its peer is there.  Otherwise each one that is gone without a FIN would be
 * granted a permit, and have it for "send_timeout".
 */

void
ngx_http_dsem_hold_suspended(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_dsem_hold_patience(ctx->request);

#if (NGX_HAVE_KEEPALIVE_TUNABLE && !NGX_DARWIN)

    int  interval;

    /* more than nine hours is an error */
    interval = ngx_min(ngx_max(ctx->conf->hold_interval / 1000, 1), 32767);

    ngx_http_dsem_hold_option(ctx->request, SOL_SOCKET, SO_KEEPALIVE, 1);
    ngx_http_dsem_hold_option(ctx->request, IPPROTO_TCP, TCP_KEEPIDLE,
                              interval);
    ngx_http_dsem_hold_option(ctx->request, IPPROTO_TCP, TCP_KEEPINTVL,
                              interval);
#endif
}


static void
ngx_http_dsem_hold_start(ngx_http_request_t *r)
{
    ngx_int_t              rc;
    ngx_event_t           *rev;
    ngx_http_dsem_hold_t  *h;

    if (ngx_http_dsem_shutdown_near()) {
        ngx_http_finalize_request(r,
                  ngx_http_dsem_hold_error(r, NGX_HTTP_SERVICE_UNAVAILABLE));
        return;
    }

    h = ngx_pcalloc(r->pool, sizeof(ngx_http_dsem_hold_t));

    if (h == NULL
        || ngx_http_dsem_answer_cleanup(r, ngx_http_dsem_hold_cleanup, h)
           != NGX_OK)
    {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    h->request = r;
    h->ctx = ngx_http_dsem_ctx_find(r);

    if (ngx_http_dsem_hold_headers(h) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        ngx_http_finalize_request(r, rc);
        return;
    }

    ngx_http_dsem_hold_add(h);

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_dsem_hold_writer;

    rev = r->connection->read;

    /* a close that came before gives no further event */

    if (rev->ready) {
        ngx_post_event(rev, &ngx_posted_events);

    } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    ngx_http_dsem_hold_written(r, ngx_http_dsem_hold_line(h, "granted\n"));
}


static ngx_int_t
ngx_http_dsem_hold_headers(ngx_http_dsem_hold_t *h)
{
    ngx_http_request_t  *r;

    static ngx_str_t  no_store = ngx_string("no-store");
    static ngx_str_t  no_buffering = ngx_string("no");

    r = h->request;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = -1;

    ngx_str_set(&r->headers_out.content_type, "text/plain");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    r->headers_out.content_type_lowcase = NULL;

    /* no condition makes another answer of it */

    r->disable_not_modified = 1;

#if (NGX_HTTP_GZIP)
    /* a compressor has several times the memory of a hold */
    r->gzip_tested = 1;
    r->gzip_ok = 0;
#endif

    /* the end of the hold is the end of the connection, for all clients */

    r->keepalive = 0;

    ngx_http_dsem_hold_patience(r);

    if (ngx_http_dsem_answer_header(r, "Cache-Control", &no_store) != NGX_OK
        || ngx_http_dsem_answer_header(r, "X-Accel-Buffering", &no_buffering)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_dsem_answer_header(r, "Dsem-Permit", &h->ctx->name);
}


/*
 * A few bytes always fit into the buffer of a socket, so a peer that is gone
 * without a FIN is not seen by "send_timeout".  The system sees it, by the
 * time for which bytes may stay unacknowledged.  Streams of HTTP/2 share a
 * connection, for which nginx uses the "send_timeout" of the server.  A stream
 * of QUIC shares the socket on which nginx listens: QUIC has an idle timeout of
 * its own.
 */

static void
ngx_http_dsem_hold_patience(ngx_http_request_t *r)
{
#ifdef TCP_USER_TIMEOUT

    ngx_http_conf_ctx_t       *server;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (r->http_version == NGX_HTTP_VERSION_20) {
        server = r->http_connection->conf_ctx;
        clcf = ngx_http_get_module_loc_conf(server, ngx_http_core_module);
    }

    /* more is an error */
    ngx_http_dsem_hold_option(r, IPPROTO_TCP, TCP_USER_TIMEOUT,
                              (int) ngx_min(clcf->send_timeout,
                                            NGX_MAX_INT32_VALUE));
#endif
}


/* of TCP; other sockets have no such options */

static void
ngx_http_dsem_hold_option(ngx_http_request_t *r, int level, int name,
    int value)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (!c->shared
        && c->type == SOCK_STREAM
        && c->sockaddr->sa_family != AF_UNIX
        && setsockopt(c->fd, level, name, &value, sizeof(int)) == -1)
    {
        ngx_connection_error(c, ngx_socket_errno, "setsockopt() failed");
    }
}


static void
ngx_http_dsem_hold_add(ngx_http_dsem_hold_t *h)
{
    ngx_http_dsem_loc_conf_t  *dlcf;

    dlcf = ngx_http_get_module_loc_conf(h->request, ngx_http_dsem_module);

    ngx_queue_insert_tail(&ngx_http_dsem_holds, &h->queue);

    /* not cancelable: an exiting worker keeps its holders */

    h->timer.handler = ngx_http_dsem_hold_timer_handler;
    h->timer.data = h;
    h->timer.log = h->request->connection->log;

    h->expires = ngx_current_msec + dlcf->hold_max;

    ngx_http_dsem_hold_wait(h);
}


/* for the next line: an empty one, or the last */

static void
ngx_http_dsem_hold_wait(ngx_http_dsem_hold_t *h)
{
    ngx_msec_t                 wait;
    ngx_msec_int_t             left;
    ngx_http_dsem_loc_conf_t  *dlcf;

    dlcf = ngx_http_get_module_loc_conf(h->request, ngx_http_dsem_module);

    wait = dlcf->hold_interval;

    if (dlcf->hold_max) {
        left = (ngx_msec_int_t) (h->expires - ngx_current_msec);
        wait = ngx_min(wait, (ngx_msec_t) ngx_max(left, 1));
    }

    ngx_add_timer(&h->timer, wait);
}


static void
ngx_http_dsem_hold_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_hold_t *h = ev->data;

    ngx_connection_t          *c;
    ngx_http_request_t        *r;
    ngx_http_dsem_loc_conf_t  *dlcf;

    r = h->request;
    c = r->connection;
    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    ngx_http_set_log_request(c->log, r);

    if (dlcf->hold_max
        && (ngx_msec_int_t) (h->expires - ngx_current_msec) <= 0)
    {
        ngx_http_dsem_hold_end(h, "expired\n");

    } else {
        ngx_http_dsem_hold_wait(h);

        /* the last line may not be sent yet: "send_timeout" runs */

        if (ngx_buf_size(&h->line) == 0) {
            ngx_http_dsem_hold_written(r, ngx_http_dsem_hold_line(h, "\n"));
        }
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_dsem_hold_writer(ngx_http_request_t *r)
{
    if (r->connection->write->timedout) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, NGX_ETIMEDOUT,
                      "client timed out");
        r->connection->timedout = 1;

        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    /* a stream of QUIC that is reset has no read event */

    if (r->connection->write->error) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "client prematurely closed stream");
        r->connection->error = 1;

        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }

    ngx_http_dsem_hold_written(r, ngx_http_output_filter(r, NULL));
}


/* what the client has not taken yet must go within "send_timeout" */

static void
ngx_http_dsem_hold_written(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_event_t               *wev;
    ngx_http_core_loc_conf_t  *clcf;

    wev = r->connection->write;
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (rc != NGX_ERROR && (r->buffered || r->connection->buffered)) {

        if (!wev->timer_set && !wev->delayed) {
            ngx_add_timer(wev, clcf->send_timeout);
        }

    } else if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    if (rc == NGX_ERROR
        || ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK)
    {
        ngx_http_finalize_request(r, NGX_ERROR);
    }
}


static ngx_int_t
ngx_http_dsem_hold_line(ngx_http_dsem_hold_t *h, const char *text)
{
    ngx_memzero(&h->line, sizeof(ngx_buf_t));

    h->line.flush = 1;

    return ngx_http_dsem_hold_send(h->request, &h->line, text);
}


static ngx_int_t
ngx_http_dsem_hold_last(ngx_http_dsem_hold_t *h, const char *text)
{
    ngx_buf_t  *b;

    /* the line before may still be on its way */

    b = ngx_calloc_buf(h->request->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->last_buf = 1;
    b->last_in_chain = 1;

    return ngx_http_dsem_hold_send(h->request, b, text);
}


static ngx_int_t
ngx_http_dsem_hold_send(ngx_http_request_t *r, ngx_buf_t *b,
    const char *text)
{
    ngx_chain_t  out;

    b->pos = (u_char *) text;
    b->last = b->pos + ngx_strlen(text);
    b->memory = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


/* the client reads why: it has no permit any more */

static void
ngx_http_dsem_hold_end(ngx_http_dsem_hold_t *h, const char *text)
{
    ngx_int_t  rc;

    ngx_http_dsem_hold_cleanup(h);

    rc = ngx_http_dsem_hold_last(h, text);

    ngx_http_finalize_request(h->request, rc);
}


static void
ngx_http_dsem_hold_cleanup(void *data)
{
    ngx_http_dsem_hold_t *h = data;

    if (h->timer.timer_set) {
        ngx_del_timer(&h->timer);
    }

    if (h->queue.next) {
        ngx_queue_remove(&h->queue);
        h->queue.next = NULL;
    }
}


ngx_int_t
ngx_http_dsem_hold_init(ngx_cycle_t *cycle)
{
    ngx_queue_init(&ngx_http_dsem_holds);

    return ngx_http_dsem_shutdown_init(cycle, ngx_http_dsem_hold_close);
}


/* nginx is about to close their connections, as the worker exits */

static void
ngx_http_dsem_hold_close(void)
{
    ngx_connection_t      *c;
    ngx_http_dsem_hold_t  *h;

    while (!ngx_queue_empty(&ngx_http_dsem_holds)) {
        h = ngx_queue_data(ngx_queue_head(&ngx_http_dsem_holds),
                           ngx_http_dsem_hold_t, queue);
        c = h->request->connection;

        ngx_http_set_log_request(c->log, h->request);

        ngx_http_dsem_hold_end(h, "closing\n");

        ngx_http_run_posted_requests(c);
    }
}


/*
 * The worker exits at once: its permits go back with the bye, so no client may
 * still believe that it has one.
 */

void
ngx_http_dsem_hold_exit(void)
{
    ngx_queue_t           *q;
    ngx_connection_t      *c;
    ngx_http_dsem_hold_t  *h;

    if (ngx_http_dsem_holds.next == NULL) {
        return;
    }

    for (q = ngx_queue_head(&ngx_http_dsem_holds);
         q != ngx_queue_sentinel(&ngx_http_dsem_holds);
         q = ngx_queue_next(q))
    {
        h = ngx_queue_data(q, ngx_http_dsem_hold_t, queue);
        c = h->request->connection;

        (void) ngx_http_dsem_hold_last(h, "closing\n");

        /* that of a stream of QUIC is the one on which all workers listen */

        if (!c->shared) {
            (void) ngx_shutdown_socket(c->fd, SHUT_RDWR);
        }
    }
}
