
/*
 * Counters: what this node has decided, by semaphore, in shared memory; with
 * the rows and the cells that they are made of, and their readers (figures).
 */


#ifndef _NGX_HTTP_DSEM_COUNTERS_H_INCLUDED_
#define _NGX_HTTP_DSEM_COUNTERS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"


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

/* the values of a row: counts, then two histograms with their sums, in ms */
#define NGX_HTTP_DSEM_VALUE_WAIT  NGX_HTTP_DSEM_NCOUNTS
#define NGX_HTTP_DSEM_VALUE_HOLD                                              \
    (NGX_HTTP_DSEM_VALUE_WAIT + NGX_HTTP_DSEM_NBUCKETS + 1)
#define NGX_HTTP_DSEM_NVALUES                                                 \
    (NGX_HTTP_DSEM_VALUE_HOLD + NGX_HTTP_DSEM_NBUCKETS + 1)

#define NGX_HTTP_DSEM_PEAK_IN_USE   0
#define NGX_HTTP_DSEM_PEAK_WAITING  1
#define NGX_HTTP_DSEM_NPEAKS        2


/* two minutes each; the oldest is dropped when a new one begins */
#define NGX_HTTP_DSEM_NPERIODS   30
#define NGX_HTTP_DSEM_PERIOD     120

/* values that have a history */
#define NGX_HTTP_DSEM_ROW_TRACKED    4

/* in a slot: number of a row; what is above it is of the hash */
#define NGX_HTTP_DSEM_ROWS_NUMBER    0xfffff


/* what metrics have made of the name of a row */
typedef enum {
    NGX_HTTP_DSEM_ROW_NEW = 0,       /* nothing yet */
    NGX_HTTP_DSEM_ROW_SUMMED,        /* it is one of the other names */
    NGX_HTTP_DSEM_ROW_SHOWN          /* it has series, or has had them */
} ngx_http_dsem_row_series_e;


typedef struct {
    ngx_atomic_t         version;    /* odd: the name is being changed */
    ngx_atomic_t         owner;      /* process that changes it, by its
                                        number; 0: none */
    ngx_atomic_t         used;       /* time of the last use, see _time() */
    ngx_atomic_t         dry;        /* time of the last request that a dry run
                                        passed, and 1; 0: none */
    ngx_atomic_t         limit;      /* last seen in force, and 1; 0: none */
    ngx_atomic_t         series;     /* ngx_http_dsem_row_series_e */

    /* since the zone was created, of all names that the row has had */
    ngx_atomic_t         values[NGX_HTTP_DSEM_NVALUES];
    /* of these, before it got its name, or series */
    ngx_atomic_t         base[NGX_HTTP_DSEM_NVALUES];

    ngx_atomic_t         peaks[NGX_HTTP_DSEM_NPEAKS];

    uint32_t             hash;
    uint32_t             len;        /* 0: it has no name */
    uint32_t             slot;       /* where the index has it */

    uint32_t             first;      /* period in which it got its name */
    uint32_t             last;       /* the last one that has a snapshot */

    /* values when a period began, at its number modulo their number */
    uint32_t             snapshots[NGX_HTTP_DSEM_NPERIODS]
                                  [NGX_HTTP_DSEM_ROW_TRACKED];

    u_char               name[NGX_HTTP_DSEM_MAX_NAME];
} ngx_http_dsem_row_t;


typedef struct {
    ngx_uint_t            nrows;
    ngx_uint_t            nslots;
    ngx_atomic_t          used;      /* no row is used behind these */
    ngx_atomic_t          hand;      /* where the next search begins */
    ngx_atomic_t          period;    /* number of the running one */
    ngx_atomic_t         *slots;
    ngx_http_dsem_row_t   rows[1];   /* the first: of all other names */
} ngx_http_dsem_rows_t;


/* the figures are written by the process that has it, and by no other */
typedef struct {
    ngx_atomic_t                  owner;     /* a process; 0: free */
    ngx_atomic_t                  version;   /* of the row */
    uint32_t                      row;       /* its number */
    int32_t                       in_use;    /* permits */
    int32_t                       idle;      /* permits */
    int32_t                       waiting;   /* requests */
    ngx_msec_t                    oldest;    /* ngx_current_msec, of the oldest
                                                hold; 0: none */
} ngx_http_dsem_cell_t;


typedef struct {
    ngx_uint_t                    ncells;
    ngx_atomic_t                  used;      /* none is behind these */
    ngx_atomic_t                  swept;     /* up to this cell */
    ngx_http_dsem_cell_t          cells[1];
} ngx_http_dsem_cells_t;


/* a semaphore as its user keeps it; all zero but for name and hash */
typedef struct {
    ngx_str_t                  *name;       /* encoded, as long as it lives */
    uint32_t                    hash;       /* its CRC32 */

    ngx_http_dsem_row_t        *row;        /* NULL: not found yet */
    ngx_atomic_uint_t           version;    /* of the row, then */
    ngx_http_dsem_cell_t       *cell;       /* NULL: none */
} ngx_http_dsem_counted_t;


/* requests that passed, for whatever reason, were rejected, timed out, or were
   refused for an error */
typedef struct {
    uint32_t                    n[NGX_HTTP_DSEM_ROW_TRACKED];
} ngx_http_dsem_period_t;


/* a copy of a row, for readers */
typedef struct {
    ngx_str_t                   name;       /* encoded; empty: all names
                                               without a row of their own */
    uint64_t                    values[NGX_HTTP_DSEM_NVALUES];
    uint64_t                    most_in_use;   /* in the fleet, as seen, with
                                                  idle ones of other workers */
    uint64_t                    most_waiting;

    /* of this node, now */
    uint64_t                    in_use;
    uint64_t                    idle;
    uint64_t                    waiting;
    uint64_t                    oldest_hold;   /* ms, 0: nothing is held */

    ngx_int_t                   limit;      /* last seen in force, also where
                                               nothing is held; -1: unknown */
    uint64_t                    dry_run;    /* unsigned:1, of its last requests
                                               some were passed so */

    /* oldest first, the running one last */
    ngx_http_dsem_period_t      periods[NGX_HTTP_DSEM_NPERIODS];
    ngx_uint_t                  nperiods;
} ngx_http_dsem_figures_t;


/* all rows of the node, read in pieces; the reader's until it is complete */
typedef struct {
    ngx_array_t                 names;      /* ngx_http_dsem_figures_t *,
                                               by name when it is complete */
    ngx_http_dsem_figures_t     other;      /* of all others, summed up */
    ngx_uint_t                  partial;    /* unsigned:1, others have names */

    /* for metrics: other never falls, and hidden is what is not in it */
    ngx_uint_t                  series;     /* unsigned:1 */
    uint64_t                    hidden[NGX_HTTP_DSEM_NVALUES];

    /* which names are wanted, before others */
    ngx_uint_t                (*wants)(void *data, ngx_str_t *name);
    void                       *data;
    ngx_uint_t                  spare;      /* places for others */

    ngx_pool_t                 *pool;
    ngx_array_t                 places;     /* of the rows that were copied */
    ngx_uint_t                  row;        /* to be read next */
    ngx_uint_t                  cell;       /* to be read next */
} ngx_http_dsem_counters_reader_t;


/* a name that has a row */
typedef struct {
    ngx_str_t                   name;       /* encoded */
    ngx_uint_t                  busy;       /* unsigned:1, something is in use,
                                               idle or waiting */
} ngx_http_dsem_counters_name_t;


extern const ngx_msec_t
    ngx_http_dsem_counters_bounds[NGX_HTTP_DSEM_NBUCKETS - 1];


/*
 * for readers: wants, data, spare and series are set.  NGX_AGAIN: there is
 * more, to be read in another turn of the event loop; NGX_ERROR: no memory
 */
ngx_int_t ngx_http_dsem_figures_begin(
    ngx_http_dsem_counters_reader_t *reader, ngx_pool_t *pool);
ngx_int_t ngx_http_dsem_figures_read(
    ngx_http_dsem_counters_reader_t *reader);

/*
 * some names, of ngx_http_dsem_counters_name_t: those that are busy, and as
 * many others; a name may come twice.  NGX_ERROR: no memory
 */
ngx_int_t ngx_http_dsem_figures_names(ngx_pool_t *pool, ngx_uint_t most,
    ngx_array_t *names);

/* the figures of one; NGX_DECLINED: the name has no row */
ngx_int_t ngx_http_dsem_figures_read_one(ngx_str_t *name,
    ngx_http_dsem_figures_t *figures);


/* for writers */

ngx_http_dsem_row_t *ngx_http_dsem_counters_find(
    ngx_http_dsem_counted_t *counted);
void ngx_http_dsem_counters_observe(ngx_http_dsem_counted_t *counted,
    ngx_uint_t histogram, ngx_msec_t time);
void ngx_http_dsem_counters_most(ngx_http_dsem_counted_t *counted,
    ngx_int_t in_use, ngx_int_t waiting, ngx_int_t limit);
void ngx_http_dsem_counters_dry(ngx_http_dsem_counted_t *counted,
    ngx_uint_t dry);

/* without a ngx_http_dsem_counted_t of its own, for rare events */
void ngx_http_dsem_counters_add_to(ngx_str_t *name,
    ngx_http_dsem_count_e which, ngx_uint_t n);

/* what this worker has now is in counted->cell, from open to close */
void ngx_http_dsem_counters_open(ngx_http_dsem_counted_t *counted);
void ngx_http_dsem_counters_keep(ngx_http_dsem_counted_t *counted);
void ngx_http_dsem_counters_close(ngx_http_dsem_counted_t *counted);


/* the life of the node's memory, and of a process */

void *ngx_http_dsem_counters_create(ngx_slab_pool_t *shpool);
ngx_int_t ngx_http_dsem_counters_init(void *shared, size_t size);
ngx_http_dsem_rows_t *ngx_http_dsem_counters_rows(void);
ngx_http_dsem_cells_t *ngx_http_dsem_counters_cells(void);
void ngx_http_dsem_counters_track(ngx_http_dsem_row_t *row,
    uint32_t *tracked);
ngx_int_t ngx_http_dsem_counters_show(ngx_http_dsem_row_t *row,
    ngx_http_dsem_row_t *copy);
ngx_uint_t ngx_http_dsem_counters_summed(ngx_http_dsem_row_t *row);


/* rows: a table of names with values */

size_t ngx_http_dsem_rows_size(ngx_uint_t nrows);
void ngx_http_dsem_rows_init(ngx_http_dsem_rows_t *rows, ngx_uint_t nrows);

ngx_http_dsem_row_t *ngx_http_dsem_rows_get(ngx_http_dsem_rows_t *rows,
    ngx_str_t *name, uint32_t hash, ngx_atomic_uint_t *version);
ngx_http_dsem_row_t *ngx_http_dsem_rows_find(ngx_http_dsem_rows_t *rows,
    ngx_str_t *name, uint32_t hash, ngx_uint_t *place,
    ngx_atomic_uint_t *version);

ngx_uint_t ngx_http_dsem_row_own(ngx_http_dsem_row_t *row);
void ngx_http_dsem_row_disown(ngx_http_dsem_row_t *row);
void ngx_http_dsem_row_copy(ngx_http_dsem_row_t *row,
    ngx_http_dsem_row_t *copy);
void ngx_http_dsem_rows_recover(ngx_http_dsem_rows_t *rows,
    ngx_http_dsem_row_t *row);


/*
 * ms in steps of 1024: a row that is used often is rarely written for it; all
 * bits, so that differences are right when the clock of 32 bits wraps
 */

#define ngx_http_dsem_rows_time()                                             \
    ((ngx_atomic_uint_t) ngx_current_msec & ~(ngx_atomic_uint_t) 1023)


#define ngx_http_dsem_rows_number(rows, row)                                  \
    ((uint32_t) ((row) - (rows)->rows))


/* cells: what each process of the node has now */

size_t ngx_http_dsem_cells_size(ngx_uint_t ncells);
void ngx_http_dsem_cells_init(ngx_http_dsem_cells_t *cells,
    ngx_uint_t ncells);

void ngx_http_dsem_cells_enter(ngx_http_dsem_cells_t *cells);
void ngx_http_dsem_cells_turn(void);
ngx_http_dsem_cell_t *ngx_http_dsem_cell_take(void);
ngx_http_dsem_cell_t *ngx_http_dsem_cell_move(ngx_http_dsem_cell_t *cell);
void ngx_http_dsem_cell_free(ngx_http_dsem_cell_t *cell);

void ngx_http_dsem_cells_sweep(void);


/* a value of the name that a row has, or of a copy of it */

#define ngx_http_dsem_counters_value(row, i)                                  \
    ((row)->values[i] - (row)->base[i])


/* its row, which may have got another name meanwhile */

static ngx_inline ngx_http_dsem_row_t *
ngx_http_dsem_counters_row(ngx_http_dsem_counted_t *counted)
{
    ngx_http_dsem_row_t  *row;

    row = counted->row;

    if (row == NULL || row->version != counted->version) {
        row = ngx_http_dsem_counters_find(counted);
    }

    return row;
}


/* n requests with this result, or n permits */

static ngx_inline void
ngx_http_dsem_counters_add(ngx_http_dsem_counted_t *counted,
    ngx_http_dsem_count_e which, ngx_uint_t n)
{
    ngx_http_dsem_row_t  *row;

    row = ngx_http_dsem_counters_row(counted);

    (void) ngx_atomic_fetch_add(&row->values[which], n);
}


#endif /* _NGX_HTTP_DSEM_COUNTERS_H_INCLUDED_ */
