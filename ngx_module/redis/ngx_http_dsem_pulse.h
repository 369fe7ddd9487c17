
/*
 * The pulse: whether Redis has replied just now.
 */


#ifndef _NGX_HTTP_DSEM_PULSE_H_INCLUDED_
#define _NGX_HTTP_DSEM_PULSE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


typedef struct {
    ngx_msec_t     since;         /* last reply, or beginning of a wait */
    ngx_msec_t     replied;       /* time of the last reply */
    ngx_msec_t     rtt;           /* usual round trip, in eighths of ms */
    ngx_event_t    timer;         /* the next reply is late then */

    void         (*handler)(void *data);
    void          *data;

    unsigned       timed:1;       /* a round trip has ended */
    unsigned       timing:1;      /* the next reply ends a round trip */
    unsigned       awaited:1;     /* handler is to be called */
} ngx_http_dsem_pulse_t;


void ngx_http_dsem_pulse_init(ngx_http_dsem_pulse_t *pulse,
    void (*handler)(void *data), void *data);
void ngx_http_dsem_pulse_asked(ngx_http_dsem_pulse_t *pulse);
void ngx_http_dsem_pulse_replied(ngx_http_dsem_pulse_t *pulse);
void ngx_http_dsem_pulse_stop(ngx_http_dsem_pulse_t *pulse);

ngx_uint_t ngx_http_dsem_pulse_fresh(ngx_http_dsem_pulse_t *pulse,
    ngx_msec_t worth);
ngx_uint_t ngx_http_dsem_pulse_late(ngx_http_dsem_pulse_t *pulse);
void ngx_http_dsem_pulse_wait(ngx_http_dsem_pulse_t *pulse);


#endif /* _NGX_HTTP_DSEM_PULSE_H_INCLUDED_ */
