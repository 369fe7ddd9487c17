
/*
 * Tickets: requests of this worker that wait for permits, or hold them.
 * For the semaphore floor only.
 */


#ifndef _NGX_HTTP_DSEM_TICKET_H_INCLUDED_
#define _NGX_HTTP_DSEM_TICKET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_semaphore.h"


typedef struct ngx_http_dsem_account_s  ngx_http_dsem_account_t;


typedef enum {
    NGX_HTTP_DSEM_TICKET_NEW = 0,  /* Redis has not been asked */
    NGX_HTTP_DSEM_TICKET_ASKED,    /* the answer is under way */
    NGX_HTTP_DSEM_TICKET_QUEUED,   /* it has a place in the queue */
    NGX_HTTP_DSEM_TICKET_HELD,     /* its permits are held */
    NGX_HTTP_DSEM_TICKET_ENDED     /* Redis knows nothing of it */
} ngx_http_dsem_ticket_e;


/*
 * A ticket lives from the ask until its owner has left and Redis knows
 * nothing of it any more, whichever comes last.
 */
struct ngx_http_dsem_ticket_s {
    ngx_rbtree_node_t          node;       /* by number, until held or ended */
    ngx_queue_t                queue;      /* in account->asks or ->tickets */
    ngx_queue_t                cancel;     /* in account->cancels */
    ngx_queue_t                notify;       /* in the list of verdicts */

    ngx_http_dsem_account_t   *account;
    ngx_http_dsem_ticket_e     state;

    uint64_t                   number;
    uint64_t                   epoch;      /* under which it was asked for */
    int64_t                    place;      /* 0: unknown */
    ngx_int_t                  weight;
    ngx_int_t                  class;
    ngx_int_t                  queue_limit;      /* of the queue */

    ngx_http_dsem_verdict_pt   handler;    /* NULL: the owner has left */
    void                      *data;
    ngx_http_dsem_answer_t     answer;
    ngx_msec_t                 granted;    /* when */

    unsigned                   early:1;
    unsigned                   local:1;    /* may be admitted without Redis */
    unsigned                   notifying:1;  /* in the list of verdicts */
    unsigned                   canceling:1;  /* in account->cancels */
};


void ngx_http_dsem_ticket_init(void);

ngx_http_dsem_ticket_t *ngx_http_dsem_ticket_create(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
ngx_http_dsem_ticket_t *ngx_http_dsem_ticket_reuse(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
ngx_http_dsem_ticket_t *ngx_http_dsem_ticket_find(uint64_t number);
void ngx_http_dsem_ticket_asked(ngx_http_dsem_ticket_t *ticket,
    uint64_t epoch);
ngx_int_t ngx_http_dsem_ticket_grant(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t in_use, ngx_int_t limit);
void ngx_http_dsem_ticket_grant_local(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t limit);
void ngx_http_dsem_ticket_grant_idle(ngx_http_dsem_ticket_t *ticket);
ngx_int_t ngx_http_dsem_ticket_requeue(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_ticket_queued(ngx_http_dsem_ticket_t *ticket,
    int64_t place, ngx_int_t position, ngx_int_t in_use, ngx_int_t limit);
void ngx_http_dsem_ticket_placed(ngx_http_dsem_ticket_t *ticket,
    int64_t place, uint64_t epoch);
void ngx_http_dsem_ticket_again(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_ticket_end(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_verdict_e verdict);
void ngx_http_dsem_ticket_too_late(ngx_http_dsem_ticket_t *ticket);
ngx_uint_t ngx_http_dsem_tickets_waiting(void);
void ngx_http_dsem_ticket_free(ngx_http_dsem_ticket_t *ticket);


#endif /* _NGX_HTTP_DSEM_TICKET_H_INCLUDED_ */
