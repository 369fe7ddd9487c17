
/*
 * Text that grows: the body of an answer while it is written.
 *
 * A chain of buffers in the pool of the request.  A failed allocation is
 * remembered and returned at the end, so that the functions that write have
 * no result to check.  Numbers are written without a format: an answer has
 * hundreds of them for each semaphore.
 *
 * Called by: api_json and all that writes answers.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_text.h"


/* of the first buffer; the next ones are larger, up to the second size */
#define NGX_HTTP_DSEM_API_TEXT_MIN  4096
#define NGX_HTTP_DSEM_API_TEXT_MAX  65536


static ngx_int_t ngx_http_dsem_api_text_grow(ngx_http_dsem_api_text_t *text,
    ngx_buf_t *b);


void
ngx_http_dsem_api_text_init(ngx_http_dsem_api_text_t *text, ngx_pool_t *pool)
{
    ngx_memzero(text, sizeof(ngx_http_dsem_api_text_t));

    text->pool = pool;
    text->last = &text->first;
}


/*
 * Room for len bytes, in one piece, for a caller that moves
 * text->buf->last itself.
 *
 * len   at most the size of the first buffer
 *
 * Returns NULL when there is no memory.
 */

u_char *
ngx_http_dsem_api_text_reserve(ngx_http_dsem_api_text_t *text, size_t len)
{
    size_t      size;
    ngx_buf_t  *b;

    b = text->buf;

    if (b && (size_t) (b->end - b->last) >= len) {
        return b->last;
    }

    if (text->failed) {
        return NULL;
    }

    size = NGX_HTTP_DSEM_API_TEXT_MIN;

    if (b && b->temporary) {
        size = ngx_min((b->end - b->start) * 2, NGX_HTTP_DSEM_API_TEXT_MAX);
    }

    b = ngx_create_temp_buf(text->pool, size);

    if (b == NULL || ngx_http_dsem_api_text_grow(text, b) != NGX_OK) {
        text->failed = 1;
        text->buf = NULL;
        return NULL;
    }

    return b->last;
}


static ngx_int_t
ngx_http_dsem_api_text_grow(ngx_http_dsem_api_text_t *text, ngx_buf_t *b)
{
    ngx_chain_t  *cl;

    cl = ngx_alloc_chain_link(text->pool);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    cl->buf = b;
    cl->next = NULL;

    *text->last = cl;
    text->last = &cl->next;

    if (text->buf) {
        text->size += text->buf->last - text->buf->pos;
    }

    text->buf = b;

    return NGX_OK;
}


/* what does not fit, in as many buffers as it needs */

void
ngx_http_dsem_api_text_append(ngx_http_dsem_api_text_t *text, u_char *data,
    size_t len)
{
    size_t   size;
    u_char  *p;

    while (len) {
        size = ngx_min(len, NGX_HTTP_DSEM_API_TEXT_MIN);

        p = ngx_http_dsem_api_text_reserve(text, size);
        if (p == NULL) {
            return;
        }

        text->buf->last = ngx_cpymem(p, data, size);

        data += size;
        len -= size;
    }
}


/* bytes that outlive the request are not copied */

void
ngx_http_dsem_api_text_static(ngx_http_dsem_api_text_t *text, ngx_str_t *s)
{
    ngx_buf_t  *b;

    /* a buffer without bytes would be an alert of nginx */

    if (s->len == 0 || text->failed) {
        return;
    }

    b = ngx_calloc_buf(text->pool);

    if (b) {
        b->memory = 1;
        b->start = s->data;
        b->pos = s->data;
        b->last = s->data + s->len;
        b->end = b->last;

        if (ngx_http_dsem_api_text_grow(text, b) == NGX_OK) {
            return;
        }
    }

    text->failed = 1;
    text->buf = NULL;
}


/* a whole text in one buffer; NGX_DECLINED: no memory */

ngx_int_t
ngx_http_dsem_api_text_copy(ngx_http_dsem_api_text_t *text, u_char *data,
    size_t len)
{
    ngx_buf_t  *b;

    b = ngx_create_temp_buf(text->pool, len);

    if (b == NULL || ngx_http_dsem_api_text_grow(text, b) != NGX_OK) {
        return NGX_DECLINED;
    }

    b->last = ngx_cpymem(b->last, data, len);

    return NGX_OK;
}


void
ngx_http_dsem_api_text_number(ngx_http_dsem_api_text_t *text, uint64_t n)
{
    u_char  digit, *p, *end, digits[NGX_INT64_LEN];

    if (n < 10) {
        digit = (u_char) (n + '0');
        ngx_http_dsem_api_text_write(text, &digit, 1);
        return;
    }

    end = digits + sizeof(digits);
    p = end;

    do {
        *--p = (u_char) (n % 10 + '0');
        n /= 10;
    } while (n);

    ngx_http_dsem_api_text_write(text, p, end - p);
}


/* always with three decimals */

void
ngx_http_dsem_api_text_seconds(ngx_http_dsem_api_text_t *text, uint64_t msec)
{
    u_char      decimals[4];
    ngx_uint_t  n;

    n = msec % 1000;

    decimals[0] = '.';
    decimals[1] = (u_char) (n / 100 + '0');
    decimals[2] = (u_char) (n / 10 % 10 + '0');
    decimals[3] = (u_char) (n % 10 + '0');

    ngx_http_dsem_api_text_number(text, msec / 1000);
    ngx_http_dsem_api_text_write(text, decimals, sizeof(decimals));
}


/* the whole text and its size; NULL: no memory, or nothing was written */

ngx_chain_t *
ngx_http_dsem_api_text_end(ngx_http_dsem_api_text_t *text, off_t *size)
{
    if (text->failed || text->buf == NULL) {
        return NULL;
    }

    *size = text->size + (text->buf->last - text->buf->pos);

    return text->first;
}
