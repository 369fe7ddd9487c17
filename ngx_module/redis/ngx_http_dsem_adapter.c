
/*
 * The adapter: hiredis's async API on nginx's events.
 *
 * hiredis opens the socket, writes, reads and matches replies with commands;
 * nginx calls it when there is something to do.  The events are
 * level-triggered, as hiredis reads once for each of them.
 *
 * hiredis frees its context whenever it likes, inside of each function that
 * handles an event: "ac" is NULL from then on, and is checked after each.
 * The socket is closed then, and "reason" has the cause.
 *
 * Called by: connection; hiredis.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <poll.h>
#include <hiredis/sds.h>
#include "ngx_http_dsem_adapter.h"


static ngx_int_t ngx_http_dsem_adapter_connect(
    ngx_http_dsem_adapter_t *adapter, ngx_addr_t *addr);
static ngx_uint_t ngx_http_dsem_adapter_refused(int fd);
static ngx_int_t ngx_http_dsem_adapter_attach(
    ngx_http_dsem_adapter_t *adapter, void *data, ngx_event_handler_pt read,
    ngx_event_handler_pt write);
static void ngx_http_dsem_adapter_add_read(void *data);
static void ngx_http_dsem_adapter_add_write(void *data);
static void ngx_http_dsem_adapter_del_write(void *data);
static void ngx_http_dsem_adapter_cleanup(void *data);
static void ngx_http_dsem_adapter_set_cause(ngx_http_dsem_adapter_t *adapter,
    redisContext *rc);
static ngx_uint_t ngx_http_dsem_adapter_wants_tls(
    ngx_http_dsem_adapter_t *adapter, redisContext *rc);
static u_char *ngx_http_dsem_adapter_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


/*
 * Begins to connect to addr, of which it has a copy.  "data" is that of the
 * event handlers, and of replies.  NGX_ERROR: that cannot even begin,
 * "reason" has the cause; whatever is there has to be freed.
 */

ngx_int_t
ngx_http_dsem_adapter_open(ngx_http_dsem_adapter_t *adapter, ngx_addr_t *addr,
    void *data, ngx_event_handler_pt read, ngx_event_handler_pt write)
{
    ngx_http_dsem_addr_set(&adapter->at, addr->sockaddr, addr->socklen);

    /*
     * nginx would log every attempt; an operator needs one line per change
     * of state, which the owner logs
     */

    adapter->log = *ngx_cycle->log;
    adapter->log.handler = ngx_http_dsem_adapter_log_error;
    adapter->log.data = adapter;
    adapter->log.action = NULL;

    if (!(adapter->log.log_level & NGX_LOG_DEBUG_ALL)) {
        adapter->log.log_level = NGX_LOG_ALERT;
    }

    if (ngx_http_dsem_adapter_connect(adapter, addr) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_adapter_attach(adapter, data, read, write);
}


/* a numeric address or a path: hiredis never has to resolve a name */

static ngx_int_t
ngx_http_dsem_adapter_connect(ngx_http_dsem_adapter_t *adapter,
    ngx_addr_t *addr)
{
    u_char               text[NGX_SOCKADDR_STRLEN + 1];
    size_t               len;
    struct sockaddr_un  *saun;

    if (addr->sockaddr->sa_family == AF_UNIX) {
        saun = (struct sockaddr_un *) addr->sockaddr;
        adapter->ac = redisAsyncConnectUnix(saun->sun_path);

    } else {
        len = ngx_sock_ntop(addr->sockaddr, addr->socklen, text,
                            NGX_SOCKADDR_STRLEN, 0);
        text[len] = '\0';

        adapter->ac = redisAsyncConnect((char *) text,
                                        ngx_inet_get_port(addr->sockaddr));
    }

    if (adapter->ac == NULL) {
        ngx_http_dsem_adapter_reason(adapter, "no memory");
        return NGX_ERROR;
    }

    if (adapter->ac->err) {
        ngx_http_dsem_adapter_reason(adapter, adapter->ac->c.errstr);
        return NGX_ERROR;
    }

    if (addr->sockaddr->sa_family == AF_UNIX
        && ngx_http_dsem_adapter_refused(adapter->ac->c.fd))
    {
        ngx_http_dsem_adapter_reason(adapter, strerror(NGX_EAGAIN));
        return NGX_ERROR;
    }

    /* a child of the worker must not inherit a connection that is logged in */

    if (fcntl(adapter->ac->c.fd, F_SETFD, FD_CLOEXEC) == -1) {
        ngx_http_dsem_adapter_reason(adapter, strerror(ngx_errno));
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * A unix socket is connected at once, or never.  hiredis 1.3 takes one that a
 * full backlog has refused (EAGAIN) for a connect that goes on; epoll would
 * report that it is writable all the time.
 */

static ngx_uint_t
ngx_http_dsem_adapter_refused(int fd)
{
    socklen_t           len;
    struct sockaddr_un  saun;

    len = sizeof(struct sockaddr_un);

    return getpeername(fd, (struct sockaddr *) &saun, &len) == -1
           && ngx_errno == NGX_ENOTCONN;
}


static ngx_int_t
ngx_http_dsem_adapter_attach(ngx_http_dsem_adapter_t *adapter, void *data,
    ngx_event_handler_pt read, ngx_event_handler_pt write)
{
    ngx_connection_t   *c;
    redisAsyncContext  *ac;

    ac = adapter->ac;

    c = ngx_get_connection(ac->c.fd, &adapter->log);
    if (c == NULL) {
        ngx_http_dsem_adapter_reason(adapter,
                                     "\"worker_connections\" reached");
        return NGX_ERROR;
    }

    adapter->c = c;

    c->data = data;
    c->log = &adapter->log;
    c->read->log = &adapter->log;
    c->write->log = &adapter->log;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    c->start_time = ngx_current_msec;

    c->read->handler = read;
    c->write->handler = write;

    /* an exiting worker does not wait for a connection to be established */
    c->write->cancelable = 1;

    ac->data = data;
    ac->ev.data = adapter;
    ac->ev.addRead = ngx_http_dsem_adapter_add_read;
    ac->ev.addWrite = ngx_http_dsem_adapter_add_write;
    ac->ev.delWrite = ngx_http_dsem_adapter_del_write;
    ac->ev.cleanup = ngx_http_dsem_adapter_cleanup;

    ngx_http_dsem_guard_set(&adapter->guard, ac);

    if (ngx_add_event(c->read, NGX_READ_EVENT, NGX_LEVEL_EVENT) != NGX_OK
        || ngx_add_event(c->write, NGX_WRITE_EVENT, NGX_LEVEL_EVENT)
           != NGX_OK)
    {
        ngx_http_dsem_adapter_reason(adapter, "no event");
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_adapter_add_read(void *data)
{
    ngx_http_dsem_adapter_t *adapter = data;

    ngx_event_t  *rev;

    rev = adapter->c->read;

    if (!rev->active) {
        (void) ngx_add_event(rev, NGX_READ_EVENT, NGX_LEVEL_EVENT);
    }
}


/* commands of one turn of the event loop are written together at its end */

static void
ngx_http_dsem_adapter_add_write(void *data)
{
    ngx_http_dsem_adapter_t *adapter = data;

    ngx_event_t  *wev;

    wev = adapter->c->write;

    if (wev->active || adapter->draining) {
        return;
    }

    if (adapter->writing) {
        (void) ngx_add_event(wev, NGX_WRITE_EVENT, NGX_LEVEL_EVENT);

    } else {
        ngx_post_event(wev, &ngx_posted_events);
    }
}


static void
ngx_http_dsem_adapter_del_write(void *data)
{
    ngx_http_dsem_adapter_t *adapter = data;

    if (adapter->ssl && sdslen(adapter->ac->c.obuf)) {

        /*
         * with TLS hiredis may leave the rest to the next read event, but a
         * server that has only a part of a command sends nothing
         */

        ngx_http_dsem_adapter_add_write(adapter);
        return;
    }

    if (adapter->c->write->active && !adapter->draining) {
        (void) ngx_del_event(adapter->c->write, NGX_WRITE_EVENT, 0);
    }
}


/* hiredis frees the context; nginx closes the socket, which it knows */

static void
ngx_http_dsem_adapter_cleanup(void *data)
{
    ngx_http_dsem_adapter_t *adapter = data;

    redisContext  *rc;

    rc = &adapter->ac->c;

    if (rc->err && adapter->reason[0] == '\0') {
        ngx_http_dsem_adapter_set_cause(adapter, rc);
    }

    adapter->ac = NULL;

    if (adapter->ssl) {
        ngx_http_dsem_tls_conn_close(adapter->ssl);
        adapter->ssl = NULL;
    }

    if (adapter->c) {
        ngx_close_connection(adapter->c);
        adapter->c = NULL;
        rc->fd = -1;
    }
}


static void
ngx_http_dsem_adapter_set_cause(ngx_http_dsem_adapter_t *adapter,
    redisContext *rc)
{
    char  text[NGX_HTTP_DSEM_REASON_LEN];

    adapter->protocol_error = (rc->err != REDIS_ERR_IO
                               && rc->err != REDIS_ERR_EOF);

    if (adapter->guard.rejected) {
        ngx_http_dsem_adapter_reason(adapter, "unexpected reply");

    } else if (adapter->ssl
               && ngx_http_dsem_tls_conn_failure(adapter->ssl, text) == NGX_OK)
    {

        /* alerts too: a server may refuse the client after the handshake */

        adapter->protocol_error = 1;
        ngx_http_dsem_reason(adapter->reason, "TLS failed: %s", text);

    } else if (ngx_http_dsem_adapter_wants_tls(adapter, rc)) {

        ngx_http_dsem_reason(text, "%s (does the server use TLS?)",
                             rc->errstr);
        ngx_http_dsem_adapter_reason(adapter, text);

    } else {
        ngx_http_dsem_adapter_reason(adapter, rc->errstr);
    }
}


/*
 * A server with TLS closes a connection that begins in plain, or sends an
 * alert, whose first byte is 0x15.  One that has replied in plain before, and
 * closes connections now, has none: it ends.
 */

static ngx_uint_t
ngx_http_dsem_adapter_wants_tls(ngx_http_dsem_adapter_t *adapter,
    redisContext *rc)
{
    if (adapter->tls || !adapter->connected) {
        return 0;
    }

    if (adapter->protocol_error) {
        return ngx_strstr(rc->errstr, "\"\\x15\"") != NULL;
    }

    return !adapter->replied;
}


/* the text of an error says what failed only after the connect */

void
ngx_http_dsem_adapter_reason(ngx_http_dsem_adapter_t *adapter,
    const char *reason)
{
    ngx_http_dsem_reason(adapter->reason, "%s%s",
                         adapter->connected ? "" : "connect failed: ", reason);
}


/*
 * Sends one command, which hiredis copies; it is written at the end of this
 * turn of the event loop.  NGX_ERROR: no memory, or the context is gone.
 */

ngx_int_t
ngx_http_dsem_adapter_send(ngx_http_dsem_adapter_t *adapter,
    ngx_http_dsem_resp_t *command, redisCallbackFn *reply)
{
    ngx_uint_t          no_memory;
    redisCallback      *last;
    redisAsyncContext  *ac;

    ac = adapter->ac;

    if (ac == NULL || ngx_http_dsem_resp_end(command) != NGX_OK) {
        return NGX_ERROR;
    }

    last = ac->replies.tail;
    ngx_set_errno(0);

    if (redisAsyncFormattedCommand(ac, reply, NULL, (char *) command->data,
                                   command->len)
        != REDIS_OK)
    {
        return NGX_ERROR;
    }

    no_memory = (ac->c.flags & REDIS_SUBSCRIBED) ? ngx_errno == NGX_ENOMEM
                                                 : ac->replies.tail == last;

    if (ac->c.err || no_memory) {
        /* for a callback, which hiredis does not always report */
        ac->c.err = REDIS_ERR_OOM;
        ngx_http_dsem_reason(adapter->reason, "no memory");
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* an event; "ac" may be NULL afterwards */

void
ngx_http_dsem_adapter_call(ngx_http_dsem_adapter_t *adapter,
    ngx_http_dsem_adapter_event_pt handle)
{
    ngx_uint_t  tls;

    tls = (adapter->ssl != NULL);

    if (tls) {
        ngx_http_dsem_tls_conn_clear();
    }

    handle(adapter->ac);

    if (tls) {
        ngx_http_dsem_tls_conn_clear();
    }
}


/*
 * Writes unsent commands and reads until all replies have come, or nothing
 * has come at the time "end", in ms.  For an exiting process, which has no
 * event loop any more: of signals only an order to exit at once ends it, if
 * that is not why it exits ("timer_resolution" has one each time).
 * Reading matters: a socket closed with bytes unread is reset, and Redis may
 * then not see the last command.
 */

ngx_int_t
ngx_http_dsem_adapter_drain(ngx_http_dsem_adapter_t *adapter, ngx_msec_t end)
{
    int                 n;
    ngx_uint_t          terminate;
    struct pollfd       pfd;
    ngx_msec_int_t      left;
    redisAsyncContext  *ac;

    ac = adapter->ac;
    terminate = ngx_terminate;

    adapter->draining = 1;

    pfd.fd = ac->c.fd;

    while (adapter->ac && ac->replies.head) {

        pfd.events = sdslen(ac->c.obuf) ? POLLOUT : POLLIN;

        ngx_time_update();
        left = end - ngx_current_msec;

        n = poll(&pfd, 1, (int) ngx_max(left, 0));

        if (n == -1
            && ngx_errno == NGX_EINTR
            && (terminate || !ngx_terminate))
        {
            continue;
        }

        if (n != 1) {
            return NGX_ERROR;
        }

        ngx_http_dsem_adapter_call(adapter, pfd.events == POLLOUT
                                            ? redisAsyncHandleWrite
                                            : redisAsyncHandleRead);
    }

    return adapter->ac ? NGX_OK : NGX_ERROR;
}


static u_char *
ngx_http_dsem_adapter_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    ngx_http_dsem_adapter_t  *adapter;

    adapter = log->data;

    return ngx_snprintf(buf, len, ", dsem redis: %V", &adapter->at.addr.name);
}
