
/*
 * Sync: what an account tells Redis in one turn.  For the semaphore floor
 * only.
 */


#ifndef _NGX_HTTP_DSEM_SYNC_H_INCLUDED_
#define _NGX_HTTP_DSEM_SYNC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


ngx_int_t ngx_http_dsem_sync_send(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_SYNC_H_INCLUDED_ */
