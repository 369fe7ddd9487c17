
/*
 * GET /semaphores and GET /semaphores/<name>: the figures as JSON.
 */


#ifndef _NGX_HTTP_DSEM_API_SEMAPHORES_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_SEMAPHORES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* the results are those of a content handler; name: encoded, not empty */

ngx_int_t ngx_http_dsem_api_semaphores(ngx_http_request_t *r,
    ngx_str_t *name);
ngx_int_t ngx_http_dsem_api_semaphore(ngx_http_request_t *r,
    ngx_str_t *name);
ngx_int_t ngx_http_dsem_api_health(ngx_http_request_t *r, ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_API_SEMAPHORES_H_INCLUDED_ */
