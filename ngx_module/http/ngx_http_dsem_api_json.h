
/*
 * JSON, as the answers of the API have it.
 */


#ifndef _NGX_HTTP_DSEM_API_JSON_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_text.h"


/* a key is NULL in arrays, and for the outermost value */

void ngx_http_dsem_json_open(ngx_http_dsem_api_text_t *text, const char *key,
    const char *bracket);
void ngx_http_dsem_json_close(ngx_http_dsem_api_text_t *text,
    const char *bracket);
void ngx_http_dsem_json_literal(ngx_http_dsem_api_text_t *text,
    const char *key, const char *value);
void ngx_http_dsem_json_flag(ngx_http_dsem_api_text_t *text, const char *key,
    ngx_uint_t flag);
void ngx_http_dsem_json_number(ngx_http_dsem_api_text_t *text,
    const char *key, uint64_t n);
void ngx_http_dsem_json_maybe(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_int_t n);
void ngx_http_dsem_json_seconds(ngx_http_dsem_api_text_t *text,
    const char *key, uint64_t msec);
void ngx_http_dsem_json_string(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_str_t *value);


#endif /* _NGX_HTTP_DSEM_API_JSON_H_INCLUDED_ */
