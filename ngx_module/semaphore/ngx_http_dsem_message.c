
/*
 * Messages of Redis to this session.
 *
 * Messages are hints: each may be lost, late, or of an older epoch.  None is
 * needed, and none is believed that does not fit what this worker knows.  Each
 * begins with the seal that the last hello has stored with the session: a
 * client of Redis that may publish, and read no key, cannot forge one.
 *
 * Called by: the session, through dispatch.  The words are those of the
 * scripts in lua/.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_sync.h"
#include "ngx_http_dsem_text.h"
#include "ngx_http_dsem_ticket.h"
#include "ngx_http_dsem_waiting.h"


/* of a malformed order, bytes that Redis sends */
#define NGX_HTTP_DSEM_MESSAGE_ORDER  64

/* ms between two malformed orders that this worker logs */
#define NGX_HTTP_DSEM_MESSAGE_LOG    1000


typedef struct {
    ngx_msec_t                logged;    /* time of the last malformed order */
    unsigned                  ever:1;    /* one was logged */
} ngx_http_dsem_messages_t;


static ngx_uint_t ngx_http_dsem_message_sealed(
    ngx_http_dsem_session_t *session, ngx_str_t *text);
static void ngx_http_dsem_message_check(ngx_http_dsem_session_t *session);
static void ngx_http_dsem_message_granted(ngx_http_dsem_session_t *session,
    ngx_str_t *text);
static void ngx_http_dsem_message_account(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_str_t *verb, ngx_str_t *text);
static void ngx_http_dsem_message_reclaimed(ngx_str_t *name,
    ngx_str_t *text);
static void ngx_http_dsem_message_order(ngx_http_dsem_account_t *account,
    ngx_str_t *text);
static u_char *ngx_http_dsem_message_escape(u_char *p, ngx_str_t *text);
static void ngx_http_dsem_message_limit(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_str_t *text);
static int64_t ngx_http_dsem_message_ticket(ngx_str_t *word);
static int64_t ngx_http_dsem_message_number(ngx_str_t *text);


static ngx_http_dsem_messages_t  ngx_http_dsem_messages;


/*
 * After the seal: "grant <name> <epoch> ...", "recall <name> <epoch>",
 * "drop <name> <epoch>", "recovered", "raised": tickets may wait for a limit,
 * "sessions <n>", which may be late; "limit <name> <epoch> ..." of another
 * node; "order <name> <epoch> ...", which is malformed; "reclaimed <name>
 * <epoch> <permits>".  No text: earlier messages may have been missed.
 */

void
ngx_http_dsem_message(void *data, ngx_str_t *text)
{
    ngx_http_dsem_session_t *session = data;

    ngx_str_t  rest, verb, name;

    if (text == NULL) {
        ngx_http_dsem_message_check(session);
        return;
    }

    rest = *text;

    if (!ngx_http_dsem_message_sealed(session, &rest)) {
        return;
    }

    verb = ngx_http_dsem_text_word(&rest);

    if (ngx_http_dsem_text_is(&verb, "recovered")) {
        ngx_http_dsem_session_recovered(session);
        return;
    }

    if (ngx_http_dsem_text_is(&verb, "raised")) {
        session->handlers->event(session, NGX_HTTP_DSEM_EVENT_READY);
        return;
    }

    if (ngx_http_dsem_text_is(&verb, "sessions")) {
        ngx_http_dsem_session_registered(session,
                                         ngx_http_dsem_message_number(&rest));
        return;
    }

    name = ngx_http_dsem_text_word(&rest);

    if (ngx_http_dsem_message_number(&rest)
        != (int64_t) session->identity.epoch)
    {
        return;
    }

    if (ngx_http_dsem_text_is(&verb, "grant")) {
        ngx_http_dsem_message_granted(session, &rest);
        return;
    }

    if (ngx_http_dsem_text_is(&verb, "limit")) {
        ngx_http_dsem_message_limit(session, &name, &rest);
        return;
    }

    if (ngx_http_dsem_text_is(&verb, "reclaimed")) {
        ngx_http_dsem_message_reclaimed(&name, &rest);
        return;
    }

    ngx_http_dsem_message_account(session, &name, &verb, &rest);
}


/*
 * Takes the seal off.  Redis sends messages in order: until the first one with
 * this seal, others may have that of an older epoch.
 */

static ngx_uint_t
ngx_http_dsem_message_sealed(ngx_http_dsem_session_t *session,
    ngx_str_t *text)
{
    ngx_str_t  seal;

    seal = ngx_http_dsem_text_word(text);

    if (seal.len == NGX_HTTP_DSEM_SEAL_LEN
        && ngx_memcmp(seal.data, session->seal, seal.len) == 0)
    {
        session->sealed = 1;
        return 1;
    }

    if (session->sealed && ngx_http_dsem_memo_foreign(session->limits.memo)) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: message to session %V ignored (published by "
                      "another client of redis), no other user should have "
                      "its channel", &session->identity.name);
    }

    return 0;
}


/* what concerns an account, which may be gone */

static void
ngx_http_dsem_message_account(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_str_t *verb, ngx_str_t *text)
{
    ngx_http_dsem_account_t  *account;

    account = ngx_http_dsem_account_find(name,
                                     ngx_crc32_short(name->data, name->len));

    if (account == NULL || account->session != session || !account->synced) {
        return;
    }

    if (ngx_http_dsem_text_is(verb, "recall")) {
        ngx_http_dsem_idle_recall(account);

    } else if (ngx_http_dsem_text_is(verb, "drop")) {
        /* the next reply names the tickets */
        account->refresh = 1;
        ngx_http_dsem_account_post(account);

    } else if (ngx_http_dsem_text_is(verb, "order")) {
        ngx_http_dsem_message_order(account, text);
    }
}


/*
 * "<permits>" of ended sessions that a command of this one has dropped: a
 * change needs no account.
 */

static void
ngx_http_dsem_message_reclaimed(ngx_str_t *name, ngx_str_t *text)
{
    int64_t  permits;

    permits = ngx_http_dsem_message_number(text);

    if (permits > 0
        && permits <= NGX_HTTP_DSEM_MAX_LIMIT
        && ngx_http_dsem_fleet_is_name(name))
    {
        ngx_http_dsem_counters_add_to(name, NGX_HTTP_DSEM_COUNT_RECLAIMED,
                                      (ngx_uint_t) permits);
    }
}


/*
 * Messages may have been missed.  Grants: accounts that wait compare counts.
 * Recalls: accounts with idle permits send a sync, whose reply has whether
 * these are wanted back.  New sessions: a beat is sent at once, its reply has
 * their number; if Redis is lost before, the recovery does not wait for them.
 */

static void
ngx_http_dsem_message_check(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_account_t  *account;

    if (session->beat.timer_set) {
        /* nginx does not move a timer by less than 300 ms */
        ngx_del_timer(&session->beat);
        ngx_add_timer(&session->beat, 1);
    }

    for (account = ngx_http_dsem_account_next(session, NULL);
         account;
         account = ngx_http_dsem_account_next(session, account))
    {
        if (account->synced && (account->ntickets || account->idle)) {
            account->check_due |= (account->ntickets != 0);
            account->refresh |= (account->idle != 0);
            ngx_http_dsem_account_post(account);
        }
    }
}


/*
 * "<in use> <limit> <ticket> ...", of a pool "<ticket>@<server>": tickets may
 * be gone.  Redis does not know one that was not sent, nor counts its permits.
 */

static void
ngx_http_dsem_message_granted(ngx_http_dsem_session_t *session,
    ngx_str_t *text)
{
    int64_t                  in_use, limit, number;
    ngx_int_t                server, in_force;
    ngx_str_t                word;
    ngx_http_dsem_ticket_t  *ticket;

    in_use = ngx_http_dsem_message_number(text);
    limit = ngx_http_dsem_message_number(text);

    for ( ;; ) {
        word = ngx_http_dsem_text_word(text);

        number = ngx_http_dsem_message_ticket(&word);
        if (number < 0) {
            return;
        }

        ticket = ngx_http_dsem_waiting_find(number);

        if (ticket == NULL
            || ticket->state == NGX_HTTP_DSEM_TICKET_NEW
            || ticket->account->session != session)
        {
            continue;
        }

        server = NGX_HTTP_DSEM_NO_SERVER;
        in_force = limit;

        if (ticket->account->servers) {
            /* that of the message is of the servers of another node */
            in_force = ticket->answer.limit;

            server = ngx_http_dsem_servers_encoded(ticket->account->servers,
                                                   &word);

            if (server == NGX_HTTP_DSEM_NO_SERVER) {
                /* a check finds what becomes of it */
                continue;
            }
        }

        if (ticket->account->check) {
            ngx_http_dsem_sync_reply_granted(ticket, server);
        }

        if (ngx_http_dsem_ticket_grant(ticket, server, in_use, in_force)
            != NGX_OK)
        {
            ngx_http_dsem_handshake_resync(session,
                                           "lease may have expired", 0);
            return;
        }
    }
}


/*
 * "<text>": an order that was written by hand has another form, and is
 * ignored.  The node logs each change once, see memo; the message comes with
 * every sync, and may be forged.
 */

static void
ngx_http_dsem_message_order(ngx_http_dsem_account_t *account,
    ngx_str_t *text)
{
    u_char                    *last, order[3 * NGX_HTTP_DSEM_MESSAGE_ORDER];
    uint32_t                   hash, line;
    ngx_http_dsem_messages_t  *messages;

    if (text->len > NGX_HTTP_DSEM_MESSAGE_ORDER) {
        return;
    }

    messages = &ngx_http_dsem_messages;

    if (messages->ever
        && ngx_current_msec - messages->logged < NGX_HTTP_DSEM_MESSAGE_LOG)
    {
        return;
    }

    last = ngx_http_dsem_message_escape(order, text);

    hash = account->node.node.key;
    line = (ngx_crc32_short(order, last - order) ^ hash) | 1;

    if (!ngx_http_dsem_memo_claim_order(account->session->limits.memo, hash,
                                        line))
    {
        return;
    }

    /* not for an order that the log has: others would wait for its messages */
    messages->logged = ngx_current_msec;
    messages->ever = 1;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: order \"%*s\" of \"%V\" ignored (it must be a limit "
                  "or \"-\", a blank, and 1 for a pause or 0), the "
                  "configured limit is in force",
                  (size_t) (last - order), order, &account->node.str);
}


/* text that Redis has from anywhere, for the log; returns the end */

static u_char *
ngx_http_dsem_message_escape(u_char *p, ngx_str_t *text)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < text->len; i++) {
        ch = text->data[i];

        if (ch == ' ' || ngx_http_dsem_key_plain(ch)) {
            *p++ = ch;

        } else {
            p = ngx_sprintf(p, "%%%02Xd", ch);
        }
    }

    return p;
}


/* "<limit in force> <node>", or no node: the account may be gone */

static void
ngx_http_dsem_message_limit(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_str_t *text)
{
    int64_t                   limit;
    ngx_str_t                 node;
    ngx_uint_t                i, namesake;
    ngx_http_dsem_literal_t  *literal;

    limit = ngx_http_dsem_message_number(text);
    node = ngx_http_dsem_text_word(text);

    literal = ngx_http_dsem_limits_find(&session->limits, name,
                                        ngx_crc32_short(name->data,
                                                        name->len));

    if (literal == NULL
        || limit < 0
        || limit > NGX_HTTP_DSEM_MAX_LIMIT)
    {
        return;
    }

    /* it is logged, and a message may be forged */

    for (i = 0; i < node.len; i++) {
        if (!ngx_http_dsem_key_plain(node.data[i])) {
            return;
        }
    }

    namesake = (ngx_http_dsem_text_order(&node, &session->node) == 0);

    ngx_http_dsem_limits_lower_elsewhere(&session->limits, literal, limit,
                                         &node, namesake);
}


/* "<ticket>" or "<ticket>@<server>": the word is the server then */

static int64_t
ngx_http_dsem_message_ticket(ngx_str_t *word)
{
    u_char  *p, *digits;

    digits = word->data;
    p = ngx_strlchr(digits, digits + word->len, '@');

    if (p == NULL) {
        return ngx_atoof(digits, word->len);
    }

    word->len -= p + 1 - digits;
    word->data = p + 1;

    return ngx_atoof(digits, p - digits);
}


/* the next word as a number, negative if it is none */

static int64_t
ngx_http_dsem_message_number(ngx_str_t *text)
{
    ngx_str_t  word;

    word = ngx_http_dsem_text_word(text);

    return ngx_atoof(word.data, word.len);
}
