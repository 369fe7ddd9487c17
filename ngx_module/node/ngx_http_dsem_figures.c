
/*
 * Figures: copies of the counters, for people and their tools.
 *
 * Adds up what rows and cells have, by name; a name may have two rows.  A
 * reader takes no lock and keeps no process from counting: figures of one
 * moment may miss a count that was made meanwhile, none is lost.
 *
 * Called by: http, through counters.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"


/* where the figures of a row are, while cells are added up */
typedef struct {
    ngx_atomic_uint_t         version;
    ngx_http_dsem_figures_t  *figures;   /* NULL: those of the other names */
} ngx_http_dsem_figures_row_t;


static ngx_int_t ngx_http_dsem_figures_rows(ngx_http_dsem_rows_t *rows,
    ngx_uint_t n, ngx_array_t *all, ngx_http_dsem_figures_row_t *where,
    ngx_http_dsem_figures_t *other);
static void ngx_http_dsem_figures_cells(ngx_http_dsem_figures_row_t *where,
    ngx_uint_t n, ngx_http_dsem_figures_t *other);
static void ngx_http_dsem_figures_cell(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_cell_t *cell);
static void ngx_http_dsem_figures_add(ngx_http_dsem_figures_t *figures,
    volatile ngx_atomic_uint_t *values, volatile ngx_atomic_uint_t *base);
static void ngx_http_dsem_figures_add_row(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_row_t *row);
static void ngx_http_dsem_figures_history(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_row_t *row);
static uint32_t ngx_http_dsem_figures_grown(uint32_t *from, uint32_t *to,
    ngx_uint_t i);
static void ngx_http_dsem_figures_extend(ngx_http_dsem_figures_t *figures,
    ngx_uint_t nperiods);
static void ngx_http_dsem_figures_merge(ngx_array_t *all);
static void ngx_http_dsem_figures_join(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_figures_t *more);
static void ngx_http_dsem_figures_join_history(
    ngx_http_dsem_figures_t *figures, ngx_http_dsem_figures_t *more);
static int ngx_libc_cdecl ngx_http_dsem_figures_cmp(const void *one,
    const void *two);
static void ngx_http_dsem_figures_cells_of(ngx_http_dsem_figures_t *figures,
    ngx_uint_t row, ngx_atomic_uint_t version);


/*
 * All rows of the node as ngx_http_dsem_figures_t, by name; the last element
 * is that of the other names (its name is empty).  NULL: no memory.
 */

ngx_array_t *
ngx_http_dsem_counters_read(ngx_pool_t *pool)
{
    ngx_uint_t                    n;
    ngx_array_t                  *all;
    ngx_http_dsem_rows_t         *rows;
    ngx_http_dsem_figures_t      *last, other;
    ngx_http_dsem_figures_row_t  *where;

    ngx_memzero(&other, sizeof(ngx_http_dsem_figures_t));

    rows = ngx_http_dsem_counters_rows();
    n = rows ? rows->used : 1;

    /* no more than these: elements must not move */

    all = ngx_array_create(pool, n, sizeof(ngx_http_dsem_figures_t));
    if (all == NULL) {
        return NULL;
    }

    if (rows) {
        where = ngx_pcalloc(pool, n * sizeof(ngx_http_dsem_figures_row_t));

        if (where == NULL
            || ngx_http_dsem_figures_rows(rows, n, all, where, &other)
               != NGX_OK)
        {
            return NULL;
        }

        ngx_http_dsem_figures_cells(where, n, &other);
        ngx_pfree(pool, where);

        ngx_http_dsem_figures_merge(all);
    }

    last = ngx_array_push(all);
    if (last == NULL) {
        return NULL;
    }

    *last = other;

    return all;
}


static ngx_int_t
ngx_http_dsem_figures_rows(ngx_http_dsem_rows_t *rows, ngx_uint_t n,
    ngx_array_t *all, ngx_http_dsem_figures_row_t *where,
    ngx_http_dsem_figures_t *other)
{
    ngx_uint_t                i;
    ngx_http_dsem_row_t       copy;
    ngx_http_dsem_figures_t  *figures;

    ngx_http_dsem_row_copy(&rows->rows[0], &copy);
    ngx_http_dsem_figures_add_row(other, &copy);

    for (i = 1; i < n; i++) {
        ngx_http_dsem_row_copy(&rows->rows[i], &copy);

        if (copy.len == 0) {
            ngx_http_dsem_figures_add(other, copy.values, NULL);
            continue;
        }

        ngx_http_dsem_figures_add(other, copy.base, NULL);

        figures = ngx_array_push(all);
        if (figures == NULL) {
            return NGX_ERROR;
        }

        ngx_memzero(figures, sizeof(ngx_http_dsem_figures_t));

        figures->name.len = copy.len;
        figures->name.data = ngx_pnalloc(all->pool, copy.len);
        if (figures->name.data == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(figures->name.data, copy.name, copy.len);
        ngx_http_dsem_figures_add_row(figures, &copy);

        where[i].version = copy.version;
        where[i].figures = figures;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_figures_cells(ngx_http_dsem_figures_row_t *where, ngx_uint_t n,
    ngx_http_dsem_figures_t *other)
{
    ngx_uint_t              i, row;
    ngx_http_dsem_cell_t   *cell;
    ngx_http_dsem_cells_t  *cells;

    cells = ngx_http_dsem_counters_cells();

    ngx_http_dsem_cells_look();

    for (i = 0; i < cells->used; i++) {
        cell = &cells->cells[i];

        if (!ngx_http_dsem_cell_living(cell)) {
            continue;
        }

        row = cell->row;

        if (row < n
            && where[row].figures
            && where[row].version == cell->version)
        {
            ngx_http_dsem_figures_cell(where[row].figures, cell);

        } else {
            ngx_http_dsem_figures_cell(other, cell);
        }
    }
}


static void
ngx_http_dsem_figures_cell(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_cell_t *cell)
{
    figures->in_use += ngx_max(cell->in_use, 0);
    figures->idle += ngx_max(cell->idle, 0);
    figures->waiting += ngx_max(cell->waiting, 0);
}


/* base may be NULL: all zero */

static void
ngx_http_dsem_figures_add(ngx_http_dsem_figures_t *figures,
    volatile ngx_atomic_uint_t *values, volatile ngx_atomic_uint_t *base)
{
    ngx_uint_t                  i, j;
    ngx_atomic_uint_t           value[NGX_HTTP_DSEM_NVALUES];
    ngx_http_dsem_histogram_t  *histogram;

    for (i = 0; i < NGX_HTTP_DSEM_NVALUES; i++) {
        value[i] = values[i] - (base ? base[i] : 0);
    }

    for (i = 0; i < NGX_HTTP_DSEM_NCOUNTS; i++) {
        figures->counts[i] += value[i];
    }

    for (j = 0; j < 2; j++) {
        histogram = (j == 0) ? &figures->wait : &figures->hold;

        for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS; i++) {
            histogram->buckets[i] += value[NGX_HTTP_DSEM_VALUE_WAIT
                                           + j * (NGX_HTTP_DSEM_NBUCKETS + 1)
                                           + i];
        }

        histogram->sum += value[NGX_HTTP_DSEM_VALUE_WAIT
                                + j * (NGX_HTTP_DSEM_NBUCKETS + 1)
                                + NGX_HTTP_DSEM_NBUCKETS];
    }
}


/* all that a row has of its name */

static void
ngx_http_dsem_figures_add_row(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_row_t *row)
{
    ngx_http_dsem_figures_add(figures, row->values, row->base);
    ngx_http_dsem_figures_history(figures, row);

    figures->most_in_use = ngx_max(figures->most_in_use,
                                   row->peaks[NGX_HTTP_DSEM_PEAK_IN_USE]);
    figures->most_waiting = ngx_max(figures->most_waiting,
                                    row->peaks[NGX_HTTP_DSEM_PEAK_WAITING]);
}


/* of one row, whose first snapshot, of zeros, is of when it got its name */

static void
ngx_http_dsem_figures_history(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_row_t *row)
{
    uint32_t                 now[NGX_HTTP_DSEM_ROW_TRACKED];
    uint32_t                *from, *to;
    ngx_uint_t               n, i;
    ngx_http_dsem_period_t  *period;

    n = ngx_min(row->last - row->first + 1, NGX_HTTP_DSEM_NPERIODS);

    ngx_http_dsem_figures_extend(figures, n);
    ngx_http_dsem_counters_track(row, now);

    period = &figures->periods[figures->nperiods - 1];
    to = now;

    for (i = 0; i < n; i++) {
        from = row->snapshots[(row->last - i) % NGX_HTTP_DSEM_ROW_SNAPSHOTS];

        period->passed += ngx_http_dsem_figures_grown(from, to, 0);
        period->rejected += ngx_http_dsem_figures_grown(from, to, 1);
        period->timeout += ngx_http_dsem_figures_grown(from, to, 2);
        period->error += ngx_http_dsem_figures_grown(from, to, 3);

        period--;
        to = from;
    }
}


/* a snapshot of another name may be left, where a process was stopped */

static uint32_t
ngx_http_dsem_figures_grown(uint32_t *from, uint32_t *to, ngx_uint_t i)
{
    int32_t  grown;

    grown = to[i] - from[i];

    return ngx_max(grown, 0);
}


/* periods before those that there are: all end now */

static void
ngx_http_dsem_figures_extend(ngx_http_dsem_figures_t *figures,
    ngx_uint_t nperiods)
{
    ngx_uint_t  n;

    if (nperiods <= figures->nperiods) {
        return;
    }

    n = nperiods - figures->nperiods;

    ngx_memmove(&figures->periods[n], figures->periods,
                figures->nperiods * sizeof(ngx_http_dsem_period_t));
    ngx_memzero(figures->periods, n * sizeof(ngx_http_dsem_period_t));

    figures->nperiods = nperiods;
}


/* a name that two processes have entered at once has two rows */

static void
ngx_http_dsem_figures_merge(ngx_array_t *all)
{
    ngx_uint_t                i, n;
    ngx_http_dsem_figures_t  *figures;

    figures = all->elts;

    ngx_qsort(figures, all->nelts, sizeof(ngx_http_dsem_figures_t),
              ngx_http_dsem_figures_cmp);

    for (i = 1, n = 0; i < all->nelts; i++) {

        if (ngx_http_dsem_figures_cmp(&figures[n], &figures[i]) == 0) {
            ngx_http_dsem_figures_join(&figures[n], &figures[i]);
            continue;
        }

        n++;

        if (n < i) {
            figures[n] = figures[i];
        }
    }

    if (all->nelts) {
        all->nelts = n + 1;
    }
}


/* in the order of ngx_memn2cmp() */

static int ngx_libc_cdecl
ngx_http_dsem_figures_cmp(const void *one, const void *two)
{
    const ngx_http_dsem_figures_t  *first, *second;

    first = one;
    second = two;

    return (int) ngx_memn2cmp(first->name.data, second->name.data,
                              first->name.len, second->name.len);
}


static void
ngx_http_dsem_figures_join(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_figures_t *more)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_DSEM_NCOUNTS; i++) {
        figures->counts[i] += more->counts[i];
    }

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS; i++) {
        figures->wait.buckets[i] += more->wait.buckets[i];
        figures->hold.buckets[i] += more->hold.buckets[i];
    }

    figures->wait.sum += more->wait.sum;
    figures->hold.sum += more->hold.sum;

    figures->most_in_use = ngx_max(figures->most_in_use, more->most_in_use);
    figures->most_waiting = ngx_max(figures->most_waiting,
                                    more->most_waiting);

    figures->in_use += more->in_use;
    figures->idle += more->idle;
    figures->waiting += more->waiting;

    ngx_http_dsem_figures_join_history(figures, more);
}


static void
ngx_http_dsem_figures_join_history(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_figures_t *more)
{
    ngx_uint_t               i;
    ngx_http_dsem_period_t  *to, *from;

    ngx_http_dsem_figures_extend(figures, more->nperiods);

    for (i = 1; i <= more->nperiods; i++) {
        to = &figures->periods[figures->nperiods - i];
        from = &more->periods[more->nperiods - i];

        to->passed += from->passed;
        to->rejected += from->rejected;
        to->timeout += from->timeout;
        to->error += from->error;
    }
}


/* the figures of one name; NGX_DECLINED: it has no row */

ngx_int_t
ngx_http_dsem_counters_read_one(ngx_str_t *name,
    ngx_http_dsem_figures_t *figures)
{
    uint32_t               hash;
    ngx_uint_t             place, found;
    ngx_atomic_uint_t      version;
    ngx_http_dsem_row_t   *row, copy;
    ngx_http_dsem_rows_t  *rows;

    ngx_memzero(figures, sizeof(ngx_http_dsem_figures_t));

    figures->name = *name;

    rows = ngx_http_dsem_counters_rows();

    if (rows == NULL) {
        return NGX_DECLINED;
    }

    hash = ngx_crc32_short(name->data, name->len);
    place = 0;
    found = 0;

    for ( ;; ) {
        row = ngx_http_dsem_rows_find(rows, name, hash, &place, &version);

        if (row == NULL) {
            return found ? NGX_OK : NGX_DECLINED;
        }

        ngx_http_dsem_row_copy(row, &copy);

        if (copy.len == 0 || copy.version != version) {
            continue;
        }

        found = 1;

        ngx_http_dsem_figures_add_row(figures, &copy);
        ngx_http_dsem_figures_cells_of(figures,
                                       ngx_http_dsem_rows_number(rows, row),
                                       version);
    }
}


static void
ngx_http_dsem_figures_cells_of(ngx_http_dsem_figures_t *figures,
    ngx_uint_t row, ngx_atomic_uint_t version)
{
    ngx_uint_t              i;
    ngx_http_dsem_cell_t   *cell;
    ngx_http_dsem_cells_t  *cells;

    cells = ngx_http_dsem_counters_cells();

    ngx_http_dsem_cells_look();

    for (i = 0; i < cells->used; i++) {
        cell = &cells->cells[i];

        if (cell->row == row
            && cell->version == version
            && ngx_http_dsem_cell_living(cell))
        {
            ngx_http_dsem_figures_cell(figures, cell);
        }
    }
}
