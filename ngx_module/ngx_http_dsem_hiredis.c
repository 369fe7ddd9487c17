
/*
 * The hiredis adapter: one connection that speaks RESP on nginx's event
 * loop.
 *
 * The socket is nginx's, as an upstream's is: ngx_event_connect_peer()
 * opens it, nginx's timers and events drive it, and nothing here resolves
 * a name or blocks.  hiredis reads the replies.  Its async layer is not
 * used: that one aborts the process on a reply too many, frees itself inside
 * callbacks and owns the fd.
 *
 * Called by: redis, which owns the connection and is the only one to close
 * it.  After "failed" nothing more is reported and the owner has to close;
 * after close nothing is reported at all.  Closing from inside a handler
 * is fine: memory stays until the handler has returned.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <poll.h>
#include "ngx_http_dsem_hiredis.h"
#include "ngx_http_dsem_output.h"
#include "ngx_http_dsem_patience.h"


/* what is read at once, and how often before others have their turn */
#define NGX_HTTP_DSEM_READ_SIZE       16384
#define NGX_HTTP_DSEM_READ_ROUNDS     16

/* our scripts answer far less; more is not Redis or not for us */
#define NGX_HTTP_DSEM_MAX_REPLY       (4 * 1024 * 1024)
#define NGX_HTTP_DSEM_MAX_ELEMENTS    (256 * 1024)


struct ngx_http_dsem_hiredis_s {
    ngx_peer_connection_t              peer;
    ngx_log_t                          log;

    redisReader                       *reader;

    ngx_http_dsem_output_t             output;

    ngx_http_dsem_hiredis_handlers_t  *handlers;
    void                              *data;

    ngx_msec_t                         due;       /* to be connected */

    unsigned                           connected:1;
    unsigned                           failed:1;
    unsigned                           busy:1;    /* inside a handler */
    unsigned                           closed:1;  /* owner has let go */
};


static ngx_int_t ngx_http_dsem_hiredis_open(
    ngx_http_dsem_hiredis_t *hiredis, ngx_addr_t *addr, ngx_msec_t timeout);
static redisReader *ngx_http_dsem_hiredis_create_reader(void);
#if (HIREDIS_MAJOR > 0)
static void *ngx_http_dsem_hiredis_create_array(const redisReadTask *task,
    size_t elements);
#else
static void *ngx_http_dsem_hiredis_create_array(const redisReadTask *task,
    int elements);
#endif
static void ngx_http_dsem_hiredis_write_handler(ngx_event_t *wev);
static ngx_int_t ngx_http_dsem_hiredis_test_connect(
    ngx_http_dsem_hiredis_t *hiredis);
static void ngx_http_dsem_hiredis_write(ngx_http_dsem_hiredis_t *hiredis);
static void ngx_http_dsem_hiredis_read_handler(ngx_event_t *rev);
static ngx_int_t ngx_http_dsem_hiredis_read(
    ngx_http_dsem_hiredis_t *hiredis);
static ngx_int_t ngx_http_dsem_hiredis_replies(
    ngx_http_dsem_hiredis_t *hiredis);
static void ngx_http_dsem_hiredis_connected(
    ngx_http_dsem_hiredis_t *hiredis);
static void ngx_http_dsem_hiredis_fail(ngx_http_dsem_hiredis_t *hiredis,
    const char *reason);
static void ngx_http_dsem_hiredis_report(ngx_http_dsem_hiredis_t *hiredis,
    const char *reason, ngx_uint_t garbled);
static void ngx_http_dsem_hiredis_free(ngx_http_dsem_hiredis_t *hiredis);
static ngx_int_t ngx_http_dsem_hiredis_drain_step(
    ngx_http_dsem_hiredis_t *hiredis);
static u_char *ngx_http_dsem_hiredis_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


static redisReplyObjectFunctions   ngx_http_dsem_hiredis_functions;
static redisReplyObjectFunctions  *ngx_http_dsem_hiredis_defaults;


/*
 * Begins to connect to addr (which must outlive the connection); after
 * "timeout" ms without success it fails.  Returns NULL when that cannot
 * even begin: no memory, no socket, refused at once.  Otherwise either
 * "connected" or "failed" follows, never before this has returned.
 */

ngx_http_dsem_hiredis_t *
ngx_http_dsem_hiredis_connect(ngx_addr_t *addr, ngx_msec_t timeout,
    ngx_http_dsem_hiredis_handlers_t *handlers, void *data)
{
    ngx_http_dsem_hiredis_t  *hiredis;

    hiredis = ngx_calloc(sizeof(ngx_http_dsem_hiredis_t), ngx_cycle->log);
    if (hiredis == NULL) {
        return NULL;
    }

    hiredis->handlers = handlers;
    hiredis->data = data;

    hiredis->reader = ngx_http_dsem_hiredis_create_reader();
    if (hiredis->reader == NULL) {
        ngx_free(hiredis);
        return NULL;
    }

    if (ngx_http_dsem_hiredis_open(hiredis, addr, timeout) != NGX_OK) {
        ngx_http_dsem_hiredis_free(hiredis);
        return NULL;
    }

    return hiredis;
}


static ngx_int_t
ngx_http_dsem_hiredis_open(ngx_http_dsem_hiredis_t *hiredis,
    ngx_addr_t *addr, ngx_msec_t timeout)
{
    ngx_int_t               rc;
    ngx_connection_t       *c;
    ngx_peer_connection_t  *peer;

    /*
     * nginx would log every attempt; what an operator needs is said once
     * per change of state, by the owner
     */

    hiredis->log = *ngx_cycle->log;
    hiredis->log.handler = ngx_http_dsem_hiredis_log_error;
    hiredis->log.data = addr;
    hiredis->log.action = NULL;

    if (!(hiredis->log.log_level & NGX_LOG_DEBUG_ALL)) {
        hiredis->log.log_level = NGX_LOG_ALERT;
    }

    peer = &hiredis->peer;

    peer->sockaddr = addr->sockaddr;
    peer->socklen = addr->socklen;
    peer->name = &addr->name;
    peer->get = ngx_event_get_peer;
    peer->log = &hiredis->log;
    peer->log_error = NGX_ERROR_INFO;

    rc = ngx_event_connect_peer(peer);

    if (rc != NGX_OK && rc != NGX_AGAIN) {
        /* the connection has been closed there, if it was opened */
        peer->connection = NULL;
        return NGX_ERROR;
    }

    c = peer->connection;

    c->data = hiredis;
    c->read->handler = ngx_http_dsem_hiredis_read_handler;
    c->write->handler = ngx_http_dsem_hiredis_write_handler;

    /* a worker that exits does not wait for a connection to come up */
    c->write->cancelable = 1;

    if (rc == NGX_AGAIN) {
        ngx_http_dsem_patience(c->write, &hiredis->due, timeout);

    } else {
        ngx_post_event(c->write, &ngx_posted_events);
    }

    return NGX_OK;
}


static redisReader *
ngx_http_dsem_hiredis_create_reader(void)
{
    redisReader  *reader;

    reader = redisReaderCreate();
    if (reader == NULL) {
        return NULL;
    }

    /* hiredis allocates an array as long as the peer says it will be */

    if (ngx_http_dsem_hiredis_defaults == NULL) {
        ngx_http_dsem_hiredis_defaults = reader->fn;
        ngx_http_dsem_hiredis_functions = *reader->fn;
        ngx_http_dsem_hiredis_functions.createArray =
                                           ngx_http_dsem_hiredis_create_array;
    }

    reader->fn = &ngx_http_dsem_hiredis_functions;

    return reader;
}


#if (HIREDIS_MAJOR > 0)
static void *
ngx_http_dsem_hiredis_create_array(const redisReadTask *task,
    size_t elements)
#else
static void *
ngx_http_dsem_hiredis_create_array(const redisReadTask *task,
    int elements)
#endif
{
    /* no script of ours nests; NULL ends the connection */

    if (task->parent != NULL || elements > NGX_HTTP_DSEM_MAX_ELEMENTS) {
        return NULL;
    }

    return ngx_http_dsem_hiredis_defaults->createArray(task, elements);
}


/*
 * Appends one command; it is written at the end of this turn of the event
 * loop, together with all others of this turn.  NGX_ERROR: no memory, or
 * the connection has failed or is closed; nothing was appended.
 */

ngx_int_t
ngx_http_dsem_hiredis_send(ngx_http_dsem_hiredis_t *hiredis, ngx_uint_t argc,
    const char **argv, size_t *argvlen)
{
    if (hiredis->failed || hiredis->closed) {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_output_command(&hiredis->output, argc, argv, argvlen)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (hiredis->connected && hiredis->peer.connection->write->ready) {
        ngx_post_event(hiredis->peer.connection->write, &ngx_posted_events);
    }

    return NGX_OK;
}


static void
ngx_http_dsem_hiredis_write_handler(ngx_event_t *wev)
{
    ngx_connection_t         *c;
    ngx_http_dsem_hiredis_t  *hiredis;

    c = wev->data;
    hiredis = c->data;

    if (hiredis->failed) {
        return;
    }

    if (!hiredis->connected) {

        if (wev->timedout) {

            if (!ngx_http_dsem_patience_late(wev, &hiredis->due)) {
                ngx_http_dsem_hiredis_fail(hiredis, "connect timed out");
            }

            return;
        }

        if (ngx_http_dsem_hiredis_test_connect(hiredis) != NGX_OK) {
            ngx_http_dsem_hiredis_fail(hiredis, "connect failed");
            return;
        }

        ngx_http_dsem_hiredis_connected(hiredis);
        return;
    }

    ngx_http_dsem_hiredis_write(hiredis);
}


static ngx_int_t
ngx_http_dsem_hiredis_test_connect(ngx_http_dsem_hiredis_t *hiredis)
{
    int                err;
    socklen_t          len;
    ngx_connection_t  *c;

    err = 0;
    len = sizeof(int);
    c = hiredis->peer.connection;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, (void *) &err, &len) == -1) {
        err = ngx_socket_errno;
    }

    if (err) {
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, err,
                       "dsem connect to %V failed", hiredis->peer.name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_hiredis_connected(ngx_http_dsem_hiredis_t *hiredis)
{
    ngx_connection_t  *c;

    c = hiredis->peer.connection;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    if (hiredis->peer.sockaddr->sa_family != AF_UNIX
        && ngx_tcp_nodelay(c) != NGX_OK)
    {
        ngx_http_dsem_hiredis_fail(hiredis, "TCP_NODELAY failed");
        return;
    }

    hiredis->connected = 1;

    hiredis->busy = 1;
    hiredis->handlers->connected(hiredis->data);
    hiredis->busy = 0;

    if (hiredis->closed) {
        ngx_http_dsem_hiredis_free(hiredis);
        return;
    }

    if (c->read->ready) {
        /* who says no says so before it is asked, and that event is over */
        ngx_post_event(c->read, &ngx_posted_events);
    }

    ngx_http_dsem_hiredis_write(hiredis);
}


static void
ngx_http_dsem_hiredis_write(ngx_http_dsem_hiredis_t *hiredis)
{
    ssize_t                  n;
    ngx_connection_t        *c;
    ngx_http_dsem_output_t  *output;

    c = hiredis->peer.connection;
    output = &hiredis->output;

    while (ngx_http_dsem_output_left(output)) {

        n = c->send(c, output->data + output->pos,
                    ngx_http_dsem_output_left(output));

        if (n == NGX_AGAIN) {
            break;
        }

        if (n <= 0) {
            /* the reason may have been sent before the connection closed */

            if (ngx_http_dsem_hiredis_read(hiredis) != NGX_DONE) {
                ngx_http_dsem_hiredis_fail(hiredis, "write failed");
            }

            return;
        }

        ngx_http_dsem_output_sent(output, n);
    }

    if (ngx_handle_write_event(c->write, 0) != NGX_OK) {
        ngx_http_dsem_hiredis_fail(hiredis, "write event failed");
    }
}


static void
ngx_http_dsem_hiredis_read_handler(ngx_event_t *rev)
{
    ngx_int_t                 rc;
    ngx_uint_t                rounds;
    ngx_connection_t         *c;
    ngx_http_dsem_hiredis_t  *hiredis;

    c = rev->data;
    hiredis = c->data;

    /*
     * c->close is set on every connection when worker_shutdown_timeout
     * expires; ours stays until all is acknowledged and the process exits
     */

    if (hiredis->failed || !hiredis->connected) {
        return;
    }

    for (rounds = 0; rounds < NGX_HTTP_DSEM_READ_ROUNDS; rounds++) {

        rc = ngx_http_dsem_hiredis_read(hiredis);

        if (rc == NGX_AGAIN) {
            if (ngx_handle_read_event(rev, 0) != NGX_OK) {
                ngx_http_dsem_hiredis_fail(hiredis, "read event failed");
            }

            return;
        }

        if (rc != NGX_OK) {
            /* failed, or closed by the owner and freed */
            return;
        }
    }

    ngx_post_event(rev, &ngx_posted_events);
}


/*
 * One read and what it completes.  NGX_OK: there may be more; NGX_AGAIN:
 * there is no more; NGX_DONE: hiredis must not be touched any more.
 */

static ngx_int_t
ngx_http_dsem_hiredis_read(ngx_http_dsem_hiredis_t *hiredis)
{
    ssize_t            n;
    redisReader       *reader;
    ngx_connection_t  *c;
    static u_char      buf[NGX_HTTP_DSEM_READ_SIZE];

    c = hiredis->peer.connection;
    reader = hiredis->reader;

    n = c->recv(c, buf, sizeof(buf));

    if (n == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    if (n == 0) {
        ngx_http_dsem_hiredis_fail(hiredis, "connection closed by Redis");
        return NGX_DONE;
    }

    if (n < 0) {
        ngx_http_dsem_hiredis_fail(hiredis, "read failed");
        return NGX_DONE;
    }

    if (reader->len - reader->pos > NGX_HTTP_DSEM_MAX_REPLY) {
        ngx_http_dsem_hiredis_report(hiredis, "reply too long", 1);
        return NGX_DONE;
    }

    if (redisReaderFeed(reader, (char *) buf, n) != REDIS_OK) {
        ngx_http_dsem_hiredis_report(hiredis, reader->errstr, 1);
        return NGX_DONE;
    }

    return ngx_http_dsem_hiredis_replies(hiredis);
}


static ngx_int_t
ngx_http_dsem_hiredis_replies(ngx_http_dsem_hiredis_t *hiredis)
{
    void  *reply;

    for ( ;; ) {

        if (redisReaderGetReply(hiredis->reader, &reply) != REDIS_OK) {
            ngx_http_dsem_hiredis_report(hiredis, hiredis->reader->errstr, 1);
            return NGX_DONE;
        }

        if (reply == NULL) {
            return NGX_OK;
        }

        hiredis->busy = 1;
        hiredis->handlers->reply(hiredis->data, reply);
        hiredis->busy = 0;

        freeReplyObject(reply);

        if (hiredis->closed) {
            ngx_http_dsem_hiredis_free(hiredis);
            return NGX_DONE;
        }
    }
}


static void
ngx_http_dsem_hiredis_fail(ngx_http_dsem_hiredis_t *hiredis,
    const char *reason)
{
    ngx_http_dsem_hiredis_report(hiredis, reason, 0);
}


static void
ngx_http_dsem_hiredis_report(ngx_http_dsem_hiredis_t *hiredis,
    const char *reason, ngx_uint_t garbled)
{
    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, &hiredis->log, 0,
                   "dsem connection to %V: %s", hiredis->peer.name, reason);

    hiredis->failed = 1;

    hiredis->busy = 1;
    hiredis->handlers->failed(hiredis->data, reason, garbled);
    hiredis->busy = 0;

    if (hiredis->closed) {
        ngx_http_dsem_hiredis_free(hiredis);
    }
}


/* the owner lets go; what is unsent is lost */

void
ngx_http_dsem_hiredis_close(ngx_http_dsem_hiredis_t *hiredis)
{
    hiredis->closed = 1;

    if (!hiredis->busy) {
        ngx_http_dsem_hiredis_free(hiredis);
    }
}


static void
ngx_http_dsem_hiredis_free(ngx_http_dsem_hiredis_t *hiredis)
{
    if (hiredis->peer.connection) {
        ngx_close_connection(hiredis->peer.connection);
    }

    redisReaderFree(hiredis->reader);
    ngx_http_dsem_output_free(&hiredis->output);

    ngx_free(hiredis);
}


/*
 * Writes what is left and reads until "replies" have come, for at most
 * "timeout" ms: for a process that is about to exit and has no event loop
 * any more.  Reading matters: a socket closed with bytes unread is reset,
 * and Redis may then not see the last command.  NGX_OK: all have come, and
 * the last one is no error.
 */

ngx_int_t
ngx_http_dsem_hiredis_drain(ngx_http_dsem_hiredis_t *hiredis,
    ngx_uint_t replies, ngx_msec_t timeout)
{
    void           *reply;
    ngx_msec_t      end;
    ngx_uint_t      refused;
    struct pollfd   pfd;

    if (hiredis->failed || hiredis->closed || !hiredis->connected) {
        return NGX_ERROR;
    }

    refused = 0;

    ngx_time_update();
    end = ngx_current_msec + timeout;

    pfd.fd = hiredis->peer.connection->fd;

    while (replies) {

        pfd.events = ngx_http_dsem_output_left(&hiredis->output) ? POLLOUT
                                                                 : POLLIN;

        ngx_time_update();

        if ((ngx_msec_int_t) (end - ngx_current_msec) <= 0
            || poll(&pfd, 1, (int) (end - ngx_current_msec)) != 1
            || ngx_http_dsem_hiredis_drain_step(hiredis) != NGX_OK)
        {
            return NGX_ERROR;
        }

        while (replies
               && redisReaderGetReply(hiredis->reader, &reply) == REDIS_OK
               && reply != NULL)
        {
            refused = (((redisReply *) reply)->type == REDIS_REPLY_ERROR);
            freeReplyObject(reply);
            replies--;
        }
    }

    return refused ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_http_dsem_hiredis_drain_step(ngx_http_dsem_hiredis_t *hiredis)
{
    int                      fd;
    char                     buf[4096];
    ssize_t                  n;
    ngx_http_dsem_output_t  *output;

    fd = hiredis->peer.connection->fd;
    output = &hiredis->output;

    if (ngx_http_dsem_output_left(output)) {
        n = send(fd, output->data + output->pos,
                 ngx_http_dsem_output_left(output), 0);

        if (n > 0) {
            ngx_http_dsem_output_sent(output, n);
        }

    } else {
        n = recv(fd, buf, sizeof(buf), 0);

        if (n > 0 && redisReaderFeed(hiredis->reader, buf, n) != REDIS_OK) {
            return NGX_ERROR;
        }
    }

    return (n > 0) ? NGX_OK : NGX_ERROR;
}


static u_char *
ngx_http_dsem_hiredis_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    ngx_addr_t  *addr;

    addr = log->data;

    return ngx_snprintf(buf, len, ", dsem redis: %V", &addr->name);
}
