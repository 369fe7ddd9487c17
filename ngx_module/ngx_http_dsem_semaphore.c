
/*
 * Semaphores as a request sees them: it asks for permits, is told one
 * verdict, and leaves.
 *
 * Joins the session to the accounts: when the session begins a new epoch
 * all accounts are declared, when it is ready they speak, when Redis is
 * away nobody waits for it.
 *
 * Called by: verdict (ask), module (init, exit).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"
#include "ngx_http_dsem_declare.h"
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_local.h"
#include "ngx_http_dsem_hint.h"


static void ngx_http_dsem_semaphore_reset(void *data);
static ngx_int_t ngx_http_dsem_semaphore_declare(void *data, ngx_uint_t room,
    ngx_uint_t *calls);
static void ngx_http_dsem_semaphore_ready(void *data);
static void ngx_http_dsem_semaphore_away(void *data);
static ngx_uint_t ngx_http_dsem_semaphore_holding(void *data);
static ngx_uint_t ngx_http_dsem_semaphore_busy(void *data);
static void ngx_http_dsem_semaphore_message(void *data, ngx_str_t *text);
static void ngx_http_dsem_semaphore_granted(ngx_str_t *text);
static ngx_int_t ngx_http_dsem_semaphore_word(ngx_str_t *text,
    ngx_str_t *word);
static int64_t ngx_http_dsem_semaphore_number(ngx_str_t *text);


static ngx_uint_t  ngx_http_dsem_semaphore_max_waiting;


static ngx_http_dsem_session_handlers_t  ngx_http_dsem_semaphore_handlers = {
    ngx_http_dsem_semaphore_reset,
    ngx_http_dsem_semaphore_declare,
    ngx_http_dsem_semaphore_ready,
    ngx_http_dsem_semaphore_away,
    ngx_http_dsem_semaphore_holding,
    ngx_http_dsem_semaphore_busy,
    ngx_http_dsem_semaphore_message
};


/*
 * Starts the worker's session.  At most max_waiting requests wait at once,
 * for all semaphores together.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_semaphore_init(ngx_http_dsem_session_settings_t *settings,
    ngx_uint_t max_waiting)
{
    ngx_http_dsem_semaphore_max_waiting = max_waiting;

    if (ngx_http_dsem_session_start(settings,
                                    &ngx_http_dsem_semaphore_handlers, NULL)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_ticket_init();
    ngx_http_dsem_account_init(ngx_http_dsem_session_key(),
                               settings->lease);

    return NGX_OK;
}


void
ngx_http_dsem_semaphore_exit(void)
{
    ngx_http_dsem_session_stop();
}


/*
 * Asks for permits; ask->name must be valid only during the call.  Returns
 * a ticket: ask->handler will be told, and the owner must leave it once,
 * whatever the verdict; if that stands already, nobody will be told.
 * Returns NULL: there is nothing to leave, the verdict is in answer.
 */

ngx_http_dsem_ticket_t *
ngx_http_dsem_semaphore_acquire(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_answer_t *answer)
{
    ngx_uint_t                away;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_account_t  *account;

    ngx_memzero(answer, sizeof(ngx_http_dsem_answer_t));

    answer->limit = ask->limit;
    answer->in_use = -1;

    account = ngx_http_dsem_account_find(&ask->name);

    if (account) {
        ticket = ngx_http_dsem_ticket_reuse(account, ask);
        if (ticket) {
            return ticket;
        }
    }

    away = ngx_http_dsem_session_away();

    if (away && !ask->local) {
        answer->verdict = NGX_HTTP_DSEM_VERDICT_UNAVAILABLE;
        return NULL;
    }

    if (ngx_http_dsem_tickets_waiting()
        >= ngx_http_dsem_semaphore_max_waiting)
    {
        answer->verdict = NGX_HTTP_DSEM_VERDICT_WORKER_FULL;
        return NULL;
    }

    account = ngx_http_dsem_account_get(&ask->name);
    if (account == NULL) {
        answer->verdict = NGX_HTTP_DSEM_VERDICT_UNAVAILABLE;
        return NULL;
    }

    if (away && !ngx_http_dsem_local_room(account, ask)) {
        answer->verdict = NGX_HTTP_DSEM_VERDICT_REJECTED;
        answer->in_use = account->held;
        ngx_http_dsem_account_done(account);
        return NULL;
    }

    ticket = ngx_http_dsem_ticket_create(account, ask);
    if (ticket == NULL) {
        ngx_http_dsem_account_done(account);
        answer->verdict = NGX_HTTP_DSEM_VERDICT_UNAVAILABLE;
        return NULL;
    }

    return ticket;
}


/*
 * Whether Redis has said just now that there is neither a permit nor a place
 * for such an ask; then answer says how things usage.
 */

ngx_uint_t
ngx_http_dsem_semaphore_full(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_answer_t *answer)
{
    ngx_http_dsem_usage_t  *usage;

    if (ngx_http_dsem_session_away()) {
        return 0;
    }

    usage = ngx_http_dsem_hint_last(&ask->name);

    if (usage == NULL
        || usage->in_use + ask->weight <= usage->limit
        || usage->waiting < ask->queue)
    {
        return 0;
    }

    ngx_memzero(answer, sizeof(ngx_http_dsem_answer_t));

    answer->verdict = NGX_HTTP_DSEM_VERDICT_REJECTED;
    answer->in_use = usage->in_use;
    answer->limit = usage->limit;

    return 1;
}


static void
ngx_http_dsem_semaphore_reset(void *data)
{
    ngx_http_dsem_accounts_reset();
}


static ngx_int_t
ngx_http_dsem_semaphore_declare(void *data, ngx_uint_t room,
    ngx_uint_t *calls)
{
    ngx_http_dsem_account_t  *account;

    *calls = 0;

    while (*calls < room) {

        account = ngx_http_dsem_accounts_undeclared();
        if (account == NULL) {
            return NGX_OK;
        }

        if (ngx_http_dsem_declare(account, calls) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


static void
ngx_http_dsem_semaphore_ready(void *data)
{
    ngx_http_dsem_accounts_post();
}


static void
ngx_http_dsem_semaphore_away(void *data)
{
    ngx_http_dsem_accounts_away();
}


static ngx_uint_t
ngx_http_dsem_semaphore_holding(void *data)
{
    return ngx_http_dsem_accounts_holding();
}


static ngx_uint_t
ngx_http_dsem_semaphore_busy(void *data)
{
    return ngx_http_dsem_accounts_busy();
}


/*
 * "<what> <name> <epoch> ...": a hint, which may be late, or be of an old
 * epoch.  "subscribed": hints may have been missed.
 */

static void
ngx_http_dsem_semaphore_message(void *data, ngx_str_t *text)
{
    ngx_str_t                 rest, what, name;
    ngx_http_dsem_account_t  *account;

    rest = *text;

    if (text->len == sizeof("subscribed") - 1
        && ngx_strncmp(text->data, "subscribed", text->len) == 0)
    {
        ngx_http_dsem_accounts_check();
        return;
    }

    if (ngx_http_dsem_semaphore_word(&rest, &what) != NGX_OK
        || ngx_http_dsem_semaphore_word(&rest, &name) != NGX_OK
        || ngx_http_dsem_semaphore_number(&rest)
           != (int64_t) ngx_http_dsem_session_epoch())
    {
        return;
    }

    if (what.len == sizeof("grant") - 1
        && ngx_strncmp(what.data, "grant", what.len) == 0)
    {
        ngx_http_dsem_semaphore_granted(&rest);
        return;
    }

    if (what.len == sizeof("recall") - 1
        && ngx_strncmp(what.data, "recall", what.len) == 0)
    {
        account = ngx_http_dsem_account_find(&name);

        if (account && account->synced) {
            ngx_http_dsem_idle_recall(account);
        }
    }
}


/* "<in use> <limit> <ticket> ...": tickets may be gone */

static void
ngx_http_dsem_semaphore_granted(ngx_str_t *text)
{
    int64_t                  in_use, limit, number;
    ngx_http_dsem_ticket_t  *ticket;

    in_use = ngx_http_dsem_semaphore_number(text);
    limit = ngx_http_dsem_semaphore_number(text);

    for ( ;; ) {
        number = ngx_http_dsem_semaphore_number(text);
        if (number < 0) {
            return;
        }

        ticket = ngx_http_dsem_ticket_find(number);

        if (ticket
            && ngx_http_dsem_ticket_grant(ticket, in_use, limit) != NGX_OK)
        {
            ngx_http_dsem_session_resync("lease may have expired", 0);
            return;
        }
    }
}


/* takes the first word off the text; NGX_DONE: there is none left */

static ngx_int_t
ngx_http_dsem_semaphore_word(ngx_str_t *text, ngx_str_t *word)
{
    u_char  *last;

    if (text->len == 0) {
        return NGX_DONE;
    }

    last = ngx_strlchr(text->data, text->data + text->len, ' ');
    if (last == NULL) {
        last = text->data + text->len;
    }

    word->data = text->data;
    word->len = last - text->data;

    if (last < text->data + text->len) {
        last++;
    }

    text->len -= last - text->data;
    text->data = last;

    return NGX_OK;
}


/* the next word as a number, negative when it is none */

static int64_t
ngx_http_dsem_semaphore_number(ngx_str_t *text)
{
    ngx_str_t  word;

    if (ngx_http_dsem_semaphore_word(text, &word) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_atoof(word.data, word.len);
}
