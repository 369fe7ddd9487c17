
/*
 * The end of an old worker with "worker_shutdown_timeout".
 */


#ifndef _NGX_HTTP_DSEM_SHUTDOWN_H_INCLUDED_
#define _NGX_HTTP_DSEM_SHUTDOWN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"


/* ends all holds */
typedef void (*ngx_http_dsem_shutdown_pt)(void);


ngx_int_t ngx_http_dsem_shutdown_init(ngx_cycle_t *cycle,
    ngx_http_dsem_shutdown_pt handler);
ngx_uint_t ngx_http_dsem_shutdown_near(void);
void ngx_http_dsem_shutdown_suspended(ngx_http_dsem_ctx_t *ctx);


#endif /* _NGX_HTTP_DSEM_SHUTDOWN_H_INCLUDED_ */
