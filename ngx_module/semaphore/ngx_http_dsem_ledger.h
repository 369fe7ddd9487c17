
/*
 * The ledger: the permits of one account.
 */


#ifndef _NGX_HTTP_DSEM_LEDGER_H_INCLUDED_
#define _NGX_HTTP_DSEM_LEDGER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


void ngx_http_dsem_ledger_admit(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server);
void ngx_http_dsem_ledger_hold(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server);
ngx_uint_t ngx_http_dsem_ledger_reuse(ngx_http_dsem_account_t *account,
    ngx_int_t weight);
ngx_int_t ngx_http_dsem_ledger_reuse_server(ngx_http_dsem_account_t *account);
ngx_uint_t ngx_http_dsem_ledger_keep(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_msec_t hold_time, ngx_int_t server,
    ngx_uint_t failed);
void ngx_http_dsem_ledger_give_back(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server);
void ngx_http_dsem_ledger_give_back_late(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server);
void ngx_http_dsem_ledger_give_back_idle(ngx_http_dsem_account_t *account,
    ngx_int_t idle);
void ngx_http_dsem_ledger_give_back_unusable(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_ledger_own(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_ledger_own_usable(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_ledger_own_server(ngx_http_dsem_account_t *account);
void ngx_http_dsem_ledger_hand_over(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_int_t server);
void ngx_http_dsem_ledger_disown(ngx_http_dsem_account_t *account);
void ngx_http_dsem_ledger_owned(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_ledger_releasable(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_ledger_report(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_ledger_sum(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_ledger_in_use(ngx_http_dsem_account_t *account,
    ngx_int_t counted);
void ngx_http_dsem_ledger_clear(ngx_http_dsem_account_t *account);

void ngx_http_dsem_ledger_declared(ngx_http_dsem_account_t *account,
    ngx_uint_t keep);
void ngx_http_dsem_ledger_lower_recovering(ngx_http_dsem_account_t *account,
    ngx_int_t limit, ngx_int_t counted);
void ngx_http_dsem_ledger_reset(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_LEDGER_H_INCLUDED_ */
