
/*
 * Counters: what this node has decided, by semaphore, in shared memory.
 */


#ifndef _NGX_HTTP_DSEM_COUNTERS_H_INCLUDED_
#define _NGX_HTTP_DSEM_COUNTERS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* requests by result, one each per semaphore; the last two are permits */
typedef enum {
    NGX_HTTP_DSEM_COUNT_PASSED = 0,     /* at once */
    NGX_HTTP_DSEM_COUNT_QUEUED,         /* waited and passed */
    NGX_HTTP_DSEM_COUNT_REJECTED,
    NGX_HTTP_DSEM_COUNT_TIMEOUT,
    NGX_HTTP_DSEM_COUNT_ERROR,
    NGX_HTTP_DSEM_COUNT_DEGRADED,
    NGX_HTTP_DSEM_COUNT_ABORTED,        /* by the client, while it waited */
    NGX_HTTP_DSEM_COUNT_REJECTED_DRY_RUN,
    NGX_HTTP_DSEM_COUNT_TIMEOUT_DRY_RUN,
    NGX_HTTP_DSEM_COUNT_ERROR_DRY_RUN,
    NGX_HTTP_DSEM_COUNT_RECLAIMED,      /* of sessions that have ended */
    NGX_HTTP_DSEM_COUNT_OVERAGE,
    NGX_HTTP_DSEM_NCOUNTS
} ngx_http_dsem_count_e;


/* the bounds are in ngx_http_dsem_counters_bounds, in ms; the last has none */
#define NGX_HTTP_DSEM_NBUCKETS   15

/* two minutes each; the oldest is dropped when a new one begins */
#define NGX_HTTP_DSEM_NPERIODS   30
#define NGX_HTTP_DSEM_PERIOD     120


typedef struct ngx_http_dsem_row_s  ngx_http_dsem_row_t;


/* a row as its user keeps it; all zero: not looked up */
typedef struct {
    ngx_http_dsem_row_t        *row;
    ngx_atomic_uint_t           version;
} ngx_http_dsem_counted_t;


typedef struct {
    uint64_t                    buckets[NGX_HTTP_DSEM_NBUCKETS];
    uint64_t                    sum;        /* ms */
} ngx_http_dsem_histogram_t;


typedef struct {
    uint32_t                    passed;     /* at once, or after waiting */
    uint32_t                    rejected;
    uint32_t                    timeout;
    uint32_t                    error;
} ngx_http_dsem_period_t;


/* a copy of a row, for readers */
typedef struct {
    ngx_str_t                   name;       /* encoded; empty: all names
                                               without a row of their own */
    uint64_t                    counts[NGX_HTTP_DSEM_NCOUNTS];
    ngx_http_dsem_histogram_t   wait;
    ngx_http_dsem_histogram_t   hold;
    ngx_uint_t                  most_in_use;   /* in the fleet, as seen */
    ngx_uint_t                  most_waiting;

    /* of this node, now */
    ngx_uint_t                  in_use;
    ngx_uint_t                  idle;
    ngx_uint_t                  waiting;

    /* oldest first, the running one last */
    ngx_http_dsem_period_t      periods[NGX_HTTP_DSEM_NPERIODS];
    ngx_uint_t                  nperiods;
} ngx_http_dsem_figures_t;


extern const ngx_msec_t
    ngx_http_dsem_counters_bounds[NGX_HTTP_DSEM_NBUCKETS - 1];


/*
 * for readers: all rows of the node as ngx_http_dsem_figures_t, by name, in
 * memory of the pool; the last element is that of the other names (its name
 * is empty).  NULL: no memory
 */
ngx_array_t *ngx_http_dsem_counters_read(ngx_pool_t *pool);

/* one of them; NGX_DECLINED: the name has no row */
ngx_int_t ngx_http_dsem_counters_read_one(ngx_str_t *name,
    ngx_http_dsem_figures_t *figures);

/* functions for writers follow: see the helper's code */


#endif /* _NGX_HTTP_DSEM_COUNTERS_H_INCLUDED_ */
