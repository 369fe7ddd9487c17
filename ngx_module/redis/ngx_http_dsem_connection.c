
/*
 * A connection to Redis: hiredis's async API on nginx's events.
 *
 * hiredis opens the socket, writes, reads and matches replies with commands;
 * nginx calls it when there is something to do.  The events are
 * level-triggered, as hiredis reads once for each of them.
 *
 * hiredis frees its context whenever it likes, inside of each function that
 * handles an event: "ac" is NULL from then on, and is looked at after each.
 *
 * The handshake of TLS is part of the connect.  The first commands are its
 * own: the password and the database.  They are written before those of the
 * owner, which sees no reply to them.
 *
 * Called by: redis, subscription, sentinel and cluster.  The owner is the only
 * one to close it.
 * After "failed" nothing more is reported and the owner has to close it;
 * after that nothing is reported at all.  It may be closed from inside a
 * handler: the memory stays until the handler has returned.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <poll.h>
#include <hiredis/sds.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_guard.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_tls.h"


/*
 * Unparsed bytes, which are those of one element: hiredis 0.14 searches them
 * for the end of a line from the start, at each read.
 */
#define NGX_HTTP_DSEM_MAX_UNPARSED  (1024 * 1024)

typedef void (*ngx_http_dsem_connection_event_pt)(redisAsyncContext *ac);


struct ngx_http_dsem_connection_s {
    redisAsyncContext                    *ac;       /* NULL: freed */
    ngx_connection_t                     *c;
    ngx_http_dsem_tls_conn_t             *ssl;      /* NULL: not begun, none */
    ngx_log_t                             log;

    ngx_http_dsem_addr_t                  at;       /* the peer's may change */

    ngx_http_dsem_connection_handlers_t  *handlers;
    void                                 *data;

    ngx_http_dsem_login_t                *login;
    ngx_uint_t                            nlogins;  /* without a reply */

    ngx_http_dsem_guard_t                 guard;
    ngx_http_dsem_deadline_t              deadline; /* of the connect */
    char                                  reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                              connected:1;
    unsigned                              replied:1;
    unsigned                              protocol_error:1;
    unsigned                              refused:1;  /* the login */
    unsigned                              busy:1;   /* in hiredis, handlers */
    unsigned                              closed:1; /* by its owner */
    unsigned                              writing:1;
    unsigned                              draining:1;
    unsigned                              error_reply:1;  /* the last one */
};


static ngx_int_t ngx_http_dsem_connection_open(
    ngx_http_dsem_connection_t *conn, ngx_addr_t *addr);
static ngx_int_t ngx_http_dsem_connection_attach(
    ngx_http_dsem_connection_t *conn);
static void ngx_http_dsem_connection_add_read(void *data);
static void ngx_http_dsem_connection_add_write(void *data);
static void ngx_http_dsem_connection_del_write(void *data);
static void ngx_http_dsem_connection_cleanup(void *data);
static void ngx_http_dsem_connection_set_cause(
    ngx_http_dsem_connection_t *conn, redisContext *rc);
static ngx_uint_t ngx_http_dsem_connection_wants_tls(
    ngx_http_dsem_connection_t *conn, redisContext *rc);
static void ngx_http_dsem_connection_set_reason(
    ngx_http_dsem_connection_t *conn, const char *reason);
static void ngx_http_dsem_connection_write_handler(ngx_event_t *wev);
static void ngx_http_dsem_connection_secure(
    ngx_http_dsem_connection_t *conn);
static void ngx_http_dsem_connection_handshake(
    ngx_http_dsem_connection_t *conn);
static void ngx_http_dsem_connection_insecure(
    ngx_http_dsem_connection_t *conn, const char *reason,
    ngx_uint_t protocol_error);
static void ngx_http_dsem_connection_connected(
    ngx_http_dsem_connection_t *conn);
static ngx_int_t ngx_http_dsem_connection_login(
    ngx_http_dsem_connection_t *conn);
static ngx_int_t ngx_http_dsem_connection_auth(
    ngx_http_dsem_connection_t *conn, ngx_http_dsem_secret_t *auth);
static ngx_int_t ngx_http_dsem_connection_write_secret(
    ngx_http_dsem_connection_t *conn);
static void ngx_http_dsem_connection_login_reply(
    ngx_http_dsem_connection_t *conn, redisReply *reply);
static void ngx_http_dsem_connection_read_handler(ngx_event_t *rev);
static ngx_int_t ngx_http_dsem_connection_handle(
    ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_connection_event_pt handle);
static void ngx_http_dsem_connection_call(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_connection_event_pt handle);
static void ngx_http_dsem_connection_reply(redisAsyncContext *ac,
    void *data, void *unused);
static void ngx_http_dsem_connection_fail(ngx_http_dsem_connection_t *conn,
    const char *reason, ngx_uint_t protocol_error);
static void ngx_http_dsem_connection_failed(
    ngx_http_dsem_connection_t *conn);
static void ngx_http_dsem_connection_free(ngx_http_dsem_connection_t *conn);
static u_char *ngx_http_dsem_connection_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


/*
 * Begins to connect to addr, of which it has a copy; the login must outlive
 * the connection.  After "timeout" ms without success it fails.  NULL if that
 * cannot even begin: no memory, no socket, refused at once; the buffer
 * "reason" has the cause.  Otherwise either "connected" or "failed" follows,
 * never before this has returned.  A login that is refused is a protocol
 * error, later.
 */

ngx_http_dsem_connection_t *
ngx_http_dsem_connection_create(ngx_addr_t *addr, ngx_msec_t timeout,
    ngx_http_dsem_login_t *login,
    ngx_http_dsem_connection_handlers_t *handlers, void *data, char *reason)
{
    ngx_http_dsem_connection_t  *conn;

    conn = ngx_calloc(sizeof(ngx_http_dsem_connection_t), ngx_cycle->log);
    if (conn == NULL) {
        ngx_http_dsem_reason(reason, "no memory");
        return NULL;
    }

    conn->login = login;
    conn->handlers = handlers;
    conn->data = data;

    ngx_http_dsem_addr_set(&conn->at, addr->sockaddr, addr->socklen);

    /*
     * nginx would log every attempt; an operator needs one line per change
     * of state, which the owner logs
     */

    conn->log = *ngx_cycle->log;
    conn->log.handler = ngx_http_dsem_connection_log_error;
    conn->log.data = conn;
    conn->log.action = NULL;

    if (!(conn->log.log_level & NGX_LOG_DEBUG_ALL)) {
        conn->log.log_level = NGX_LOG_ALERT;
    }

    if (ngx_http_dsem_connection_open(conn, addr) != NGX_OK
        || ngx_http_dsem_connection_attach(conn) != NGX_OK)
    {
        ngx_memcpy(reason, conn->reason, NGX_HTTP_DSEM_REASON_LEN);
        ngx_http_dsem_connection_close(conn);
        return NULL;
    }

    ngx_http_dsem_deadline_set(&conn->deadline, conn->c->write, timeout);

    return conn;
}


/* a numeric address or a path: hiredis never has to resolve a name */

static ngx_int_t
ngx_http_dsem_connection_open(ngx_http_dsem_connection_t *conn,
    ngx_addr_t *addr)
{
    u_char               text[NGX_SOCKADDR_STRLEN + 1];
    size_t               len;
    struct sockaddr_un  *saun;

    if (addr->sockaddr->sa_family == AF_UNIX) {
        saun = (struct sockaddr_un *) addr->sockaddr;
        conn->ac = redisAsyncConnectUnix(saun->sun_path);

    } else {
        len = ngx_sock_ntop(addr->sockaddr, addr->socklen, text,
                            NGX_SOCKADDR_STRLEN, 0);
        text[len] = '\0';

        conn->ac = redisAsyncConnect((char *) text,
                                     ngx_inet_get_port(addr->sockaddr));
    }

    if (conn->ac == NULL) {
        ngx_http_dsem_connection_set_reason(conn, "no memory");
        return NGX_ERROR;
    }

    if (conn->ac->err) {
        ngx_http_dsem_connection_set_reason(conn, conn->ac->c.errstr);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_connection_attach(ngx_http_dsem_connection_t *conn)
{
    ngx_connection_t   *c;
    redisAsyncContext  *ac;

    ac = conn->ac;

    c = ngx_get_connection(ac->c.fd, &conn->log);
    if (c == NULL) {
        ngx_http_dsem_connection_set_reason(conn,
                                         "\"worker_connections\" reached");
        return NGX_ERROR;
    }

    conn->c = c;

    c->data = conn;
    c->log = &conn->log;
    c->read->log = &conn->log;
    c->write->log = &conn->log;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    c->start_time = ngx_current_msec;

    c->read->handler = ngx_http_dsem_connection_read_handler;
    c->write->handler = ngx_http_dsem_connection_write_handler;

    /* an exiting worker does not wait for a connection to be established */
    c->write->cancelable = 1;

    ac->data = conn;
    ac->ev.data = conn;
    ac->ev.addRead = ngx_http_dsem_connection_add_read;
    ac->ev.addWrite = ngx_http_dsem_connection_add_write;
    ac->ev.delWrite = ngx_http_dsem_connection_del_write;
    ac->ev.cleanup = ngx_http_dsem_connection_cleanup;

    ngx_http_dsem_guard_set(&conn->guard, ac);

    if (ngx_add_event(c->read, NGX_READ_EVENT, NGX_LEVEL_EVENT) != NGX_OK
        || ngx_add_event(c->write, NGX_WRITE_EVENT, NGX_LEVEL_EVENT)
           != NGX_OK)
    {
        ngx_http_dsem_connection_set_reason(conn, "no event");
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_connection_add_read(void *data)
{
    ngx_http_dsem_connection_t *conn = data;

    if (!conn->c->read->active) {
        (void) ngx_add_event(conn->c->read, NGX_READ_EVENT, NGX_LEVEL_EVENT);
    }
}


/* commands of one turn of the event loop are written together at its end */

static void
ngx_http_dsem_connection_add_write(void *data)
{
    ngx_http_dsem_connection_t *conn = data;

    ngx_event_t  *wev;

    wev = conn->c->write;

    if (wev->active || conn->draining) {
        return;
    }

    if (conn->writing) {
        (void) ngx_add_event(wev, NGX_WRITE_EVENT, NGX_LEVEL_EVENT);

    } else {
        ngx_post_event(wev, &ngx_posted_events);
    }
}


static void
ngx_http_dsem_connection_del_write(void *data)
{
    ngx_http_dsem_connection_t *conn = data;

    if (conn->ssl && sdslen(conn->ac->c.obuf)) {

        /*
         * with TLS hiredis may leave the rest to the next read event, but a
         * server that has only a part of a command sends nothing
         */

        ngx_http_dsem_connection_add_write(conn);
        return;
    }

    if (conn->c->write->active && !conn->draining) {
        (void) ngx_del_event(conn->c->write, NGX_WRITE_EVENT, 0);
    }
}


/* hiredis frees the context; nginx closes the socket, which it knows */

static void
ngx_http_dsem_connection_cleanup(void *data)
{
    ngx_http_dsem_connection_t *conn = data;

    redisContext  *rc;

    rc = &conn->ac->c;

    if (rc->err && conn->reason[0] == '\0') {
        ngx_http_dsem_connection_set_cause(conn, rc);
    }

    conn->ac = NULL;

    if (conn->ssl) {
        ngx_http_dsem_tls_close(conn->ssl);
        conn->ssl = NULL;
    }

    if (conn->c) {
        ngx_close_connection(conn->c);
        conn->c = NULL;
        rc->fd = -1;
    }
}


static void
ngx_http_dsem_connection_set_cause(ngx_http_dsem_connection_t *conn,
    redisContext *rc)
{
    char  text[NGX_HTTP_DSEM_REASON_LEN];

    conn->protocol_error = (rc->err != REDIS_ERR_IO
                            && rc->err != REDIS_ERR_EOF);

    if (conn->guard.rejected) {
        ngx_http_dsem_connection_set_reason(conn, "unexpected reply");

    } else if (conn->ssl
               && ngx_http_dsem_tls_failure(conn->ssl, text) == NGX_OK)
    {

        /* alerts too: a server may refuse the client after the handshake */

        conn->protocol_error = 1;
        ngx_http_dsem_reason(conn->reason, "TLS failed: %s", text);

    } else if (ngx_http_dsem_connection_wants_tls(conn, rc)) {

        ngx_http_dsem_reason(text, "%s (does the server use TLS?)",
                             rc->errstr);
        ngx_http_dsem_connection_set_reason(conn, text);

    } else {
        ngx_http_dsem_connection_set_reason(conn, rc->errstr);
    }
}


/*
 * A server with TLS closes a connection that begins in plain, or sends an
 * alert, whose first byte is 0x15.
 */

static ngx_uint_t
ngx_http_dsem_connection_wants_tls(ngx_http_dsem_connection_t *conn,
    redisContext *rc)
{
    if (conn->login->tls || !conn->connected || conn->replied) {
        return 0;
    }

    return !conn->protocol_error || ngx_strstr(rc->errstr, "\"\\x15\"");
}


/* the text of an error says what failed only after the connect */

static void
ngx_http_dsem_connection_set_reason(ngx_http_dsem_connection_t *conn,
    const char *reason)
{
    ngx_http_dsem_reason(conn->reason, "%s%s",
                         conn->connected ? "" : "connect failed: ", reason);
}


/* replies are those of Sentinel: pairs of strings, or nil */

void
ngx_http_dsem_connection_pairs(ngx_http_dsem_connection_t *conn)
{
    conn->guard.pairs = 1;
}


/*
 * Sends one command, which hiredis copies; it is written at the end of this
 * turn of the event loop.  NGX_ERROR: no memory, or the connection has
 * failed or is closed.
 */

ngx_int_t
ngx_http_dsem_connection_send(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_resp_t *command)
{
    ngx_uint_t          no_memory;
    redisCallback      *last;
    redisAsyncContext  *ac;

    ac = conn->ac;

    if (ac == NULL
        || conn->closed
        || ngx_http_dsem_resp_end(command) != NGX_OK)
    {
        return NGX_ERROR;
    }

    last = ac->replies.tail;
    ngx_set_errno(0);

    if (redisAsyncFormattedCommand(ac, ngx_http_dsem_connection_reply, NULL,
                                   (char *) command->data, command->len)
        != REDIS_OK)
    {
        return NGX_ERROR;
    }

    no_memory = (ac->c.flags & REDIS_SUBSCRIBED) ? ngx_errno == NGX_ENOMEM
                                                 : ac->replies.tail == last;

    if (ac->c.err || no_memory) {
        /* for a callback, which hiredis does not always report */
        ac->c.err = REDIS_ERR_OOM;
        ngx_http_dsem_reason(conn->reason, "no memory");
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* the same for the only command of a subscription; channel must stay */

ngx_int_t
ngx_http_dsem_connection_subscribe(ngx_http_dsem_connection_t *conn,
    ngx_str_t *channel)
{
    ngx_int_t             rc;
    ngx_http_dsem_resp_t  command;

    conn->guard.channel = *channel;

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    ngx_http_dsem_resp_begin(&command, 2);
    ngx_http_dsem_resp_bytes(&command, "SUBSCRIBE", sizeof("SUBSCRIBE") - 1);
    ngx_http_dsem_resp_string(&command, channel);

    rc = ngx_http_dsem_connection_send(conn, &command);

    ngx_http_dsem_resp_free(&command);

    return rc;
}


static void
ngx_http_dsem_connection_write_handler(ngx_event_t *wev)
{
    ngx_int_t                    rc;
    ngx_connection_t            *c;
    ngx_http_dsem_connection_t  *conn;

    c = wev->data;
    conn = c->data;

    if (!conn->connected && wev->timedout) {

        if (!ngx_http_dsem_deadline_extend(&conn->deadline, wev)) {
            ngx_http_dsem_connection_fail(conn,
                                          conn->ssl ? NGX_HTTP_DSEM_TLS_SILENT
                                                    : "connect timed out", 0);
        }

        return;
    }

    if (conn->ssl && !conn->connected) {
        ngx_http_dsem_connection_handshake(conn);
        return;
    }

    conn->writing = 1;
    rc = ngx_http_dsem_connection_handle(conn, redisAsyncHandleWrite);

    if (rc != NGX_OK) {
        return;
    }

    conn->writing = 0;

    if (!conn->connected && (conn->ac->c.flags & REDIS_CONNECTED)) {

        if (conn->login->tls) {
            ngx_http_dsem_connection_secure(conn);

        } else {
            ngx_http_dsem_connection_connected(conn);
        }
    }
}


/* the time to connect goes on */

static void
ngx_http_dsem_connection_secure(ngx_http_dsem_connection_t *conn)
{
    char  reason[NGX_HTTP_DSEM_REASON_LEN];

    conn->ssl = ngx_http_dsem_tls_start(conn->login->tls, conn->ac,
                                        &conn->at.addr, reason);

    if (conn->ssl == NULL) {
        ngx_http_dsem_connection_insecure(conn, reason, 0);
        return;
    }

    if (conn->handlers->securing) {
        conn->handlers->securing(conn->data);
    }

    ngx_http_dsem_connection_handshake(conn);
}


static void
ngx_http_dsem_connection_handshake(ngx_http_dsem_connection_t *conn)
{
    char          reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_int_t     rc;
    ngx_event_t  *wev;

    wev = conn->c->write;

    rc = ngx_http_dsem_tls_handshake(conn->ssl, reason);

    if (rc == NGX_OK) {
        ngx_http_dsem_connection_connected(conn);
        return;
    }

    if (rc == NGX_AGAIN) {

        if (!ngx_http_dsem_tls_wants_write(conn->ssl)) {

            if (wev->active) {
                (void) ngx_del_event(wev, NGX_WRITE_EVENT, 0);
            }

        } else if (!wev->active) {
            (void) ngx_add_event(wev, NGX_WRITE_EVENT, NGX_LEVEL_EVENT);
        }

        return;
    }

    ngx_http_dsem_connection_insecure(conn, reason, rc == NGX_DECLINED);
}


static void
ngx_http_dsem_connection_insecure(ngx_http_dsem_connection_t *conn,
    const char *reason, ngx_uint_t protocol_error)
{
    ngx_http_dsem_reason(conn->reason, "TLS handshake failed: %s", reason);
    conn->protocol_error = protocol_error;

    redisAsyncFree(conn->ac);

    ngx_http_dsem_connection_failed(conn);
}


static void
ngx_http_dsem_connection_connected(ngx_http_dsem_connection_t *conn)
{
    if (conn->c->write->timer_set) {
        ngx_del_timer(conn->c->write);
    }

    conn->connected = 1;

    if (ngx_http_dsem_connection_login(conn) != NGX_OK) {
        ngx_http_dsem_connection_fail(conn, "login could not be written", 0);
        return;
    }

    conn->busy = 1;
    conn->handlers->connected(conn->data);
    conn->busy = 0;

    if (conn->closed) {
        ngx_http_dsem_connection_free(conn);
    }
}


/* nothing waits for the replies: that would cost a round trip */

static ngx_int_t
ngx_http_dsem_connection_login(ngx_http_dsem_connection_t *conn)
{
    ngx_int_t              rc;
    ngx_http_dsem_resp_t   command;
    ngx_http_dsem_login_t  *login;

    login = conn->login;

    if (login->auth.len
        && ngx_http_dsem_connection_auth(conn, &login->auth) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (login->db == 0) {
        return NGX_OK;
    }

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    ngx_http_dsem_resp_begin(&command, 2);
    ngx_http_dsem_resp_bytes(&command, "SELECT", sizeof("SELECT") - 1);
    ngx_http_dsem_resp_number(&command, login->db);

    conn->nlogins++;
    rc = ngx_http_dsem_connection_send(conn, &command);

    ngx_http_dsem_resp_free(&command);

    return rc;
}


/* the first command, so that it is alone in what hiredis has to write */

static ngx_int_t
ngx_http_dsem_connection_auth(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_secret_t *auth)
{
    ngx_http_dsem_resp_t  command;

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    command.data = auth->data;
    command.len = auth->len;
    command.size = auth->size;

    conn->nlogins++;

    if (ngx_http_dsem_connection_send(conn, &command) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_connection_write_secret(conn);
}


/*
 * hiredis would free its copy without wiping it.  The buffer of a new socket
 * has room for all of it.
 */

static ngx_int_t
ngx_http_dsem_connection_write_secret(ngx_http_dsem_connection_t *conn)
{
    size_t         len;
    ssize_t        n;
    redisContext  *rc;

    rc = &conn->ac->c;
    len = sdslen(rc->obuf);

    n = conn->ssl ? ngx_http_dsem_tls_write(conn->ac)
                  : ngx_write_fd(rc->fd, rc->obuf, len);

    ngx_explicit_memzero(rc->obuf, len);
    sdsclear(rc->obuf);

    return (n == (ssize_t) len) ? NGX_OK : NGX_ERROR;
}


/* the connection is closed when hiredis has returned */

static void
ngx_http_dsem_connection_login_reply(ngx_http_dsem_connection_t *conn,
    redisReply *reply)
{
    ngx_uint_t  auth;

    auth = conn->login->auth.len && conn->nlogins == 1 + (conn->login->db > 0);

    conn->nlogins--;

    if (reply->type != REDIS_REPLY_ERROR || conn->refused) {
        return;
    }

    conn->refused = 1;

    /* a server that knows no such command repeats its arguments */

    ngx_http_dsem_connection_set_reason(conn,
        (auth && ngx_strncmp(reply->str, "ERR unknown command",
                             sizeof("ERR unknown command") - 1) == 0)
        ? "ERR unknown command 'AUTH'" : reply->str);
}


static void
ngx_http_dsem_connection_read_handler(ngx_event_t *rev)
{
    redisReader                 *reader;
    ngx_connection_t            *c;
    ngx_http_dsem_connection_t  *conn;

    c = rev->data;
    conn = c->data;

    /*
     * nginx sets c->close on every connection when worker_shutdown_timeout
     * expires; ours stays until all is acknowledged and the process exits.
     * Not before the write event: hiredis 0.14 takes a socket that is not
     * refused for a connected one.
     */

    if (conn->ssl && !conn->connected) {
        ngx_http_dsem_connection_handshake(conn);
        return;
    }

    /* with TLS too: hiredis has room for all of a record */

    if (!conn->connected
        || ngx_http_dsem_connection_handle(conn, redisAsyncHandleRead)
           != NGX_OK)
    {
        return;
    }

    reader = conn->ac->c.reader;

    if (reader->len - reader->pos > NGX_HTTP_DSEM_MAX_UNPARSED) {
        ngx_http_dsem_connection_fail(conn, "reply too long", 1);
    }
}


/* NGX_DONE: it has failed or is closed, and must not be touched any more */

static ngx_int_t
ngx_http_dsem_connection_handle(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_connection_event_pt handle)
{
    conn->busy = 1;
    ngx_http_dsem_connection_call(conn, handle);
    conn->busy = 0;

    if (conn->closed) {
        ngx_http_dsem_connection_free(conn);
        return NGX_DONE;
    }

    if (conn->ac == NULL) {
        ngx_http_dsem_connection_failed(conn);
        return NGX_DONE;
    }

    if (conn->refused) {
        conn->protocol_error = 1;
        redisAsyncFree(conn->ac);
        ngx_http_dsem_connection_failed(conn);
        return NGX_DONE;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_connection_call(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_connection_event_pt handle)
{
    ngx_uint_t  tls;

    tls = (conn->ssl != NULL);

    if (tls) {
        ngx_http_dsem_tls_clear();
    }

    handle(conn->ac);

    if (tls) {
        ngx_http_dsem_tls_clear();
    }
}


static void
ngx_http_dsem_connection_reply(redisAsyncContext *ac, void *data,
    void *unused)
{
    redisReply *reply = data;

    ngx_http_dsem_connection_t  *conn;

    conn = ac->data;

    if (reply == NULL || conn->closed || conn->refused) {
        /* a lost connection is reported once, not once per command */
        return;
    }

    conn->replied = 1;

    if (conn->nlogins) {
        ngx_http_dsem_connection_login_reply(conn, reply);
        return;
    }

    if (conn->draining) {
        conn->error_reply = (reply->type == REDIS_REPLY_ERROR);
        return;
    }

    conn->handlers->reply(conn->data, reply);
}


static void
ngx_http_dsem_connection_fail(ngx_http_dsem_connection_t *conn,
    const char *reason, ngx_uint_t protocol_error)
{
    ngx_http_dsem_reason(conn->reason, "%s", reason);
    conn->protocol_error = protocol_error;

    redisAsyncFree(conn->ac);

    ngx_http_dsem_connection_failed(conn);
}


static void
ngx_http_dsem_connection_failed(ngx_http_dsem_connection_t *conn)
{
    conn->busy = 1;
    conn->handlers->failed(conn->data, conn->reason, conn->protocol_error);
    conn->busy = 0;

    if (conn->closed) {
        ngx_http_dsem_connection_free(conn);
    }
}


/* for its owner only; unsent commands are lost */

void
ngx_http_dsem_connection_close(ngx_http_dsem_connection_t *conn)
{
    conn->closed = 1;

    if (conn->ac) {
        /* inside a callback hiredis does it when that has returned */
        redisAsyncFree(conn->ac);
    }

    if (!conn->busy) {
        ngx_http_dsem_connection_free(conn);
    }
}


static void
ngx_http_dsem_connection_free(ngx_http_dsem_connection_t *conn)
{
    ngx_http_dsem_guard_free(&conn->guard);
    ngx_free(conn);
}


/*
 * Writes unsent commands and reads until all replies have come, or nothing
 * has come at the time "end", in ms; it may be called again.  For an exiting
 * process, which has no event loop any more.
 * Reading matters: a socket closed with bytes unread is reset, and Redis may
 * then not see the last command.  NGX_OK: all have come, and the last one
 * is no error.
 */

ngx_int_t
ngx_http_dsem_connection_drain(ngx_http_dsem_connection_t *conn,
    ngx_msec_t end)
{
    int                 n;
    struct pollfd       pfd;
    ngx_msec_int_t      left;
    redisAsyncContext  *ac;

    ac = conn->ac;

    if (ac == NULL || conn->closed || !conn->connected) {
        return NGX_ERROR;
    }

    conn->draining = 1;

    pfd.fd = ac->c.fd;

    while (conn->ac && ac->replies.head) {

        pfd.events = sdslen(ac->c.obuf) ? POLLOUT : POLLIN;

        ngx_time_update();
        left = end - ngx_current_msec;

        n = poll(&pfd, 1, (int) ngx_max(left, 0));

        if (n == -1 && ngx_errno == NGX_EINTR && !ngx_terminate) {
            continue;
        }

        if (n != 1) {
            return NGX_ERROR;
        }

        ngx_http_dsem_connection_call(conn, pfd.events == POLLOUT
                                            ? redisAsyncHandleWrite
                                            : redisAsyncHandleRead);
    }

    return (conn->ac == NULL || conn->refused || conn->error_reply)
           ? NGX_ERROR : NGX_OK;
}


static u_char *
ngx_http_dsem_connection_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    ngx_http_dsem_connection_t  *conn;

    conn = log->data;

    return ngx_snprintf(buf, len, ", dsem redis: %V", &conn->at.addr.name);
}
