
/*
 * Connections to upstreams at the exit of a worker.
 */


#ifndef _NGX_HTTP_DSEM_HANGUP_H_INCLUDED_
#define _NGX_HTTP_DSEM_HANGUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


void ngx_http_dsem_hangup(ngx_cycle_t *cycle);


#endif /* _NGX_HTTP_DSEM_HANGUP_H_INCLUDED_ */
