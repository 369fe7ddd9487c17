
/*
 * Answers of the API: status, headers and body, and errors as JSON.
 */


#ifndef _NGX_HTTP_DSEM_API_ANSWER_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_ANSWER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_text.h"


#define NGX_HTTP_DSEM_API_JSON  "application/json"


/* where the search for a header goes on */
typedef struct {
    ngx_list_part_t  *part;     /* NULL: at the first one */
    ngx_uint_t        next;     /* in it */
} ngx_http_dsem_answer_cursor_t;


/* the results are those of a content handler */

ngx_int_t ngx_http_dsem_answer_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, ngx_http_dsem_api_text_t *text);
ngx_int_t ngx_http_dsem_answer_error(ngx_http_request_t *r, ngx_uint_t status,
    const char *fmt, ...);

ngx_int_t ngx_http_dsem_answer_later(ngx_http_request_t *r);
ngx_int_t ngx_http_dsem_answer_cleanup(ngx_http_request_t *r,
    ngx_pool_cleanup_pt handler, void *data);
void ngx_http_dsem_answer_abandon(ngx_http_request_t *r);
ngx_int_t ngx_http_dsem_answer_header(ngx_http_request_t *r, const char *key,
    ngx_str_t *value);
ngx_str_t *ngx_http_dsem_answer_sent(ngx_list_t *headers, const char *key,
    ngx_http_dsem_answer_cursor_t *cursor);


#endif /* _NGX_HTTP_DSEM_API_ANSWER_H_INCLUDED_ */
