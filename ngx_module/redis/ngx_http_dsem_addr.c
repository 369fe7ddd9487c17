
/*
 * An address with memory of its own.
 *
 * Addresses come and go with replies, resolvers and configurations, while
 * connections and log lines still need them.
 *
 * Called by: adapter, candidates, host, locate, query, subscription.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_addr.h"


/* a copy; its name is that of nginx: address and port, or path */

void
ngx_http_dsem_addr_set(ngx_http_dsem_addr_t *own, struct sockaddr *sockaddr,
    socklen_t socklen)
{
    ngx_memcpy(&own->sockaddr, sockaddr, socklen);

    own->addr.sockaddr = &own->sockaddr.sockaddr;
    own->addr.socklen = socklen;
    own->addr.name.data = own->text;
    own->addr.name.len = ngx_sock_ntop(own->addr.sockaddr, socklen, own->text,
                                       NGX_SOCKADDR_STRLEN, 1);
}


/* with the port */

ngx_uint_t
ngx_http_dsem_addr_equal(ngx_addr_t *one, ngx_addr_t *two)
{
    return ngx_cmp_sockaddr(one->sockaddr, one->socklen, two->sockaddr,
                            two->socklen, 1)
           == NGX_OK;
}


/* 0: it is none */

in_port_t
ngx_http_dsem_addr_port(u_char *text, size_t len)
{
    ngx_int_t  port;

    port = ngx_atoi(text, len);

    return (port < 1 || port > 65535) ? 0 : (in_port_t) port;
}


/* IPv4, or IPv6 without brackets; NGX_DECLINED: the host is no address */

ngx_int_t
ngx_http_dsem_addr_parse(ngx_http_dsem_addr_t *own, ngx_str_t *host,
    in_port_t port)
{
    ngx_sockaddr_t  sa;

    ngx_memzero(&sa, sizeof(ngx_sockaddr_t));

    sa.sockaddr_in.sin_addr.s_addr = ngx_inet_addr(host->data, host->len);

    if (sa.sockaddr_in.sin_addr.s_addr != INADDR_NONE) {
        sa.sockaddr_in.sin_family = AF_INET;
        sa.sockaddr_in.sin_port = htons(port);

        ngx_http_dsem_addr_set(own, &sa.sockaddr, sizeof(struct sockaddr_in));
        return NGX_OK;
    }

#if (NGX_HAVE_INET6)

    ngx_memzero(&sa, sizeof(ngx_sockaddr_t));

    if (ngx_inet6_addr(host->data, host->len,
                       sa.sockaddr_in6.sin6_addr.s6_addr)
        == NGX_OK)
    {
        sa.sockaddr_in6.sin6_family = AF_INET6;
        sa.sockaddr_in6.sin6_port = htons(port);

        ngx_http_dsem_addr_set(own, &sa.sockaddr,
                               sizeof(struct sockaddr_in6));
        return NGX_OK;
    }

#endif

    return NGX_DECLINED;
}
