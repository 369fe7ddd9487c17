
/*
 * The API: what the paths of a location with "dsem_api" lead to.
 */


#ifndef _NGX_HTTP_DSEM_API_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* results are those of a content handler; a name is encoded, and not empty
   where the path has one */

/* pieces of page.html, GET /; between two of them stands a nonce */
extern ngx_str_t  ngx_http_dsem_page[];

/* api_semaphores: GET /semaphores, GET /semaphores/<name>, GET /health */
ngx_int_t ngx_http_dsem_api_semaphores(ngx_http_request_t *r,
    ngx_str_t *name);
ngx_int_t ngx_http_dsem_api_semaphores_one(ngx_http_request_t *r,
    ngx_str_t *name);
ngx_int_t ngx_http_dsem_api_semaphores_health(ngx_http_request_t *r,
    ngx_str_t *name);

/* api_metrics: GET /metrics */
ngx_int_t ngx_http_dsem_api_metrics(ngx_http_request_t *r, ngx_str_t *name);

/*
 * api_change: PATCH /semaphores/<name> and /semaphores/<name>/servers/<server>,
 * DELETE /sessions/<session>; path: a name and a server, as _split() reads them
 */
ngx_int_t ngx_http_dsem_api_change_patch(ngx_http_request_t *r,
    ngx_str_t *name);
ngx_int_t ngx_http_dsem_api_change_server(ngx_http_request_t *r,
    ngx_str_t *path);
ngx_int_t ngx_http_dsem_api_change_no_pool(ngx_http_request_t *r,
    ngx_str_t *path);
ngx_int_t ngx_http_dsem_api_change_split(ngx_str_t *path, ngx_str_t *server);
ngx_int_t ngx_http_dsem_api_change_delete(ngx_http_request_t *r,
    ngx_str_t *session);

/* api_origin: whether a request may change something, by where it is from */
ngx_int_t ngx_http_dsem_api_origin_refused(ngx_http_request_t *r,
    ngx_uint_t needed);


#endif /* _NGX_HTTP_DSEM_API_H_INCLUDED_ */
