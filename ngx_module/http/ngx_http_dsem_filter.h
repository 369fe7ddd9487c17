
/*
 * The header filter, and the end of the upstream.
 */


#ifndef _NGX_HTTP_DSEM_FILTER_H_INCLUDED_
#define _NGX_HTTP_DSEM_FILTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


void ngx_http_dsem_filter_init(ngx_conf_t *cf);


#endif /* _NGX_HTTP_DSEM_FILTER_H_INCLUDED_ */
