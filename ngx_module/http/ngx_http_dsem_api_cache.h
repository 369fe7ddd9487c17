
/*
 * The last texts of answers that are asked for often.
 */


#ifndef _NGX_HTTP_DSEM_API_CACHE_H_INCLUDED_
#define _NGX_HTTP_DSEM_API_CACHE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_text.h"


/* the second of two has "write=on", or is OpenMetrics; the last two of four
   have "metrics=full" */
typedef enum {
    NGX_HTTP_DSEM_API_CACHE_SEMAPHORES = 0,
    NGX_HTTP_DSEM_API_CACHE_METRICS = 2,
    NGX_HTTP_DSEM_API_NCACHES = 6
} ngx_http_dsem_api_cache_e;


ngx_int_t ngx_http_dsem_api_cache_get(ngx_uint_t which, ngx_uint_t survey,
    ngx_http_dsem_api_text_t *text);
void ngx_http_dsem_api_cache_put(ngx_uint_t which, ngx_uint_t survey,
    ngx_http_dsem_api_text_t *text);


#endif /* _NGX_HTTP_DSEM_API_CACHE_H_INCLUDED_ */
