
/*
 * Accounts: what this worker has of each semaphore.  For the semaphore
 * floor only.
 */


#ifndef _NGX_HTTP_DSEM_ACCOUNT_H_INCLUDED_
#define _NGX_HTTP_DSEM_ACCOUNT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_ticket.h"


/*
 * Lives while anything in it does: permits held, tickets, something to
 * tell Redis, or an answer under way.
 */
struct ngx_http_dsem_account_s {
    ngx_str_node_t             node;       /* str: the encoded name */
    ngx_queue_t                queue;      /* all accounts, or undeclared */
    ngx_queue_t                dirty;      /* those with something to say */

    ngx_str_t                  key;        /* of the semaphore's hash */
    ngx_str_t                  queue_key;
    ngx_int_t                  limit;      /* as last configured */
    ngx_int_t                  told_limit;  /* to Redis, with an ask */

    ngx_int_t                  held;       /* by requests */
    ngx_int_t                  last_reported;        /* when Redis was last told */
    ngx_queue_t                tickets;    /* asked or queued, oldest first */
    ngx_uint_t                 ntickets;
    ngx_int_t                  wanted;     /* their weights */

    /* what the next sync says */
    ngx_int_t          pending_release;
    ngx_queue_t                asks;
    ngx_uint_t                 nasks;
    ngx_queue_t                cancels;
    ngx_uint_t                 ncancels;

    /* permits that came free and stay for the next request */
    ngx_int_t                  idle;
    ngx_int_t                  idle_low;   /* since the last tick */
    ngx_int_t                  share;      /* at most so many */
    ngx_msec_t                 reuse;      /* for so long, 0: never */
    ngx_event_t                tick;

    ngx_http_dsem_usage_t      usage;      /* as last answered */
    ngx_uint_t                 inflight;   /* unanswered syncs */
    ngx_msec_t                 last_sync;     /* when the last sync was sent */
    ngx_msec_t                 checked;    /* when counts were compared */
    ngx_msec_t                 ask_after;  /* recovery: not before */

    unsigned                   check:1;    /* counts are to be compared */
    unsigned                   refresh:1;  /* a sync with nothing to say */
    unsigned                   may_keep:1; /* nobody is known to wait */
    unsigned                   told_keep:1;  /* Redis was told that we do */
    unsigned                   strict:1;   /* somebody will not wait */
    unsigned                   reused:1;   /* since Redis was last asked */
    unsigned                   synced:1;   /* Redis was told this epoch */
    unsigned                   posted:1;   /* in the list of dirty ones */
    unsigned                   recovering:1;  /* until ask_after */
    unsigned                   broken:1;   /* its keys are not ours */
};


void ngx_http_dsem_account_init(ngx_str_t *key, ngx_msec_t lease);

ngx_http_dsem_account_t *ngx_http_dsem_account_find(ngx_str_t *name);
ngx_http_dsem_account_t *ngx_http_dsem_account_get(ngx_str_t *name);
void ngx_http_dsem_account_post(ngx_http_dsem_account_t *account);
void ngx_http_dsem_account_pause(ngx_http_dsem_account_t *account,
    ngx_msec_t pause);
void ngx_http_dsem_account_done(ngx_http_dsem_account_t *account);

void ngx_http_dsem_accounts_reset(void);
ngx_http_dsem_account_t *ngx_http_dsem_accounts_undeclared(void);
void ngx_http_dsem_account_synced(ngx_http_dsem_account_t *account);
void ngx_http_dsem_accounts_post(void);
void ngx_http_dsem_accounts_check(void);
void ngx_http_dsem_accounts_away(void);
ngx_uint_t ngx_http_dsem_accounts_holding(void);
ngx_uint_t ngx_http_dsem_accounts_busy(void);
void ngx_http_dsem_account_fail(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_ACCOUNT_H_INCLUDED_ */
