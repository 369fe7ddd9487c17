
/*
 * A connection to Redis: connect, TLS, login, then commands and replies.
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
#include <hiredis/sds.h>
#include "ngx_http_dsem_adapter.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"


/*
 * Unparsed bytes, which are those of one element: hiredis 0.14 searches them
 * for the end of a line from the start, at each read.
 */
#define NGX_HTTP_DSEM_MAX_UNPARSED  (1024 * 1024)


struct ngx_http_dsem_connection_s {
    ngx_http_dsem_adapter_t               adapter;

    ngx_http_dsem_connection_handlers_t  *handlers;
    void                                 *data;

    ngx_http_dsem_login_t                *login;
    ngx_uint_t                            nlogins;  /* without a reply */

    ngx_http_dsem_deadline_t              deadline; /* of the connect */

    unsigned                              refused:1;  /* the login */
    unsigned                              busy:1;   /* in hiredis, handlers */
    unsigned                              closed:1; /* by its owner */
    unsigned                              error_reply:1;  /* the last one */
};


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
static void ngx_http_dsem_connection_read_handler(ngx_event_t *rev);
static ngx_int_t ngx_http_dsem_connection_handle(
    ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_adapter_event_pt handle);
static void ngx_http_dsem_connection_reply(redisAsyncContext *ac,
    void *data, void *unused);
static void ngx_http_dsem_connection_fail(ngx_http_dsem_connection_t *conn,
    const char *reason, ngx_uint_t protocol_error);
static void ngx_http_dsem_connection_failed(
    ngx_http_dsem_connection_t *conn);
static void ngx_http_dsem_connection_free(ngx_http_dsem_connection_t *conn);


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
    conn->adapter.tls = (login->tls != NULL);
    conn->adapter.replied = login->replied;
    conn->adapter.guard.pairs = login->pairs;

    if (ngx_http_dsem_adapter_open(&conn->adapter, addr, conn,
                                   ngx_http_dsem_connection_read_handler,
                                   ngx_http_dsem_connection_write_handler)
        != NGX_OK)
    {
        ngx_memcpy(reason, conn->adapter.reason, NGX_HTTP_DSEM_REASON_LEN);
        ngx_http_dsem_connection_close(conn);
        return NULL;
    }

    ngx_http_dsem_deadline_set(&conn->deadline, conn->adapter.c->write,
                               timeout);

    return conn;
}


/*
 * Sends one command, which is copied.  NGX_ERROR: no memory, or the connection
 * has failed or is closed.
 */

ngx_int_t
ngx_http_dsem_connection_send(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_resp_t *command)
{
    if (conn->closed) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_adapter_send(&conn->adapter, command,
                                      ngx_http_dsem_connection_reply);
}


/* sends the only command of a subscription; channel must stay */

ngx_int_t
ngx_http_dsem_connection_subscribe(ngx_http_dsem_connection_t *conn,
    ngx_str_t *channel)
{
    ngx_int_t             rc;
    ngx_http_dsem_resp_t  command;

    conn->adapter.guard.channel = *channel;

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
    ngx_http_dsem_adapter_t     *adapter;
    ngx_http_dsem_connection_t  *conn;

    c = wev->data;
    conn = c->data;
    adapter = &conn->adapter;

    if (!adapter->connected && wev->timedout) {

        if (!ngx_http_dsem_deadline_extend(&conn->deadline, wev)) {
            ngx_http_dsem_connection_fail(conn,
                                          adapter->ssl
                                          ? NGX_HTTP_DSEM_TLS_SILENT
                                          : "connect timed out", 0);
        }

        return;
    }

    if (adapter->ssl && !adapter->connected) {
        ngx_http_dsem_connection_handshake(conn);
        return;
    }

    adapter->writing = 1;
    rc = ngx_http_dsem_connection_handle(conn, redisAsyncHandleWrite);

    if (rc != NGX_OK) {
        return;
    }

    adapter->writing = 0;

    if (!adapter->connected && (adapter->ac->c.flags & REDIS_CONNECTED)) {

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
    char                      reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_http_dsem_adapter_t  *adapter;

    adapter = &conn->adapter;

    adapter->ssl = ngx_http_dsem_tls_conn_start(conn->login->tls, adapter->ac,
                                                &adapter->at.addr, reason);

    if (adapter->ssl == NULL) {
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

    wev = conn->adapter.c->write;

    rc = ngx_http_dsem_tls_conn_handshake(conn->adapter.ssl, reason);

    if (rc == NGX_OK) {
        ngx_http_dsem_connection_connected(conn);
        return;
    }

    if (rc == NGX_AGAIN) {

        if (!ngx_http_dsem_tls_conn_wants_write(conn->adapter.ssl)) {

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
    ngx_http_dsem_reason(conn->adapter.reason, "TLS handshake failed: %s",
                         reason);
    conn->adapter.protocol_error = protocol_error;

    redisAsyncFree(conn->adapter.ac);

    ngx_http_dsem_connection_failed(conn);
}


static void
ngx_http_dsem_connection_connected(ngx_http_dsem_connection_t *conn)
{
    if (conn->adapter.c->write->timer_set) {
        ngx_del_timer(conn->adapter.c->write);
    }

    conn->adapter.connected = 1;

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
    size_t                 len;
    ssize_t                n;
    redisContext          *rc;
    ngx_http_dsem_resp_t   command;

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    command.data = auth->data;
    command.len = auth->len;
    command.size = auth->size;

    conn->nlogins++;

    if (ngx_http_dsem_connection_send(conn, &command) != NGX_OK) {
        return NGX_ERROR;
    }

    /*
     * hiredis would free its copy without wiping it.  The buffer of a new
     * socket has room for all of it.
     */

    rc = &conn->adapter.ac->c;
    len = sdslen(rc->obuf);

    n = conn->adapter.ssl ? ngx_http_dsem_tls_conn_write(conn->adapter.ac)
                          : ngx_write_fd(rc->fd, rc->obuf, len);

    ngx_explicit_memzero(rc->obuf, len);
    sdsclear(rc->obuf);

    return (n == (ssize_t) len) ? NGX_OK : NGX_ERROR;
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

    if (conn->adapter.ssl && !conn->adapter.connected) {
        ngx_http_dsem_connection_handshake(conn);
        return;
    }

    /* with TLS too: hiredis has room for all of a record */

    if (!conn->adapter.connected
        || ngx_http_dsem_connection_handle(conn, redisAsyncHandleRead)
           != NGX_OK)
    {
        return;
    }

    reader = conn->adapter.ac->c.reader;

    if (reader->len - reader->pos > NGX_HTTP_DSEM_MAX_UNPARSED) {
        ngx_http_dsem_connection_fail(conn, "reply too long", 1);
    }
}


/* NGX_DONE: it has failed or is closed, and must not be touched any more */

static ngx_int_t
ngx_http_dsem_connection_handle(ngx_http_dsem_connection_t *conn,
    ngx_http_dsem_adapter_event_pt handle)
{
    conn->busy = 1;
    ngx_http_dsem_adapter_call(&conn->adapter, handle);
    conn->busy = 0;

    if (conn->closed) {
        ngx_http_dsem_connection_free(conn);
        return NGX_DONE;
    }

    if (conn->adapter.ac == NULL) {
        ngx_http_dsem_connection_failed(conn);
        return NGX_DONE;
    }

    if (conn->refused) {
        redisAsyncFree(conn->adapter.ac);
        ngx_http_dsem_connection_failed(conn);
        return NGX_DONE;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_connection_reply(redisAsyncContext *ac, void *data,
    void *unused)
{
    redisReply *reply = data;

    ngx_uint_t                   auth;
    ngx_http_dsem_connection_t  *conn;

    conn = ac->data;

    if (reply == NULL || conn->closed || conn->refused) {
        /* a lost connection is reported once, not once per command */
        return;
    }

    conn->login->replied = 1;
    conn->adapter.replied = 1;

    if (conn->nlogins) {
        auth = conn->login->auth.len
               && conn->nlogins == 1 + (conn->login->db > 0);

        conn->nlogins--;

        if (reply->type == REDIS_REPLY_ERROR) {
            /*
             * The connection is closed when hiredis has returned, which may
             * fail meanwhile: what follows may be no reply.
             */

            conn->refused = 1;
            conn->adapter.protocol_error = 1;

            /* a server without this command repeats its arguments */

            ngx_http_dsem_adapter_reason(&conn->adapter,
                (auth && ngx_strncmp(reply->str, "ERR unknown command",
                                     sizeof("ERR unknown command") - 1) == 0)
                ? "ERR unknown command 'AUTH'" : reply->str);
        }

        return;
    }

    if (conn->adapter.draining) {
        conn->error_reply = (reply->type == REDIS_REPLY_ERROR);
        return;
    }

    conn->handlers->reply(conn->data, reply);
}


static void
ngx_http_dsem_connection_fail(ngx_http_dsem_connection_t *conn,
    const char *reason, ngx_uint_t protocol_error)
{
    ngx_http_dsem_reason(conn->adapter.reason, "%s", reason);
    conn->adapter.protocol_error = protocol_error;

    redisAsyncFree(conn->adapter.ac);

    ngx_http_dsem_connection_failed(conn);
}


static void
ngx_http_dsem_connection_failed(ngx_http_dsem_connection_t *conn)
{
    conn->busy = 1;
    conn->handlers->failed(conn->data, conn->adapter.reason,
                           conn->adapter.protocol_error);
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

    if (conn->adapter.ac) {
        /* inside a callback hiredis does it when that has returned */
        redisAsyncFree(conn->adapter.ac);
    }

    if (!conn->busy) {
        ngx_http_dsem_connection_free(conn);
    }
}


static void
ngx_http_dsem_connection_free(ngx_http_dsem_connection_t *conn)
{
    ngx_http_dsem_guard_free(&conn->adapter.guard);
    ngx_free(conn);
}


/*
 * For an exiting process: all commands are written and all replies awaited
 * until the time "end", in ms; it may be called again.  NGX_OK: all have come,
 * and the last one is no error.
 */

ngx_int_t
ngx_http_dsem_connection_drain(ngx_http_dsem_connection_t *conn,
    ngx_msec_t end)
{
    ngx_http_dsem_adapter_t  *adapter;

    adapter = &conn->adapter;

    if (adapter->ac == NULL || conn->closed || !adapter->connected) {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_adapter_drain(adapter, end) != NGX_OK
        || conn->refused
        || conn->error_reply)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}
