
/*
 * Variables that nginx has cached for a request.
 */


#ifndef _NGX_HTTP_DSEM_CACHED_H_INCLUDED_
#define _NGX_HTTP_DSEM_CACHED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"


typedef struct {
    ngx_http_variable_value_t  *variables;      /* NULL: not saved */
} ngx_http_dsem_cached_t;


void ngx_http_dsem_cached_init(ngx_http_core_main_conf_t *cmcf,
    ngx_http_dsem_main_conf_t *dmcf);
ngx_int_t ngx_http_dsem_cached_save(ngx_http_request_t *r,
    ngx_http_dsem_cached_t *cached);
void ngx_http_dsem_cached_restore(ngx_http_request_t *r,
    ngx_http_dsem_cached_t *cached);
ngx_uint_t ngx_http_dsem_cached_body(ngx_http_request_t *r);
void ngx_http_dsem_cached_forget_body(ngx_http_request_t *r);


#endif /* _NGX_HTTP_DSEM_CACHED_H_INCLUDED_ */
