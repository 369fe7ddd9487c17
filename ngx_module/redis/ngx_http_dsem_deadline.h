
/*
 * Deadlines for replies, in a worker that may itself stand still.
 */


#ifndef _NGX_HTTP_DSEM_DEADLINE_H_INCLUDED_
#define _NGX_HTTP_DSEM_DEADLINE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/* of one timer */
typedef struct {
    ngx_msec_t                due;
    ngx_uint_t                extended;    /* unsigned:1 */
} ngx_http_dsem_deadline_t;


void ngx_http_dsem_deadline_timer(ngx_event_t *timer,
    ngx_event_handler_pt handler, void *data);
void ngx_http_dsem_deadline_set(ngx_http_dsem_deadline_t *deadline,
    ngx_event_t *timer, ngx_msec_t time);
void ngx_http_dsem_deadline_restart(ngx_event_t *timer, ngx_msec_t time);
ngx_uint_t ngx_http_dsem_deadline_extend(ngx_http_dsem_deadline_t *deadline,
    ngx_event_t *timer);


#endif /* _NGX_HTTP_DSEM_DEADLINE_H_INCLUDED_ */
