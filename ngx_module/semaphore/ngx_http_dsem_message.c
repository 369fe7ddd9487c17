
/*
 * Messages of Redis to this session.
 *
 * Messages are hints: each may be lost, late, of an older epoch, or forged by
 * a client of Redis that may publish.  None is needed, and none is believed
 * that does not fit what this worker knows.
 *
 * Called by: the session, through dispatch.  The words are those of the
 * scripts in lua/, and "subscribed", which is of this worker.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_message.h"
#include "ngx_http_dsem_text.h"
#include "ngx_http_dsem_ticket.h"
#include "ngx_http_dsem_waiting.h"


static void ngx_http_dsem_message_check(ngx_http_dsem_session_t *session);
static void ngx_http_dsem_message_granted(ngx_http_dsem_session_t *session,
    ngx_str_t *text);
static void ngx_http_dsem_message_limit(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_str_t *text);
static int64_t ngx_http_dsem_message_number(ngx_str_t *text);


/*
 * "grant <name> <epoch> ...", "recall <name> <epoch>", "recovered",
 * "sessions <n>", which may be late; "limit <name> <epoch> ..." of another
 * node; "subscribed": earlier messages may have been missed.
 */

void
ngx_http_dsem_message(void *data, ngx_str_t *text)
{
    ngx_http_dsem_session_t *session = data;

    ngx_str_t                 rest, verb, name;
    ngx_http_dsem_account_t  *account;

    rest = *text;

    verb = ngx_http_dsem_text_word(&rest);

    if (ngx_http_dsem_text_is(&verb, "subscribed")) {
        ngx_http_dsem_message_check(session);
        return;
    }

    if (ngx_http_dsem_text_is(&verb, "recovered")) {
        ngx_http_dsem_handshake_recovered(session);
        return;
    }

    if (ngx_http_dsem_text_is(&verb, "sessions")) {
        ngx_http_dsem_handshake_sessions(session,
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

    } else if (ngx_http_dsem_text_is(&verb, "recall")) {
        account = ngx_http_dsem_account_find(&name,
                                     ngx_crc32_short(name.data, name.len));

        if (account && account->session == session && account->synced) {
            ngx_http_dsem_idle_recall(account);
        }

    } else if (ngx_http_dsem_text_is(&verb, "limit")) {
        ngx_http_dsem_message_limit(session, &name, &rest);
    }
}


/* grants may have been missed: accounts that wait compare counts */

static void
ngx_http_dsem_message_check(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_account_t  *account;

    for (account = ngx_http_dsem_account_next(session, NULL);
         account;
         account = ngx_http_dsem_account_next(session, account))
    {
        if (account->synced && account->ntickets) {
            account->check = 1;
            ngx_http_dsem_account_post(account);
        }
    }
}


/* "<in use> <limit> <ticket> ...": tickets may be gone */

static void
ngx_http_dsem_message_granted(ngx_http_dsem_session_t *session,
    ngx_str_t *text)
{
    int64_t                  in_use, limit, number;
    ngx_http_dsem_ticket_t  *ticket;

    in_use = ngx_http_dsem_message_number(text);
    limit = ngx_http_dsem_message_number(text);

    for ( ;; ) {
        number = ngx_http_dsem_message_number(text);
        if (number < 0) {
            return;
        }

        ticket = ngx_http_dsem_waiting_find(number);

        if (ticket
            && ticket->account->session == session
            && ngx_http_dsem_ticket_grant(ticket, in_use, limit) != NGX_OK)
        {
            ngx_http_dsem_handshake_resync(session,
                                           "lease may have expired", 0);
            return;
        }
    }
}


/* "<limit in force> <node>": the account may be gone */

static void
ngx_http_dsem_message_limit(ngx_http_dsem_session_t *session,
    ngx_str_t *name, ngx_str_t *text)
{
    int64_t                   limit;
    ngx_str_t                 node;
    ngx_uint_t                i;
    ngx_http_dsem_literal_t  *literal;

    limit = ngx_http_dsem_message_number(text);
    node = ngx_http_dsem_text_word(text);

    literal = ngx_http_dsem_limits_find(&session->limits, name,
                                        ngx_crc32_short(name->data,
                                                        name->len));

    if (literal == NULL || limit < 0 || node.len == 0) {
        return;
    }

    /* it is logged, and a message may be forged */

    for (i = 0; i < node.len; i++) {
        if (!ngx_http_dsem_key_plain(node.data[i])) {
            return;
        }
    }

    ngx_http_dsem_limits_told(&session->limits, literal, limit, &node);
}


/* the next word as a number, negative if it is none */

static int64_t
ngx_http_dsem_message_number(ngx_str_t *text)
{
    ngx_str_t  word;

    word = ngx_http_dsem_text_word(text);

    return ngx_atoof(word.data, word.len);
}
