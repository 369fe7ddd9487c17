
/*
 * Dispatch: when accounts are synced, and the messages of Redis.
 */


#ifndef _NGX_HTTP_DSEM_DISPATCH_H_INCLUDED_
#define _NGX_HTTP_DSEM_DISPATCH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


ngx_int_t ngx_http_dsem_dispatch_init(
    ngx_http_dsem_session_settings_t *settings);
void ngx_http_dsem_dispatch_exit(void);


#endif /* _NGX_HTTP_DSEM_DISPATCH_H_INCLUDED_ */
