
/*
 * GET /: the page for people.
 */


#ifndef _NGX_HTTP_DSEM_API_PAGE_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_PAGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* pieces of page.html; between two of them stands a nonce */
extern ngx_str_t  ngx_http_dsem_page[];


/* the result is that of a content handler */
ngx_int_t ngx_http_dsem_api_page(ngx_http_request_t *r, ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_API_PAGE_H_INCLUDED_ */
