
/*
 * Pace: how fast permits come back, as far as this worker has seen.
 */


#ifndef _NGX_HTTP_DSEM_HINT_H_INCLUDED_
#define _NGX_HTTP_DSEM_HINT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* how a semaphore stood when Redis was last asked */
typedef struct {
    ngx_int_t    in_use;
    ngx_int_t    limit;
    ngx_int_t    waiting;
} ngx_http_dsem_usage_t;


void ngx_http_dsem_hint_held(ngx_str_t *name, uint32_t hash,
    ngx_msec_t time);
void ngx_http_dsem_hint_usage(ngx_str_t *name, uint32_t hash,
    ngx_http_dsem_usage_t *usage, ngx_uint_t full);

void ngx_http_dsem_hint_hold_off(ngx_str_t *name, uint32_t hash,
    ngx_msec_t time);
ngx_uint_t ngx_http_dsem_hint_held_off(ngx_str_t *name, uint32_t hash);

ngx_http_dsem_usage_t *ngx_http_dsem_hint_last(ngx_str_t *name);
ngx_msec_t ngx_http_dsem_hint_wait(ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_HINT_H_INCLUDED_ */
