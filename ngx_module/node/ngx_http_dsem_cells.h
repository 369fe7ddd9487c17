
/*
 * Cells: what each process of the node has now, in shared memory.
 */


#ifndef _NGX_HTTP_DSEM_CELLS_H_INCLUDED_
#define _NGX_HTTP_DSEM_CELLS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


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


size_t ngx_http_dsem_cells_size(ngx_uint_t ncells);
void ngx_http_dsem_cells_init(ngx_http_dsem_cells_t *cells,
    ngx_uint_t ncells);

void ngx_http_dsem_cells_enter(ngx_http_dsem_cells_t *cells);
void ngx_http_dsem_cells_leave(void);
ngx_http_dsem_cell_t *ngx_http_dsem_cell_take(void);
void ngx_http_dsem_cell_free(ngx_http_dsem_cell_t *cell);
ngx_uint_t ngx_http_dsem_cell_shared(ngx_http_dsem_cell_t *cell);

void ngx_http_dsem_cells_sweep(void);


#endif /* _NGX_HTTP_DSEM_CELLS_H_INCLUDED_ */
