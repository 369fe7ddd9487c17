
/*
 * The known nodes of a Cluster.
 *
 * Owns their addresses: those of the configuration, which stay, and a few
 * more that nodes have named, where a new one replaces the one that was not
 * asked for the longest time.  An address stays where it is in memory:
 * connections point to it.
 *
 * Called by: cluster.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_nodes.h"


/* nodes that the configuration does not name */
#define NGX_HTTP_DSEM_NODES_LEARNED  16


static ngx_addr_t *ngx_http_dsem_nodes_name(ngx_http_dsem_nodes_t *nodes,
    ngx_str_t *host, ngx_http_dsem_node_t *from);
static ngx_http_dsem_node_t *ngx_http_dsem_nodes_find(
    ngx_http_dsem_nodes_t *nodes, struct sockaddr *sockaddr,
    socklen_t socklen);
static ngx_http_dsem_node_t *ngx_http_dsem_nodes_place(
    ngx_http_dsem_nodes_t *nodes);
static void ngx_http_dsem_nodes_set(ngx_http_dsem_node_t *node,
    struct sockaddr *sockaddr, socklen_t socklen);


/* settings must stay; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_nodes_create(ngx_http_dsem_nodes_t *nodes,
    ngx_http_dsem_redis_settings_t *settings)
{
    ngx_uint_t               i, j;
    ngx_addr_t              *addr;
    ngx_http_dsem_server_t  *server;

    nodes->settings = settings;
    nodes->size = NGX_HTTP_DSEM_NODES_LEARNED;

    for (i = 0; i < settings->nservers; i++) {
        nodes->size += settings->servers[i].naddrs;
    }

    nodes->elts = ngx_calloc(nodes->size * sizeof(ngx_http_dsem_node_t),
                             ngx_cycle->log);
    if (nodes->elts == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < settings->nservers; i++) {
        server = &settings->servers[i];

        for (j = 0; j < server->naddrs; j++) {
            addr = &server->addrs[j];

            if (ngx_http_dsem_nodes_find(nodes, addr->sockaddr, addr->socklen)
                == NULL)
            {
                ngx_http_dsem_nodes_set(&nodes->elts[nodes->n++],
                                        addr->sockaddr, addr->socklen);
            }
        }
    }

    nodes->nconfigured = nodes->n;

    return NGX_OK;
}


/* no connection has an address of theirs any more */

void
ngx_http_dsem_nodes_free(ngx_http_dsem_nodes_t *nodes)
{
    ngx_free(nodes->elts);
}


/*
 * The node that "from" has named, which is new maybe; an empty host is that
 * of "from".  NULL: the host is a name that the configuration does not have,
 * or there is no place for a new one.
 */

ngx_http_dsem_node_t *
ngx_http_dsem_nodes_get(ngx_http_dsem_nodes_t *nodes, ngx_str_t *host,
    in_port_t port, ngx_http_dsem_node_t *from)
{
    ngx_addr_t            *addr;
    ngx_sockaddr_t         sa;
    ngx_http_dsem_addr_t   at;
    ngx_http_dsem_node_t  *node;

    addr = host->len ? ngx_http_dsem_nodes_name(nodes, host, from)
                     : &from->at.addr;

    if (addr) {
        ngx_memcpy(&sa, addr->sockaddr, addr->socklen);
        ngx_inet_set_port(&sa.sockaddr, port);

        ngx_http_dsem_addr_set(&at, &sa.sockaddr, addr->socklen);

    } else if (ngx_http_dsem_addr_parse(&at, host, port) != NGX_OK) {
        return NULL;
    }

    node = ngx_http_dsem_nodes_find(nodes, at.addr.sockaddr, at.addr.socklen);

    if (node) {
        return node;
    }

    node = ngx_http_dsem_nodes_place(nodes);

    if (node) {
        ngx_http_dsem_nodes_set(node, at.addr.sockaddr, at.addr.socklen);
    }

    return node;
}


/* an address of a configured name, of the family of "from" */

static ngx_addr_t *
ngx_http_dsem_nodes_name(ngx_http_dsem_nodes_t *nodes, ngx_str_t *host,
    ngx_http_dsem_node_t *from)
{
    ngx_uint_t               i, j;
    ngx_addr_t              *addr;
    ngx_http_dsem_server_t  *server;

    for (i = 0; i < nodes->settings->nservers; i++) {
        server = &nodes->settings->servers[i];

        if (server->host.len != host->len
            || ngx_strncasecmp(server->host.data, host->data, host->len) != 0)
        {
            continue;
        }

        for (j = 0; j < server->naddrs; j++) {
            addr = &server->addrs[j];

            if (addr->sockaddr->sa_family == from->at.addr.sockaddr->sa_family)
            {
                return addr;
            }
        }
    }

    return NULL;
}


static ngx_http_dsem_node_t *
ngx_http_dsem_nodes_find(ngx_http_dsem_nodes_t *nodes,
    struct sockaddr *sockaddr, socklen_t socklen)
{
    ngx_uint_t   i;
    ngx_addr_t  *addr;

    for (i = 0; i < nodes->n; i++) {
        addr = &nodes->elts[i].at.addr;

        if (ngx_cmp_sockaddr(addr->sockaddr, addr->socklen, sockaddr, socklen,
                             1)
            == NGX_OK)
        {
            return &nodes->elts[i];
        }
    }

    return NULL;
}


/* for a new node; NULL: there is none */

static ngx_http_dsem_node_t *
ngx_http_dsem_nodes_place(ngx_http_dsem_nodes_t *nodes)
{
    ngx_uint_t             i;
    ngx_http_dsem_node_t  *node, *oldest;

    if (nodes->n < nodes->size) {
        return &nodes->elts[nodes->n++];
    }

    oldest = NULL;

    for (i = nodes->nconfigured; i < nodes->n; i++) {
        node = &nodes->elts[i];

        if (!node->kept
            && !node->asking
            && (oldest == NULL
                || (ngx_msec_int_t) (node->asked - oldest->asked) < 0))
        {
            oldest = node;
        }
    }

    return oldest;
}


static void
ngx_http_dsem_nodes_set(ngx_http_dsem_node_t *node, struct sockaddr *sockaddr,
    socklen_t socklen)
{
    ngx_memzero(node, sizeof(ngx_http_dsem_node_t));
    ngx_http_dsem_addr_set(&node->at, sockaddr, socklen);

    node->asked = ngx_current_msec;
}


/*
 * The next node to ask: one that was not asked in this search, else the one
 * that was not asked for the longest time.  NULL: all are being asked.
 */

ngx_http_dsem_node_t *
ngx_http_dsem_nodes_oldest(ngx_http_dsem_nodes_t *nodes, ngx_uint_t search)
{
    ngx_uint_t             i;
    ngx_http_dsem_node_t  *node, *oldest;

    oldest = NULL;

    for (i = 0; i < nodes->n; i++) {
        node = &nodes->elts[i];

        if (node->asking) {
            continue;
        }

        if (node->search != search) {
            return node;
        }

        if (oldest == NULL
            || (ngx_msec_int_t) (node->asked - oldest->asked) < 0)
        {
            oldest = node;
        }
    }

    return oldest;
}
