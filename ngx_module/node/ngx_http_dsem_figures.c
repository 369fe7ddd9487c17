
/*
 * Figures: copies of the counters, for people and their tools.
 *
 * Adds up what rows and cells have, by name; a name may have two rows.  A
 * reader takes no lock and keeps no process from counting: figures of one
 * moment may miss a count that was made meanwhile, none is lost.  There may be
 * a million rows: one turn of the event loop reads a bounded piece of them, and
 * what is copied and sorted is bounded by the places that the reader has.
 *
 * Called by: http, through counters.h.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_process.h"


/* rows, and cells, that are read in one turn of the event loop */
#define NGX_HTTP_DSEM_FIGURES_ROWS   256
#define NGX_HTTP_DSEM_FIGURES_CELLS  8192

/* cells that are read for names that are busy */
#define NGX_HTTP_DSEM_FIGURES_BUSY   65536


/* a row that was copied, while cells are added up */
typedef struct {
    ngx_uint_t                row;       /* its number */
    ngx_atomic_uint_t         version;
    ngx_http_dsem_figures_t  *figures;
} ngx_http_dsem_figures_place_t;


static ngx_int_t ngx_http_dsem_figures_row(
    ngx_http_dsem_counters_reader_t *reader, ngx_http_dsem_row_t *row);
static void ngx_http_dsem_figures_rest(
    ngx_http_dsem_counters_reader_t *reader, ngx_http_dsem_row_t *row,
    ngx_http_dsem_row_t *copy);
static ngx_http_dsem_figures_t *ngx_http_dsem_figures_copy(
    ngx_http_dsem_counters_reader_t *reader, ngx_http_dsem_row_t *copy);
static ngx_http_dsem_figures_t *ngx_http_dsem_figures_of(
    ngx_http_dsem_counters_reader_t *reader, ngx_http_dsem_cell_t *cell);
static ngx_int_t ngx_http_dsem_figures_name(ngx_array_t *names,
    ngx_http_dsem_row_t *row, ngx_uint_t busy);
static void ngx_http_dsem_figures_cell(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_cell_t *cell);
static void ngx_http_dsem_figures_add(ngx_http_dsem_figures_t *figures,
    volatile ngx_atomic_uint_t *values, volatile ngx_atomic_uint_t *base);
static void ngx_http_dsem_figures_add_row(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_row_t *row);
static void ngx_http_dsem_figures_history(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_row_t *row);
static void ngx_http_dsem_figures_extend(ngx_http_dsem_figures_t *figures,
    ngx_uint_t nperiods);
static void ngx_http_dsem_figures_merge(ngx_array_t *names);
static void ngx_http_dsem_figures_join(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_figures_t *more);
static int ngx_libc_cdecl ngx_http_dsem_figures_cmp(const void *one,
    const void *two);
static void ngx_http_dsem_figures_cells_of(ngx_http_dsem_figures_t *figures,
    ngx_uint_t row, ngx_atomic_uint_t version);


/* the reader has its wishes; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_figures_begin(ngx_http_dsem_counters_reader_t *reader,
    ngx_pool_t *pool)
{
    ngx_http_dsem_row_t    copy;
    ngx_http_dsem_rows_t  *rows;

    reader->pool = pool;
    reader->partial = 0;
    reader->row = 1;
    reader->cell = 0;

    ngx_memzero(&reader->other, sizeof(ngx_http_dsem_figures_t));
    ngx_memzero(reader->hidden, sizeof(reader->hidden));

    reader->other.limit = -1;

    if (ngx_array_init(&reader->names, pool, 16,
                       sizeof(ngx_http_dsem_figures_t *))
        != NGX_OK
        || ngx_array_init(&reader->places, pool, 16,
                          sizeof(ngx_http_dsem_figures_place_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    rows = ngx_http_dsem_counters_rows();

    if (rows) {
        ngx_http_dsem_row_copy(&rows->rows[0], &copy);
        ngx_http_dsem_figures_add_row(&reader->other, &copy);
    }

    return NGX_OK;
}


/*
 * The next piece: some rows, or when all are read some cells.  A row that is
 * not wanted, where no place is left, belongs to the other names.
 */

ngx_int_t
ngx_http_dsem_figures_read(ngx_http_dsem_counters_reader_t *reader)
{
    ngx_uint_t                i, last;
    ngx_http_dsem_cell_t     *cell;
    ngx_http_dsem_rows_t     *rows;
    ngx_http_dsem_cells_t    *cells;
    ngx_http_dsem_figures_t  *figures;

    rows = ngx_http_dsem_counters_rows();

    if (rows == NULL) {
        return NGX_OK;
    }

    last = ngx_min(reader->row + NGX_HTTP_DSEM_FIGURES_ROWS, rows->used);

    while (reader->row < last) {
        i = reader->row++;

        if (ngx_http_dsem_figures_row(reader, &rows->rows[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (reader->row < rows->used) {
        return NGX_AGAIN;
    }

    cells = ngx_http_dsem_counters_cells();

    if (reader->cell == 0) {
        ngx_http_dsem_processes_refresh();
    }

    last = ngx_min(reader->cell + NGX_HTTP_DSEM_FIGURES_CELLS, cells->used);

    while (reader->cell < last) {
        cell = &cells->cells[reader->cell++];

        if (ngx_http_dsem_process_was_alive(cell->owner)) {
            figures = ngx_http_dsem_figures_of(reader, cell);
            ngx_http_dsem_figures_cell(figures ? figures : &reader->other,
                                       cell);
        }
    }

    if (reader->cell < cells->used) {
        return NGX_AGAIN;
    }

    ngx_http_dsem_figures_merge(&reader->names);

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_figures_row(ngx_http_dsem_counters_reader_t *reader,
    ngx_http_dsem_row_t *row)
{
    ngx_str_t                       name;
    ngx_uint_t                      wanted, spare;
    ngx_http_dsem_row_t             copy;
    ngx_http_dsem_figures_t        *figures;
    ngx_http_dsem_figures_place_t  *place;

    ngx_http_dsem_row_copy(row, &copy);

    name.data = copy.name;
    name.len = copy.len;

    wanted = copy.len && reader->wants(reader->data, &name);
    spare = copy.len && !wanted && reader->spare;

    if ((wanted || spare)
        && (!reader->series
            || ngx_http_dsem_counters_show(row, &copy) == NGX_OK))
    {
        reader->spare -= spare;

        ngx_http_dsem_figures_add(&reader->other, copy.base, NULL);

        figures = ngx_http_dsem_figures_copy(reader, &copy);
        place = ngx_array_push(&reader->places);

        if (figures == NULL || place == NULL) {
            return NGX_ERROR;
        }

        place->row = reader->row - 1;
        place->version = copy.version;
        place->figures = figures;

        return NGX_OK;
    }

    ngx_http_dsem_figures_rest(reader, row, &copy);

    return NGX_OK;
}


/*
 * A row that is none of the answer.  In metrics the counts of a name that has
 * had series are not in the sum, from which they would be taken again.
 */

static void
ngx_http_dsem_figures_rest(ngx_http_dsem_counters_reader_t *reader,
    ngx_http_dsem_row_t *row, ngx_http_dsem_row_t *copy)
{
    ngx_uint_t  i;

    if (copy->len == 0) {
        ngx_http_dsem_figures_add(&reader->other, copy->values, NULL);
        return;
    }

    reader->partial = 1;

    ngx_http_dsem_figures_add(&reader->other, copy->base, NULL);
    ngx_http_dsem_figures_add_row(&reader->other, copy);

    if (!reader->series || ngx_http_dsem_counters_summed(row)) {
        return;
    }

    for (i = 0; i < NGX_HTTP_DSEM_NVALUES; i++) {
        reader->hidden[i] += ngx_http_dsem_counters_value(copy, i);
    }
}


/* NULL: no memory */

static ngx_http_dsem_figures_t *
ngx_http_dsem_figures_copy(ngx_http_dsem_counters_reader_t *reader,
    ngx_http_dsem_row_t *copy)
{
    ngx_http_dsem_figures_t  *figures, **f;

    figures = ngx_pcalloc(reader->pool,
                          sizeof(ngx_http_dsem_figures_t) + copy->len);
    f = ngx_array_push(&reader->names);

    if (figures == NULL || f == NULL) {
        return NULL;
    }

    *f = figures;

    figures->name.len = copy->len;
    figures->name.data = (u_char *) figures + sizeof(ngx_http_dsem_figures_t);
    ngx_memcpy(figures->name.data, copy->name, copy->len);

    figures->limit = -1;
    ngx_http_dsem_figures_add_row(figures, copy);

    return figures;
}


/* those of its row; NULL: that was not copied, or has another name now */

static ngx_http_dsem_figures_t *
ngx_http_dsem_figures_of(ngx_http_dsem_counters_reader_t *reader,
    ngx_http_dsem_cell_t *cell)
{
    ngx_uint_t                      low, high, middle;
    ngx_http_dsem_figures_place_t  *place;

    place = reader->places.elts;
    low = 0;
    high = reader->places.nelts;

    while (low < high) {
        middle = low + (high - low) / 2;

        if (place[middle].row < cell->row) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    if (low < reader->places.nelts
        && place[low].row == cell->row
        && place[low].version == cell->version)
    {
        return place[low].figures;
    }

    return NULL;
}


/*
 * See the header for what it returns.  A busy name has a cell in each process
 * that uses it, and is added once: each row has a bit.
 */

ngx_int_t
ngx_http_dsem_figures_names(ngx_pool_t *pool, ngx_uint_t most,
    ngx_array_t *names)
{
    u_char                 *added;
    ngx_uint_t              i, n, number;
    ngx_http_dsem_cell_t   *cell;
    ngx_http_dsem_rows_t   *rows;
    ngx_http_dsem_cells_t  *cells;

    rows = ngx_http_dsem_counters_rows();

    added = ngx_pcalloc(pool, rows ? rows->nrows / 8 + 1 : 1);

    if (added == NULL
        || ngx_array_init(names, pool, 64,
                          sizeof(ngx_http_dsem_counters_name_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (rows == NULL) {
        return NGX_OK;
    }

    cells = ngx_http_dsem_counters_cells();
    n = ngx_min(cells->used, NGX_HTTP_DSEM_FIGURES_BUSY);

    ngx_http_dsem_processes_refresh();

    for (i = 0; i < n && names->nelts < most; i++) {
        cell = &cells->cells[i];
        number = cell->row;

        if (number == 0
            || number >= rows->used
            || (added[number / 8] & (1 << number % 8))
            || !(cell->in_use > 0 || cell->idle > 0 || cell->waiting > 0)
            || !ngx_http_dsem_process_was_alive(cell->owner)
            || rows->rows[number].version != cell->version)
        {
            continue;
        }

        added[number / 8] |= 1 << number % 8;

        if (ngx_http_dsem_figures_name(names, &rows->rows[number], 1)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    for (i = 1; i <= most && i < rows->used; i++) {
        if (ngx_http_dsem_figures_name(names, &rows->rows[i], 0) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* adds the name of a row, if it has one; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_dsem_figures_name(ngx_array_t *names, ngx_http_dsem_row_t *row,
    ngx_uint_t busy)
{
    ngx_http_dsem_row_t             copy;
    ngx_http_dsem_counters_name_t  *name;

    ngx_http_dsem_row_copy(row, &copy);

    if (copy.len == 0) {
        return NGX_OK;
    }

    name = ngx_array_push(names);
    if (name == NULL) {
        return NGX_ERROR;
    }

    name->busy = busy;
    name->name.len = copy.len;
    name->name.data = ngx_pnalloc(names->pool, copy.len);

    if (name->name.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(name->name.data, copy.name, copy.len);

    return NGX_OK;
}


static void
ngx_http_dsem_figures_cell(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_cell_t *cell)
{
    ngx_msec_t      oldest;
    ngx_msec_int_t  hold;

    figures->in_use += ngx_max(cell->in_use, 0);
    figures->idle += ngx_max(cell->idle, 0);
    figures->waiting += ngx_max(cell->waiting, 0);

    oldest = cell->oldest;

    /* the cell of other names has none */

    if (oldest == 0 || cell->row == 0) {
        return;
    }

    hold = (ngx_msec_int_t) (ngx_current_msec - oldest);

    if (hold > (ngx_msec_int_t) figures->oldest_hold) {
        figures->oldest_hold = hold;
    }
}


/* base may be NULL: all zero */

static void
ngx_http_dsem_figures_add(ngx_http_dsem_figures_t *figures,
    volatile ngx_atomic_uint_t *values, volatile ngx_atomic_uint_t *base)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  value;

    for (i = 0; i < NGX_HTTP_DSEM_NVALUES; i++) {
        value = values[i] - (base ? base[i] : 0);
        figures->values[i] += value;
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

    /* not of the other names, which are many */

    if (figures->name.len == 0) {
        return;
    }

    if (row->limit) {
        figures->limit = row->limit - 1;
    }

    figures->dry_run |= (row->dry != 0);
}


/* of one row, whose first snapshot, of zeros, is of when it got its name */

static void
ngx_http_dsem_figures_history(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_row_t *row)
{
    int32_t                  grown;
    uint32_t                 now[NGX_HTTP_DSEM_ROW_TRACKED];
    uint32_t                *from, *to;
    ngx_uint_t               n, i, k;
    ngx_http_dsem_period_t  *period;

    n = ngx_min(row->last - row->first + 1, NGX_HTTP_DSEM_NPERIODS);

    ngx_http_dsem_figures_extend(figures, n);
    ngx_http_dsem_counters_track(row, now);

    period = &figures->periods[figures->nperiods - 1];
    to = now;

    for (i = 0; i < n; i++) {
        from = row->snapshots[(row->last - i) % NGX_HTTP_DSEM_NPERIODS];

        /* one of another name may be left, where a process was stopped */

        for (k = 0; k < NGX_HTTP_DSEM_ROW_TRACKED; k++) {
            grown = to[k] - from[k];
            period->n[k] += ngx_max(grown, 0);
        }

        period--;
        to = from;
    }
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
ngx_http_dsem_figures_merge(ngx_array_t *names)
{
    ngx_uint_t                i, n;
    ngx_http_dsem_figures_t  **figures;

    figures = names->elts;

    ngx_qsort(figures, names->nelts, sizeof(ngx_http_dsem_figures_t *),
              ngx_http_dsem_figures_cmp);

    for (i = 1, n = 0; i < names->nelts; i++) {

        if (ngx_http_dsem_figures_cmp(&figures[n], &figures[i]) == 0) {
            ngx_http_dsem_figures_join(figures[n], figures[i]);
            continue;
        }

        figures[++n] = figures[i];
    }

    if (names->nelts) {
        names->nelts = n + 1;
    }
}


/* in the order of ngx_memn2cmp() */

static int ngx_libc_cdecl
ngx_http_dsem_figures_cmp(const void *one, const void *two)
{
    const ngx_http_dsem_figures_t  *first, *second;

    first = *(ngx_http_dsem_figures_t **) one;
    second = *(ngx_http_dsem_figures_t **) two;

    return (int) ngx_memn2cmp(first->name.data, second->name.data,
                              first->name.len, second->name.len);
}


static void
ngx_http_dsem_figures_join(ngx_http_dsem_figures_t *figures,
    ngx_http_dsem_figures_t *more)
{
    ngx_uint_t               i, k;
    ngx_http_dsem_period_t  *to, *from;

    for (i = 0; i < NGX_HTTP_DSEM_NVALUES; i++) {
        figures->values[i] += more->values[i];
    }

    figures->most_in_use = ngx_max(figures->most_in_use, more->most_in_use);
    figures->most_waiting = ngx_max(figures->most_waiting,
                                    more->most_waiting);

    figures->in_use += more->in_use;
    figures->idle += more->idle;
    figures->waiting += more->waiting;
    figures->oldest_hold = ngx_max(figures->oldest_hold, more->oldest_hold);

    figures->limit = ngx_max(figures->limit, more->limit);
    figures->dry_run |= more->dry_run;

    ngx_http_dsem_figures_extend(figures, more->nperiods);

    for (i = 1; i <= more->nperiods; i++) {
        to = &figures->periods[figures->nperiods - i];
        from = &more->periods[more->nperiods - i];

        for (k = 0; k < NGX_HTTP_DSEM_ROW_TRACKED; k++) {
            to->n[k] += from->n[k];
        }
    }
}


/* the figures of one name; NGX_DECLINED: it has no row */

ngx_int_t
ngx_http_dsem_figures_read_one(ngx_str_t *name,
    ngx_http_dsem_figures_t *figures)
{
    uint32_t               hash;
    ngx_uint_t             place, found;
    ngx_atomic_uint_t      version;
    ngx_http_dsem_row_t   *row, copy;
    ngx_http_dsem_rows_t  *rows;

    ngx_memzero(figures, sizeof(ngx_http_dsem_figures_t));

    figures->name = *name;
    figures->limit = -1;

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

    ngx_http_dsem_processes_refresh();

    for (i = 0; i < cells->used; i++) {
        cell = &cells->cells[i];

        if (cell->row == row
            && cell->version == version
            && ngx_http_dsem_process_was_alive(cell->owner))
        {
            ngx_http_dsem_figures_cell(figures, cell);
        }
    }
}
