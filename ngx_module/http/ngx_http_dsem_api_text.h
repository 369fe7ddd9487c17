
/*
 * Text that grows: the body of an answer while it is written.
 */


#ifndef _NGX_HTTP_DSEM_API_TEXT_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_TEXT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    ngx_pool_t       *pool;
    ngx_chain_t      *first;
    ngx_chain_t     **last;
    ngx_buf_t        *buf;          /* the last one; NULL: none */
    off_t             size;         /* of all but the last one */
    unsigned          failed:1;     /* no memory: the text is not whole */
    unsigned          comma:1;      /* JSON: before the next value */
} ngx_http_dsem_api_text_t;


/* bytes that an answer grows by in one turn of the event loop, about */
#define NGX_HTTP_DSEM_API_TEXT_PIECE  65536


/* what there is so far, in bytes */
#define ngx_http_dsem_api_text_len(text)                                      \
    ((text)->size + ((text)->buf ? (text)->buf->last - (text)->buf->pos : 0))

/* a literal */
#define ngx_http_dsem_api_text_put(text, s)                                   \
    ngx_http_dsem_api_text_write(text, (u_char *) s, sizeof(s) - 1)


void ngx_http_dsem_api_text_init(ngx_http_dsem_api_text_t *text,
    ngx_pool_t *pool);
u_char *ngx_http_dsem_api_text_reserve(ngx_http_dsem_api_text_t *text,
    size_t len);
void ngx_http_dsem_api_text_append(ngx_http_dsem_api_text_t *text, u_char *data,
    size_t len);
void ngx_http_dsem_api_text_static(ngx_http_dsem_api_text_t *text,
    ngx_str_t *s);
ngx_int_t ngx_http_dsem_api_text_copy(ngx_http_dsem_api_text_t *text,
    u_char *data, size_t len);
void ngx_http_dsem_api_text_number(ngx_http_dsem_api_text_t *text, uint64_t n);
void ngx_http_dsem_api_text_seconds(ngx_http_dsem_api_text_t *text,
    uint64_t msec);
ngx_chain_t *ngx_http_dsem_api_text_end(ngx_http_dsem_api_text_t *text,
    off_t *size);


/* an answer is written in many short pieces, of which nearly all fit */

static ngx_inline void
ngx_http_dsem_api_text_write(ngx_http_dsem_api_text_t *text, u_char *data,
    size_t len)
{
    ngx_buf_t  *b;

    b = text->buf;

    if (b && (size_t) (b->end - b->last) >= len) {
        b->last = ngx_cpymem(b->last, data, len);
        return;
    }

    ngx_http_dsem_api_text_append(text, data, len);
}


#endif /* _NGX_HTTP_DSEM_API_TEXT_H_INCLUDED_ */
