
/*
 * An address with memory of its own.
 */


#ifndef _NGX_HTTP_DSEM_ADDR_H_INCLUDED_
#define _NGX_HTTP_DSEM_ADDR_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* "addr" points to the rest: it stays where it is; all zero: none */
typedef struct {
    ngx_addr_t                addr;
    ngx_sockaddr_t            sockaddr;
    u_char                    text[NGX_SOCKADDR_STRLEN];
} ngx_http_dsem_addr_t;


void ngx_http_dsem_addr_set(ngx_http_dsem_addr_t *own,
    struct sockaddr *sockaddr, socklen_t socklen);
ngx_uint_t ngx_http_dsem_addr_equal(ngx_addr_t *one, ngx_addr_t *two);
in_port_t ngx_http_dsem_addr_port(u_char *text, size_t len);
ngx_int_t ngx_http_dsem_addr_parse(ngx_http_dsem_addr_t *own, ngx_str_t *host,
    in_port_t port);


#endif /* _NGX_HTTP_DSEM_ADDR_H_INCLUDED_ */
