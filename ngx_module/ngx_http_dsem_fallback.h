
/*
 * Fallback: what a worker may admit by itself while Redis cannot be asked.
 */


#ifndef _NGX_HTTP_DSEM_FALLBACK_H_INCLUDED_
#define _NGX_HTTP_DSEM_FALLBACK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


ngx_int_t ngx_http_dsem_fallback_limit(ngx_int_t limit, ngx_int_t had,
    ngx_uint_t fleet, ngx_uint_t forgotten);
ngx_int_t ngx_http_dsem_fallback_queue(ngx_int_t queue, ngx_uint_t fleet);


#endif /* _NGX_HTTP_DSEM_FALLBACK_H_INCLUDED_ */
