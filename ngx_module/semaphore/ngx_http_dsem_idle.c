
/*
 * Idle permits: kept for the next request ("dsem_reuse"), which then needs
 * no round trip.
 *
 * Redis counts them as held.  They stay only while no ticket waits by the
 * last reply, at most this worker's fair share of the limit, and not longer
 * than "dsem_reuse"; they go back at once when a request has to wait, by a
 * message or with any reply.  While they are used again and again Redis is
 * asked once in that time: a lost message, an operator's order or a new limit
 * takes effect after that time at the latest.
 *
 * Near the limit requests wait now and then, for permits that are idle
 * elsewhere.  Such a recall takes what is idle, and leaves what is in use to
 * be kept when it comes free: a worker has what it lately needed at once.
 * With each request that finds none idle it has more, until the next recall.
 *
 * Called by: dispatch (a message, a turn that ends, a beat), sync (a command is
 * composed, a reply has come).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_idle.h"
#include "ngx_http_dsem_ledger.h"
#include "ngx_http_dsem_ticket.h"
#include "ngx_http_dsem_waiting.h"


static void ngx_http_dsem_idle_tick_handler(ngx_event_t *ev);


/*
 * Permits that came free in this turn serve its asks, in order of service; the
 * oldest one where others, of which Redis decides, come before them.
 */

void
ngx_http_dsem_idle_serve(ngx_http_dsem_account_t *account)
{
    ngx_queue_t             *q;
    ngx_http_dsem_ticket_t  *ticket;

    while (account->idle && account->nasks) {
        ticket = ngx_http_dsem_waiting_first(account);

        if (ticket == NULL || ticket->state != NGX_HTTP_DSEM_TICKET_NEW) {
            q = ngx_queue_head(&account->asks);
            ticket = ngx_queue_data(q, ngx_http_dsem_ticket_t, queue);
        }

        if (account->servers) {
            ticket->server = ngx_http_dsem_ledger_reuse_server(account);

            if (ticket->server == NGX_HTTP_DSEM_NO_SERVER) {
                return;
            }

        } else if (!ngx_http_dsem_ledger_reuse(account, ticket->weight)) {
            return;
        }

        ngx_http_dsem_ticket_admit(ticket, account->usage.in_use,
                                   account->usage.limit);
    }
}


/*
 * Whether free permits may stay; to be sent with each sync, as Redis recalls
 * permits only from sessions that have sent it.
 */

ngx_uint_t
ngx_http_dsem_idle_allowed(ngx_http_dsem_account_t *account)
{
    return account->keep_allowed
           && account->reuse
           && !account->strict
           && !ngx_exiting;
}


/* a reply has come; allowed: above 0 permits may stay */

void
ngx_http_dsem_idle_update(ngx_http_dsem_account_t *account,
    ngx_int_t allowed)
{
    ngx_int_t  sessions;

    account->tick.handler = ngx_http_dsem_idle_tick_handler;
    account->tick.data = account;
    account->tick.log = ngx_cycle->log;

    /* the bye of an exiting worker voids idle permits */
    account->tick.cancelable = 1;

    sessions = ngx_http_dsem_session_nsessions(account->session);

    /* R17: share of a worker */
    account->share = account->usage.limit / ngx_max(sessions, 1);

    account->keep_allowed = (allowed > 0);

    if (!account->keep_allowed) {
        ngx_http_dsem_ledger_give_back_idle(account, account->idle);
    }
}


/*
 * A request waits; Redis gets a sync in any case, even without permits.  A
 * worker that has none idle keeps none, and is not recalled again, until a
 * reply says that no ticket waits.
 */

void
ngx_http_dsem_idle_recall(ngx_http_dsem_account_t *account)
{
    account->refresh = 1;

    if (account->idle == 0) {
        account->keep_allowed = 0;
    }

    ngx_http_dsem_ledger_give_back_idle(account, account->idle);
    ngx_http_dsem_account_post(account);
}


/*
 * Twice in the time for which a permit may stay: permits that were not
 * needed since the last time go back.
 */

static void
ngx_http_dsem_idle_tick_handler(ngx_event_t *ev)
{
    ngx_http_dsem_account_t  *account;

    account = ev->data;

    if (account->servers) {
        ngx_http_dsem_ledger_give_back_unusable(account);
    }

    ngx_http_dsem_ledger_give_back_idle(account,
                                        ngx_exiting ? account->idle
                                                    : account->idle_low);
    account->idle_low = account->idle;

    if (account->reused
        && ngx_current_msec - account->last_sync >= account->reuse)
    {
        account->reused = 0;
        account->refresh = 1;

        ngx_http_dsem_account_post(account);
    }

    if (account->idle || account->reused || account->refresh) {
        ngx_add_timer(ev, ngx_max(account->reuse / 2, 1));
    }
}


/*
 * Writes "<name> <permits> ..." of the names with most idle permits of a
 * session, for a display; p has room for it.  Returns the end.
 */

u_char *
ngx_http_dsem_idle_report(ngx_http_dsem_session_t *session, u_char *p)
{
    ngx_uint_t                i, n;
    ngx_http_dsem_account_t  *account, *most[NGX_HTTP_DSEM_SESSION_NAMES];

    n = 0;

    for (account = ngx_http_dsem_account_next(session, NULL);
         account;
         account = ngx_http_dsem_account_next(session, account))
    {
        if (account->idle == 0) {
            continue;
        }

        if (n < NGX_HTTP_DSEM_SESSION_NAMES) {
            n++;

        } else if (account->idle <= most[n - 1]->idle) {
            continue;
        }

        for (i = n - 1; i > 0 && most[i - 1]->idle < account->idle; i--) {
            most[i] = most[i - 1];
        }

        most[i] = account;
    }

    for (i = 0; i < n; i++) {
        p = ngx_sprintf(p, "%s%V %i", i ? " " : "", &most[i]->node.str,
                        most[i]->idle);
    }

    return p;
}
