
/*
 * What a ticket is, and where a waiting one is found.
 */


#ifndef _NGX_HTTP_DSEM_WAITING_H_INCLUDED_
#define _NGX_HTTP_DSEM_WAITING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


typedef enum {
    NGX_HTTP_DSEM_VERDICT_WAITING = 0,
    NGX_HTTP_DSEM_VERDICT_GRANTED,
    NGX_HTTP_DSEM_VERDICT_REJECTED,     /* neither a permit nor a place */
    NGX_HTTP_DSEM_VERDICT_WORKER_FULL,  /* no place in this worker */
    NGX_HTTP_DSEM_VERDICT_UNAVAILABLE,  /* Redis cannot be asked */
    NGX_HTTP_DSEM_VERDICT_MIXED,        /* it is a pool, and should be none, or
                                           the other way round */
    NGX_HTTP_DSEM_VERDICT_BROKEN        /* a key of it is of another type */
} ngx_http_dsem_verdict_e;


typedef enum {
    NGX_HTTP_DSEM_TICKET_NEW = 0,  /* in account->asks */
    NGX_HTTP_DSEM_TICKET_ASKED,    /* sent, no reply yet */
    NGX_HTTP_DSEM_TICKET_QUEUED,   /* has a place in the queue */
    NGX_HTTP_DSEM_TICKET_HELD,     /* holds its permits */
    NGX_HTTP_DSEM_TICKET_ENDED     /* unknown to Redis */
} ngx_http_dsem_ticket_e;


/*
 * Called once when the verdict is there, from a posted event; of a dry
 * run also before that, when the ticket has a place in the queue.
 */
typedef void (*ngx_http_dsem_verdict_pt)(void *data);


/* what a request asks for */
typedef struct {
    ngx_str_t                  name;       /* encoded */
    uint32_t                   hash;       /* its CRC32 */
    ngx_int_t                  limit;
    ngx_int_t                  weight;     /* 1..limit */
    ngx_int_t                  class;      /* "priority", the lower first */
    ngx_int_t                  queue;
    ngx_msec_t                 reuse;      /* ms, 0: off */
    ngx_uint_t                 strict;     /* unsigned:1, keep none idle */
    ngx_http_dsem_pool_t      *pool;       /* NULL: a plain semaphore */
    ngx_str_t                  key;        /* of "fair", encoded; or empty */
    ngx_int_t                  share;      /* of the key */

    ngx_http_dsem_verdict_pt   handler;
    void                      *data;
    unsigned                   auto_limit:1;  /* limit is its start */
    unsigned                   dry_run:1;
    unsigned                   fair:1;     /* permits are shared by key */
    /* while Redis cannot be asked, if no own permit is free: */
    unsigned                   local:1;    /* admitted without Redis, too */
    unsigned                   pass:1;     /* not to be waited for */
} ngx_http_dsem_ask_t;


typedef struct {
    ngx_http_dsem_verdict_e    verdict;
    ngx_int_t                  position;   /* 0: was never queued */
    ngx_int_t                  in_use;     /* -1: unknown */
    ngx_int_t                  limit;
    unsigned                   local:1;    /* on no permit of Redis */
    unsigned                   heavy:1;    /* local, and the weight exceeds the
                                              limit, not what is here of it */
} ngx_http_dsem_answer_t;


/*
 * Lives until its owner has left and Redis does not know it any more,
 * whichever comes last.  Its owner reads the answer, and nothing else.
 */
typedef struct {
    /* set by what they are put into */
    ngx_rbtree_node_t          node;       /* by number, until held, ended */
    ngx_rbtree_node_t          order;      /* in account->waiting, ->aside */
    ngx_queue_t                queue;      /* in account->asks, ->tickets,
                                              ->holders */
    ngx_queue_t                cancel;     /* in account->cancels */
    ngx_queue_t                notify;     /* owners to be notified */

    /* zero at first */
    ngx_http_dsem_account_t   *account;
    ngx_http_dsem_ticket_e     state;

    uint64_t                   number;
    uint64_t                   epoch;      /* of its ask */
    int64_t                    place;      /* 0: unknown */
    ngx_int_t                  weight;
    ngx_int_t                  class;
    ngx_int_t                  queue_limit;
    ngx_int_t                  server;     /* of its permit in a pool; or
                                              NGX_HTTP_DSEM_NO_SERVER */

    ngx_http_dsem_verdict_pt   handler;    /* NULL: the owner has left */
    void                      *data;
    ngx_http_dsem_answer_t     answer;
    ngx_msec_t                 granted;    /* time of the grant */
    ngx_http_dsem_fair_tag_t   fair;

    unsigned                   dry_run:1;
    unsigned                   local:1;
    unsigned                   pass:1;
    unsigned                   aside:1;    /* in account->aside */
    unsigned                   notifying:1;  /* in the list "notify" */
    unsigned                   canceling:1;  /* in account->cancels */
    unsigned                   late:1;     /* granted before its cancel, the
                                              server has to be found */
} ngx_http_dsem_ticket_t;


void ngx_http_dsem_waiting_init(void);

void ngx_http_dsem_waiting_number(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_waiting_insert(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_waiting_remove(ngx_http_dsem_ticket_t *ticket);
ngx_http_dsem_ticket_t *ngx_http_dsem_waiting_find(uint64_t number);

void ngx_http_dsem_waiting_enter(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_waiting_leave(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_waiting_aside(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_waiting_return(ngx_http_dsem_account_t *account,
    ngx_int_t weight);
ngx_http_dsem_ticket_t *ngx_http_dsem_waiting_first(
    ngx_http_dsem_account_t *account);
ngx_http_dsem_ticket_t *ngx_http_dsem_waiting_last(
    ngx_http_dsem_account_t *account);
ngx_uint_t ngx_http_dsem_waiting_total(ngx_uint_t dry_run);


#endif /* _NGX_HTTP_DSEM_WAITING_H_INCLUDED_ */
