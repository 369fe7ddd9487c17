
/*
 * Idle permits: kept for the next request.  For the semaphore floor only.
 */


#ifndef _NGX_HTTP_DSEM_IDLE_H_INCLUDED_
#define _NGX_HTTP_DSEM_IDLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


void ngx_http_dsem_idle_init(ngx_http_dsem_account_t *account);
ngx_uint_t ngx_http_dsem_idle_keep(ngx_http_dsem_account_t *account,
    ngx_int_t weight);
void ngx_http_dsem_idle_asked(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask);
ngx_uint_t ngx_http_dsem_idle_take(ngx_http_dsem_account_t *account,
    ngx_int_t weight);
void ngx_http_dsem_idle_serve(ngx_http_dsem_account_t *account);
void ngx_http_dsem_idle_told(ngx_http_dsem_account_t *account,
    ngx_uint_t may_keep);
void ngx_http_dsem_idle_recall(ngx_http_dsem_account_t *account);
void ngx_http_dsem_idle_return(ngx_http_dsem_account_t *account);
void ngx_http_dsem_idle_forget(ngx_http_dsem_account_t *account);
ngx_uint_t ngx_http_dsem_idle_keeps(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_IDLE_H_INCLUDED_ */
