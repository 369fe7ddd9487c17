
/*
 * Pace: how fast permits come back, as far as this worker has seen.
 */


#ifndef _NGX_HTTP_DSEM_PACE_H_INCLUDED_
#define _NGX_HTTP_DSEM_PACE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* how a semaphore stood when Redis was last asked */
typedef struct {
    ngx_int_t    in_use;
    ngx_int_t    limit;
    ngx_int_t    waiting;
} ngx_http_dsem_stand_t;


void ngx_http_dsem_pace_held(ngx_str_t *name, uint32_t hash,
    ngx_msec_t time);
void ngx_http_dsem_pace_stand(ngx_str_t *name, uint32_t hash,
    ngx_http_dsem_stand_t *stand, ngx_uint_t full);

void ngx_http_dsem_pace_hold_off(ngx_str_t *name, uint32_t hash,
    ngx_msec_t time);
ngx_uint_t ngx_http_dsem_pace_held_off(ngx_str_t *name, uint32_t hash);

ngx_http_dsem_stand_t *ngx_http_dsem_pace_last(ngx_str_t *name);
ngx_msec_t ngx_http_dsem_pace_wait(ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_PACE_H_INCLUDED_ */
