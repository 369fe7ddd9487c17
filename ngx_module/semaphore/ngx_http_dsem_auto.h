
/*
 * "limit=auto": what this worker sees of the requests, for Redis, which finds
 * the limit.
 */


#ifndef _NGX_HTTP_DSEM_AUTO_H_INCLUDED_
#define _NGX_HTTP_DSEM_AUTO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


/* the end of a request at the upstream */
typedef enum {
    NGX_HTTP_DSEM_SAMPLE_OK = 0,
    NGX_HTTP_DSEM_SAMPLE_ERROR,
    NGX_HTTP_DSEM_SAMPLE_ABORTED        /* by the client */
} ngx_http_dsem_sample_e;


ngx_int_t ngx_http_dsem_auto_init(void);
void ngx_http_dsem_auto_exit(void);

void ngx_http_dsem_auto_full(ngx_http_dsem_account_t *account);
void ngx_http_dsem_auto_add(ngx_http_dsem_account_t *account,
    ngx_int_t weight, ngx_http_dsem_sample_e result, ngx_msec_t time);


#endif /* _NGX_HTTP_DSEM_AUTO_H_INCLUDED_ */
