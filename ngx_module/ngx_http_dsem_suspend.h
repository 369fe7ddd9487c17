
/*
 * How a request is suspended while it waits, and resumed.
 */


#ifndef _NGX_HTTP_DSEM_SUSPEND_H_INCLUDED_
#define _NGX_HTTP_DSEM_SUSPEND_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


ngx_int_t ngx_http_dsem_suspend(ngx_http_request_t *r);
void ngx_http_dsem_resume(ngx_http_request_t *r);


#endif /* _NGX_HTTP_DSEM_SUSPEND_H_INCLUDED_ */
