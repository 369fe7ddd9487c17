
/*
 * "limit=auto" in the answers of the API.
 */


#ifndef _NGX_HTTP_DSEM_API_AUTO_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_AUTO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_figures.h"
#include "ngx_http_dsem_api_text.h"


#define NGX_HTTP_DSEM_API_REASONS  6


const char *ngx_http_dsem_api_auto_reason(ngx_int_t reason);
void ngx_http_dsem_api_auto(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_found_t *found);


#endif /* _NGX_HTTP_DSEM_API_AUTO_H_INCLUDED_ */
