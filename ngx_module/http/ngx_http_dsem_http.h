
/*
 * The door of this folder: what the module gives to nginx, a line for each
 * file that has it.
 */


#ifndef _NGX_HTTP_DSEM_HTTP_H_INCLUDED_
#define _NGX_HTTP_DSEM_HTTP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* handler: the phases */
ngx_int_t ngx_http_dsem_redirect_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_dsem_access_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_dsem_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_dsem_log_handler(ngx_http_request_t *r);

/* filter: the header filter, and the end of the upstream */
void ngx_http_dsem_filter_init(ngx_conf_t *cf);

/* variables: the verdict of a request, for logs and headers */
ngx_int_t ngx_http_dsem_add_variables(ngx_conf_t *cf);

/* api: the content handler of locations with "dsem_api" */
ngx_int_t ngx_http_dsem_api_handler(ngx_http_request_t *r);


#endif /* _NGX_HTTP_DSEM_HTTP_H_INCLUDED_ */
