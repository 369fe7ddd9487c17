
/*
 * Secrets: memory that is in no core.
 */


#ifndef _NGX_HTTP_DSEM_SECRET_H_INCLUDED_
#define _NGX_HTTP_DSEM_SECRET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* all zero: none */
typedef struct {
    u_char                   *data;
    size_t                    len;
    size_t                    size;
} ngx_http_dsem_secret_t;


ngx_int_t ngx_http_dsem_secret_create(ngx_http_dsem_secret_t *secret,
    size_t size);
ngx_int_t ngx_http_dsem_secret_copy(ngx_http_dsem_secret_t *copy,
    ngx_http_dsem_secret_t *secret);
void ngx_http_dsem_secret_free(ngx_http_dsem_secret_t *secret);


#endif /* _NGX_HTTP_DSEM_SECRET_H_INCLUDED_ */
