
/*
 * Inspect: reads what lua/inspect.lua replies.
 */


#ifndef _NGX_HTTP_DSEM_INSPECT_H_INCLUDED_
#define _NGX_HTTP_DSEM_INSPECT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fleet.h"


ngx_int_t ngx_http_dsem_inspect_read(ngx_http_dsem_fleet_t *fleet,
    ngx_uint_t first, ngx_uint_t n, ngx_uint_t count, ngx_str_t *text);


#endif /* _NGX_HTTP_DSEM_INSPECT_H_INCLUDED_ */
