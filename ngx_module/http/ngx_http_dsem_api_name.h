
/*
 * The name of a semaphore in the path of the API.
 */


#ifndef _NGX_HTTP_DSEM_API_NAME_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_NAME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


ngx_int_t ngx_http_dsem_api_name(ngx_pool_t *pool, ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_API_NAME_H_INCLUDED_ */
