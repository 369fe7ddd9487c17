
/*
 * Hints: what is remembered of semaphores, for estimates only.
 */


#ifndef _NGX_HTTP_DSEM_HINT_H_INCLUDED_
#define _NGX_HTTP_DSEM_HINT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* hold times are kept in eighths of ms, as their mean follows slowly */
#define NGX_HTTP_DSEM_HOLD_TIME_SHIFT  3


/* of a semaphore, in a reply of Redis */
typedef struct {
    ngx_int_t    in_use;
    ngx_int_t    limit;
    ngx_int_t    waiting;
} ngx_http_dsem_usage_t;


void ngx_http_dsem_hint_set_hold_time(ngx_str_t *name, uint32_t hash,
    ngx_msec_t time, double permit_time);
void ngx_http_dsem_hint_not_full(ngx_str_t *name, uint32_t hash);
void ngx_http_dsem_hints_not_full(void);
ngx_msec_t ngx_http_dsem_hint_hold_time(ngx_str_t *name, uint32_t hash);
double ngx_http_dsem_hint_permit_time(ngx_str_t *name, uint32_t hash);
void ngx_http_dsem_hint_set_usage(ngx_str_t *name, uint32_t hash,
    ngx_http_dsem_usage_t *usage, ngx_int_t limit, ngx_uint_t full);

ngx_http_dsem_usage_t *ngx_http_dsem_hint_full(ngx_str_t *name,
    uint32_t hash, ngx_int_t limit);
ngx_msec_t ngx_http_dsem_hint_wait(ngx_str_t *name, ngx_int_t limit);


#endif /* _NGX_HTTP_DSEM_HINT_H_INCLUDED_ */
