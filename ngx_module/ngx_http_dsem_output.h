
/*
 * Commands that are to be sent to Redis.  For the hiredis adapter only.
 */


#ifndef _NGX_HTTP_DSEM_OUTPUT_H_INCLUDED_
#define _NGX_HTTP_DSEM_OUTPUT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* all zero: nothing to send, no memory */
typedef struct {
    u_char  *data;
    size_t   len;
    size_t   size;
} ngx_http_dsem_output_t;


ngx_int_t ngx_http_dsem_output_command(ngx_http_dsem_output_t *output,
    ngx_uint_t argc, const char **argv, size_t *argvlen);
void ngx_http_dsem_output_free(ngx_http_dsem_output_t *output);


#endif /* _NGX_HTTP_DSEM_OUTPUT_H_INCLUDED_ */
