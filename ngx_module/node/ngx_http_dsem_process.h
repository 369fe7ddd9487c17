
/*
 * Processes: whether one of this node is still there, and a value that all of
 * them raise.
 */


#ifndef _NGX_HTTP_DSEM_PROCESS_H_INCLUDED_
#define _NGX_HTTP_DSEM_PROCESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


ngx_uint_t ngx_http_dsem_process_gone(ngx_pid_t pid, uint64_t started);
uint64_t ngx_http_dsem_process_started(ngx_pid_t pid);
void ngx_http_dsem_process_raise(ngx_atomic_t *value, ngx_atomic_uint_t least);


#endif /* _NGX_HTTP_DSEM_PROCESS_H_INCLUDED_ */
