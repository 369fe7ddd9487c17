
/*
 * Commands that are to be sent to Redis: one buffer for a connection, written
 * in RESP, where a command is an array of strings.
 *
 * hiredis could format them, with a printf() for each string: that was a
 * third of all instructions of a request that waits.
 *
 * Called by: hiredis, which sends it and frees it with the connection.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_output.h"


#define NGX_HTTP_DSEM_OUTPUT_SIZE  4096

/* a type, a number and CRLF */
#define NGX_HTTP_DSEM_LENGTH_LEN   (1 + NGX_SIZE_T_LEN + 2)


static ngx_int_t ngx_http_dsem_output_room(ngx_http_dsem_output_t *output,
    size_t len);
static u_char *ngx_http_dsem_output_length(u_char *p, u_char type,
    size_t len);


/* NGX_ERROR: no memory, nothing was appended */

ngx_int_t
ngx_http_dsem_output_command(ngx_http_dsem_output_t *output, ngx_uint_t argc,
    const char **argv, size_t *argvlen)
{
    u_char      *p;
    size_t       len;
    ngx_uint_t   i;

    len = NGX_HTTP_DSEM_LENGTH_LEN + 1;

    for (i = 0; i < argc; i++) {
        len += NGX_HTTP_DSEM_LENGTH_LEN + argvlen[i] + 2;
    }

    if (ngx_http_dsem_output_room(output, len) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_http_dsem_output_length(output->data + output->len, '*', argc);

    for (i = 0; i < argc; i++) {
        p = ngx_http_dsem_output_length(p, '$', argvlen[i]);
        p = ngx_cpymem(p, argv[i], argvlen[i]);
        *p++ = CR; *p++ = LF;
    }

    output->len = p - output->data;

    /* hiredis looks for the end of the arguments of SUBSCRIBE with strchr() */
    *p = '\0';

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_output_room(ngx_http_dsem_output_t *output, size_t len)
{
    u_char  *data;
    size_t   size;

    if (output->size - output->len >= len) {
        return NGX_OK;
    }

    size = ngx_max(2 * output->size, output->len + len);
    size = ngx_max(size, NGX_HTTP_DSEM_OUTPUT_SIZE);

    data = ngx_alloc(size, ngx_cycle->log);
    if (data == NULL) {
        return NGX_ERROR;
    }

    if (output->data) {
        ngx_memcpy(data, output->data, output->len);
        ngx_free(output->data);
    }

    output->data = data;
    output->size = size;

    return NGX_OK;
}


static u_char *
ngx_http_dsem_output_length(u_char *p, u_char type, size_t len)
{
    u_char  *digit, digits[NGX_SIZE_T_LEN];

    digit = digits + sizeof(digits);

    do {
        *--digit = (u_char) (len % 10 + '0');
        len /= 10;
    } while (len);

    *p++ = type;
    p = ngx_cpymem(p, digit, digits + sizeof(digits) - digit);
    *p++ = CR; *p++ = LF;

    return p;
}


void
ngx_http_dsem_output_free(ngx_http_dsem_output_t *output)
{
    if (output->data) {
        ngx_free(output->data);
    }

    ngx_memzero(output, sizeof(ngx_http_dsem_output_t));
}
