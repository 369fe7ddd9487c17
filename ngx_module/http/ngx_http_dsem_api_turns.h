
/*
 * Turns: answers with all semaphores, which are written in pieces, and kept.
 */


#ifndef _NGX_HTTP_DSEM_API_TURNS_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_TURNS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_figures.h"
#include "ngx_http_dsem_api_text.h"


/* texts that are kept: the second of two has "write=on", or is OpenMetrics; the
   last two of four have "metrics=full" */
typedef enum {
    NGX_HTTP_DSEM_API_CACHE_SEMAPHORES = 0,
    NGX_HTTP_DSEM_API_CACHE_METRICS = 2,
    NGX_HTTP_DSEM_API_NCACHES = 6
} ngx_http_dsem_api_cache_e;


typedef struct ngx_http_dsem_api_list_s  ngx_http_dsem_api_list_t;


/* writes a piece of the text; NGX_AGAIN: there is more, NGX_ERROR: no memory */
typedef ngx_int_t (*ngx_http_dsem_api_piece_pt)(
    ngx_http_dsem_api_list_t *list);


/* an answer with all semaphores, while it is written; all zero but for
   the first three, and figures.reader.series */
struct ngx_http_dsem_api_list_s {
    ngx_http_dsem_api_piece_pt   piece;
    const char                  *type;      /* of the content */
    ngx_uint_t                   which;     /* of those kept */

    ngx_http_request_t          *request;
    ngx_uint_t                   survey;    /* number of that which is shown */
    ngx_http_dsem_api_text_t     text;
    ngx_http_dsem_api_figures_t  figures;   /* complete at the first piece */
    ngx_uint_t                   row;       /* of them, to be written next */

    ngx_queue_t                  queue;
    unsigned                     complete:1;   /* the figures are */
    unsigned                     waiting:1;    /* it is in the queue */
};


/* as a content handler returns; the list lives as long as the request */
ngx_int_t ngx_http_dsem_api_turns(ngx_http_request_t *r,
    ngx_http_dsem_api_list_t *list);


#endif /* _NGX_HTTP_DSEM_API_TURNS_H_INCLUDED_ */
