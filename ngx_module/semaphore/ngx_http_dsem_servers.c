
/*
 * Servers of a pool: a semaphore whose permits each belong to one server.
 *
 * Owns the texts that Redis has of servers: lists ("<id> <server>=<limit> ...",
 * the servers that this worker can use now) and counts ("<server>=<permits>
 * ...").  A server is a number here, its place among all servers of the pool,
 * and a list is a set of bits.  The rows of an account are changed by the
 * ledger only.
 *
 * Called by: account (life), ledger (rows), sync, sync_reply, declare, message
 * (texts), semaphore (a request asks); conf, which sorts servers by name.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_http_dsem_servers.h"


static u_char *ngx_http_dsem_servers_text(ngx_http_dsem_pool_server_t *server,
    ngx_int_t number, ngx_uint_t first, u_char *p);


static ngx_http_dsem_servers_usable_pt  ngx_http_dsem_servers_handler;


/* with the worker; usable knows the upstreams of nginx */

void
ngx_http_dsem_servers_init(ngx_http_dsem_servers_usable_pt usable)
{
    ngx_http_dsem_servers_handler = usable;
}


/* of a new account; ngx_free() frees it.  NULL: no memory */

ngx_http_dsem_servers_t *
ngx_http_dsem_servers_create(ngx_http_dsem_pool_t *pool)
{
    size_t                    size;
    u_char                   *p;
    ngx_uint_t                i;
    ngx_http_dsem_pool_server_t   *server;
    ngx_http_dsem_servers_t  *servers;

    size = sizeof(ngx_http_dsem_servers_t);

    for (i = 0; i < pool->n; i++) {
        size += sizeof(ngx_http_dsem_pool_server_t)
                + sizeof(ngx_http_dsem_servers_row_t)
                + pool->servers[i].name.len + pool->servers[i].encoded.len;
    }

    servers = ngx_calloc(size, ngx_cycle->log);
    if (servers == NULL) {
        return NULL;
    }

    servers->n = pool->n;
    servers->servers = (ngx_http_dsem_pool_server_t *) &servers[1];
    servers->rows = (ngx_http_dsem_servers_row_t *)
                                               &servers->servers[pool->n];

    p = (u_char *) &servers->rows[pool->n];

    for (i = 0; i < pool->n; i++) {
        server = &servers->servers[i];
        *server = pool->servers[i];

        server->name.data = p;
        p = ngx_cpymem(p, pool->servers[i].name.data, server->name.len);

        server->encoded.data = p;
        p = ngx_cpymem(p, pool->servers[i].encoded.data, server->encoded.len);
    }

    return servers;
}


/*
 * The limit of a semaphore as this node has it: of a pool the sum over all its
 * servers, NULL: a plain semaphore.  limit: that of each server.
 */

ngx_int_t
ngx_http_dsem_servers_permits(ngx_http_dsem_pool_t *pool, ngx_int_t limit)
{
    ngx_int_t   permits;
    ngx_uint_t  i;

    if (pool == NULL) {
        return limit;
    }

    permits = 0;

    for (i = 0; i < pool->n; i++) {
        permits += ngx_min(pool->servers[i].limit, limit);
    }

    return permits;
}


/* true if an account has the servers of this pool, NULL: a plain semaphore */

ngx_uint_t
ngx_http_dsem_servers_of(ngx_http_dsem_servers_t *servers,
    ngx_http_dsem_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_http_dsem_pool_server_t  *one, *other;

    if (servers == NULL || pool == NULL) {
        return servers == NULL && pool == NULL;
    }

    if (servers->n != pool->n) {
        return 0;
    }

    /* a single process may have read another configuration */

    for (i = 0; i < pool->n; i++) {
        one = &servers->servers[i];
        other = &pool->servers[i];

        if (one->name.len != other->name.len
            || ngx_memcmp(one->name.data, other->name.data, one->name.len)
               != 0)
        {
            return 0;
        }

        one->limit = other->limit;
    }

    return 1;
}


uint64_t
ngx_http_dsem_servers_usable(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers)
{
    return ngx_http_dsem_servers_handler(semaphore, servers);
}


/* the server with this name, in order; NGX_HTTP_DSEM_NO_SERVER: none has it */

ngx_int_t
ngx_http_dsem_servers_find(ngx_http_dsem_pool_server_t *servers, ngx_uint_t n,
    ngx_str_t *name)
{
    ngx_int_t   rc;
    ngx_uint_t  low, high, middle;

    low = 0;
    high = n;

    while (low < high) {
        middle = (low + high) / 2;

        rc = ngx_memn2cmp(servers[middle].name.data, name->data,
                          servers[middle].name.len, name->len);

        if (rc == 0) {
            return middle;
        }

        if (rc < 0) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return NGX_HTTP_DSEM_NO_SERVER;
}


/* the server with this encoded name, of a message that may be forged */

ngx_int_t
ngx_http_dsem_servers_encoded(ngx_http_dsem_servers_t *servers,
    ngx_str_t *text)
{
    ngx_uint_t               i;
    ngx_http_dsem_pool_server_t  *server;

    for (i = 0; i < servers->n; i++) {
        server = &servers->servers[i];

        if (server->encoded.len == text->len
            && ngx_memcmp(server->encoded.data, text->data, text->len) == 0)
        {
            return i;
        }
    }

    return NGX_HTTP_DSEM_NO_SERVER;
}


/* the server with this number in a list, 1 is the first */

ngx_int_t
ngx_http_dsem_servers_nth(uint64_t list, int64_t number)
{
    ngx_int_t  i;

    for (i = 0; list; i++, list >>= 1) {
        if ((list & 1) && --number == 0) {
            return i;
        }
    }

    return NGX_HTTP_DSEM_NO_SERVER;
}


ngx_uint_t
ngx_http_dsem_servers_count(uint64_t list)
{
    ngx_uint_t  n;

    for (n = 0; list; n++) {
        list &= list - 1;
    }

    return n;
}


/* bytes of any text of these servers, at most */

size_t
ngx_http_dsem_servers_size(ngx_http_dsem_servers_t *servers)
{
    size_t      size;
    ngx_uint_t  i;

    size = NGX_HTTP_DSEM_SERVERS_ID;

    for (i = 0; i < servers->n; i++) {
        size += servers->servers[i].encoded.len + NGX_INT_T_LEN + 2;
    }

    return size;
}


/* "<id> <server>=<limit> ...", or "-": an empty one; returns the end */

u_char *
ngx_http_dsem_servers_list(ngx_http_dsem_servers_t *servers, uint64_t list,
    u_char *p)
{
    u_char      *text, *last, digest[20];
    ngx_sha1_t   sha1;
    ngx_uint_t   i, first;

    if (list == 0) {
        *p++ = '-';
        return p;
    }

    text = p + NGX_HTTP_DSEM_SERVERS_ID;
    *text++ = ' ';

    last = text;
    first = 1;

    for (i = 0; i < servers->n; i++) {

        if (list & ((uint64_t) 1 << i)) {
            last = ngx_http_dsem_servers_text(&servers->servers[i],
                                              servers->servers[i].limit,
                                              first, last);
            first = 0;
        }
    }

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, text, last - text);
    ngx_sha1_final(digest, &sha1);

    (void) ngx_hex_dump(p, digest, NGX_HTTP_DSEM_SERVERS_ID / 2);

    return last;
}


static u_char *
ngx_http_dsem_servers_text(ngx_http_dsem_pool_server_t *server,
    ngx_int_t number, ngx_uint_t first, u_char *p)
{
    return ngx_sprintf(p, "%s%V=%i", first ? "" : " ", &server->encoded,
                       number);
}


/* "<server>=<permits> ..." of what is to be given back, and of what is held */

u_char *
ngx_http_dsem_servers_counts(ngx_http_dsem_servers_t *servers, ngx_uint_t held,
    u_char *p)
{
    u_char                       *start;
    ngx_int_t                     permits;
    ngx_uint_t                    i;
    ngx_http_dsem_servers_row_t  *row;

    start = p;

    for (i = 0; i < servers->n; i++) {
        row = &servers->rows[i];
        permits = row->pending_release + (held ? row->held : 0);

        if (permits) {
            p = ngx_http_dsem_servers_text(&servers->servers[i], permits,
                                           p == start, p);
        }
    }

    return p;
}
