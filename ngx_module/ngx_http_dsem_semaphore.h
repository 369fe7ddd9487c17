
/*
 * Semaphores as a request sees them: it asks for permits, is told one
 * verdict, and leaves.
 */


#ifndef _NGX_HTTP_DSEM_SEMAPHORE_H_INCLUDED_
#define _NGX_HTTP_DSEM_SEMAPHORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


/* classes, served in this order; "priority" in the configuration */
#define NGX_HTTP_DSEM_FIRST_CLASS  -8
#define NGX_HTTP_DSEM_LAST_CLASS   7


/* what an ask is told */
typedef enum {
    NGX_HTTP_DSEM_VERDICT_WAITING = 0,     /* nothing yet */
    NGX_HTTP_DSEM_VERDICT_GRANTED,
    NGX_HTTP_DSEM_VERDICT_REJECTED,         /* neither a permit nor a place */
    NGX_HTTP_DSEM_VERDICT_WORKER_FULL,         /* this worker has no place for it */
    NGX_HTTP_DSEM_VERDICT_UNAVAILABLE           /* Redis cannot be asked */
} ngx_http_dsem_verdict_e;


typedef struct ngx_http_dsem_ticket_s  ngx_http_dsem_ticket_t;

/*
 * Told once that ticket->verdict is there, from a posted event; with
 * "early" also, before that, that the ticket has a place in the queue.
 */
typedef void (*ngx_http_dsem_verdict_pt)(void *data);


typedef struct {
    ngx_str_t                  name;       /* encoded */
    ngx_int_t                  limit;
    ngx_int_t                  weight;     /* 1..limit */
    ngx_int_t                  class;
    ngx_int_t                  queue;
    ngx_msec_t                 reuse;      /* for so long, 0: never */
    ngx_uint_t                 strict;     /* unsigned:1, nothing is idle */

    ngx_http_dsem_verdict_pt   handler;
    void                      *data;
    unsigned                   early:1;
    unsigned                   local:1;    /* may be admitted without Redis */
} ngx_http_dsem_ask_t;


/* what the asker may read; all of it belongs to the semaphore floor */
typedef struct {
    ngx_http_dsem_verdict_e    verdict;
    ngx_int_t                  position;   /* 0: was never queued */
    ngx_int_t                  in_use;     /* -1: not known */
    ngx_int_t                  limit;
    unsigned                   local:1;    /* admitted without Redis */
} ngx_http_dsem_answer_t;


ngx_int_t ngx_http_dsem_semaphore_init(
    ngx_http_dsem_session_settings_t *settings, ngx_uint_t max_waiting);
void ngx_http_dsem_semaphore_exit(void);

ngx_http_dsem_ticket_t *ngx_http_dsem_semaphore_acquire(
    ngx_http_dsem_ask_t *ask, ngx_http_dsem_answer_t *answer);
ngx_uint_t ngx_http_dsem_semaphore_full(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_answer_t *answer);
void ngx_http_dsem_ticket_release(ngx_http_dsem_ticket_t *ticket);
ngx_http_dsem_answer_t *ngx_http_dsem_ticket_answer(
    ngx_http_dsem_ticket_t *ticket);


#endif /* _NGX_HTTP_DSEM_SEMAPHORE_H_INCLUDED_ */
