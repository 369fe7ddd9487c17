
/*
 * Local: requests that are admitted without asking Redis.
 */


#ifndef _NGX_HTTP_DSEM_LOCAL_H_INCLUDED_
#define _NGX_HTTP_DSEM_LOCAL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_ticket.h"


ngx_uint_t ngx_http_dsem_local_now(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask);
ngx_uint_t ngx_http_dsem_local_place(ngx_http_dsem_account_t *account,
    ngx_http_dsem_ask_t *ask);
void ngx_http_dsem_local_answer(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_http_dsem_answer_t *answer);
void ngx_http_dsem_local_begin(ngx_http_dsem_account_t *account);
void ngx_http_dsem_local_pass(ngx_http_dsem_account_t *account);
void ngx_http_dsem_local_serve(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_LOCAL_H_INCLUDED_ */
