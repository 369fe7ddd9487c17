
/*
 * The backoff: pauses between attempts to connect.
 */


#ifndef _NGX_HTTP_DSEM_BACKOFF_H_INCLUDED_
#define _NGX_HTTP_DSEM_BACKOFF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* of one connection and its successors; all zero: it begins */
typedef struct {
    ngx_uint_t                failures;  /* since the last good one */
    ngx_msec_t                since;     /* the connection is usable */
    ngx_msec_t                next;      /* end of the last pause */
    ngx_uint_t                usable;    /* unsigned:1 */
} ngx_http_dsem_backoff_t;


void ngx_http_dsem_backoff_usable(ngx_http_dsem_backoff_t *backoff);
void ngx_http_dsem_backoff_lost(ngx_http_dsem_backoff_t *backoff,
    ngx_msec_t heartbeat);
ngx_msec_t ngx_http_dsem_backoff_pause(ngx_http_dsem_backoff_t *backoff,
    ngx_msec_t longest);


#endif /* _NGX_HTTP_DSEM_BACKOFF_H_INCLUDED_ */
