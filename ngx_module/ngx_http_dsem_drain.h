
/*
 * Lingering: how long a worker that exits stays for what it has to tell.
 */


#ifndef _NGX_HTTP_DSEM_DRAIN_H_INCLUDED_
#define _NGX_HTTP_DSEM_DRAIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


void ngx_http_dsem_drain_init(void);
void ngx_http_dsem_drain_start(void);
void ngx_http_dsem_drain_settle(ngx_uint_t settled);
void ngx_http_dsem_drain_stop(void);


#endif /* _NGX_HTTP_DSEM_DRAIN_H_INCLUDED_ */
