
/*
 * The identity: a name that no other process has, and random numbers.
 */


#ifndef _NGX_HTTP_DSEM_IDENTITY_H_INCLUDED_
#define _NGX_HTTP_DSEM_IDENTITY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


ngx_int_t ngx_http_dsem_identity_name(ngx_str_t *node, ngx_str_t *name);
ngx_int_t ngx_http_dsem_identity_random(void *buf, size_t len);


#endif /* _NGX_HTTP_DSEM_IDENTITY_H_INCLUDED_ */
