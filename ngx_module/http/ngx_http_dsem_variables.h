
/*
 * Variables: the verdict of a request, for logs and headers.
 */


#ifndef _NGX_HTTP_DSEM_VARIABLES_H_INCLUDED_
#define _NGX_HTTP_DSEM_VARIABLES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


ngx_int_t ngx_http_dsem_add_variables(ngx_conf_t *cf);


#endif /* _NGX_HTTP_DSEM_VARIABLES_H_INCLUDED_ */
