
/*
 * Cells: what each process of the node has now, in shared memory.
 *
 * Owns the cells.  A cell has the permits and the waiting requests of one
 * process and one name.  Its process alone writes it, without a lock; readers
 * add up those of living processes, so what a killed worker had is gone with
 * it.  A cell whose owner is not in the list of processes any more is free.
 *
 * Where no cell is free, or the process has no number, a name has one in memory
 * of the process, which no other process reads.  Once a second it moves to a
 * free one; until one is found what it has is added to that of the other names,
 * of which each process has one.
 *
 * Called by: counters.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_process.h"


/* cells that a process keeps for its next names */
#define NGX_HTTP_DSEM_CELLS_SPARE   64

/* cells that are read for a free one, and in one turn for lost ones */
#define NGX_HTTP_DSEM_CELLS_TRIES   256
#define NGX_HTTP_DSEM_CELLS_TURN    4096

/* in the owner of a cell that is not zeroed yet */
#define NGX_HTTP_DSEM_CELLS_FILLING                                           \
    ((ngx_atomic_uint_t) 1 << (NGX_PTR_SIZE * 8 - 1))


/* the owner of a cell in memory of the process: no process has this number */
#define NGX_HTTP_DSEM_CELLS_ALONE   NGX_HTTP_DSEM_CELLS_FILLING


/* in memory of the process */
typedef struct {
    ngx_http_dsem_cell_t          cell;

    /* of it in the cell of the other names */
    int32_t                       in_use;
    int32_t                       idle;
    int32_t                       waiting;
} ngx_http_dsem_cells_alone_t;


/* this process */
typedef struct {
    ngx_http_dsem_cells_t        *cells;
    ngx_atomic_uint_t             number;    /* 0: none */
    ngx_uint_t                    hand;
    ngx_atomic_uint_t             full;      /* time of the last search in vain,
                                                by ngx_http_dsem_rows_time() */

    ngx_http_dsem_cell_t         *other;     /* NULL: none was free yet */
    ngx_http_dsem_cell_t          none;      /* where there is no memory */

    ngx_http_dsem_cell_t         *spare[NGX_HTTP_DSEM_CELLS_SPARE];
    ngx_uint_t                    nspare;
} ngx_http_dsem_cells_process_t;


static ngx_http_dsem_cell_t *ngx_http_dsem_cell_get(void);
static void ngx_http_dsem_cell_add(ngx_http_dsem_cell_t *cell);
static ngx_http_dsem_cell_t *ngx_http_dsem_cell_claim(void);
static void ngx_http_dsem_cell_zero(ngx_http_dsem_cell_t *cell);


static ngx_http_dsem_cells_process_t  ngx_http_dsem_cells_process;


/* bytes for this number of cells */

size_t
ngx_http_dsem_cells_size(ngx_uint_t ncells)
{
    return offsetof(ngx_http_dsem_cells_t, cells)
           + ncells * sizeof(ngx_http_dsem_cell_t);
}


/* the memory is all zero */

void
ngx_http_dsem_cells_init(ngx_http_dsem_cells_t *cells, ngx_uint_t ncells)
{
    cells->ncells = ncells;
}


void
ngx_http_dsem_cells_enter(ngx_http_dsem_cells_t *cells)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    ngx_memzero(process, sizeof(ngx_http_dsem_cells_process_t));

    process->cells = cells;

    /* what others have left: no turn may be near */
    ngx_http_dsem_cells_sweep();

    ngx_http_dsem_cells_turn();
}


/*
 * Once a second: the process may have got its number since it entered, and
 * others may have ended that had all cells.
 */

void
ngx_http_dsem_cells_turn(void)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    process->number = ngx_http_dsem_process_number();

    if (process->other == NULL) {
        process->other = ngx_http_dsem_cell_get();
    }
}


/* a cell that is all zero */

ngx_http_dsem_cell_t *
ngx_http_dsem_cell_take(void)
{
    ngx_http_dsem_cell_t  *cell;

    cell = ngx_http_dsem_cell_get();

    if (cell) {
        return cell;
    }

    cell = ngx_calloc(sizeof(ngx_http_dsem_cells_alone_t), ngx_cycle->log);

    if (cell == NULL) {
        return &ngx_http_dsem_cells_process.none;
    }

    cell->owner = NGX_HTTP_DSEM_CELLS_ALONE;

    return cell;
}


/*
 * Once a second: the cell for what is in this one, another if this one is in
 * memory of the process, and one of the node is free.
 */

ngx_http_dsem_cell_t *
ngx_http_dsem_cell_move(ngx_http_dsem_cell_t *cell)
{
    ngx_http_dsem_cell_t  *to;

    if (cell->owner != NGX_HTTP_DSEM_CELLS_ALONE) {
        return cell;
    }

    to = ngx_http_dsem_cell_get();

    if (to == NULL) {
        ngx_http_dsem_cell_add(cell);
        return cell;
    }

    to->in_use = cell->in_use;
    to->idle = cell->idle;
    to->waiting = cell->waiting;
    to->oldest = cell->oldest;

    ngx_http_dsem_cell_free(cell);

    return to;
}


/* what a cell in memory of the process has now is in that of the other names */

static void
ngx_http_dsem_cell_add(ngx_http_dsem_cell_t *cell)
{
    ngx_http_dsem_cell_t         *other;
    ngx_http_dsem_cells_alone_t  *alone;

    other = ngx_http_dsem_cells_process.other;
    alone = (ngx_http_dsem_cells_alone_t *) cell;

    if (other == NULL) {
        return;
    }

    other->in_use += cell->in_use - alone->in_use;
    other->idle += cell->idle - alone->idle;
    other->waiting += cell->waiting - alone->waiting;

    alone->in_use = cell->in_use;
    alone->idle = cell->idle;
    alone->waiting = cell->waiting;
}


/* of the node, all zero; NULL: none is found */

static ngx_http_dsem_cell_t *
ngx_http_dsem_cell_get(void)
{
    ngx_http_dsem_cell_t           *cell;
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    if (process->nspare) {
        return process->spare[--process->nspare];
    }

    /* one search in vain each second, not one for each name */

    if (process->number == 0 || process->full == ngx_http_dsem_rows_time()) {
        return NULL;
    }

    cell = ngx_http_dsem_cell_claim();

    if (cell == NULL) {
        process->full = ngx_http_dsem_rows_time();
    }

    return cell;
}


/* one of those that were used before, or the next one; NULL: none is found */

static ngx_http_dsem_cell_t *
ngx_http_dsem_cell_claim(void)
{
    ngx_uint_t                      i, n;
    ngx_http_dsem_cell_t           *cell;
    ngx_http_dsem_cells_t          *cells;
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;
    cells = process->cells;

    for (i = 0; i < NGX_HTTP_DSEM_CELLS_TRIES; i++) {

        n = cells->used;

        if (i < NGX_HTTP_DSEM_CELLS_TRIES / 2) {

            if (process->hand < n) {
                n = process->hand++;

            } else {
                process->hand = 0;
            }
        }

        if (n >= cells->ncells) {
            continue;
        }

        cell = &cells->cells[n];

        if (cell->owner == 0
            && ngx_atomic_cmp_set(&cell->owner, 0,
                                  process->number
                                  | NGX_HTTP_DSEM_CELLS_FILLING))
        {
            ngx_http_dsem_process_raise(&cells->used, n + 1);
            ngx_http_dsem_cell_zero(cell);

            ngx_memory_barrier();

            cell->owner = process->number;

            return cell;
        }

        /* its owner may have been stopped before it moved the end */
        ngx_http_dsem_process_raise(&cells->used, n + 1);
    }

    return NULL;
}


static void
ngx_http_dsem_cell_zero(ngx_http_dsem_cell_t *cell)
{
    cell->version = 0;
    cell->row = 0;
    cell->in_use = 0;
    cell->idle = 0;
    cell->waiting = 0;
    cell->oldest = 0;
}


/* what it has is gone, or in another one */

void
ngx_http_dsem_cell_free(ngx_http_dsem_cell_t *cell)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    if (cell == &process->none) {
        return;
    }

    ngx_http_dsem_cell_zero(cell);

    if (cell->owner == NGX_HTTP_DSEM_CELLS_ALONE) {
        ngx_http_dsem_cell_add(cell);
        ngx_free(cell);
        return;
    }

    if (process->nspare < NGX_HTTP_DSEM_CELLS_SPARE) {
        process->spare[process->nspare++] = cell;
        return;
    }

    ngx_memory_barrier();

    cell->owner = 0;
}


/* frees what processes that are gone have left, by and by */

void
ngx_http_dsem_cells_sweep(void)
{
    ngx_uint_t              i, n;
    ngx_atomic_uint_t       owner;
    ngx_http_dsem_cell_t   *cell;
    ngx_http_dsem_cells_t  *cells;

    cells = ngx_http_dsem_cells_process.cells;

    n = ngx_min(cells->used, NGX_HTTP_DSEM_CELLS_TURN);

    for (i = 0; i < n; i++) {
        cell = &cells->cells[ngx_atomic_fetch_add(&cells->swept, 1)
                             % cells->used];
        owner = cell->owner;

        ngx_memory_barrier();

        if (owner
            && !ngx_http_dsem_process_registered(
                                      owner & ~NGX_HTTP_DSEM_CELLS_FILLING))
        {
            (void) ngx_atomic_cmp_set(&cell->owner, owner, 0);
        }
    }
}
