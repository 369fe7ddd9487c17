
/*
 * The last texts of answers that are asked for often.
 *
 * To write an answer costs as much as some proxied requests.  A worker writes
 * a few in a tenth of a second, and repeats the last of them where more are
 * asked for.  A client that asks rarely always gets an answer of now, and one
 * that asks after a change by the API of this node an answer of after it: there
 * is a new survey then, and the text of another one is not repeated.
 *
 * The memory stays with the worker, as much as the longest answer that was
 * asked for often.
 *
 * Called by: api_turns.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_cache.h"


/* ms */
#define NGX_HTTP_DSEM_API_CACHE_TIME    100

/* what is written in this time: answers, of which a long one is several */
#define NGX_HTTP_DSEM_API_CACHE_ANSWERS  8
#define NGX_HTTP_DSEM_API_CACHE_LONG     16384


typedef struct {
    u_char      *data;
    size_t       size;
    size_t       len;       /* 0: none */
    ngx_msec_t   began;
    ngx_uint_t   written;   /* since then */
    ngx_uint_t   survey;    /* number of that which is shown */
} ngx_http_dsem_api_cached_t;


static ngx_http_dsem_api_cached_t
    ngx_http_dsem_api_cached[NGX_HTTP_DSEM_API_NCACHES];


/*
 * Returns NGX_OK when the text is there, or NGX_DECLINED when it is to be
 * written.
 */

ngx_int_t
ngx_http_dsem_api_cache_get(ngx_uint_t which, ngx_uint_t survey,
    ngx_http_dsem_api_text_t *text)
{
    ngx_http_dsem_api_cached_t  *cached;

    cached = &ngx_http_dsem_api_cached[which];

    if (ngx_current_msec - cached->began >= NGX_HTTP_DSEM_API_CACHE_TIME
        || cached->survey != survey)
    {
        cached->began = ngx_current_msec;
        cached->written = 0;
        cached->len = 0;
        cached->survey = survey;
    }

    if (cached->len == 0) {
        return NGX_DECLINED;
    }

    /* a copy: the next text may take the place of this one while it is sent */

    return ngx_http_dsem_api_text_copy(text, cached->data, cached->len);
}


/* a text was written; the last one of a time is kept */

void
ngx_http_dsem_api_cache_put(ngx_uint_t which, ngx_uint_t survey,
    ngx_http_dsem_api_text_t *text)
{
    off_t                        size;
    u_char                      *p;
    ngx_chain_t                 *cl;
    ngx_http_dsem_api_cached_t  *cached;

    cached = &ngx_http_dsem_api_cached[which];

    cl = ngx_http_dsem_api_text_end(text, &size);

    if (cl == NULL || cached->survey != survey) {
        return;
    }

    cached->written += 1 + size / NGX_HTTP_DSEM_API_CACHE_LONG;

    if (cached->written < NGX_HTTP_DSEM_API_CACHE_ANSWERS) {
        return;
    }

    if ((size_t) size > cached->size) {

        if (cached->data) {
            ngx_free(cached->data);
        }

        cached->size = 0;

        cached->data = ngx_alloc(size, ngx_cycle->log);
        if (cached->data == NULL) {
            return;
        }

        cached->size = size;
    }

    p = cached->data;

    for ( /* void */ ; cl; cl = cl->next) {
        p = ngx_cpymem(p, cl->buf->pos, cl->buf->last - cl->buf->pos);
    }

    cached->len = size;
}
