
/*
 * Accounts: what this worker has of each semaphore.
 */


#ifndef _NGX_HTTP_DSEM_ACCOUNT_H_INCLUDED_
#define _NGX_HTTP_DSEM_ACCOUNT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_fair.h"
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_servers.h"
#include "ngx_http_dsem_session.h"


/*
 * Lives while anything in it does: permits, tickets, unsent commands or an
 * awaited reply.
 */
typedef struct {
    ngx_str_node_t             node;       /* str: the encoded name */
    ngx_queue_t                queue;      /* synced, or undeclared */
    ngx_queue_t                dirty;      /* with unsent commands */
    ngx_queue_t                held_back;  /* until Redis replies */

    ngx_http_dsem_session_t   *session;    /* of its shard */
    ngx_str_t                  key;        /* of the semaphore's hash */
    ngx_str_t                  queue_key;

    /*
     * the ledger, in permits; the sum is what Redis counts for this session
     * once all that was sent is executed
     */
    ngx_int_t                  held;             /* by requests */
    ngx_int_t                  idle;             /* kept for the next one */
    ngx_int_t                  pending_release;  /* free, not yet sent */
    ngx_int_t                  unclaimed;  /* of these, granted too late */
    ngx_int_t                  last_reported;    /* sum at the last loss */

    ngx_rbtree_t               waiting;    /* tickets by order of service */
    ngx_uint_t                 last_waiting;     /* at the last loss */

    ngx_queue_t                tickets;    /* sent or queued, oldest first */
    ngx_uint_t                 ntickets;
    int64_t                    demand;     /* their weights */
    ngx_queue_t                holders;    /* held, by the time of the grant */

    /* for the next sync, beside pending_release */
    ngx_queue_t                asks;       /* new tickets, oldest first */
    ngx_uint_t                 nasks;
    ngx_queue_t                cancels;
    ngx_uint_t                 ncancels;

    ngx_http_dsem_fair_t      *fair;       /* NULL: no request had a key */
    ngx_http_dsem_servers_t   *servers;    /* NULL: it is no pool */

    ngx_int_t                  limit;      /* as last configured */
    ngx_int_t                  sent_limit; /* with the last ask */
    ngx_http_dsem_literal_t   *literal;    /* of the name; or NULL */
    ngx_http_dsem_usage_t      usage;      /* in the last reply */
    ngx_msec_t                 hold_time;  /* mean, in eighths of ms */
    ngx_http_dsem_counted_t    counted;    /* by this node */

    ngx_int_t                  share;      /* idle permits at most */
    ngx_int_t                  idle_low;   /* lowest since the last tick */
    ngx_msec_t                 reuse;      /* "dsem_reuse", 0: off */
    ngx_event_t                tick;       /* returns idle permits */

    ngx_uint_t                 inflight;   /* unanswered commands */
    ngx_msec_t                 last_sync;  /* when it was sent */
    ngx_msec_t                 last_check; /* when counts were compared */
    ngx_msec_t                 ask_after;  /* while recovering: not before */

    unsigned                   found:1;    /* limit is the start of "auto" */
    unsigned                   posted:1;   /* in the list of dirty ones */
    unsigned                   delayed:1;  /* in the list "held_back" */
    unsigned                   disowned:1; /* it may cause an overage */
    unsigned                   synced:1;   /* declared in this epoch */
    unsigned                   recovering:1;  /* until ask_after */
    unsigned                   pass_due:1; /* see ngx_http_dsem_account_pause */
    unsigned                   broken:1;   /* its keys are of another type */
    unsigned                   check:1;    /* counts are to be compared */
    unsigned                   differed:1; /* the last check found so */
    unsigned                   refresh:1;  /* a sync is due in any case */
    unsigned                   may_keep:1; /* no ticket is known to wait */
    unsigned                   sent_keep:1;   /* with the last sync */
    unsigned                   known_keep:1;  /* with the last that has its
                                                 reply: Redis recalls */
    unsigned                   strict:1;   /* a limit of it has no queue */
    unsigned                   reused:1;   /* since the last sync */
} ngx_http_dsem_account_t;


void ngx_http_dsem_accounts_init(ngx_event_handler_pt flush);
ngx_queue_t *ngx_http_dsem_accounts_dirty(void);

ngx_http_dsem_account_t *ngx_http_dsem_account_find(ngx_str_t *name,
    uint32_t hash);
ngx_http_dsem_account_t *ngx_http_dsem_account_get(
    ngx_http_dsem_session_t *session, ngx_str_t *name, uint32_t hash,
    ngx_http_dsem_pool_t *pool);
ngx_http_dsem_account_t *ngx_http_dsem_account_next(
    ngx_http_dsem_session_t *session, ngx_http_dsem_account_t *account);
ngx_http_dsem_account_t *ngx_http_dsem_account_undeclared(
    ngx_http_dsem_session_t *session);
void ngx_http_dsem_account_checked(ngx_http_dsem_account_t *account);
void ngx_http_dsem_account_undeclare(ngx_http_dsem_account_t *account);

ngx_http_dsem_literal_t *ngx_http_dsem_account_literal(
    ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_account_limit(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_account_local_limit(
    ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_account_stated_limit(
    ngx_http_dsem_account_t *account);
void ngx_http_dsem_account_post(ngx_http_dsem_account_t *account);
void ngx_http_dsem_account_pause(ngx_http_dsem_account_t *account,
    ngx_msec_t pause);
ngx_uint_t ngx_http_dsem_account_recovering(
    ngx_http_dsem_account_t *account);
void ngx_http_dsem_account_forget_usage(ngx_http_dsem_account_t *account);
void ngx_http_dsem_account_hint(ngx_http_dsem_account_t *account);
void ngx_http_dsem_account_contended(ngx_http_dsem_account_t *account,
    ngx_uint_t full);
void ngx_http_dsem_account_done(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_ACCOUNT_H_INCLUDED_ */
