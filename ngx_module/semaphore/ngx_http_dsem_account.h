
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
 *
 * Its flags; they share a word, as each release tests six of them at once:
 *
 * auto_limit    limit is where "limit=auto" begins
 *               set by semaphore, of the last request
 * strict        a line of this name has queue=0: no permit stays idle
 *               set by semaphore; stays
 * posted        in the list of dirty ones
 *               set by post; cleared at the end of the turn
 * delayed       in the list "held_back"
 *               set by dispatch; cleared when Redis replies, in a new epoch
 * synced        declared in this epoch: differences are sent
 *               set by declare, or when created; cleared by a new epoch
 * disowned      its lease had expired: its permits may be those of others, and
 *               serve no more requests
 *               set by an event of the session; cleared by a reply by which
 *               the limit is kept
 * recovering    Redis grants nothing until ask_after
 *               set by a reply, declare, the end of a turn; cleared at that
 *               time, by an event of the session, a new epoch
 * pass_due      the recovery is new: "dsem_on_error pass" decides once
 *               set with "recovering"; cleared at the end of the turn
 * broken        its keys are of another type, and Redis may count other permits
 *               and tickets than this worker has
 *               set by a reply; cleared by one that counts the same, a new
 *               epoch
 * check_due     counts are to be compared
 *               set by the poll, a missed message, a late cancel; cleared when
 *               that is sent, by a new epoch
 * check_failed  the last check found a difference, maybe for a message on its
 *               way
 *               set and cleared by the reply to a check
 * refresh       a sync is due, even one without changes
 *               set where tickets may wait for it; cleared by any sync
 *
 * A released permit stays idle only if all three are set:
 *
 * keep_allowed  no ticket waits, by the last reply
 *               set and cleared by each reply; cleared by a recall that finds
 *               none idle
 * keep_sent     the last sync said that permits stay idle here
 *               set and cleared by each sync; cleared by a new epoch
 * keep_acked    so did the last one that has its reply: Redis recalls them
 *               set and cleared by each reply; cleared by a new epoch
 *
 * reused        an idle permit has served a request
 *               set by ledger; cleared by idle, which then asks Redis
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
    int64_t                    wanted;     /* their weights */
    ngx_rbtree_t               aside;      /* by weight, those that are heavier
                                              than all that this worker may have
                                              while Redis is unavailable */
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
    ngx_int_t                  excess;     /* permits above the limit that are
                                              no new overage */
    ngx_int_t                  admitted;   /* permits by the local limit that
                                              Redis had not counted, until the
                                              end of the recovery */
    ngx_int_t                  lowered;    /* permits that have to go back, by
                                              the last reply; in an outage
                                              this worker's part of them */
    ngx_int_t                  lowered_to; /* by which limit */
    ngx_msec_t                 hold_time;  /* mean, in eighths of ms */
    double                     permit_time;  /* mean of it times the weight */
    ngx_http_dsem_counted_t    counted;    /* by this node */

    ngx_int_t                  share;      /* idle permits at most */
    ngx_int_t                  idle_low;   /* lowest since the last tick */
    ngx_msec_t                 reuse;      /* "dsem_reuse", 0: off */
    ngx_event_t                tick;       /* returns idle permits */

    ngx_uint_t                 inflight;   /* unanswered commands */
    void                      *check;      /* of these, the sync that compares
                                              counts; or NULL */
    ngx_msec_t                 last_sync;  /* when it was sent */
    ngx_msec_t                 last_check; /* when counts were compared */
    ngx_msec_t                 ask_after;  /* while recovering: not before */

    /* see above */
    unsigned                   auto_limit:1;
    unsigned                   strict:1;
    unsigned                   posted:1;
    unsigned                   delayed:1;
    unsigned                   synced:1;
    unsigned                   disowned:1;
    unsigned                   recovering:1;
    unsigned                   pass_due:1;
    unsigned                   broken:1;
    unsigned                   check_due:1;
    unsigned                   check_failed:1;
    unsigned                   refresh:1;
    unsigned                   keep_allowed:1;
    unsigned                   keep_sent:1;
    unsigned                   keep_acked:1;
    unsigned                   reused:1;
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
    ngx_int_t limit, ngx_uint_t full);
void ngx_http_dsem_account_done(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_ACCOUNT_H_INCLUDED_ */
