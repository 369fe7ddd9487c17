
/*
 * Sync: all that an account sends to Redis in one turn.
 */


#ifndef _NGX_HTTP_DSEM_SYNC_H_INCLUDED_
#define _NGX_HTTP_DSEM_SYNC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_sync_reply.h"


ngx_int_t ngx_http_dsem_sync_check(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_sync_changes(ngx_http_dsem_account_t *account,
    ngx_uint_t nasks);


#endif /* _NGX_HTTP_DSEM_SYNC_H_INCLUDED_ */
