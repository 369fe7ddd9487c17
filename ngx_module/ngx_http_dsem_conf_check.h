
/*
 * The checks of literal names, in the whole configuration.
 */


#ifndef _NGX_HTTP_DSEM_CONF_CHECK_H_INCLUDED_
#define _NGX_HTTP_DSEM_CONF_CHECK_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"


ngx_http_dsem_check_t *ngx_http_dsem_check_create(ngx_conf_t *cf);
ngx_int_t ngx_http_dsem_check_literal(ngx_conf_t *cf, ngx_array_t *lines,
    ngx_http_dsem_limit_t *line, ngx_int_t limit);


#endif /* _NGX_HTTP_DSEM_CONF_CHECK_H_INCLUDED_ */
