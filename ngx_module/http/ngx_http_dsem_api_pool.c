
/*
 * The servers of a pool, for the API: what Redis has of each, and what this
 * node has in its configuration.
 *
 * Sessions state the servers that they can use, and Redis keeps that while they
 * have permits or requests that wait.  Of a pool at rest a node that has it
 * knows the servers by itself; a node that has not takes the name for that of
 * a plain semaphore.  A server that no session can use adds nothing to the
 * limit of the pool but what is in use there, nor does one that is drained: so
 * what is not in use of the limit is free.
 *
 * Called by: api_figures, api_change.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_pool.h"
#include "ngx_http_dsem_pool.h"
#include "ngx_http_dsem_text.h"


static ngx_int_t ngx_http_dsem_api_pool_fleet(ngx_pool_t *pool,
    ngx_http_dsem_api_pool_t *result,
    ngx_http_dsem_survey_semaphore_t *fleet);
static ngx_int_t ngx_http_dsem_api_pool_servers(ngx_pool_t *pool,
    ngx_http_dsem_srv_conf_t *dscf, ngx_http_dsem_servers_t *servers);
static ngx_int_t ngx_http_dsem_api_pool_local(
    ngx_http_dsem_api_pool_t *result, ngx_http_dsem_survey_semaphore_t *fleet,
    ngx_http_dsem_srv_conf_t *dscf, ngx_http_dsem_servers_t *servers);
static ngx_http_dsem_api_server_t *ngx_http_dsem_api_pool_add(
    ngx_http_dsem_api_pool_t *result, ngx_str_t *encoded);
static void ngx_http_dsem_api_pool_limits(ngx_http_dsem_api_pool_t *result,
    ngx_http_dsem_survey_semaphore_t *fleet);
static void ngx_http_dsem_api_pool_sum(ngx_int_t *sum, ngx_int_t n);


/*
 * result: NULL if neither Redis nor this node has a pool of this name.
 * NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_api_pool(ngx_pool_t *pool,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_api_pool_t **result)
{
    ngx_http_dsem_servers_t    servers;
    ngx_http_dsem_srv_conf_t  *dscf;

    *result = NULL;

    dscf = ngx_http_dsem_pool_conf(&fleet->name);

    if (dscf == NULL && fleet->servers.nelts == 0) {
        return NGX_OK;
    }

    *result = ngx_pcalloc(pool, sizeof(ngx_http_dsem_api_pool_t));

    if (*result == NULL
        || ngx_http_dsem_api_pool_servers(pool, dscf, &servers) != NGX_OK
        || ngx_array_init(&(*result)->servers, pool,
                          fleet->servers.nelts + servers.n + 1,
                          sizeof(ngx_http_dsem_api_server_t))
           != NGX_OK
        || ngx_http_dsem_api_pool_fleet(pool, *result, fleet) != NGX_OK
        || (dscf
            && ngx_http_dsem_api_pool_local(*result, fleet, dscf, &servers)
               != NGX_OK))
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_api_pool_limits(*result, fleet);

    ngx_qsort((*result)->servers.elts, (*result)->servers.nelts,
              sizeof(ngx_http_dsem_api_server_t), ngx_http_dsem_text_order);

    return NGX_OK;
}


/*
 * The servers that this node has, none without dscf: with "resolve" those that
 * it has now.
 */

static ngx_int_t
ngx_http_dsem_api_pool_servers(ngx_pool_t *pool,
    ngx_http_dsem_srv_conf_t *dscf, ngx_http_dsem_servers_t *servers)
{
    ngx_uint_t            i;
    ngx_http_dsem_pool_t  table;

    ngx_memzero(servers, sizeof(ngx_http_dsem_servers_t));

    if (dscf == NULL) {
        return NGX_OK;
    }

    table = dscf->pool;

    if (table.resolve
        && ngx_http_dsem_upstream_table(pool, dscf->upstream, &table)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    servers->n = ngx_min(table.n, NGX_HTTP_DSEM_MAX_SERVERS);
    servers->servers = table.servers;

    for (i = 0; i < servers->n; i++) {
        servers->sorted[i] = (u_char) i;
    }

    servers->nsorted = servers->n;

    return NGX_OK;
}


/* "configured" is what sessions state, for now */

static ngx_int_t
ngx_http_dsem_api_pool_fleet(ngx_pool_t *pool,
    ngx_http_dsem_api_pool_t *result, ngx_http_dsem_survey_semaphore_t *fleet)
{
    ngx_uint_t                      i;
    ngx_http_dsem_api_server_t     *server;
    ngx_http_dsem_survey_server_t  *read;

    read = fleet->servers.elts;

    for (i = 0; i < fleet->servers.nelts; i++) {
        result->stated |= (read[i].limit != -1);
        result->own = ngx_max(result->own, read[i].limit);
    }

    for (i = 0; i < fleet->servers.nelts; i++) {

        server = ngx_http_dsem_api_pool_add(result, &read[i].name);
        if (server == NULL) {
            return NGX_ERROR;
        }

        server->name.data = ngx_pstrdup(pool, &read[i].name);
        if (server->name.data == NULL) {
            return NGX_ERROR;
        }

        ngx_http_dsem_api_pool_decode(&server->name);

        /* at rest only those that have a limit of their own are listed */
        result->used |= (read[i].held || read[i].limit != -1);

        server->in_use = read[i].held;
        server->configured = read[i].limit;
        server->ordered = read[i].ordered;
        server->usable = (read[i].limit != -1) ? 1
                         : (result->stated && !fleet->partial) ? 0 : -1;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_api_pool_local(ngx_http_dsem_api_pool_t *result,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_srv_conf_t *dscf,
    ngx_http_dsem_servers_t *servers)
{
    uint64_t                      list;
    ngx_uint_t                    i, k, n;
    ngx_http_dsem_api_server_t   *server;
    ngx_http_dsem_pool_server_t  *own;

    list = ngx_http_dsem_pool_usable(&fleet->name, servers);
    n = fleet->servers.nelts;

    for (i = 0; i < servers->n; i++) {
        own = &servers->servers[i];
        server = result->servers.elts;
        result->own = ngx_max(result->own, own->limit);

        for (k = 0; k < n; k++) {

            if (ngx_http_dsem_text_order(&server[k].encoded, &own->encoded)
                == 0)
            {
                break;
            }
        }

        server = (k < n) ? &server[k]
                         : ngx_http_dsem_api_pool_add(result, &own->encoded);
        if (server == NULL) {
            return NGX_ERROR;
        }

        server->name = own->name;

        /* of all servers Redis knows it: an order may be above it */

        if (server->configured == -1) {
            server->configured = (fleet->configured == -1)
                                 ? ngx_min(own->limit, dscf->limit->number)
                                 : own->limit;
        }

        /*
         * of a pool that is in use sessions have stated it, but not all may
         * have been read
         */

        if (server->usable == -1) {
            server->usable = (result->used && !fleet->partial)
                             ? 0 : (list >> i) & 1;
        }
    }

    return NGX_OK;
}


/* its figures are to be set; NULL: no memory */

static ngx_http_dsem_api_server_t *
ngx_http_dsem_api_pool_add(ngx_http_dsem_api_pool_t *result,
    ngx_str_t *encoded)
{
    ngx_http_dsem_api_server_t  *server;

    server = ngx_array_push(&result->servers);
    if (server == NULL) {
        return NULL;
    }

    server->name = *encoded;
    server->encoded = *encoded;
    server->in_use = 0;
    server->configured = -1;
    server->ordered = -1;
    server->usable = -1;

    return server;
}


/*
 * That of the semaphore is n, of each server, unless an order is above what any
 * server has itself, as far as sessions state it: of a pool at rest other nodes
 * may have more than this one.  With an order for all servers, as with that for
 * a plain semaphore, more may be in use than the limit; not with one that a
 * server has for itself.
 */

static void
ngx_http_dsem_api_pool_limits(ngx_http_dsem_api_pool_t *result,
    ngx_http_dsem_survey_semaphore_t *fleet)
{
    ngx_int_t                    limit, configured, stated, all;
    ngx_uint_t                   i;
    ngx_http_dsem_api_server_t  *server;

    limit = ngx_http_dsem_api_pool_each(fleet->limit);
    configured = ngx_http_dsem_api_pool_each(fleet->configured);

    result->each = (result->stated && !fleet->partial
                    && fleet->ordered > result->own) ? -1 : limit;

    server = result->servers.elts;

    for (i = 0; i < result->servers.nelts; i++) {
        stated = server[i].configured;

        all = ngx_http_dsem_api_pool_lower(stated, limit);
        server[i].limit = ngx_http_dsem_api_pool_lower(all, server[i].ordered);
        server[i].configured = ngx_http_dsem_api_pool_lower(stated, configured);

        if (server[i].usable == 0) {
            ngx_http_dsem_api_pool_sum(&result->limit, server[i].in_use);
            ngx_http_dsem_api_pool_sum(&result->configured, server[i].in_use);
            continue;
        }

        ngx_http_dsem_api_pool_sum(&result->limit,
                       (server[i].limit == all)
                       ? all : ngx_max(server[i].limit, server[i].in_use));
        ngx_http_dsem_api_pool_sum(&result->configured, server[i].configured);
    }
}


/* -1: unknown */

static void
ngx_http_dsem_api_pool_sum(ngx_int_t *sum, ngx_int_t n)
{
    *sum = (*sum == -1 || n == -1) ? -1 : *sum + n;
}


/*
 * The configured limit of one server at this node; -1: it has no such server,
 * or no memory.  in_force: limit in force of all servers, or -1; lowered to
 * that of this one.
 */

ngx_int_t
ngx_http_dsem_api_pool_configured(ngx_pool_t *pool, ngx_str_t *semaphore,
    ngx_str_t *server, ngx_int_t *in_force)
{
    ngx_int_t                     limit;
    ngx_uint_t                    i;
    ngx_http_dsem_servers_t       servers;
    ngx_http_dsem_srv_conf_t     *dscf;
    ngx_http_dsem_pool_server_t  *own;

    dscf = ngx_http_dsem_pool_conf(semaphore);

    if (ngx_http_dsem_api_pool_servers(pool, dscf, &servers) != NGX_OK) {
        return -1;
    }

    for (i = 0; i < servers.n; i++) {
        own = &servers.servers[i];

        if (ngx_http_dsem_text_order(&own->encoded, server) == 0) {
            limit = ngx_min(own->limit, dscf->limit->number);

            /* an order for all servers may be above the configured limit */
            *in_force = (*in_force == -1) ? limit
                                          : ngx_min(*in_force, own->limit);
            return limit;
        }
    }

    return -1;
}


/* the highest limit that a server has itself, at this node */

ngx_int_t
ngx_http_dsem_api_pool_own(ngx_pool_t *pool, ngx_http_dsem_srv_conf_t *dscf)
{
    ngx_int_t                own;
    ngx_uint_t               i;
    ngx_http_dsem_servers_t  servers;

    if (ngx_http_dsem_api_pool_servers(pool, dscf, &servers) != NGX_OK) {
        return NGX_HTTP_DSEM_MAX_LIMIT;
    }

    own = 0;

    for (i = 0; i < servers.n; i++) {
        own = ngx_max(own, servers.servers[i].limit);
    }

    return own;
}


/* the limit of all servers; -1: it is "max_conns", each has its own */

ngx_int_t
ngx_http_dsem_api_pool_each(ngx_int_t limit)
{
    return (limit == NGX_HTTP_DSEM_MAX_LIMIT) ? -1 : limit;
}


/* each may be -1, unknown */

ngx_int_t
ngx_http_dsem_api_pool_lower(ngx_int_t one, ngx_int_t two)
{
    if (one == -1 || two == -1) {
        return ngx_max(one, two);
    }

    return ngx_min(one, two);
}


/*
 * In place.  Other bytes than those of addresses stay as they are: the text is
 * from Redis.
 */

void
ngx_http_dsem_api_pool_decode(ngx_str_t *name)
{
    u_char     *p, *s, *last;
    ngx_int_t   ch;

    p = name->data;
    last = name->data + name->len;

    for (s = name->data; s < last; s++) {

        if (*s == '%' && last - s > 2) {
            ch = ngx_hextoi(s + 1, 2);

            if (ch == '/' || ch == '[' || ch == ']') {
                *p++ = (u_char) ch;
                s += 2;
                continue;
            }
        }

        *p++ = *s;
    }

    name->len = p - name->data;
}
