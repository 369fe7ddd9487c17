
/*
 * Batch: the changes of several quiet accounts in one call.
 */


#ifndef _NGX_HTTP_DSEM_BATCH_H_INCLUDED_
#define _NGX_HTTP_DSEM_BATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


ngx_int_t ngx_http_dsem_batch_gather(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_batch_send(void);
void ngx_http_dsem_batch_reset(void);


#endif /* _NGX_HTTP_DSEM_BATCH_H_INCLUDED_ */
