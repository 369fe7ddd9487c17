
/*
 * Text: lines, words and numbers of what Redis sends as text, and the order of
 * names.
 */


#ifndef _NGX_HTTP_DSEM_TEXT_H_INCLUDED_
#define _NGX_HTTP_DSEM_TEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


ngx_int_t ngx_http_dsem_text_line(ngx_str_t *text, ngx_str_t *line);
ngx_str_t ngx_http_dsem_text_word(ngx_str_t *line);
ngx_uint_t ngx_http_dsem_text_is(ngx_str_t *word, const char *text);
ngx_int_t ngx_http_dsem_text_number(ngx_str_t *line, int64_t *value);
int ngx_libc_cdecl ngx_http_dsem_text_order(const void *one, const void *two);
void *ngx_http_dsem_text_find(ngx_array_t *sorted, ngx_str_t *name);


#endif /* _NGX_HTTP_DSEM_TEXT_H_INCLUDED_ */
