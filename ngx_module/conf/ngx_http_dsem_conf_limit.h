
/*
 * The "dsem" directive: the limits of a level, and all limits against each
 * other.
 */


#ifndef _NGX_HTTP_DSEM_CONF_LIMIT_H_INCLUDED_
#define _NGX_HTTP_DSEM_CONF_LIMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_conf.h"


char *ngx_http_dsem_limit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_http_dsem_check_t *ngx_http_dsem_limit_check_create(ngx_conf_t *cf);


#endif /* _NGX_HTTP_DSEM_CONF_LIMIT_H_INCLUDED_ */
