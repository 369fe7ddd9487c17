
/*
 * Limits: the literal limits of this worker's configuration.
 */


#ifndef _NGX_HTTP_DSEM_LIMITS_H_INCLUDED_
#define _NGX_HTTP_DSEM_LIMITS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_memo.h"
#include "ngx_http_dsem_redis.h"
#include "ngx_http_dsem_zone.h"


/*
 * Of a limit, and of a weight: they are summed up in Redis, far below 2^53.
 * As in lua/include/order.lua.
 */
#define NGX_HTTP_DSEM_MAX_LIMIT  1000000000


/* as configured */
typedef struct {
    ngx_str_t                     name;      /* encoded */
    ngx_int_t                     limit;     /* of "auto": at the start */
    ngx_int_t                     min;       /* of "limit=auto" */
    ngx_int_t                     max;       /* of "auto"; 0: another one */
    ngx_uint_t                    max_conns; /* unsigned:1, of a pool: each
                                                server has its own limit */
} ngx_http_dsem_limits_pair_t;


typedef struct {
    ngx_str_t                     id;        /* digest; "-": no pairs */
    ngx_http_dsem_limits_pair_t  *pairs;     /* sorted by name */
    ngx_uint_t                    npairs;
} ngx_http_dsem_limits_settings_t;


/* what this worker sees of a limit that is found, see semaphore/ */
typedef struct ngx_http_dsem_auto_s  ngx_http_dsem_auto_t;


/* one literal limit; changed only by limits */
typedef struct {
    ngx_str_node_t                node;      /* str: the encoded name */
    ngx_int_t                     limit;     /* of this configuration */
    ngx_int_t                     min;       /* of "limit=auto" */
    ngx_int_t                     max;       /* of "auto"; 0: another one */
    ngx_http_dsem_memo_limit_t   *memory;    /* of "limit=auto": of all
                                                workers, or own */
    ngx_http_dsem_memo_limit_t    own;       /* where the memo has none */
    int64_t                       generation; /* of the reply that had it;
                                                0: none */
    ngx_msec_t                    found_at;  /* ms, time of that */
    ngx_http_dsem_auto_t         *samples;   /* of "limit=auto", or NULL */
    ngx_int_t                     in_force;  /* last seen; -1: unknown */
    ngx_msec_t                    asked;     /* ms, time of the question */
    ngx_msec_t                    warned;    /* ms, begin of a minute */
    ngx_uint_t                    warnings;  /* in it */
    ngx_uint_t                    namesakes; /* messages that a node of this
                                                name asks for a lower one */
    unsigned                      max_conns:1; /* limit is the largest one */
    unsigned                      elsewhere:1; /* another node's limit, or an
                                                order, is in force: in the
                                                log, or not worth a line */
} ngx_http_dsem_literal_t;


/* of one session; changed only by limits */
typedef struct {
    ngx_rbtree_t                  names;
    ngx_rbtree_node_t             sentinel;
    ngx_http_dsem_literal_t      *literals;  /* sorted by name */
    ngx_uint_t                    nliterals;
    ngx_str_t                     id;
    ngx_http_dsem_memo_t         *memo;      /* NULL: single process */
    uint32_t                      space;     /* of names in the memo */
    unsigned                      left:1;    /* in this epoch */
} ngx_http_dsem_limits_t;


ngx_int_t ngx_http_dsem_limits_create(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_limits_settings_t *settings, ngx_uint_t shard,
    ngx_uint_t nshards, ngx_http_dsem_zone_t *zone, uint64_t space);
void ngx_http_dsem_limits_free(ngx_http_dsem_limits_t *limits);

ngx_str_t *ngx_http_dsem_limits_id(ngx_http_dsem_limits_t *limits);
ngx_int_t ngx_http_dsem_limits_state(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_redis_t *redis);
void ngx_http_dsem_limits_leave(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_redis_t *redis);

ngx_http_dsem_literal_t *ngx_http_dsem_limits_find(
    ngx_http_dsem_limits_t *limits, ngx_str_t *name, uint32_t hash);
ngx_uint_t ngx_http_dsem_limits_ask_node(ngx_http_dsem_literal_t *literal);
ngx_int_t ngx_http_dsem_limits_seen(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_literal_t *literal, ngx_int_t limit, uint64_t sent);
void ngx_http_dsem_limits_seen_lower(ngx_http_dsem_limits_t *limits,
    ngx_uint_t newest, ngx_str_t *name, uint32_t hash, ngx_int_t own,
    ngx_int_t limit, ngx_uint_t paused, uint64_t sent);
ngx_int_t ngx_http_dsem_limits_lower(ngx_http_dsem_limits_t *limits,
    ngx_str_t *name, uint32_t hash, ngx_int_t own, ngx_int_t seen);
ngx_uint_t ngx_http_dsem_limits_paused(ngx_http_dsem_limits_t *limits,
    ngx_str_t *name, uint32_t hash);
void ngx_http_dsem_limits_found(ngx_http_dsem_literal_t *literal,
    ngx_int_t found, ngx_int_t kept, int64_t generation, uint64_t sent);
ngx_int_t ngx_http_dsem_limits_lost(ngx_http_dsem_literal_t *literal,
    int64_t generation);
ngx_int_t ngx_http_dsem_limits_last(ngx_http_dsem_literal_t *literal);
ngx_uint_t ngx_http_dsem_limits_probed(ngx_http_dsem_literal_t *literal,
    ngx_int_t limit);
ngx_int_t ngx_http_dsem_limits_local(ngx_http_dsem_literal_t *literal);
void ngx_http_dsem_limits_lower_elsewhere(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_literal_t *literal, ngx_int_t limit, ngx_str_t *node,
    ngx_uint_t namesake);


#endif /* _NGX_HTTP_DSEM_LIMITS_H_INCLUDED_ */
