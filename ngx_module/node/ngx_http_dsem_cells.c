
/*
 * Cells: what each process of the node has now, in shared memory.
 *
 * Owns the cells.  A cell has the permits and the waiting requests of one
 * process and one name.  Its process alone writes it, without a lock; readers
 * add up those of living processes, so what a killed worker had is gone with
 * it.  A cell whose owner is not in the list of processes any more is free.
 *
 * Where no cell is left the names of a process share one: that of the other
 * names.  In a process without a number each name has one in memory of its own,
 * which no other process reads; when the process has its number their figures
 * move to cells of the node.
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


/* the owner of a cell in memory of its own: no process has this number */
#define NGX_HTTP_DSEM_CELLS_ALONE   NGX_HTTP_DSEM_CELLS_FILLING


/* this process */
typedef struct {
    ngx_http_dsem_cells_t        *cells;
    ngx_atomic_uint_t             number;    /* 0: none */
    ngx_uint_t                    hand;

    ngx_http_dsem_cell_t         *shared;
    ngx_http_dsem_cell_t          none;      /* read by no process */
    ngx_uint_t                    nalone;    /* cells in memory of their own */

    ngx_http_dsem_cell_t         *spare[NGX_HTTP_DSEM_CELLS_SPARE];
    ngx_uint_t                    nspare;
} ngx_http_dsem_cells_process_t;


static void ngx_http_dsem_cells_share(ngx_http_dsem_cells_process_t *process);
static ngx_http_dsem_cell_t *ngx_http_dsem_cell_alone(void);
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


/* this process, which has its number if there was room for it, has none yet */

void
ngx_http_dsem_cells_enter(ngx_http_dsem_cells_t *cells)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    ngx_memzero(process, sizeof(ngx_http_dsem_cells_process_t));

    process->cells = cells;
    process->number = ngx_http_dsem_process_number();
    process->shared = &process->none;

    /* what others have left: no turn may be near */
    ngx_http_dsem_cells_sweep();

    if (process->number) {
        ngx_http_dsem_cells_share(process);
    }
}


/* this process has got its number; its names move by and by */

void
ngx_http_dsem_cells_number(void)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    process->number = ngx_http_dsem_process_number();

    /* what the process has left whose place this is */
    ngx_http_dsem_cells_sweep();

    ngx_http_dsem_cells_share(process);
}


/* the cell that names without one share: all cells are tried, if need be */

static void
ngx_http_dsem_cells_share(ngx_http_dsem_cells_process_t *process)
{
    ngx_uint_t  tried;

    for (tried = 0;
         process->shared == &process->none && tried <= process->cells->ncells;
         tried += NGX_HTTP_DSEM_CELLS_TRIES / 2)
    {
        process->shared = ngx_http_dsem_cell_take();
    }
}


/* the process ends; its cells are free once its number is gone */

void
ngx_http_dsem_cells_leave(void)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    ngx_memzero(process, sizeof(ngx_http_dsem_cells_process_t));

    process->shared = &process->none;
}


/* a cell that is all zero, or the shared one */

ngx_http_dsem_cell_t *
ngx_http_dsem_cell_take(void)
{
    ngx_http_dsem_cell_t           *cell;
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    if (process->nspare) {
        return process->spare[--process->nspare];
    }

    cell = process->number ? ngx_http_dsem_cell_claim()
                           : ngx_http_dsem_cell_alone();

    return cell ? cell : process->shared;
}


/* NULL: no memory */

static ngx_http_dsem_cell_t *
ngx_http_dsem_cell_alone(void)
{
    ngx_http_dsem_cell_t  *cell;

    cell = ngx_calloc(sizeof(ngx_http_dsem_cell_t), ngx_cycle->log);

    if (cell) {
        cell->owner = NGX_HTTP_DSEM_CELLS_ALONE;
        ngx_http_dsem_cells_process.nalone++;
    }

    return cell;
}


/*
 * The cell for what is in this one: another, if this one was taken before the
 * process had its number.
 */

ngx_http_dsem_cell_t *
ngx_http_dsem_cell_move(ngx_http_dsem_cell_t *cell)
{
    ngx_http_dsem_cell_t           *to;
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    if (process->nalone == 0
        || process->number == 0
        || cell->owner != NGX_HTTP_DSEM_CELLS_ALONE)
    {
        return cell;
    }

    to = ngx_http_dsem_cell_take();

    if (to == process->shared) {
        /* none is free yet */
        return cell;
    }

    to->in_use += cell->in_use;
    to->idle += cell->idle;
    to->waiting += cell->waiting;
    to->oldest = cell->oldest;

    ngx_http_dsem_cell_free(cell);

    return to;
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


/* all that was added to it has been taken out again */

void
ngx_http_dsem_cell_free(ngx_http_dsem_cell_t *cell)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    if (ngx_http_dsem_cell_shared(cell)) {
        return;
    }

    if (cell->owner == NGX_HTTP_DSEM_CELLS_ALONE) {
        process->nalone--;
        ngx_free(cell);
        return;
    }

    ngx_http_dsem_cell_zero(cell);

    if (process->nspare < NGX_HTTP_DSEM_CELLS_SPARE) {
        process->spare[process->nspare++] = cell;
        return;
    }

    ngx_memory_barrier();

    cell->owner = 0;
}


ngx_uint_t
ngx_http_dsem_cell_shared(ngx_http_dsem_cell_t *cell)
{
    return cell == ngx_http_dsem_cells_process.shared
           || cell == &ngx_http_dsem_cells_process.none;
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
