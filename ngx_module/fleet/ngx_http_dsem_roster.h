
/*
 * The roster: names of semaphores, for a survey.
 */


#ifndef _NGX_HTTP_DSEM_ROSTER_H_INCLUDED_
#define _NGX_HTTP_DSEM_ROSTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fleet.h"


void ngx_http_dsem_roster_init(void);
void ngx_http_dsem_roster_free(void);

ngx_str_t *ngx_http_dsem_roster_cursor(ngx_uint_t shard);
ngx_uint_t ngx_http_dsem_roster_more(ngx_uint_t shard);
ngx_int_t ngx_http_dsem_roster_read(ngx_uint_t number, ngx_str_t *text);
ngx_int_t ngx_http_dsem_roster_add(ngx_http_dsem_fleet_t *fleet,
    ngx_uint_t nshards);


#endif /* _NGX_HTTP_DSEM_ROSTER_H_INCLUDED_ */
