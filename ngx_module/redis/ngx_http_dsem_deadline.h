
/*
 * Deadlines for replies, in a worker that may itself stand still.
 */


#ifndef _NGX_HTTP_DSEM_DEADLINE_H_INCLUDED_
#define _NGX_HTTP_DSEM_DEADLINE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


void ngx_http_dsem_deadline_set(ngx_event_t *timer, ngx_msec_t *due,
    ngx_msec_t time);
ngx_uint_t ngx_http_dsem_deadline_extend(ngx_event_t *timer,
    ngx_msec_t *due);


#endif /* _NGX_HTTP_DSEM_DEADLINE_H_INCLUDED_ */
