
/*
 * The hiredis adapter: one connection of hiredis' async API on nginx's event
 * loop.
 *
 * hiredis opens the socket, writes, reads and matches replies with commands;
 * nginx says when: the context hangs in an nginx connection, with
 * level-triggered events, because hiredis reads once for each of them.
 *
 * hiredis trusts who answers, up to an assert(): the guard refuses what it
 * would not survive.  It also frees the context whenever it likes, inside of
 * each of its functions that handles an event: ac is NULL from then on, and
 * whether it still is there is asked after each.
 *
 * Called by: redis, which owns the connection and is the only one to close
 * it.  After "failed" nothing more is reported and the owner has to close;
 * after close nothing is reported at all.  Closing from inside a handler
 * is fine: memory stays until the handler has returned.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <poll.h>
#include <hiredis/sds.h>
#include "ngx_http_dsem_guard.h"
#include "ngx_http_dsem_hiredis.h"
#include "ngx_http_dsem_output.h"
#include "ngx_http_dsem_deadline.h"


/* our scripts answer far less; more is not Redis or not for us */
#define NGX_HTTP_DSEM_MAX_REPLY   (4 * 1024 * 1024)

#define NGX_HTTP_DSEM_REASON_LEN  128


typedef void (*ngx_http_dsem_hiredis_event_pt)(redisAsyncContext *ac);


struct ngx_http_dsem_hiredis_s {
    redisAsyncContext                 *ac;      /* NULL: gone */
    ngx_connection_t                  *connection;
    ngx_log_t                          log;

    ngx_http_dsem_hiredis_handlers_t  *handlers;
    void                              *data;

    ngx_http_dsem_guard_t              guard;
    ngx_msec_t                         due;     /* to be connected */
    char                               reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                           connected:1;
    unsigned                           protocol_error:1;
    unsigned                           busy:1;     /* do not free */
    unsigned                           closed:1;   /* owner has let go */
    unsigned                           writing:1;
    unsigned                           draining:1;
    unsigned                           refused:1;  /* the last reply */
};


static ngx_int_t ngx_http_dsem_hiredis_open(
    ngx_http_dsem_hiredis_t *hiredis, ngx_addr_t *addr);
static ngx_int_t ngx_http_dsem_hiredis_attach(
    ngx_http_dsem_hiredis_t *hiredis);
static void ngx_http_dsem_hiredis_add_read(void *data);
static void ngx_http_dsem_hiredis_add_write(void *data);
static void ngx_http_dsem_hiredis_del_write(void *data);
static void ngx_http_dsem_hiredis_cleanup(void *data);
static void ngx_http_dsem_hiredis_read_handler(ngx_event_t *rev);
static void ngx_http_dsem_hiredis_write_handler(ngx_event_t *wev);
static ngx_int_t ngx_http_dsem_hiredis_handle(
    ngx_http_dsem_hiredis_t *hiredis, ngx_http_dsem_hiredis_event_pt handle);
static void ngx_http_dsem_hiredis_connected(
    ngx_http_dsem_hiredis_t *hiredis);
static void ngx_http_dsem_hiredis_reply(redisAsyncContext *ac, void *reply,
    void *data);
static void ngx_http_dsem_hiredis_fail(ngx_http_dsem_hiredis_t *hiredis,
    const char *reason, ngx_uint_t protocol_error);
static void ngx_http_dsem_hiredis_report(ngx_http_dsem_hiredis_t *hiredis);
static void ngx_http_dsem_hiredis_free(ngx_http_dsem_hiredis_t *hiredis);
static u_char *ngx_http_dsem_hiredis_log_error(ngx_log_t *log, u_char *buf,
    size_t len);


/* the command that is being formatted; hiredis copies it */
static ngx_http_dsem_output_t      ngx_http_dsem_hiredis_command;


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

    if (ngx_http_dsem_hiredis_open(hiredis, addr) != NGX_OK
        || ngx_http_dsem_hiredis_attach(hiredis) != NGX_OK)
    {
        ngx_http_dsem_hiredis_close(hiredis);
        return NULL;
    }

    ngx_http_dsem_deadline_set(hiredis->connection->write, &hiredis->due,
                           timeout);

    return hiredis;
}


static ngx_int_t
ngx_http_dsem_hiredis_open(ngx_http_dsem_hiredis_t *hiredis,
    ngx_addr_t *addr)
{
    u_char               text[NGX_SOCKADDR_STRLEN + 1];
    size_t               len;
    struct sockaddr_un  *saun;

    if (addr->sockaddr->sa_family == AF_UNIX) {
        saun = (struct sockaddr_un *) addr->sockaddr;
        hiredis->ac = redisAsyncConnectUnix(saun->sun_path);

    } else {
        len = ngx_sock_ntop(addr->sockaddr, addr->socklen, text,
                            NGX_SOCKADDR_STRLEN, 0);
        text[len] = '\0';

        hiredis->ac = redisAsyncConnect((char *) text,
                                        ngx_inet_get_port(addr->sockaddr));
    }

    if (hiredis->ac == NULL || hiredis->ac->err) {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_hiredis_attach(ngx_http_dsem_hiredis_t *hiredis)
{
    ngx_connection_t   *c;
    redisAsyncContext  *ac;

    ac = hiredis->ac;

    c = ngx_get_connection(ac->c.fd, &hiredis->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    hiredis->connection = c;

    c->data = hiredis;
    c->log = &hiredis->log;
    c->read->log = &hiredis->log;
    c->write->log = &hiredis->log;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    c->start_time = ngx_current_msec;

    c->read->handler = ngx_http_dsem_hiredis_read_handler;
    c->write->handler = ngx_http_dsem_hiredis_write_handler;

    /* a worker that exits does not wait for a connection to come up */
    c->write->cancelable = 1;

    ac->data = hiredis;
    ac->ev.data = hiredis;
    ac->ev.addRead = ngx_http_dsem_hiredis_add_read;
    ac->ev.addWrite = ngx_http_dsem_hiredis_add_write;
    ac->ev.delWrite = ngx_http_dsem_hiredis_del_write;
    ac->ev.cleanup = ngx_http_dsem_hiredis_cleanup;

    ngx_http_dsem_guard_set(&hiredis->guard, ac);

    if (ngx_add_event(c->read, NGX_READ_EVENT, NGX_LEVEL_EVENT) != NGX_OK
        || ngx_add_event(c->write, NGX_WRITE_EVENT, NGX_LEVEL_EVENT)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_hiredis_add_read(void *data)
{
    ngx_event_t              *rev;
    ngx_http_dsem_hiredis_t  *hiredis = data;

    rev = hiredis->connection->read;

    if (!rev->active) {
        (void) ngx_add_event(rev, NGX_READ_EVENT, NGX_LEVEL_EVENT);
    }
}


/* what is sent in one turn of the event loop is written at its end */

static void
ngx_http_dsem_hiredis_add_write(void *data)
{
    ngx_event_t              *wev;
    ngx_http_dsem_hiredis_t  *hiredis = data;

    wev = hiredis->connection->write;

    if (wev->active || hiredis->draining) {
        return;
    }

    if (hiredis->writing) {
        (void) ngx_add_event(wev, NGX_WRITE_EVENT, NGX_LEVEL_EVENT);

    } else {
        ngx_post_event(wev, &ngx_posted_events);
    }
}


static void
ngx_http_dsem_hiredis_del_write(void *data)
{
    ngx_event_t              *wev;
    ngx_http_dsem_hiredis_t  *hiredis = data;

    wev = hiredis->connection->write;

    if (wev->active && !hiredis->draining) {
        (void) ngx_del_event(wev, NGX_WRITE_EVENT, 0);
    }
}


/* hiredis frees the context; the socket is closed here, as nginx closes it */

static void
ngx_http_dsem_hiredis_cleanup(void *data)
{
    redisContext             *c;
    ngx_http_dsem_hiredis_t  *hiredis = data;

    c = &hiredis->ac->c;

    if (c->err && hiredis->reason[0] == '\0') {
        hiredis->protocol_error = (c->err != REDIS_ERR_IO && c->err != REDIS_ERR_EOF);
        (void) ngx_cpystrn((u_char *) hiredis->reason, (u_char *) c->errstr,
                           NGX_HTTP_DSEM_REASON_LEN);
    }

    hiredis->ac = NULL;

    if (hiredis->connection) {
        ngx_close_connection(hiredis->connection);
        hiredis->connection = NULL;
        c->fd = -1;
    }
}


/*
 * Sends one command; it is written at the end of this turn of the event
 * loop, together with all others of this turn.  NGX_ERROR: no memory, or
 * the connection has failed or is closed.
 */

ngx_int_t
ngx_http_dsem_hiredis_send(ngx_http_dsem_hiredis_t *hiredis, ngx_uint_t argc,
    const char **argv, size_t *argvlen)
{
    redisCallback           *last;
    redisAsyncContext       *ac;
    ngx_http_dsem_output_t  *command;

    ac = hiredis->ac;

    if (ac == NULL || hiredis->closed) {
        return NGX_ERROR;
    }

    command = &ngx_http_dsem_hiredis_command;
    command->len = 0;

    if (ngx_http_dsem_output_command(command, argc, argv, argvlen)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    last = ac->replies.tail;

    if (redisAsyncFormattedCommand(ac, ngx_http_dsem_hiredis_reply, NULL,
                                   (char *) command->data, command->len)
        != REDIS_OK)
    {
        return NGX_ERROR;
    }

    if (ac->c.err
        || (ac->replies.tail == last && !(ac->c.flags & REDIS_SUBSCRIBED)))
    {
        /* no memory: hiredis 0.14 does not say so, and must not send it */
        ac->c.err = REDIS_ERR_OOM;
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_dsem_hiredis_subscribe(ngx_http_dsem_hiredis_t *hiredis,
    ngx_str_t *channel)
{
    size_t       len[2];
    const char  *argv[2];

    argv[0] = "SUBSCRIBE";
    len[0] = sizeof("SUBSCRIBE") - 1;
    argv[1] = (const char *) channel->data;
    len[1] = channel->len;

    hiredis->guard.channel = *channel;

    return ngx_http_dsem_hiredis_send(hiredis, 2, argv, len);
}


static void
ngx_http_dsem_hiredis_write_handler(ngx_event_t *wev)
{
    ngx_int_t                 rc;
    ngx_connection_t         *c;
    ngx_http_dsem_hiredis_t  *hiredis;

    c = wev->data;
    hiredis = c->data;

    if (!hiredis->connected && wev->timedout) {

        if (!ngx_http_dsem_deadline_late(wev, &hiredis->due)) {
            ngx_http_dsem_hiredis_fail(hiredis, "connect timed out", 0);
        }

        return;
    }

    hiredis->writing = 1;
    rc = ngx_http_dsem_hiredis_handle(hiredis, redisAsyncHandleWrite);

    if (rc != NGX_OK) {
        return;
    }

    hiredis->writing = 0;

    if (!hiredis->connected && (hiredis->ac->c.flags & REDIS_CONNECTED)) {
        ngx_http_dsem_hiredis_connected(hiredis);
    }
}


static void
ngx_http_dsem_hiredis_connected(ngx_http_dsem_hiredis_t *hiredis)
{
    ngx_connection_t  *c;

    c = hiredis->connection;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    hiredis->connected = 1;

    hiredis->busy = 1;
    hiredis->handlers->connected(hiredis->data);
    hiredis->busy = 0;

    if (hiredis->closed) {
        ngx_http_dsem_hiredis_free(hiredis);
    }
}


static void
ngx_http_dsem_hiredis_read_handler(ngx_event_t *rev)
{
    redisReader              *reader;
    ngx_connection_t         *c;
    ngx_http_dsem_hiredis_t  *hiredis;

    c = rev->data;
    hiredis = c->data;

    /*
     * c->close is set on every connection when worker_shutdown_timeout
     * expires; ours stays until all is acknowledged and the process exits.
     * hiredis 0.14 would take a socket that is not refused for connected.
     */

    if (!hiredis->connected
        || ngx_http_dsem_hiredis_handle(hiredis, redisAsyncHandleRead)
           != NGX_OK)
    {
        return;
    }

    reader = hiredis->ac->c.reader;

    if (reader->len - reader->pos > NGX_HTTP_DSEM_MAX_REPLY) {
        ngx_http_dsem_hiredis_fail(hiredis, "reply too long", 1);
    }
}


/* NGX_DONE: it has failed or is closed, and must not be touched any more */

static ngx_int_t
ngx_http_dsem_hiredis_handle(ngx_http_dsem_hiredis_t *hiredis,
    ngx_http_dsem_hiredis_event_pt handle)
{
    hiredis->busy = 1;
    handle(hiredis->ac);
    hiredis->busy = 0;

    if (hiredis->closed) {
        ngx_http_dsem_hiredis_free(hiredis);
        return NGX_DONE;
    }

    if (hiredis->ac == NULL) {
        ngx_http_dsem_hiredis_report(hiredis);
        return NGX_DONE;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_hiredis_reply(redisAsyncContext *ac, void *data, void *unused)
{
    redisReply               *reply = data;
    ngx_http_dsem_hiredis_t  *hiredis;

    hiredis = ac->data;

    if (reply == NULL || hiredis->closed) {
        /* that there will be none is said once, when all is cleaned up */
        return;
    }

    if (hiredis->draining) {
        hiredis->refused = (reply->type == REDIS_REPLY_ERROR);
        return;
    }

    hiredis->handlers->reply(hiredis->data, reply);
}


static void
ngx_http_dsem_hiredis_fail(ngx_http_dsem_hiredis_t *hiredis,
    const char *reason, ngx_uint_t protocol_error)
{
    (void) ngx_cpystrn((u_char *) hiredis->reason, (u_char *) reason,
                       NGX_HTTP_DSEM_REASON_LEN);
    hiredis->protocol_error = protocol_error;

    redisAsyncFree(hiredis->ac);

    ngx_http_dsem_hiredis_report(hiredis);
}


static void
ngx_http_dsem_hiredis_report(ngx_http_dsem_hiredis_t *hiredis)
{
    hiredis->busy = 1;
    hiredis->handlers->failed(hiredis->data, hiredis->reason,
                              hiredis->protocol_error);
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

    if (hiredis->ac) {
        /* in a reply's handler, only after that has returned */
        redisAsyncFree(hiredis->ac);
    }

    if (!hiredis->busy) {
        ngx_http_dsem_hiredis_free(hiredis);
    }
}


/*
 * Writes what is left and reads until all replies have come, for at most
 * "timeout" ms: for a process that is about to exit and has no event loop
 * any more.  Reading matters: a socket closed with bytes unread is reset,
 * and Redis may then not see the last command.  NGX_OK: all have come, and
 * the last one is no error.
 */

ngx_int_t
ngx_http_dsem_hiredis_drain(ngx_http_dsem_hiredis_t *hiredis,
    ngx_msec_t timeout)
{
    ngx_msec_t          end;
    struct pollfd       pfd;
    redisAsyncContext  *ac;

    ac = hiredis->ac;

    if (ac == NULL || hiredis->closed || !hiredis->connected) {
        return NGX_ERROR;
    }

    hiredis->draining = 1;

    ngx_time_update();
    end = ngx_current_msec + timeout;

    pfd.fd = ac->c.fd;

    while (hiredis->ac && ac->replies.head) {

        pfd.events = sdslen(ac->c.obuf) ? POLLOUT : POLLIN;

        ngx_time_update();

        if ((ngx_msec_int_t) (end - ngx_current_msec) <= 0
            || poll(&pfd, 1, (int) (end - ngx_current_msec)) != 1)
        {
            return NGX_ERROR;
        }

        if (pfd.events == POLLOUT) {
            redisAsyncHandleWrite(ac);

        } else {
            redisAsyncHandleRead(ac);
        }
    }

    return (hiredis->ac == NULL || hiredis->refused) ? NGX_ERROR : NGX_OK;
}


static void
ngx_http_dsem_hiredis_free(ngx_http_dsem_hiredis_t *hiredis)
{
    ngx_http_dsem_guard_free(&hiredis->guard);
    ngx_free(hiredis);
}


static u_char *
ngx_http_dsem_hiredis_log_error(ngx_log_t *log, u_char *buf, size_t len)
{
    ngx_addr_t  *addr;

    addr = log->data;

    return ngx_snprintf(buf, len, ", dsem redis: %V", &addr->name);
}
