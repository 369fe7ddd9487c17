
/*
 * Names of semaphores as keys, channels and logs show them.
 */


#ifndef _NGX_HTTP_DSEM_NAME_H_INCLUDED_
#define _NGX_HTTP_DSEM_NAME_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* the longest encoded name; longer ones are replaced by a digest */
#define NGX_HTTP_DSEM_MAX_NAME  200


ngx_int_t ngx_http_dsem_name_encode(ngx_pool_t *pool, ngx_str_t *name,
    ngx_str_t *encoded);
ngx_uint_t ngx_http_dsem_name_plain(u_char ch);


#endif /* _NGX_HTTP_DSEM_NAME_H_INCLUDED_ */
