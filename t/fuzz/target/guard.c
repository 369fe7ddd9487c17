
/*
 * Target: bytes of Redis, as hiredis, the guard and the decoding of replies
 * get them.
 *
 * The first line says what the connection is: "c" of calls, "m" subscribed,
 * "p" of a Sentinel; then one letter for each pending call, which says what
 * reply it expects: "v" values, "t" text, "i" and "r" INFO, "l" and "n" any;
 * a digit: the bytes come in pieces of that many; "C" the owner closes in the
 * first callback, "S" it sends there.  All that follows is sent by Redis.
 *
 * Whatever it is, the process goes on, each command is called back once, each
 * call is told its fate once, and every reply has a shape that the guard lets
 * in (connection.c).
 */


#include "target.h"
#include "fuzz.h"
#include "ngx_http_dsem_script.c"


#define GUARD_MAX_CALLS  16


typedef struct {
    ngx_http_dsem_call_e     kind;
    ngx_uint_t               told;
} guard_call_t;


static void guard_header(ngx_str_t *line);
static void guard_send(u_char letter);
static void guard_receive(const uint8_t *data, size_t size);
static void guard_look(fuzz_connection_t *connection, redisReply *reply);
static void guard_told(void *data, ngx_http_dsem_reply_t *reply);


/* of all bytes that a caller may read */
uint64_t                             guard_sum;

static size_t                        guard_piece;
static ngx_uint_t                    guard_ncalls;
static guard_call_t                  guard_calls[GUARD_MAX_CALLS];
static fuzz_connection_t             guard_connection;
static ngx_http_dsem_script_calls_t  guard_script;


static ngx_http_dsem_identity_t  guard_identity = {
    .name = ngx_string(FUZZ_NAME),
    .epoch = 7
};


FUZZ_TARGET(guard)(const uint8_t *data, size_t size)
{
    ngx_str_t    line;
    ngx_uint_t   i;

    static ngx_uint_t  listening;

    if (!listening) {
        fuzz_listen();
        atexit(fuzz_unlisten);
        listening = 1;
    }

    fuzz_line(&line, &data, &size);

    if (line.len == 0) {
        return 0;
    }

    ngx_memzero(&guard_connection, sizeof(fuzz_connection_t));
    ngx_memzero(&guard_script, sizeof(ngx_http_dsem_script_calls_t));
    ngx_queue_init(&guard_script.queue);

    guard_script.identity = &guard_identity;
    guard_ncalls = 0;
    guard_piece = 16 * 1024;

    fuzz_check(fuzz_connect(&guard_connection) == NGX_OK);

    guard_header(&line);
    guard_receive(data, size);

    fuzz_finish(&guard_connection);

    ngx_http_dsem_script_forget(&guard_script);
    ngx_http_dsem_script_free(&guard_script);

    for (i = 0; i < guard_ncalls; i++) {
        fuzz_check(guard_calls[i].told == 1
                   || guard_calls[i].kind < NGX_HTTP_DSEM_CALL_SCRIPT);
    }

    return 0;
}


static void
guard_header(ngx_str_t *line)
{
    u_char      ch;
    ngx_uint_t  i;

    switch (line->data[0]) {

    case 'm':
        (void) fuzz_subscribe(&guard_connection);
        break;

    case 'p':
        guard_connection.pairs = 1;
        guard_connection.guard.pairs = 1;
        break;

    default:
        guard_connection.look = guard_look;
    }

    for (i = 1; i < line->len; i++) {
        ch = line->data[i];

        if (ch >= '1' && ch <= '9') {
            guard_piece = ch - '0';

        } else if (ch == 'C') {
            guard_connection.owner_closes = 1;

        } else if (ch == 'S') {
            guard_connection.owner_sends = 1;

        } else if (!guard_connection.subscribed) {
            guard_send(ch);
        }
    }

    fuzz_write(&guard_connection);
}


static void
guard_send(u_char letter)
{
    guard_call_t          *own;
    ngx_http_dsem_call_t  *call;

    if (guard_ncalls == GUARD_MAX_CALLS) {
        return;
    }

    fuzz_check(fuzz_send(&guard_connection) == NGX_OK);

    own = &guard_calls[guard_ncalls];
    own->told = 0;

    switch (letter) {

    case 't':
        own->kind = NGX_HTTP_DSEM_CALL_TEXT;
        break;

    case 'i':
        own->kind = NGX_HTTP_DSEM_CALL_INFO;
        break;

    case 'r':
        own->kind = NGX_HTTP_DSEM_CALL_ROLE;
        break;

    case 'l':
        own->kind = NGX_HTTP_DSEM_CALL_LOAD;
        break;

    case 'n':
        own->kind = NGX_HTTP_DSEM_CALL_NAME;
        break;

    default:
        own->kind = NGX_HTTP_DSEM_CALL_SCRIPT;
    }

    call = ngx_calloc(sizeof(ngx_http_dsem_call_t), ngx_cycle->log);
    fuzz_check(call);

    call->kind = own->kind;
    call->epoch = guard_identity.epoch;
    /* has no values that each reply must have */
    call->script = NGX_HTTP_DSEM_SCRIPT_CONFIGURE;
    call->number = guard_ncalls++;

    if (own->kind >= NGX_HTTP_DSEM_CALL_SCRIPT) {
        call->handler = guard_told;
        call->data = own;
    }

    ngx_queue_insert_tail(&guard_script.queue, &call->queue);
    guard_script.n++;
}


static void
guard_receive(const uint8_t *data, size_t size)
{
    size_t  n;

    /* a piece is written at once, without a reader */

    while (size && guard_connection.ac) {
        n = ngx_min(size, guard_piece);

        fuzz_receive(&guard_connection, (u_char *) data, n);

        data += n;
        size -= n;
    }

    if (guard_connection.ac) {
        fuzz_eof(&guard_connection);
    }
}


/* as redis does with a reply: one that fits no call ends the connection */

static void
guard_look(fuzz_connection_t *connection, redisReply *reply)
{
    ngx_int_t  rc;

    rc = ngx_http_dsem_script_reply(&guard_script, reply);

    fuzz_check(guard_script.info.server.len <= NGX_HTTP_DSEM_SERVER_LEN);

    if (rc != NGX_OK && rc != NGX_DONE) {
        connection->owner_closes = 1;
    }
}


static void
guard_told(void *data, ngx_http_dsem_reply_t *reply)
{
    guard_call_t *call = data;

    size_t      i;
    ngx_uint_t  n;

    call->told++;
    fuzz_check(call->told == 1);

    if (reply == NULL) {
        return;
    }

    fuzz_check((ngx_uint_t) reply->status < NGX_HTTP_DSEM_NREPLIES
               || (reply->status == NGX_HTTP_DSEM_REPLY_ERROR
                   && call->kind == NGX_HTTP_DSEM_CALL_TEXT));
    fuzz_check(call->kind == NGX_HTTP_DSEM_CALL_TEXT ? reply->nvalues == 0
                                                     : reply->text.len == 0);

    for (n = 0; n < reply->nvalues; n++) {
        guard_sum += (uint64_t) reply->values[n];
    }

    for (i = 0; i < reply->text.len; i++) {
        guard_sum += reply->text.data[i];
    }
}
