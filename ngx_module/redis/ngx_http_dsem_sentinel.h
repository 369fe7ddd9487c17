
/*
 * Sentinel: which server is the master now.  For the peer only.
 */


#ifndef _NGX_HTTP_DSEM_SENTINEL_H_INCLUDED_
#define _NGX_HTTP_DSEM_SENTINEL_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_sentinel_s  ngx_http_dsem_sentinel_t;

/* "reason" is valid during the call only */
typedef struct {
    /* after a find; addr is NULL: none is known, for this reason */
    void                    (*found)(void *data, ngx_addr_t *addr,
                                     const char *reason);
    /* another server than the last one found is the master: find it */
    void                    (*moved)(void *data, const char *reason);
} ngx_http_dsem_sentinel_handlers_t;


ngx_http_dsem_sentinel_t *ngx_http_dsem_sentinel_create(
    ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_sentinel_handlers_t *handlers, void *data);
void ngx_http_dsem_sentinel_destroy(ngx_http_dsem_sentinel_t *sentinel);

void ngx_http_dsem_sentinel_find(ngx_http_dsem_sentinel_t *sentinel);
void ngx_http_dsem_sentinel_good(ngx_http_dsem_sentinel_t *sentinel);
void ngx_http_dsem_sentinel_failed(ngx_http_dsem_sentinel_t *sentinel);
ngx_addr_t *ngx_http_dsem_sentinel_addr(ngx_http_dsem_sentinel_t *sentinel);


#endif /* _NGX_HTTP_DSEM_SENTINEL_H_INCLUDED_ */
