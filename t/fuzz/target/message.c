
/*
 * Target: messages on the channel of a session.
 *
 * The first line makes what the worker has: "a" to "d" choose a semaphore,
 * which has an account from then on; a digit is the weight of the next
 * tickets; "n" a ticket that is not sent, "s" one that is, "q" one with a
 * place in the queue, "C" one whose owner has left, "h" one that holds its
 * permits, "i" an idle permit; "U" the account is not declared; "F" the lease
 * may have expired; "R" Redis recovers.  Tickets have the numbers 1, 2, ...;
 * the epoch is 7.  Each further line is a message, to which the seal of the
 * session is added; one that begins with "!" has none, and changes nothing.
 *
 * Whatever it is: the ledger changes only by the permits of tickets that it
 * grants; a ticket is granted once, in its own epoch, by its number, and not
 * before it was sent; what is logged has no control character.
 */


#include "target.h"
#include <ctype.h>
#include <stdio.h>
#include "ngx_http_dsem_redis.h"
#include "ngx_http_dsem_handshake.h"

static ngx_http_dsem_keys_t *message_keys(ngx_http_dsem_redis_t *redis);
static ngx_uint_t message_unavailable(ngx_http_dsem_redis_t *redis);
static void message_resync(ngx_http_dsem_session_t *session,
    const char *reason, ngx_uint_t lost);

#define ngx_http_dsem_redis_keys         message_keys
#define ngx_http_dsem_redis_unavailable  message_unavailable
#define ngx_http_dsem_handshake_resync   message_resync

#include "ngx_http_dsem_account.c"
#include "ngx_http_dsem_fair.c"
#include "ngx_http_dsem_ledger.c"
#include "ngx_http_dsem_waiting.c"
#include "ngx_http_dsem_servers.c"
#include "ngx_http_dsem_ticket.c"
#include "ngx_http_dsem_idle.c"
#include "ngx_http_dsem_session.c"
#include "ngx_http_dsem_message.c"

#undef ngx_http_dsem_redis_keys
#undef ngx_http_dsem_redis_unavailable
#undef ngx_http_dsem_handshake_resync


#define MESSAGE_EPOCH         7
#define MESSAGE_SEAL          "0123456789abcdef"
#define MESSAGE_SEMAPHORES    4
#define MESSAGE_MAX_TICKETS   32
#define MESSAGE_MEMORY        (64 * 1024)


/* one that is asked for; its number is its place in the array, from 1 */
typedef struct {
    ngx_http_dsem_ticket_t   *ticket;    /* NULL: freed */
    ngx_http_dsem_account_t  *account;
    ngx_int_t                 weight;
    ngx_uint_t                told;      /* times */
    ngx_http_dsem_ticket_e    was;       /* before the message */
    unsigned                  left:1;    /* the owner */
} message_ticket_t;


typedef struct {
    ngx_http_dsem_session_t   session;
    ngx_http_dsem_keys_t      keys;
    ngx_http_dsem_account_t  *accounts[MESSAGE_SEMAPHORES];
    ngx_int_t                 sums[MESSAGE_SEMAPHORES];  /* of the ledger */
    message_ticket_t          tickets[MESSAGE_MAX_TICKETS];
    ngx_uint_t                n;
    unsigned                  ready:1;
    unsigned                  ending:1;
    unsigned                  resync:1;
} message_world_t;


static void message_post(void);
static void message_init(void);
static void message_begin(ngx_str_t *line);
static ngx_http_dsem_account_t *message_account(ngx_uint_t i);
static void message_ticket(ngx_http_dsem_account_t *account, ngx_int_t weight,
    u_char letter);
static void message_told(void *data);
static void message_one(ngx_str_t *text);
static void message_note(void);
static void message_look(ngx_str_t *text);
static void message_look_ticket(message_ticket_t *own, ngx_str_t *text);
static ngx_uint_t message_grants(ngx_str_t *text, ngx_uint_t number);
static void message_look_log(void);
static void message_end(void);
static void message_flush_handler(ngx_event_t *ev);
static void message_event(ngx_http_dsem_session_t *session,
    ngx_http_dsem_event_e event);


static message_world_t  message_world;


static ngx_http_dsem_session_handlers_t  message_handlers = {
    .event = message_event
};


static ngx_str_t  message_names[MESSAGE_SEMAPHORES] = {
    ngx_string("a"), ngx_string("b"), ngx_string("c"), ngx_string("d")
};


FUZZ_TARGET(message)(const uint8_t *data, size_t size)
{
    ngx_str_t  line;

    message_init();

    fuzz_line(&line, &data, &size);
    message_begin(&line);

    while (size && !message_world.resync) {
        fuzz_line(&line, &data, &size);
        message_one(&line);
    }

    message_end();

    return 0;
}


/* the end of this turn of the event loop, and of those that it posts to */

static void
message_post(void)
{
    do {
        ngx_event_move_posted_next(&fuzz_cycle);
        ngx_event_process_posted(&fuzz_cycle, &ngx_posted_events);
    } while (!ngx_queue_empty(&ngx_posted_next_events));
}


/* once: what a worker has before it has a session */

static void
message_init(void)
{
    ngx_str_t  prefix = ngx_string("dsem");

    if (message_world.ready) {
        return;
    }

    message_world.ready = 1;

    ngx_queue_init(&ngx_posted_events);
    ngx_queue_init(&ngx_posted_next_events);

    fuzz_check(ngx_event_timer_init(ngx_cycle->log) == NGX_OK);
    fuzz_check(ngx_http_dsem_counters_init(NULL, MESSAGE_MEMORY) == NGX_OK);
    fuzz_check(ngx_http_dsem_keys_create(&message_world.keys, &prefix, 0)
               == NGX_OK);

    ngx_http_dsem_ticket_init();
    ngx_http_dsem_accounts_init(message_flush_handler);
}


static void
message_begin(ngx_str_t *line)
{
    u_char                    ch;
    ngx_int_t                 weight;
    ngx_uint_t                i;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_session_t  *session;

    static ngx_http_dsem_limits_pair_t  pairs[] = {
        { ngx_string("a"), 5, 0, 0, 0 }, { ngx_string("b"), 1, 0, 0, 0 }
    };

    ngx_http_dsem_limits_settings_t  limits = {
        .id = ngx_string("id"), .pairs = pairs, .npairs = 2
    };

    ngx_memzero(&ngx_http_dsem_messages, sizeof(ngx_http_dsem_messages_t));
    ngx_http_dsem_waiting.number = 0;

    session = &message_world.session;

    ngx_memzero(session, sizeof(ngx_http_dsem_session_t));

    session->handlers = &message_handlers;
    session->identity.epoch = MESSAGE_EPOCH;
    session->state = NGX_HTTP_DSEM_SESSION_READY;
    session->lease.fence = UINT64_MAX;
    session->started = 1;
    session->registered = 1;
    ngx_memcpy(session->seal, MESSAGE_SEAL, NGX_HTTP_DSEM_SEAL_LEN);

    fuzz_check(ngx_http_dsem_limits_create(&session->limits, &limits, 0, 1,
                                           NULL, 0)
               == NGX_OK);

    weight = 1;
    account = message_account(0);

    for (i = 0; i < line->len; i++) {
        ch = line->data[i];

        if (ch >= 'a' && ch < 'a' + MESSAGE_SEMAPHORES) {
            account = message_account(ch - 'a');
        }

        if (ch >= '1' && ch <= '9') {
            weight = ch - '0';
        }

        switch (ch) {

        case 'n':
        case 's':
        case 'q':
        case 'h':
        case 'C':
            message_ticket(account, weight, ch);
            break;

        case 'i':
            ngx_http_dsem_ledger_add_idle(account, 1);
            break;

        case 'U':
            account->synced = 0;
            break;

        case 'F':
            session->lease.fence = 0;
            break;

        case 'R':
            session->recovery = 100;
        }
    }

    message_post();
}


static ngx_http_dsem_account_t *
message_account(ngx_uint_t i)
{
    ngx_str_t                 *name;
    ngx_http_dsem_account_t  **account;

    name = &message_names[i];
    account = &message_world.accounts[i];

    if (*account == NULL) {
        *account = ngx_http_dsem_account_get(&message_world.session, name,
                                     ngx_crc32_short(name->data, name->len),
                                     NULL);
        fuzz_check(*account);
    }

    return *account;
}


static void
message_ticket(ngx_http_dsem_account_t *account, ngx_int_t weight,
    u_char letter)
{
    message_ticket_t        *own;
    ngx_http_dsem_ask_t      ask;
    ngx_http_dsem_ticket_t  *ticket;

    if (message_world.n == MESSAGE_MAX_TICKETS) {
        return;
    }

    own = &message_world.tickets[message_world.n++];

    ngx_memzero(own, sizeof(message_ticket_t));
    ngx_memzero(&ask, sizeof(ngx_http_dsem_ask_t));

    ask.weight = weight;
    ask.limit = 10;
    ask.handler = message_told;
    ask.data = own;

    ticket = ngx_http_dsem_ticket_create(account, &ask);
    fuzz_check(ticket && ticket->number == message_world.n);

    own->ticket = ticket;
    own->account = account;
    own->weight = weight;

    if (letter == 'n') {
        return;
    }

    ngx_http_dsem_ticket_sent(ticket, MESSAGE_EPOCH);

    if (letter == 'q') {
        ngx_http_dsem_ticket_queued(ticket, message_world.n, 1, 10, 10);
    }

    if (letter == 'h') {
        ngx_http_dsem_ledger_hold(account, weight, NGX_HTTP_DSEM_NO_SERVER);
        ngx_http_dsem_ticket_admit(ticket, 10, 10);
    }

    if (letter == 'C' && account->synced) {
        own->left = 1;
        ngx_http_dsem_ticket_cancel(ticket);
    }
}


static void
message_told(void *data)
{
    message_ticket_t *own = data;

    if (!message_world.ending) {
        own->told++;
        fuzz_check(own->told == 1);
        fuzz_check(own->ticket->answer.verdict
                   == NGX_HTTP_DSEM_VERDICT_GRANTED);
    }
}


static void
message_one(ngx_str_t *line)
{
    size_t      len;
    u_char     *p;
    ngx_str_t   text, believed;

    fuzz_logged.len = 0;

    message_note();

    if (line->len && line->data[0] == '!') {
        fuzz_copy(&text, line->data + 1, line->len - 1);
        ngx_str_null(&believed);

        len = sizeof(MESSAGE_SEAL " ") - 1;

        if (text.len > len && ngx_memcmp(text.data, MESSAGE_SEAL " ", len) == 0)
        {
            /* the seal was guessed */
            believed.data = text.data + len;
            believed.len = text.len - len;
        }

    } else {
        len = NGX_HTTP_DSEM_SEAL_LEN + 1 + line->len;
        p = malloc(len);
        fuzz_check(p);

        ngx_memcpy(p, message_world.session.seal, NGX_HTTP_DSEM_SEAL_LEN);
        p[NGX_HTTP_DSEM_SEAL_LEN] = ' ';
        ngx_memcpy(p + NGX_HTTP_DSEM_SEAL_LEN + 1, line->data, line->len);

        fuzz_copy(&text, p, len);
        believed = *line;

        free(p);
    }

    ngx_http_dsem_message(&message_world.session, &text);
    message_post();

    message_look(&believed);
    message_look_log();

    free(text.data);
}


static void
message_note(void)
{
    ngx_uint_t                i;
    message_ticket_t         *own;
    ngx_http_dsem_account_t  *account;

    for (i = 0; i < MESSAGE_SEMAPHORES; i++) {
        account = message_world.accounts[i];

        if (account) {
            message_world.sums[i] = account->held + account->idle
                                    + account->pending_release;
        }
    }

    for (i = 0; i < message_world.n; i++) {
        own = &message_world.tickets[i];

        if (own->ticket) {
            own->was = own->ticket->state;
        }
    }
}


/* what the message has granted is all that has changed */

static void
message_look(ngx_str_t *text)
{
    ngx_uint_t                i;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_literal_t  *literal;

    for (i = 0; i < message_world.n; i++) {
        if (message_world.tickets[i].ticket) {
            message_look_ticket(&message_world.tickets[i], text);
        }
    }

    for (i = 0; i < MESSAGE_SEMAPHORES; i++) {
        account = message_world.accounts[i];

        if (account == NULL) {
            continue;
        }

        fuzz_check(account->held >= 0
                   && account->idle >= 0
                   && account->pending_release >= account->unclaimed);
        fuzz_check(account->held + account->idle + account->pending_release
                   == message_world.sums[i]);

        literal = account->literal;

        fuzz_check(literal == NULL
                   || (literal->in_force >= -1
                       && literal->in_force <= NGX_HTTP_DSEM_MAX_LIMIT));
    }
}


static void
message_look_ticket(message_ticket_t *own, ngx_str_t *text)
{
    ngx_uint_t  i, gone, granted;

    gone = 0;

    if (own->left) {
        gone = (ngx_http_dsem_waiting_find(own - message_world.tickets + 1)
                == NULL);
    }

    granted = gone
              || (own->ticket->state == NGX_HTTP_DSEM_TICKET_HELD
                  && own->was != NGX_HTTP_DSEM_TICKET_HELD);

    if (gone) {
        own->ticket = NULL;
    }

    if (!granted) {
        fuzz_check(gone || own->ticket->state == own->was);
        return;
    }

    fuzz_check(own->was == NGX_HTTP_DSEM_TICKET_ASKED
               || own->was == NGX_HTTP_DSEM_TICKET_QUEUED);
    fuzz_check(own->left
               || message_world.session.lease.fence == UINT64_MAX);
    fuzz_check(message_grants(text, own - message_world.tickets + 1));

    for (i = 0; message_world.accounts[i] != own->account; i++) { /* void */ }

    message_world.sums[i] += own->weight;
}


/* "grant <name> 7 <in use> <limit> ... <number> ...", read in another way */

static ngx_uint_t
message_grants(ngx_str_t *text, ngx_uint_t number)
{
    char        *copy, *word, *rest;
    size_t       i;
    ngx_uint_t   n, found;

    copy = calloc(1, text->len + 1);
    fuzz_check(copy);

    for (i = 0; i < text->len; i++) {
        copy[i] = text->data[i] ? text->data[i] : 'x';
    }

    rest = copy;
    found = 0;

    for (n = 0; (word = strsep(&rest, " ")) != NULL; n++) {

        if ((n == 0 && strcmp(word, "grant") != 0)
            || (n == 2 && atoi(word) != MESSAGE_EPOCH))
        {
            break;
        }

        if (n > 4 && strtoul(word, NULL, 10) == number) {
            found = 1;
        }
    }

    free(copy);

    return found;
}


static void
message_look_log(void)
{
    u_char  *p;

    for (p = fuzz_logged.data; p < fuzz_logged.data + fuzz_logged.len; p++) {
        fuzz_check(*p == LF || isprint(*p));
    }
}


/* all owners leave, and nothing is left of it */

static void
message_end(void)
{
    ngx_uint_t                i;
    message_ticket_t         *own;
    ngx_http_dsem_account_t  *account;

    message_world.ending = 1;

    for (i = 0; i < MESSAGE_SEMAPHORES; i++) {
        if (message_world.accounts[i]) {
            ngx_http_dsem_tickets_end(message_world.accounts[i],
                                      NGX_HTTP_DSEM_VERDICT_UNAVAILABLE, 0);
        }
    }

    message_post();

    for (i = 0; i < message_world.n; i++) {
        own = &message_world.tickets[i];

        if (own->ticket && !own->left) {
            ngx_http_dsem_ticket_free(own->ticket);
        }
    }

    for (i = 0; i < MESSAGE_SEMAPHORES; i++) {
        account = message_world.accounts[i];

        if (account) {
            fuzz_check(account->ntickets == 0 && account->nasks == 0
                       && account->ncancels == 0 && account->demand == 0);

            account->held = 0;
            account->idle = 0;
            account->pending_release = 0;
            account->refresh = 0;

            ngx_http_dsem_account_done(account);
            message_world.accounts[i] = NULL;
        }
    }

    fuzz_check(ngx_http_dsem_account_next(&message_world.session, NULL)
               == NULL);
    fuzz_check(ngx_http_dsem_waiting_total(0) == 0);

    ngx_http_dsem_limits_free(&message_world.session.limits);

    message_world.n = 0;
    message_world.ending = 0;
    message_world.resync = 0;
}


/* as dispatch empties the list */

static void
message_flush_handler(ngx_event_t *ev)
{
    ngx_queue_t              *q, *dirty;
    ngx_http_dsem_account_t  *account;

    dirty = ngx_http_dsem_accounts_dirty();

    while (!ngx_queue_empty(dirty)) {
        q = ngx_queue_head(dirty);
        ngx_queue_remove(q);

        account = ngx_queue_data(q, ngx_http_dsem_account_t, dirty);
        account->posted = 0;
    }
}


static void
message_event(ngx_http_dsem_session_t *session, ngx_http_dsem_event_e event)
{
    /* void */
}


static ngx_http_dsem_keys_t *
message_keys(ngx_http_dsem_redis_t *redis)
{
    return &message_world.keys;
}


static ngx_uint_t
message_unavailable(ngx_http_dsem_redis_t *redis)
{
    return 0;
}


/* the session begins anew: its accounts are not those of before */

static void
message_resync(ngx_http_dsem_session_t *session, const char *reason,
    ngx_uint_t lost)
{
    message_world.resync = 1;
}
