
/*
 * One reading for the survey: names and figures asked of the shards, once; and
 * the roster: the names.
 */


#ifndef _NGX_HTTP_DSEM_READING_H_INCLUDED_
#define _NGX_HTTP_DSEM_READING_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_key.h"


/*
 * The time of a command of Redis has passed, again, or the reading is over.
 * "result" is what was read, and belongs to the handler from then on; NULL:
 * nothing yet, or the reading has failed.
 */
typedef void (*ngx_http_dsem_reading_pt)(void *data,
    ngx_http_dsem_fleet_t *result);


/* in one shard */
typedef struct {
    ngx_uint_t                     next;       /* semaphore to ask for */
    ngx_uint_t                     last;
    ngx_uint_t                     holders;    /* of one semaphore */
    ngx_uint_t                     batch;
    ngx_uint_t                     steps;      /* of the names */
    unsigned                       asked:1;    /* it is part of the reading */
    unsigned                       begun:1;    /* figures have been asked */
} ngx_http_dsem_reading_part_t;


/* the survey's, and used again for the next reading */
typedef struct {
    ngx_http_dsem_fleet_t         *fleet;      /* being read; NULL: none */
    ngx_uint_t                     number;
    ngx_uint_t                     inflight;
    ngx_msec_t                     timeout;    /* of a command */
    ngx_event_t                    timer;
    ngx_uint_t                     periods;    /* of the timer */
    ngx_http_dsem_reading_part_t   parts[NGX_HTTP_DSEM_SHARDS];

    ngx_http_dsem_reading_pt       handler;
    void                          *data;
} ngx_http_dsem_reading_t;


void ngx_http_dsem_reading_init(ngx_http_dsem_reading_t *reading,
    ngx_msec_t timeout, ngx_http_dsem_reading_pt handler, void *data);

/*
 * "name" is read with all of its holders; empty: the usual names.  Anything
 * but NGX_OK: no memory, or no shard can be asked; the reading is over then.
 */
ngx_int_t ngx_http_dsem_reading_begin(ngx_http_dsem_reading_t *reading,
    ngx_str_t *name);

/* without a call of the handler */
void ngx_http_dsem_reading_stop(ngx_http_dsem_reading_t *reading);

/* a reading that is not awaited keeps no worker that exits */
void ngx_http_dsem_reading_await(ngx_http_dsem_reading_t *reading,
    ngx_uint_t awaited);

/* roster: names of semaphores, for a survey */
void ngx_http_dsem_roster_init(void);
void ngx_http_dsem_roster_free(void);

ngx_str_t *ngx_http_dsem_roster_cursor(ngx_uint_t shard);
ngx_uint_t ngx_http_dsem_roster_more(ngx_uint_t shard);
ngx_int_t ngx_http_dsem_roster_read(ngx_uint_t number, ngx_str_t *text);
ngx_int_t ngx_http_dsem_roster_add(ngx_http_dsem_fleet_t *fleet,
    ngx_uint_t nshards);


#endif /* _NGX_HTTP_DSEM_READING_H_INCLUDED_ */
