
/*
 * Where a request that changes something comes from, and whether it may.
 */


#ifndef _NGX_HTTP_DSEM_API_ORIGIN_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_ORIGIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


ngx_int_t ngx_http_dsem_api_origin_refused(ngx_http_request_t *r,
    ngx_uint_t needed);


#endif /* _NGX_HTTP_DSEM_API_ORIGIN_H_INCLUDED_ */
