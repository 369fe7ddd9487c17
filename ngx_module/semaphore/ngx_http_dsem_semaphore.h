
/*
 * Semaphores as a request sees them.
 */


#ifndef _NGX_HTTP_DSEM_SEMAPHORE_H_INCLUDED_
#define _NGX_HTTP_DSEM_SEMAPHORE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_auto.h"
#include "ngx_http_dsem_session.h"
#include "ngx_http_dsem_ticket.h"


ngx_int_t ngx_http_dsem_semaphore_init(
    ngx_http_dsem_session_settings_t *settings, ngx_uint_t max_waiting);

ngx_http_dsem_ticket_t *ngx_http_dsem_semaphore_acquire(
    ngx_http_dsem_ask_t *ask, ngx_http_dsem_answer_t *answer);
ngx_int_t ngx_http_dsem_semaphore_drains(ngx_http_dsem_ask_t *ask,
    ngx_msec_t timeout);
ngx_uint_t ngx_http_dsem_semaphore_full(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_answer_t *answer);
void ngx_http_dsem_semaphore_count(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_ticket_t *ticket, ngx_http_dsem_count_e result);
void ngx_http_dsem_semaphore_waited(ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_ticket_t *ticket, ngx_msec_t time);
void ngx_http_dsem_semaphore_sample(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_sample_e result, ngx_msec_t time);
ngx_str_t *ngx_http_dsem_semaphore_server(ngx_http_dsem_ticket_t *ticket);
ngx_uint_t ngx_http_dsem_semaphore_usable(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_semaphore_servers(ngx_str_t *name, uint32_t hash);
ngx_msec_t ngx_http_dsem_semaphore_hold_time(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_semaphore_release(ngx_http_dsem_ticket_t *ticket,
    ngx_uint_t failed);


#endif /* _NGX_HTTP_DSEM_SEMAPHORE_H_INCLUDED_ */
