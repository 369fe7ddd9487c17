
/*
 * Counters: what this node has decided, by semaphore, in shared memory.
 *
 * Owns the meaning of the values in rows: results of requests, histograms of
 * the times that they waited and held permits, and a history; what is held
 * just now is in cells.  All of it survives a reload.  Names that have no row
 * are counted together, as the other names: a sum over all names, and these,
 * misses nothing.
 *
 * Metrics have series for some of the names, not always the same, and one sum
 * of all others, which must not fall: Prometheus would take that for a restart.
 * So a name that was a part of the sum leaves there what it has, by a new base,
 * when it gets series; and one that has had series is no part of it any more.
 *
 * A count costs no lock and no search, as long as its user keeps the row.
 * Once a second one worker of the node maintains the memory: snapshots for
 * the history, and what dead processes have left.
 *
 * Called by: account, ledger, sync, declare, session (overage), http (results);
 * zone (memory; when a process starts and ends); readers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_process.h"


/* memory that a single process takes for it at most */
#define NGX_HTTP_DSEM_COUNTERS_PRIVATE  (1024 * 1024)

#define NGX_HTTP_DSEM_COUNTERS_LEAST    (16 * 1024)

/* what is planned for each row, in cells */
#define NGX_HTTP_DSEM_COUNTERS_CELLS    6

/* seconds in which each name without a row asks for one */
#define NGX_HTTP_DSEM_COUNTERS_KEEP     16

/* ms between two turns, and rows that are maintained in one */
#define NGX_HTTP_DSEM_COUNTERS_TURN     1000
#define NGX_HTTP_DSEM_COUNTERS_ROWS     1024

/* ms after its last request in which a dry run may still be on: of a job that
   runs once a day it is on all the time */
#define NGX_HTTP_DSEM_COUNTERS_DRY      (36 * 3600 * 1000)

/* ms after it in which other requests do not end one, which may be of another
   location; by ngx_http_dsem_rows_time() */
#define NGX_HTTP_DSEM_COUNTERS_BESIDE   (60 * 1024)


typedef struct {
    ngx_atomic_t                     turn;      /* ms, the last one */
    ngx_atomic_t                     hand;      /* the next row to maintain */
    uint64_t                         created;   /* ms */
    ngx_http_dsem_rows_t            *rows;
    ngx_http_dsem_cells_t           *cells;
} ngx_http_dsem_counters_shared_t;


typedef struct {
    ngx_http_dsem_counters_shared_t  *shared;   /* NULL: nothing is counted */
    ngx_event_t                       turn;
} ngx_http_dsem_counters_t;


static ngx_http_dsem_counters_shared_t *ngx_http_dsem_counters_layout(
    u_char *p, size_t size);
static void ngx_http_dsem_counters_rebase(ngx_http_dsem_row_t *row);
static void ngx_http_dsem_counters_turn_handler(ngx_event_t *ev);
static void ngx_http_dsem_counters_maintain(
    ngx_http_dsem_counters_shared_t *shared);
static void ngx_http_dsem_counters_snapshot(ngx_http_dsem_row_t *row,
    ngx_uint_t period);


/* in ms; the header says of the last bucket that it has none */
const ngx_msec_t  ngx_http_dsem_counters_bounds[NGX_HTTP_DSEM_NBUCKETS - 1] = {
    1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000
};


static ngx_http_dsem_counters_t  ngx_http_dsem_counters;


/* in the rest of a new zone; NULL: it is too small */

void *
ngx_http_dsem_counters_create(ngx_slab_pool_t *shpool)
{
    size_t   size;
    u_char  *p;

    /* what is rounded up to pages, and some for others */
    size = shpool->pfree * ngx_pagesize / 32 * 31;

    if (size < NGX_HTTP_DSEM_COUNTERS_LEAST) {
        return NULL;
    }

    p = ngx_slab_calloc(shpool, size);
    if (p == NULL) {
        return NULL;
    }

    return ngx_http_dsem_counters_layout(p, size);
}


/* the memory is all zero, and has room for some rows at least */

static ngx_http_dsem_counters_shared_t *
ngx_http_dsem_counters_layout(u_char *p, size_t size)
{
    size_t                            rest, each;
    ngx_uint_t                        nrows, ncells;
    ngx_http_dsem_counters_shared_t  *shared;

    rest = size - sizeof(ngx_http_dsem_counters_shared_t)
           - ngx_http_dsem_cells_size(0)
           - ngx_http_dsem_rows_size(0);

    each = ngx_http_dsem_rows_size(1) - ngx_http_dsem_rows_size(0)
           + NGX_HTTP_DSEM_COUNTERS_CELLS * sizeof(ngx_http_dsem_cell_t);

    nrows = ngx_min(rest / each, NGX_HTTP_DSEM_ROWS_NUMBER);
    ncells = nrows * NGX_HTTP_DSEM_COUNTERS_CELLS;

    shared = (ngx_http_dsem_counters_shared_t *) p;
    p += sizeof(ngx_http_dsem_counters_shared_t);

    shared->created = ngx_http_dsem_monotonic();

    shared->cells = (ngx_http_dsem_cells_t *) p;
    ngx_http_dsem_cells_init(shared->cells, ncells);
    p += ngx_http_dsem_cells_size(ncells);

    shared->rows = (ngx_http_dsem_rows_t *) p;
    ngx_http_dsem_rows_init(shared->rows, nrows);

    return shared;
}


/*
 * For a process that serves requests.  "shared" is of
 * ngx_http_dsem_counters_create(); NULL: a single process, whose own memory is
 * of this size at most.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_counters_init(void *shared, size_t size)
{
    u_char                    *p;
    ngx_event_t               *turn;
    ngx_http_dsem_counters_t  *counters;

    counters = &ngx_http_dsem_counters;

    if (shared == NULL) {
        size = ngx_min(size, NGX_HTTP_DSEM_COUNTERS_PRIVATE);

        p = ngx_calloc(size, ngx_cycle->log);
        if (p == NULL) {
            return NGX_ERROR;
        }

        shared = ngx_http_dsem_counters_layout(p, size);
    }

    counters->shared = shared;

    ngx_http_dsem_cells_enter(counters->shared->cells);

    turn = &counters->turn;

    ngx_memzero(turn, sizeof(ngx_event_t));

    turn->handler = ngx_http_dsem_counters_turn_handler;
    turn->data = turn;
    turn->log = ngx_cycle->log;
    turn->cancelable = 1;

    ngx_add_timer(turn, NGX_HTTP_DSEM_COUNTERS_TURN);

    return NGX_OK;
}


/* NULL: this process counts nothing */

ngx_http_dsem_rows_t *
ngx_http_dsem_counters_rows(void)
{
    return ngx_http_dsem_counters.shared ? ngx_http_dsem_counters.shared->rows
                                         : NULL;
}


ngx_http_dsem_cells_t *
ngx_http_dsem_counters_cells(void)
{
    return ngx_http_dsem_counters.shared->cells;
}


/* for ngx_http_dsem_counters_row() */

ngx_http_dsem_row_t *
ngx_http_dsem_counters_find(ngx_http_dsem_counted_t *counted)
{
    ngx_http_dsem_row_t   *row;
    ngx_http_dsem_cell_t  *cell;
    ngx_http_dsem_rows_t  *rows;

    rows = ngx_http_dsem_counters.shared->rows;

    row = ngx_http_dsem_rows_get(rows, counted->name, counted->hash,
                                 &counted->version);
    counted->row = row;

    cell = counted->cell;

    if (cell) {
        cell->row = ngx_http_dsem_rows_number(rows, row);

        ngx_memory_barrier();

        cell->version = counted->version;
    }

    row->used = ngx_http_dsem_rows_time();

    return row;
}


/*
 * For metrics: the name of this copy of a row has series from now on.  What it
 * has had as a part of the sum stays there, and the copy is made anew.
 * NGX_DECLINED: not now, the row has an owner, or another name.
 */

ngx_int_t
ngx_http_dsem_counters_show(ngx_http_dsem_row_t *row, ngx_http_dsem_row_t *copy)
{
    ngx_uint_t         same;
    ngx_atomic_uint_t  version;

    if (row->series == NGX_HTTP_DSEM_ROW_SHOWN
        || ngx_atomic_cmp_set(&row->series, NGX_HTTP_DSEM_ROW_NEW,
                              NGX_HTTP_DSEM_ROW_SHOWN))
    {
        return NGX_OK;
    }

    if (!ngx_http_dsem_row_own(row)) {
        return NGX_DECLINED;
    }

    version = copy->version;
    same = (row->version == version);

    if (same && row->series == NGX_HTTP_DSEM_ROW_SUMMED) {
        ngx_http_dsem_counters_rebase(row);

        ngx_memory_barrier();

        row->series = NGX_HTTP_DSEM_ROW_SHOWN;
    }

    ngx_http_dsem_row_disown(row);

    ngx_http_dsem_row_copy(row, copy);

    return (same && copy->len && copy->version == version) ? NGX_OK
                                                           : NGX_DECLINED;
}


/*
 * What the name of a row has becomes part of the other names, but its history
 * stays: that is a matter of differences.
 */

static void
ngx_http_dsem_counters_rebase(ngx_http_dsem_row_t *row)
{
    uint32_t    tracked[NGX_HTTP_DSEM_ROW_TRACKED];
    ngx_uint_t  i, k;

    ngx_http_dsem_counters_track(row, tracked);

    for (i = 0; i < NGX_HTTP_DSEM_NVALUES; i++) {
        row->base[i] = row->values[i];
    }

    ngx_memory_barrier();

    for (i = 0; i < NGX_HTTP_DSEM_NPERIODS; i++) {
        for (k = 0; k < NGX_HTTP_DSEM_ROW_TRACKED; k++) {
            row->snapshots[i][k] -= tracked[k];
        }
    }
}


/* for metrics, of a name without series; 0: it has had them */

ngx_uint_t
ngx_http_dsem_counters_summed(ngx_http_dsem_row_t *row)
{
    (void) ngx_atomic_cmp_set(&row->series, NGX_HTTP_DSEM_ROW_NEW,
                              NGX_HTTP_DSEM_ROW_SUMMED);

    return row->series != NGX_HTTP_DSEM_ROW_SHOWN;
}


/* for rare events */

void
ngx_http_dsem_counters_add_to(ngx_str_t *name, ngx_http_dsem_count_e which,
    ngx_uint_t n)
{
    ngx_http_dsem_counted_t  counted;

    ngx_memzero(&counted, sizeof(ngx_http_dsem_counted_t));

    counted.name = name;
    counted.hash = ngx_crc32_short(name->data, name->len);

    ngx_http_dsem_counters_add(&counted, which, n);
}


/*
 * Of NGX_HTTP_DSEM_VALUE_WAIT: a queued request has waited for this time, in
 * vain or not; of NGX_HTTP_DSEM_VALUE_HOLD: one has held its permits; ms
 */

void
ngx_http_dsem_counters_observe(ngx_http_dsem_counted_t *counted,
    ngx_uint_t histogram, ngx_msec_t time)
{
    ngx_uint_t            i;
    ngx_http_dsem_row_t  *row;

    row = ngx_http_dsem_counters_row(counted);

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS - 1; i++) {
        if (time <= ngx_http_dsem_counters_bounds[i]) {
            break;
        }
    }

    (void) ngx_atomic_fetch_add(&row->values[histogram + i], 1);
    (void) ngx_atomic_fetch_add(
                    &row->values[histogram + NGX_HTTP_DSEM_NBUCKETS], time);
}


/* peaks of the fleet, from a reply; limit: in force, or negative */

void
ngx_http_dsem_counters_most(ngx_http_dsem_counted_t *counted,
    ngx_int_t in_use, ngx_int_t waiting, ngx_int_t limit)
{
    ngx_http_dsem_row_t  *row;

    row = ngx_http_dsem_counters_row(counted);

    if (in_use > 0) {
        ngx_http_dsem_process_raise(&row->peaks[NGX_HTTP_DSEM_PEAK_IN_USE],
                                    in_use);
    }

    if (waiting > 0) {
        ngx_http_dsem_process_raise(&row->peaks[NGX_HTTP_DSEM_PEAK_WAITING],
                                    waiting);
    }

    if (limit >= 0 && row->limit != (ngx_atomic_uint_t) limit + 1) {
        row->limit = limit + 1;
    }
}


/*
 * A dry run has passed a request, or there was none for it: then that of before
 * is over.  The use of the row does not show that: a request that goes on uses
 * it, too.
 */

void
ngx_http_dsem_counters_dry(ngx_http_dsem_counted_t *counted, ngx_uint_t dry)
{
    ngx_atomic_uint_t     now;
    ngx_http_dsem_row_t  *row;

    row = ngx_http_dsem_counters_row(counted);
    now = ngx_http_dsem_rows_time() | 1;

    if (dry) {

        if (row->dry != now) {
            row->dry = now;
        }

    } else if (row->dry
               && (ngx_atomic_int_t) (now - row->dry)
                  > NGX_HTTP_DSEM_COUNTERS_BESIDE)
    {
        row->dry = 0;
    }
}


/* counted->cell is for what this worker has now, until it is closed */

void
ngx_http_dsem_counters_open(ngx_http_dsem_counted_t *counted)
{
    counted->cell = ngx_http_dsem_cell_take();

    (void) ngx_http_dsem_counters_find(counted);
}


/*
 * Every second or so: a row that is counted in keeps its name.  Names that have
 * none ask for one in turns: a search of all of them would take long.  A name
 * without a cell of the node gets one where one is free now.
 */

void
ngx_http_dsem_counters_keep(ngx_http_dsem_counted_t *counted)
{
    ngx_atomic_uint_t      now;
    ngx_http_dsem_row_t   *row;
    ngx_http_dsem_cell_t  *cell;

    cell = ngx_http_dsem_cell_move(counted->cell);

    if (cell != counted->cell) {
        counted->cell = cell;
        (void) ngx_http_dsem_counters_find(counted);
    }

    now = ngx_http_dsem_rows_time();

    if (counted->row == ngx_http_dsem_counters.shared->rows->rows
        && (counted->hash + now / 1024) % NGX_HTTP_DSEM_COUNTERS_KEEP)
    {
        return;
    }

    row = ngx_http_dsem_counters_row(counted);

    if (row->used != now) {
        row->used = now;
    }
}


void
ngx_http_dsem_counters_close(ngx_http_dsem_counted_t *counted)
{
    ngx_http_dsem_cell_free(counted->cell);
    counted->cell = NULL;
}


/* one worker at a time; one that is stopped here only leaves the next turn */

static void
ngx_http_dsem_counters_turn_handler(ngx_event_t *ev)
{
    ngx_atomic_uint_t                 now, before;
    ngx_http_dsem_counters_shared_t  *shared;

    shared = ngx_http_dsem_counters.shared;

    /* in this order: it is not ahead of the clock that is read after it */

    before = shared->turn;
    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

    if (now - before >= NGX_HTTP_DSEM_COUNTERS_TURN / 4 * 3
        && ngx_atomic_cmp_set(&shared->turn, before, now))
    {
        ngx_http_dsem_counters_maintain(shared);
        ngx_http_dsem_processes_sweep();
        ngx_http_dsem_cells_sweep();
    }

    if (ngx_http_dsem_process_number() == 0) {
        ngx_http_dsem_process_retry();
    }

    ngx_http_dsem_cells_turn();

    ngx_add_timer(ev, NGX_HTTP_DSEM_COUNTERS_TURN);
}


static void
ngx_http_dsem_counters_maintain(ngx_http_dsem_counters_shared_t *shared)
{
    uint64_t               age;
    ngx_uint_t             i, n;
    ngx_http_dsem_row_t   *row;
    ngx_http_dsem_rows_t  *rows;

    rows = shared->rows;

    age = ngx_http_dsem_monotonic() - shared->created;
    rows->period = age / (NGX_HTTP_DSEM_PERIOD * 1000);

    /* names that have no row ask for one again */

    (void) ngx_atomic_fetch_add(&rows->rows[0].version, 2);

    n = ngx_min(rows->used, NGX_HTTP_DSEM_COUNTERS_ROWS);

    for (i = 0; i < n; i++) {
        row = &rows->rows[ngx_atomic_fetch_add(&shared->hand, 1) % rows->used];

        if (row->owner) {
            ngx_http_dsem_rows_recover(rows, row);
        }

        if (row->dry
            && (ngx_atomic_int_t) (ngx_http_dsem_rows_time() - row->dry)
               > NGX_HTTP_DSEM_COUNTERS_DRY)
        {
            row->dry = 0;
        }

        if (row->last < rows->period && ngx_http_dsem_row_own(row)) {
            ngx_http_dsem_counters_snapshot(row, rows->period);
            ngx_http_dsem_row_disown(row);
        }
    }
}


/* what there is now is what the period began with */

static void
ngx_http_dsem_counters_snapshot(ngx_http_dsem_row_t *row, ngx_uint_t period)
{
    uint32_t    tracked[NGX_HTTP_DSEM_ROW_TRACKED];
    ngx_uint_t  last;

    ngx_http_dsem_counters_track(row, tracked);

    last = row->last;

    if (period - last > NGX_HTTP_DSEM_NPERIODS) {
        last = period - NGX_HTTP_DSEM_NPERIODS;
    }

    while (last < period) {
        last++;
        ngx_memcpy(row->snapshots[last % NGX_HTTP_DSEM_NPERIODS],
                   tracked, sizeof(tracked));
    }

    ngx_memory_barrier();

    row->last = period;
}


/* the values that have a history, of the name of this row or its copy */

void
ngx_http_dsem_counters_track(ngx_http_dsem_row_t *row, uint32_t *tracked)
{
    ngx_uint_t  i;

    /* one that an outage or a dry run has passed is one that passed */

    static const ngx_http_dsem_count_e  passed[] = {
        NGX_HTTP_DSEM_COUNT_PASSED, NGX_HTTP_DSEM_COUNT_QUEUED,
        NGX_HTTP_DSEM_COUNT_DEGRADED, NGX_HTTP_DSEM_COUNT_REJECTED_DRY_RUN,
        NGX_HTTP_DSEM_COUNT_TIMEOUT_DRY_RUN, NGX_HTTP_DSEM_COUNT_ERROR_DRY_RUN
    };

    tracked[0] = 0;

    for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        tracked[0] += ngx_http_dsem_counters_value(row, passed[i]);
    }

    tracked[1] = ngx_http_dsem_counters_value(row,
                                              NGX_HTTP_DSEM_COUNT_REJECTED);
    tracked[2] = ngx_http_dsem_counters_value(row,
                                              NGX_HTTP_DSEM_COUNT_TIMEOUT);
    tracked[3] = ngx_http_dsem_counters_value(row, NGX_HTTP_DSEM_COUNT_ERROR);
}
