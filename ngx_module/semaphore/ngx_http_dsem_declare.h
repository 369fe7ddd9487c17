
/*
 * Declare: what an account has, sent to Redis in a new epoch.
 */


#ifndef _NGX_HTTP_DSEM_DECLARE_H_INCLUDED_
#define _NGX_HTTP_DSEM_DECLARE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


ngx_int_t ngx_http_dsem_declare(ngx_http_dsem_account_t *account,
    ngx_uint_t *calls);


#endif /* _NGX_HTTP_DSEM_DECLARE_H_INCLUDED_ */
