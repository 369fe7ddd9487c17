
/*
 * One connection: an async context with the guard, and Redis' end of it.
 *
 * Calls hiredis as the adapter does, in the same order, without an event
 * loop: an event is handled at once.  Counts the callbacks, and reads every
 * byte of a reply.
 *
 * Called by: guard (rounds), memory (the walk), target/guard.
 */


#include "fuzz.h"
#include <poll.h>
#include <stdio.h>


/* an element that the guard left out; AddressSanitizer fills new memory so */
#define FUZZ_UNSET  ((int64_t) 0xbebebebebebebebe)


static ngx_int_t fuzz_command(fuzz_connection_t *connection,
    fuzz_text_t *text);
static void fuzz_callback(redisAsyncContext *ac, void *reply, void *data);
static void fuzz_look(fuzz_connection_t *connection, fuzz_call_t *call,
    redisReply *reply);
static void fuzz_look_values(fuzz_call_t *call,
    ngx_http_dsem_guard_values_t *values);
static void fuzz_look_pair(redisReply *reply);
static void fuzz_look_message(redisReply *reply);
static void fuzz_look_default(redisReply *reply);
static void fuzz_cleanup(void *data);
static void fuzz_event(void *data);


static struct sockaddr_un  fuzz_address;
static int                 fuzz_listener;
static struct pollfd       fuzz_poll;
static ngx_uint_t          fuzz_sum;
static fuzz_text_t         fuzz_output;


/* the socket is in the current directory */

void
fuzz_listen(void)
{
    fuzz_address.sun_family = AF_UNIX;
    snprintf(fuzz_address.sun_path, sizeof(fuzz_address.sun_path),
             "guard.%d.sock", (int) getpid());

    fuzz_listener = socket(AF_UNIX, SOCK_STREAM, 0);

    if (fuzz_listener == -1
        || bind(fuzz_listener, (struct sockaddr *) &fuzz_address,
                sizeof(fuzz_address)) == -1
        || listen(fuzz_listener, 16) == -1)
    {
        fuzz_fail("%s: %s", fuzz_address.sun_path, strerror(errno));
    }

    fuzz_poll.fd = fuzz_listener;
    fuzz_poll.events = POLLIN;
}


void
fuzz_unlisten(void)
{
    (void) unlink(fuzz_address.sun_path);
}


/* NGX_ERROR: no memory; nothing is left of it but perhaps Redis' end */

ngx_int_t
fuzz_connect(fuzz_connection_t *connection)
{
    redisAsyncContext  *ac;

    connection->peer = -1;

    /* of a connection that hiredis had no memory for */

    while (poll(&fuzz_poll, 1, 0) == 1) {
        (void) close(accept(fuzz_listener, NULL, NULL));
    }

    ac = redisAsyncConnectUnix(fuzz_address.sun_path);

    if (ac == NULL) {
        return NGX_ERROR;
    }

    connection->ac = ac;

    ac->data = connection;
    ac->ev.data = connection;
    ac->ev.addRead = fuzz_event;
    ac->ev.addWrite = fuzz_event;
    ac->ev.delWrite = fuzz_event;
    ac->ev.cleanup = fuzz_cleanup;

    if (ac->err) {
        fuzz_close(connection);
        return NGX_ERROR;
    }

    connection->peer = accept(fuzz_listener, NULL, NULL);

    if (connection->peer == -1) {
        fuzz_fail("accept: %s", strerror(errno));
    }

    if (!connection->unguarded) {
        ngx_http_dsem_guard_set(&connection->guard, ac);
    }

    /* hiredis marks the context as connected */
    redisAsyncHandleWrite(ac);

    return connection->ac ? NGX_OK : NGX_ERROR;
}


ngx_int_t
fuzz_send(fuzz_connection_t *connection)
{
    fuzz_output.len = 0;
    fuzz_add(&fuzz_output, "*5\r\n$7\r\nEVALSHA\r\n"
             "$40\r\n0123456789012345678901234567890123456789\r\n"
             "$1\r\n0\r\n$25\r\n%s\r\n$4\r\n%04lu\r\n", FUZZ_NAME,
             (unsigned long) connection->ncalls);

    return fuzz_command(connection, &fuzz_output);
}


ngx_int_t
fuzz_subscribe(fuzz_connection_t *connection)
{
    connection->subscribed = 1;

    ngx_str_set(&connection->guard.channel, FUZZ_CHANNEL);

    fuzz_output.len = 0;
    fuzz_add(&fuzz_output, "*2\r\n$9\r\nSUBSCRIBE\r\n$%zu\r\n%s\r\n",
             sizeof(FUZZ_CHANNEL) - 1, FUZZ_CHANNEL);

    return fuzz_command(connection, &fuzz_output);
}


/* NGX_ERROR: no memory; the connection is closed then, or not there */

static ngx_int_t
fuzz_command(fuzz_connection_t *connection, fuzz_text_t *text)
{
    fuzz_call_t        *call;
    redisCallback      *last;
    redisAsyncContext  *ac;

    ac = connection->ac;

    if (ac == NULL || connection->ncalls == FUZZ_MAX_CALLS) {
        return NGX_ERROR;
    }

    call = &connection->calls[connection->ncalls];
    call->connection = connection;
    call->number = connection->ncalls++;

    last = ac->replies.tail;

    if (redisAsyncFormattedCommand(ac, fuzz_callback, call,
                                   (char *) text->data, text->len)
        != REDIS_OK
        || ac->c.err
        || (ac->replies.tail == last && !(ac->c.flags & REDIS_SUBSCRIBED)))
    {
        /* hiredis may have this call or not */
        call->lost++;
        call->connection = NULL;

        if (ac->c.err == 0) {
            ac->c.err = REDIS_ERR_OOM;
        }

        fuzz_close(connection);
        return NGX_ERROR;
    }

    fuzz_show("> ", text->data, text->len);

    return NGX_OK;
}


static void
fuzz_callback(redisAsyncContext *ac, void *data, void *privdata)
{
    redisReply         *reply = data;
    fuzz_call_t        *call = privdata;
    fuzz_connection_t  *connection;

    connection = call->connection;

    if (connection == NULL) {

        if (reply) {
            fuzz_fail("a reply to a command that had no memory");
        }

        return;
    }

    if (call->lost || (call->replies && !connection->subscribed)) {
        fuzz_fail("callback of command %lu is called again",
                  (unsigned long) call->number);
    }

    if (reply == NULL) {
        call->lost++;
        return;
    }

    call->replies++;
    connection->nreplies++;

    if (connection->look) {
        connection->look(connection, reply);
    }

    fuzz_look(connection, call, reply);

    if (connection->owner_closes) {
        connection->owner_closes = 0;
        redisAsyncFree(ac);
        return;
    }

    if (connection->owner_sends && !connection->subscribed) {
        connection->owner_sends = 0;
        (void) fuzz_send(connection);
    }
}


/* the guard's promises, and each byte of a reply for the sanitizer */

static void
fuzz_look(fuzz_connection_t *connection, fuzz_call_t *call,
    redisReply *reply)
{
    if (connection->unguarded) {
        fuzz_look_default(reply);
        return;
    }

    if (connection->subscribed) {
        fuzz_look_message(reply);
        return;
    }

    if (connection->pairs) {
        fuzz_look_pair(reply);
        return;
    }

    switch (reply->type) {

    case REDIS_REPLY_ARRAY:
        fuzz_look_values(call, (ngx_http_dsem_guard_values_t *) reply);
        return;

    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
    case REDIS_REPLY_INTEGER:
        fuzz_look_default(reply);
        return;

    default:
        fuzz_fail("a reply of type %d", reply->type);
    }
}


static void
fuzz_look_pair(redisReply *reply)
{
    ngx_uint_t  i;

    switch (reply->type) {

    case REDIS_REPLY_ARRAY:
        break;

    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
    case REDIS_REPLY_NIL:
        fuzz_look_default(reply);
        return;

    default:
        fuzz_fail("a reply of type %d", reply->type);
    }

    if (reply->elements != 2) {
        fuzz_fail("a pair of %zu elements", reply->elements);
    }

    for (i = 0; i < 2; i++) {

        if (reply->element[i] == NULL
            || reply->element[i]->type != REDIS_REPLY_STRING
            || reply->element[i]->len > 255)
        {
            fuzz_fail("a pair of another shape");
        }
    }

    fuzz_look_default(reply);
}


static void
fuzz_look_values(fuzz_call_t *call, ngx_http_dsem_guard_values_t *values)
{
    size_t  i;

    if (values->reply.element != NULL
        || values->reply.elements > 256 * 1024
        || values->len > NGX_HTTP_DSEM_SESSION_LEN)
    {
        fuzz_fail("an array that is not decoded");
    }

    if (call->connection->numbered
        && (values->reply.elements < 3
            || values->values[2] != (int64_t) call->number))
    {
        fuzz_fail("command %lu gets another reply",
                  (unsigned long) call->number);
    }

    for (i = 0; i < values->len; i++) {
        fuzz_sum += values->session[i];
    }

    for (i = 1; i < values->reply.elements; i++) {

        if (values->values[i] == FUZZ_UNSET) {
            fuzz_fail("element %zu is not decoded", i);
        }

        /* it must not be there in the next reply */
        fuzz_sum += values->values[i];
        values->values[i] = FUZZ_UNSET;
    }
}


static void
fuzz_look_message(redisReply *reply)
{
    redisReply  **element;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3) {
        fuzz_fail("a message of another shape");
    }

    element = reply->element;

    if (element[0] == NULL || element[0]->type != REDIS_REPLY_STRING
        || (strcmp(element[0]->str, "message") != 0
            && strcmp(element[0]->str, "subscribe") != 0)
        || element[1] == NULL || element[1]->type != REDIS_REPLY_STRING
        || strcmp(element[1]->str, FUZZ_CHANNEL) != 0
        || element[2] == NULL
        || (element[2]->type != REDIS_REPLY_STRING
            && element[2]->type != REDIS_REPLY_INTEGER))
    {
        fuzz_fail("a message of another kind");
    }

    fuzz_look_default(reply);
}


static void
fuzz_look_default(redisReply *reply)
{
    size_t  i;

    switch (reply->type) {

    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:

        for (i = 0; i < (size_t) reply->len; i++) {
            fuzz_sum += reply->str[i];
        }

        return;

    case REDIS_REPLY_ARRAY:

        for (i = 0; i < reply->elements; i++) {
            fuzz_look_default(reply->element[i]);
        }

        return;

    default:
        fuzz_sum += reply->integer;
    }
}


/* writes the commands; Redis reads them */

void
fuzz_write(fuzz_connection_t *connection)
{
    char  buf[16384];

    if (connection->ac == NULL) {
        return;
    }

    redisAsyncHandleWrite(connection->ac);

    if (connection->ac) {
        while (recv(connection->peer, buf, sizeof(buf), MSG_DONTWAIT) > 0) {
            /* void */
        }
    }
}


/* Redis sends this */

void
fuzz_receive(fuzz_connection_t *connection, u_char *data, size_t len)
{
    redisReader  *reader;

    if (connection->ac == NULL || len == 0) {
        return;
    }

    if (write(connection->peer, data, len) != (ssize_t) len) {
        fuzz_fail("write: %s", strerror(errno));
    }

    fuzz_show("< ", data, len);

    redisAsyncHandleRead(connection->ac);

    if (connection->ac == NULL) {
        return;
    }

    reader = connection->ac->c.reader;

    if (reader->len - reader->pos > FUZZ_MAX_REPLY) {
        fuzz_close(connection);
    }
}


void
fuzz_eof(fuzz_connection_t *connection)
{
    fuzz_show("< end", NULL, 0);

    (void) close(connection->peer);
    connection->peer = -1;

    redisAsyncHandleRead(connection->ac);

    if (connection->ac) {
        fuzz_fail("the end of the connection is not seen");
    }
}


void
fuzz_close(fuzz_connection_t *connection)
{
    if (connection->ac) {
        redisAsyncFree(connection->ac);
    }
}


static void
fuzz_cleanup(void *data)
{
    fuzz_connection_t  *connection = data;

    if (connection->ac == NULL) {
        fuzz_fail("a second cleanup");
    }

    fuzz_show("gone: ", (u_char *) connection->ac->c.errstr,
              strlen(connection->ac->c.errstr));

    if (connection->ac->c.fd >= 0) {
        (void) close(connection->ac->c.fd);
        connection->ac->c.fd = -1;
    }

    connection->ac = NULL;
}


/* closes both ends; each call must have been called back once by then */

void
fuzz_finish(fuzz_connection_t *connection)
{
    ngx_uint_t    i;
    fuzz_call_t  *call;

    fuzz_close(connection);

    if (connection->ac) {
        fuzz_fail("the context is still there");
    }

    if (connection->peer != -1) {
        (void) close(connection->peer);
    }

    ngx_http_dsem_guard_free(&connection->guard);

    for (i = 0; i < connection->ncalls; i++) {
        call = &connection->calls[i];

        if (call->lost + (connection->subscribed ? 0 : call->replies) != 1) {
            fuzz_fail("command %lu: %lu replies, lost %lu times",
                      (unsigned long) i, (unsigned long) call->replies,
                      (unsigned long) call->lost);
        }
    }
}


static void
fuzz_event(void *data)
{
    /* void */
}
