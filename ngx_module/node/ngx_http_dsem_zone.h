
/*
 * The zone: shared memory of the workers of a node.
 */


#ifndef _NGX_HTTP_DSEM_ZONE_H_INCLUDED_
#define _NGX_HTTP_DSEM_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_memo.h"


/* bytes beside "dsem_zone_size": of the top keys, processes and the memo */
#define NGX_HTTP_DSEM_ZONE_MORE  114688


typedef struct ngx_http_dsem_zone_s  ngx_http_dsem_zone_t;
typedef struct ngx_http_dsem_zone_entry_s  ngx_http_dsem_zone_entry_t;


/* the entry of a session of this process; changed only by zone */
typedef struct {
    ngx_http_dsem_zone_entry_t  *entry;     /* NULL: none */
    ngx_atomic_uint_t            number;
} ngx_http_dsem_zone_own_t;


/* a shard, in the last reply to a session of this node */
typedef struct {
    int64_t                      generation;  /* 0: never seen one */
    int64_t                      term;        /* the highest one of it */
    int64_t                      clock;       /* of it, ms */
    ngx_uint_t                   sessions;    /* 0: never seen the fleet */
    ngx_uint_t                   workers;     /* of the node, then */
    ngx_msec_t                   longest;     /* lease of any of them */
    uint64_t                     replied;     /* to a command of this time,
                                                 monotonic ms; 0: never */
} ngx_http_dsem_zone_state_t;


ngx_int_t ngx_http_dsem_zone_init(ngx_shm_zone_t *shm_zone, void *data);
ngx_int_t ngx_http_dsem_zone_attach(ngx_http_dsem_zone_t *zone, size_t size);
ngx_http_dsem_memo_t *ngx_http_dsem_zone_memo(ngx_http_dsem_zone_t *zone);

void ngx_http_dsem_zone_enter(ngx_http_dsem_zone_t *zone, ngx_uint_t shard,
    uint64_t space, ngx_http_dsem_zone_own_t *own, ngx_str_t *session);
ngx_int_t ngx_http_dsem_zone_leave(ngx_http_dsem_zone_t *zone,
    ngx_str_t *session);
ngx_uint_t ngx_http_dsem_zone_turn(ngx_http_dsem_zone_t *zone,
    ngx_uint_t shard, uint64_t space, ngx_msec_t heartbeat);
ngx_int_t ngx_http_dsem_zone_dead(ngx_http_dsem_zone_t *zone, uint64_t space,
    ngx_msec_t heartbeat, ngx_uint_t *next, ngx_str_t *session);
ngx_uint_t ngx_http_dsem_zone_has(ngx_http_dsem_zone_t *zone, uint64_t space,
    ngx_uint_t dead);

void ngx_http_dsem_zone_configure(ngx_http_dsem_zone_t *zone,
    ngx_uint_t configuration);
ngx_uint_t ngx_http_dsem_zone_newest(ngx_http_dsem_zone_t *zone);

void ngx_http_dsem_zone_remember(ngx_http_dsem_zone_t *zone, ngx_uint_t shard,
    uint64_t space, ngx_uint_t newest, ngx_http_dsem_zone_state_t *state);
void ngx_http_dsem_zone_recall(ngx_http_dsem_zone_t *zone, ngx_uint_t shard,
    uint64_t space, ngx_http_dsem_zone_state_t *state);
ngx_uint_t ngx_http_dsem_zone_recoveries(ngx_http_dsem_zone_t *zone);

void ngx_http_dsem_zone_change(ngx_http_dsem_zone_t *zone);
uint64_t ngx_http_dsem_zone_changed(ngx_http_dsem_zone_t *zone);


#endif /* _NGX_HTTP_DSEM_ZONE_H_INCLUDED_ */
