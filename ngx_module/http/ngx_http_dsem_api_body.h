
/*
 * The bodies that the API reads: one small JSON object.
 */


#ifndef _NGX_HTTP_DSEM_API_BODY_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_BODY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


#define NGX_HTTP_DSEM_API_MAX_BODY   4096


/* kinds of values; bits, as a member may have several */
#define NGX_HTTP_DSEM_API_NUMBER     1
#define NGX_HTTP_DSEM_API_NULL       2
#define NGX_HTTP_DSEM_API_FLAG       4


/* a member that the object may have */
typedef struct {
    ngx_str_t     name;
    ngx_uint_t    kinds;
    ngx_int_t     max;          /* of a number, from 0 */
    const char   *must;         /* what it must be, for a sentence */

    ngx_uint_t    kind;         /* result; 0: not there */
    ngx_int_t     value;        /* of a number; 0, 1: of a flag */
} ngx_http_dsem_api_member_t;


/* arguments of a sentence about a wrong body */
typedef struct {
    ngx_str_t     name;         /* of the member, in the body */
    const char   *must;         /* as above */
} ngx_http_dsem_api_fault_t;


const char *ngx_http_dsem_api_body_parse(ngx_str_t *body,
    ngx_http_dsem_api_member_t *members, ngx_http_dsem_api_fault_t *fault);

ngx_int_t ngx_http_dsem_api_body(ngx_http_request_t *r, ngx_str_t *body);


#endif /* _NGX_HTTP_DSEM_API_BODY_H_INCLUDED_ */
