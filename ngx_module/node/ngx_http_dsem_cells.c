
/*
 * Cells: what each process of the node has now, in shared memory.
 *
 * Owns the cells and the list of processes that have some.  A cell has the
 * permits and the waiting requests of one process and one name.  Its process
 * alone writes it, without a lock; readers add up those of living processes,
 * so what a killed worker had is gone with it.  A cell whose owner is not in
 * the list is free: its process has ended.
 *
 * Where no cell is left, and in a process for which the list has no room, the
 * names share one: that of the other names.
 *
 * Called by: counters.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_cells.h"
#include "ngx_http_dsem_process.h"


/* cells that a process keeps for its next names */
#define NGX_HTTP_DSEM_CELLS_SPARE   64

/* cells that are read for a free one, and in one turn for lost ones */
#define NGX_HTTP_DSEM_CELLS_TRIES   64
#define NGX_HTTP_DSEM_CELLS_TURN    4096

/* in the owner of a cell that is not zeroed yet */
#define NGX_HTTP_DSEM_CELLS_FILLING                                           \
    ((ngx_atomic_uint_t) 1 << (NGX_PTR_SIZE * 8 - 1))


/* this process */
typedef struct {
    ngx_http_dsem_cells_t        *cells;
    ngx_http_dsem_cell_owner_t   *owner;     /* NULL: no room in the list */
    ngx_atomic_uint_t             number;
    ngx_uint_t                    hand;

    ngx_http_dsem_cell_t         *shared;
    ngx_http_dsem_cell_t          none;      /* read by no process */

    ngx_http_dsem_cell_t         *spare[NGX_HTTP_DSEM_CELLS_SPARE];
    ngx_uint_t                    nspare;

    ngx_atomic_uint_t            *living;    /* numbers, at the last look */
    ngx_uint_t                    nliving;
    ngx_atomic_uint_t             last;      /* of them, the last found */
} ngx_http_dsem_cells_process_t;


static ngx_http_dsem_cell_owner_t *ngx_http_dsem_cells_register(
    ngx_http_dsem_cells_t *cells);
static ngx_http_dsem_cell_t *ngx_http_dsem_cell_claim(void);
static void ngx_http_dsem_cell_zero(ngx_http_dsem_cell_t *cell);
static ngx_uint_t ngx_http_dsem_cells_known(ngx_http_dsem_cells_t *cells,
    ngx_atomic_uint_t number);
static ngx_uint_t ngx_http_dsem_cells_alive(
    ngx_http_dsem_cell_owner_t *owner, ngx_atomic_uint_t *number);


static ngx_http_dsem_cells_process_t  ngx_http_dsem_cells_process;


/* bytes for these numbers of cells and processes */

size_t
ngx_http_dsem_cells_size(ngx_uint_t ncells, ngx_uint_t nowners)
{
    return sizeof(ngx_http_dsem_cells_t)
           + nowners * sizeof(ngx_http_dsem_cell_owner_t)
           + ncells * sizeof(ngx_http_dsem_cell_t);
}


/* the memory is all zero */

void
ngx_http_dsem_cells_init(ngx_http_dsem_cells_t *cells, ngx_uint_t ncells,
    ngx_uint_t nowners)
{
    cells->ncells = ncells;
    cells->nowners = nowners;
    cells->cells = (ngx_http_dsem_cell_t *) &cells->owners[nowners];
}


/*
 * This process has none yet; NGX_ERROR: no memory.  It frees what others have
 * left: where each process ends within a second none lives until a turn.
 */

ngx_int_t
ngx_http_dsem_cells_enter(ngx_http_dsem_cells_t *cells)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    ngx_memzero(process, sizeof(ngx_http_dsem_cells_process_t));

    process->cells = cells;
    process->shared = &process->none;

    process->living = ngx_alloc(cells->nowners * sizeof(ngx_atomic_uint_t),
                                ngx_cycle->log);
    if (process->living == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_cells_sweep();

    process->owner = ngx_http_dsem_cells_register(cells);

    if (process->owner) {
        process->number = process->owner->number;
        process->shared = ngx_http_dsem_cell_take();
    }

    return NGX_OK;
}


/* NULL: no room */

static ngx_http_dsem_cell_owner_t *
ngx_http_dsem_cells_register(ngx_http_dsem_cells_t *cells)
{
    ngx_uint_t                   i;
    ngx_http_dsem_cell_owner_t  *owner;

    for (i = 0; i < cells->nowners; i++) {
        owner = &cells->owners[i];

        if (owner->pid == 0
            && ngx_atomic_cmp_set(&owner->pid, 0,
                                  (ngx_atomic_uint_t) ngx_pid))
        {
            ngx_http_dsem_process_raise(&cells->used_owners, i + 1);

            owner->started = ngx_http_dsem_process_started(ngx_pid);

            ngx_memory_barrier();

            owner->number = ngx_atomic_fetch_add(&cells->number, 1) + 1;

            return owner;
        }
    }

    return NULL;
}


/* the process ends; its cells are free from then on */

void
ngx_http_dsem_cells_leave(void)
{
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;

    if (process->owner) {
        process->owner->number = 0;

        ngx_memory_barrier();

        process->owner->pid = 0;
    }

    if (process->living) {
        ngx_free(process->living);
    }

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

    cell = process->owner ? ngx_http_dsem_cell_claim() : NULL;

    return cell ? cell : process->shared;
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

        n = (i < NGX_HTTP_DSEM_CELLS_TRIES / 2) ? process->hand++
                                                : cells->used;
        if (n >= cells->used) {
            process->hand = 0;
            n = cells->used;
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

    if (cell == process->shared) {
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
    return cell == ngx_http_dsem_cells_process.shared;
}


/* frees what processes that are gone have left, by and by */

void
ngx_http_dsem_cells_sweep(void)
{
    ngx_uint_t                   i, n;
    ngx_atomic_uint_t            number, pid;
    ngx_http_dsem_cell_t        *cell;
    ngx_http_dsem_cells_t       *cells;
    ngx_http_dsem_cell_owner_t  *owner;

    cells = ngx_http_dsem_cells_process.cells;

    for (i = 0; i < cells->used_owners; i++) {
        owner = &cells->owners[i];
        pid = owner->pid;

        if (pid
            && !ngx_http_dsem_cells_alive(owner, &number)
            && (number == 0
                ? owner->number == 0
                : ngx_atomic_cmp_set(&owner->number, number, 0)))
        {
            (void) ngx_atomic_cmp_set(&owner->pid, pid, 0);
        }
    }

    n = ngx_min(cells->used, NGX_HTTP_DSEM_CELLS_TURN);

    for (i = 0; i < n; i++) {
        cell = &cells->cells[ngx_atomic_fetch_add(&cells->swept, 1)
                             % cells->used];
        number = cell->owner;

        ngx_memory_barrier();

        if (number && !ngx_http_dsem_cells_known(cells, number)) {
            (void) ngx_atomic_cmp_set(&cell->owner, number, 0);
        }
    }
}


/* whether the process is in the list, be it alive or not */

static ngx_uint_t
ngx_http_dsem_cells_known(ngx_http_dsem_cells_t *cells,
    ngx_atomic_uint_t number)
{
    ngx_uint_t  i;

    number &= ~NGX_HTTP_DSEM_CELLS_FILLING;

    if (number == ngx_http_dsem_cells_process.number) {
        return 1;
    }

    for (i = 0; i < cells->used_owners; i++) {
        if (cells->owners[i].number == number) {
            return 1;
        }
    }

    return 0;
}


/* its number is 0 until it has one */

static ngx_uint_t
ngx_http_dsem_cells_alive(ngx_http_dsem_cell_owner_t *owner,
    ngx_atomic_uint_t *number)
{
    uint64_t           started;
    ngx_atomic_uint_t  pid;

    *number = owner->number;

    ngx_memory_barrier();

    pid = owner->pid;
    started = *number ? owner->started : 0;

    ngx_memory_barrier();

    if (pid == 0 || owner->number != *number) {
        /* it is being changed */
        return 1;
    }

    /* another one with the pid of this process: a dead one had it before */

    if (pid == (ngx_atomic_uint_t) ngx_pid) {
        return owner == ngx_http_dsem_cells_process.owner;
    }

    return !ngx_http_dsem_process_gone((ngx_pid_t) pid, started);
}


/* for ngx_http_dsem_cell_living(): which processes are alive now */

void
ngx_http_dsem_cells_refresh(void)
{
    ngx_uint_t                      i;
    ngx_atomic_uint_t               number;
    ngx_http_dsem_cells_t          *cells;
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;
    cells = process->cells;

    process->nliving = 0;
    process->last = 0;

    for (i = 0; i < cells->used_owners; i++) {

        if (cells->owners[i].pid
            && ngx_http_dsem_cells_alive(&cells->owners[i], &number)
            && number)
        {
            process->living[process->nliving++] = number;
        }
    }
}


ngx_uint_t
ngx_http_dsem_cell_living(ngx_http_dsem_cell_t *cell)
{
    ngx_uint_t                      i;
    ngx_atomic_uint_t               owner;
    ngx_http_dsem_cells_process_t  *process;

    process = &ngx_http_dsem_cells_process;
    owner = cell->owner;

    if (owner == 0) {
        return 0;
    }

    if (owner == process->last) {
        return 1;
    }

    for (i = 0; i < process->nliving; i++) {
        if (process->living[i] == owner) {
            process->last = owner;
            return 1;
        }
    }

    return 0;
}
