
/*
 * PATCH /semaphores/<name> and DELETE /sessions/<session>.
 */


#ifndef _NGX_HTTP_DSEM_API_CHANGE_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_CHANGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* the results are those of a content handler; name: encoded */

ngx_int_t ngx_http_dsem_api_change_patch(ngx_http_request_t *r,
    ngx_str_t *name);
ngx_int_t ngx_http_dsem_api_change_delete(ngx_http_request_t *r,
    ngx_str_t *session);


#endif /* _NGX_HTTP_DSEM_API_CHANGE_H_INCLUDED_ */
