
/*
 * Rows: a table of names with values, in shared memory.
 */


#ifndef _NGX_HTTP_DSEM_ROWS_H_INCLUDED_
#define _NGX_HTTP_DSEM_ROWS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"


/* of one row: counts and histograms, see counters */
#define NGX_HTTP_DSEM_ROW_VALUES     44

#define NGX_HTTP_DSEM_ROW_PEAKS      2

/* values that have a history, and the periods that it goes back */
#define NGX_HTTP_DSEM_ROW_TRACKED    4
#define NGX_HTTP_DSEM_ROW_SNAPSHOTS  30

/* the places in the index in which a name may be */
#define NGX_HTTP_DSEM_ROWS_WINDOW    16
#define NGX_HTTP_DSEM_ROWS_SLOTS     4

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
    ngx_atomic_t         values[NGX_HTTP_DSEM_ROW_VALUES];
    /* of these, before it got its name, or series */
    ngx_atomic_t         base[NGX_HTTP_DSEM_ROW_VALUES];

    ngx_atomic_t         peaks[NGX_HTTP_DSEM_ROW_PEAKS];

    uint32_t             hash;
    uint32_t             len;        /* 0: it has no name */
    uint32_t             slot;       /* where the index has it */

    uint32_t             first;      /* period in which it got its name */
    uint32_t             last;       /* the last one that has a snapshot */

    /* values when a period began, at its number modulo their number */
    uint32_t             snapshots[NGX_HTTP_DSEM_ROW_SNAPSHOTS]
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


#endif /* _NGX_HTTP_DSEM_ROWS_H_INCLUDED_ */
