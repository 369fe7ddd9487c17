
/*
 * Turns: answers that are written in pieces.
 */


#ifndef _NGX_HTTP_DSEM_API_TURNS_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_TURNS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


/* one piece; NGX_AGAIN: there is more, all else ends the request */
typedef ngx_int_t (*ngx_http_dsem_api_piece_pt)(ngx_http_request_t *r,
    void *data);


/* as a content handler returns */
ngx_int_t ngx_http_dsem_api_turns(ngx_http_request_t *r,
    ngx_http_dsem_api_piece_pt piece, void *data);


#endif /* _NGX_HTTP_DSEM_API_TURNS_H_INCLUDED_ */
