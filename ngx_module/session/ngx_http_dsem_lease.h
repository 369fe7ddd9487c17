
/*
 * The lease: how long Redis counts this worker without a heartbeat.
 */


#ifndef _NGX_HTTP_DSEM_LEASE_H_INCLUDED_
#define _NGX_HTTP_DSEM_LEASE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


void ngx_http_dsem_lease_init(ngx_msec_t length, uint64_t node_renewed);
void ngx_http_dsem_lease_renew(uint64_t sent);

ngx_msec_t ngx_http_dsem_lease_length(void);
ngx_msec_t ngx_http_dsem_lease_heartbeat(void);
ngx_uint_t ngx_http_dsem_lease_fenced(void);
ngx_uint_t ngx_http_dsem_lease_over(void);
uint64_t ngx_http_dsem_lease_now(void);


#endif /* _NGX_HTTP_DSEM_LEASE_H_INCLUDED_ */
