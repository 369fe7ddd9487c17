
/*
 * Idle permits: kept for the next request ("dsem_reuse").
 */


#ifndef _NGX_HTTP_DSEM_IDLE_H_INCLUDED_
#define _NGX_HTTP_DSEM_IDLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


void ngx_http_dsem_idle_serve(ngx_http_dsem_account_t *account);
ngx_uint_t ngx_http_dsem_idle_allowed(ngx_http_dsem_account_t *account);
void ngx_http_dsem_idle_update(ngx_http_dsem_account_t *account,
    ngx_int_t allowed);
void ngx_http_dsem_idle_recall(ngx_http_dsem_account_t *account);
u_char *ngx_http_dsem_idle_report(ngx_http_dsem_session_t *session, u_char *p);


#endif /* _NGX_HTTP_DSEM_IDLE_H_INCLUDED_ */
