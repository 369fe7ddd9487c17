
/*
 * The module itself, to find its configuration and contexts, and its
 * version, which the Makefile reads here.
 */


#ifndef _NGX_HTTP_DSEM_MODULE_H_INCLUDED_
#define _NGX_HTTP_DSEM_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_HTTP_DSEM_VERSION  "0.2.0"


extern ngx_module_t  ngx_http_dsem_module;


#endif /* _NGX_HTTP_DSEM_MODULE_H_INCLUDED_ */
