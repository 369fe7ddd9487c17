
/*
 * Fair shares: the keys of one account, and the tags of its tickets.
 */


#ifndef _NGX_HTTP_DSEM_FAIR_H_INCLUDED_
#define _NGX_HTTP_DSEM_FAIR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_top.h"


/* priorities, from the first */
#define NGX_HTTP_DSEM_FAIR_FIRST    -8
#define NGX_HTTP_DSEM_FAIR_CLASSES  16


/* a key in one class; kept for a while after its last ticket */
typedef struct {
    ngx_str_node_t             node;       /* str: the class, the key */
    ngx_queue_t                queue;      /* in fair->used, unused or slow */
    ngx_queue_t                debt;       /* in fair->debts */
    ngx_uint_t                 tickets;    /* that refer to it */
    ngx_int_t                  waiting;    /* requests */
    ngx_int_t                  holders;    /* requests that hold permits */
    ngx_int_t                  in_use;     /* permits */
    uint64_t                   finish;     /* tag of its last ticket */
    uint64_t                   credit;     /* of tickets that have left */
    int64_t                    hold_time;  /* mean, us; 0: unknown */
    ngx_int_t                  measured;   /* hold times in the mean */

    /*
     * us of permit time by its share: weights may be large, and with many
     * shares a permit uses less than one in a ms
     */
    double                     cost;       /* of its last request, expected */
    double                     rate;       /* that it uses now, per ms */
    double                     over;       /* used by running requests, less
                                              their costs, until "updated" */
    int64_t                    updated;    /* by the clock */
    double                     balance;    /* of ended ones, less charges */
    ngx_uint_t                 owing;      /* it is in fair->debts */
} ngx_http_dsem_fair_key_t;


/* what a key owes, as sent with the next sync */
typedef struct {
    ngx_int_t                  class;
    int64_t                    cost;       /* us */
    ngx_str_t                  key;        /* encoded */
} ngx_http_dsem_fair_charge_t;


/* of an account some of whose requests have a key */
typedef struct {
    ngx_str_t                  key;        /* of the tags in Redis */
    ngx_str_t                  drops_key;  /* of dropped tickets */
    ngx_rbtree_t               keys;
    ngx_rbtree_node_t          sentinel;
    ngx_uint_t                 nkeys;
    ngx_queue_t                used;       /* with tickets */
    ngx_queue_t                unused;     /* without a ticket, oldest first */
    ngx_queue_t                slow;       /* of these, with long hold times */
    ngx_queue_t                debts;      /* keys that are to be charged */
    ngx_event_t                watch;      /* debts are computed again */
    ngx_msec_t                 due;        /* when that is; 0: not set */
    ngx_uint_t                 contended;  /* tickets wait in Redis */
    ngx_msec_t                 since;      /* it is so */
    int64_t                    clock;      /* ms in which tickets waited, until
                                              "since" */
    ngx_msec_t                 stalls;     /* ms in which this worker did not
                                              run, in all */
    int64_t                    mean;       /* us, hold time of all */
    ngx_http_dsem_top_own_t    top;        /* what is shown of the keys */

    /* start tags by class: of the last ticket served, the highest of all */
    uint64_t                   served[NGX_HTTP_DSEM_FAIR_CLASSES];
    uint64_t                   latest[NGX_HTTP_DSEM_FAIR_CLASSES];
} ngx_http_dsem_fair_t;


/* of one ticket */
typedef struct {
    ngx_http_dsem_fair_key_t  *key;        /* NULL: none */
    int64_t                    cost;       /* expected, us of a permit, by
                                              its share */
    double                     rate;       /* the same, for each ms that it is
                                              held; 0: nothing is expected */
    int64_t                    began;      /* by the clock: it holds them */
    ngx_msec_t                 stalls;     /* those of before */
    ngx_int_t                  limit;      /* by which the cost became a place
                                              in Redis; 0: unknown */
    uint64_t                   start;      /* tags in this worker */
    uint64_t                   finish;
    uint64_t                   step;       /* by which its cost advances them */
} ngx_http_dsem_fair_tag_t;


ngx_http_dsem_fair_t *ngx_http_dsem_fair_create(ngx_http_dsem_keys_t *keys,
    ngx_str_t *name);
void ngx_http_dsem_fair_free(ngx_http_dsem_fair_t *fair);

void ngx_http_dsem_fair_join(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t class, ngx_str_t *key);
void ngx_http_dsem_fair_copied(ngx_http_dsem_fair_tag_t *tag);
void ngx_http_dsem_fair_leave(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag);

void ngx_http_dsem_fair_expect(ngx_http_dsem_fair_tag_t *tag,
    ngx_int_t weight, ngx_int_t share, ngx_msec_t mean);
void ngx_http_dsem_fair_wait(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t class, ngx_int_t limit);
void ngx_http_dsem_fair_unwait(ngx_http_dsem_fair_tag_t *tag);
void ngx_http_dsem_fair_serve(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t class);

void ngx_http_dsem_fair_hold(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t weight);
void ngx_http_dsem_fair_release(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t weight, ngx_msec_t hold_time,
    ngx_msec_t mean);

void ngx_http_dsem_fair_contend(ngx_http_dsem_fair_t *fair,
    ngx_uint_t contended);
ngx_uint_t ngx_http_dsem_fair_debts(ngx_http_dsem_fair_t *fair);
ngx_uint_t ngx_http_dsem_fair_charge(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_charge_t *charges, ngx_uint_t n);

void ngx_http_dsem_fair_show(ngx_http_dsem_fair_t *fair, ngx_str_t *name,
    uint32_t hash);

uint64_t ngx_http_dsem_fair_start(ngx_http_dsem_fair_t *fair,
    ngx_int_t class, ngx_str_t *key);
void ngx_http_dsem_fair_name(ngx_http_dsem_fair_tag_t *tag, ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_FAIR_H_INCLUDED_ */
