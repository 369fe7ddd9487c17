
/*
 * Tickets: requests of this worker that wait for permits, or hold them.
 */


#ifndef _NGX_HTTP_DSEM_TICKET_H_INCLUDED_
#define _NGX_HTTP_DSEM_TICKET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_waiting.h"


void ngx_http_dsem_ticket_init(void);

ngx_http_dsem_ticket_t *ngx_http_dsem_ticket_create(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);
ngx_http_dsem_ticket_t *ngx_http_dsem_ticket_create_held(
    ngx_http_dsem_account_t *account, ngx_http_dsem_ask_t *ask);

void ngx_http_dsem_ticket_sent(ngx_http_dsem_ticket_t *ticket,
    uint64_t epoch);
void ngx_http_dsem_ticket_queued(ngx_http_dsem_ticket_t *ticket,
    int64_t place, ngx_int_t position, ngx_int_t in_use, ngx_int_t limit);
void ngx_http_dsem_ticket_placed(ngx_http_dsem_ticket_t *ticket,
    int64_t place, uint64_t epoch);
void ngx_http_dsem_ticket_unsend(ngx_http_dsem_ticket_t *ticket);
ngx_int_t ngx_http_dsem_ticket_requeue(ngx_http_dsem_ticket_t *ticket);

ngx_int_t ngx_http_dsem_ticket_grant(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t server, ngx_int_t in_use, ngx_int_t limit);
void ngx_http_dsem_ticket_admit(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t in_use, ngx_int_t limit);
void ngx_http_dsem_ticket_end(ngx_http_dsem_ticket_t *ticket,
    ngx_http_dsem_verdict_e verdict);

ngx_uint_t ngx_http_dsem_ticket_seen(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_ticket_cancel(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_ticket_cancel_late(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_ticket_free(ngx_http_dsem_ticket_t *ticket);

void ngx_http_dsem_tickets_end(ngx_http_dsem_account_t *account,
    ngx_http_dsem_verdict_e verdict, ngx_uint_t asked);
void ngx_http_dsem_tickets_reset(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_TICKET_H_INCLUDED_ */
