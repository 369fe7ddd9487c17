
/*
 * The "dsem" directive of an upstream: a pool, permits per server.
 *
 * The directive stands directly around the balancing method, inside of
 * "keepalive" and "sticky": these hide the data of the balancer, by which the
 * server of a permit is handed out.  What the wrapper does is in http/pool,
 * which is handed down.
 *
 * Called by: nginx, through the table of directives in conf; http/pool, when
 * nginx has the servers of an upstream; conf, when all is read; conf_target and
 * claim, which find a pool by the name of its upstream.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_text.h"


static char *ngx_http_dsem_upstream_wrapped(ngx_conf_t *cf);
static ngx_uint_t ngx_http_dsem_upstream_wraps(ngx_conf_t *cf,
    void **srv_conf, const char *name);
static ngx_int_t ngx_http_dsem_upstream_pool(ngx_conf_t *cf,
    ngx_http_dsem_srv_conf_t *dscf);
static void ngx_http_dsem_upstream_warn(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us);
static ngx_uint_t ngx_http_dsem_upstream_careless(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us, ngx_http_upstream_rr_peer_t *peer);
static ngx_int_t ngx_http_dsem_upstream_sized(ngx_conf_t *cf,
    ngx_http_dsem_srv_conf_t *dscf, ngx_http_upstream_rr_peer_t *peer);
static ngx_int_t ngx_http_dsem_upstream_server(ngx_pool_t *pool,
    ngx_array_t *servers, ngx_http_upstream_rr_peer_t *peer);


static const char  ngx_http_dsem_upstream_sticky[] =
                                            "ngx_http_upstream_sticky_module";


/* an upstream's configuration, no pool; NULL: no memory */

void *
ngx_http_dsem_create_srv_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_dsem_srv_conf_t));
}


/* "dsem name limit=n/server|max_conns ..." in an upstream */

char *
ngx_http_dsem_upstream(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_srv_conf_t *dscf = conf;

    char                          *wrapped;
    ngx_http_dsem_limit_t         *limit;
    ngx_http_dsem_main_conf_t     *dmcf;
    ngx_http_upstream_srv_conf_t  *uscf;

    if (dscf->limit) {
        return "is duplicate";
    }

    wrapped = ngx_http_dsem_upstream_wrapped(cf);
    if (wrapped) {
        return wrapped;
    }

    limit = ngx_palloc(cf->pool, sizeof(ngx_http_dsem_limit_t));
    if (limit == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_dsem_limit_pool(cf, cmd, limit) != NGX_OK
        || ngx_http_dsem_check_pool(cf, limit) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    dscf->limit = limit;
    limit->pool = &dscf->pool;

    if (ngx_http_dsem_upstream_pool(cf, dscf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    uscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_upstream_module);

    dscf->upstream = uscf;
    dscf->init_upstream = uscf->peer.init_upstream
                          ? uscf->peer.init_upstream
                          : ngx_http_upstream_init_round_robin;

    uscf->peer.init_upstream = dmcf->init_upstream;

    /* of nginx's methods those that choose by a key, or by chance */

    if (uscf->flags && !(uscf->flags & NGX_HTTP_UPSTREAM_BACKUP)) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "the balancing method of upstream \"%V\" chooses "
                           "only for requests without a permit, \"dsem\" "
                           "gives the others the server with most free "
                           "permits: affinity is lost", &uscf->host);
    }

    return NGX_CONF_OK;
}


/* why the balancer cannot be wrapped; NULL: it can */

static char *
ngx_http_dsem_upstream_wrapped(ngx_conf_t *cf)
{
    ngx_http_conf_ctx_t  *ctx;

#if (NGX_HTTP_DSEM_NO_POOLS)
    return "in an upstream is not supported with Angie";
#endif

    ctx = cf->ctx;

#if (nginx_version < 1029007)
    if (ngx_http_dsem_upstream_wraps(cf, ctx->srv_conf,
                                     "ngx_http_upstream_keepalive_module"))
    {
        return "must be before \"keepalive\"";
    }
#endif

    if (ngx_http_dsem_upstream_wraps(cf, ctx->srv_conf,
                                     ngx_http_dsem_upstream_sticky))
    {
        return "must be before \"sticky\"";
    }

    return NULL;
}


/*
 * Whether this module wraps the balancer of an upstream: "keepalive" has a conf
 * that begins with its number of connections, up to 1.29.6, and "sticky" one
 * that begins with what it wraps.
 */

static ngx_uint_t
ngx_http_dsem_upstream_wraps(ngx_conf_t *cf, void **srv_conf,
    const char *name)
{
    void          **conf;
    ngx_uint_t      i;
    ngx_module_t  **modules;

    modules = cf->cycle->modules;

    for (i = 0; modules[i]; i++) {

        if (modules[i]->type == NGX_HTTP_MODULE
            && ngx_strcmp(modules[i]->name, name) == 0)
        {
            conf = srv_conf[modules[i]->ctx_index];
            return *conf != NULL;
        }
    }

    return 0;
}


/* one more pool; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_dsem_upstream_pool(ngx_conf_t *cf, ngx_http_dsem_srv_conf_t *dscf)
{
    ngx_http_dsem_srv_conf_t   **pool;
    ngx_http_dsem_main_conf_t   *dmcf;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    dmcf->enabled = 1;

    if (dmcf->pools == NULL) {
        dmcf->pools = ngx_array_create(cf->pool, 2,
                                       sizeof(ngx_http_dsem_srv_conf_t *));
        if (dmcf->pools == NULL) {
            return NGX_ERROR;
        }
    }

    pool = ngx_array_push(dmcf->pools);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    *pool = dscf;

    return NGX_OK;
}


/* all servers of the pool, by name; NGX_ERROR: a message has been logged */

ngx_int_t
ngx_http_dsem_upstream_servers(ngx_conf_t *cf, ngx_http_dsem_srv_conf_t *dscf)
{
    int64_t                        permits;
    ngx_uint_t                     i;
    ngx_http_upstream_srv_conf_t  *us;
    ngx_http_upstream_rr_peers_t  *peers;

    us = dscf->upstream;

    for (peers = us->peer.data; peers; peers = peers->next) {

        if (ngx_http_dsem_upstream_sized(cf, dscf, peers->peer) != NGX_OK) {
            return NGX_ERROR;
        }

#if (NGX_HTTP_DSEM_RESOLVE)

        if (ngx_http_dsem_upstream_sized(cf, dscf, peers->resolve) != NGX_OK) {
            return NGX_ERROR;
        }

        dscf->pool.resolve |= (peers->resolve != NULL);

#endif
    }

    if (ngx_http_dsem_upstream_table(cf->pool, us, &dscf->pool) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_dsem_upstream_warn(cf, us);

    if (dscf->pool.n > NGX_HTTP_DSEM_MAX_SERVERS) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "upstream \"%V\" with \"dsem\" has %ui servers in "
                      "%s:%ui, at most %d may have permits", &us->host,
                      dscf->pool.n, us->file_name, us->line,
                      NGX_HTTP_DSEM_MAX_SERVERS);
        return NGX_ERROR;
    }

    permits = 0;

    for (i = 0; i < dscf->pool.n; i++) {
        permits += ngx_min(dscf->pool.servers[i].limit, dscf->limit->number);
    }

    if (permits > NGX_HTTP_DSEM_MAX_LIMIT) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "upstream \"%V\" with \"dsem\" has %L permits at all "
                      "its servers together in %s:%ui, at most %d are "
                      "possible", &us->host, permits, us->file_name, us->line,
                      NGX_HTTP_DSEM_MAX_LIMIT);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* of this list of servers each has "max_conns", where that is the limit */

static ngx_int_t
ngx_http_dsem_upstream_sized(ngx_conf_t *cf, ngx_http_dsem_srv_conf_t *dscf,
    ngx_http_upstream_rr_peer_t *peer)
{
    for ( /* void */ ; peer; peer = peer->next) {

        if (dscf->limit->max_conns && peer->max_conns == 0) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "server %V of upstream \"%V\" has no \"max_conns\" "
                          "in %s:%ui, \"dsem\" with \"limit=max_conns\" takes "
                          "the limit of each server from it", &peer->server,
                          &dscf->upstream->host, dscf->upstream->file_name,
                          dscf->upstream->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * All servers that an upstream has now, by name: of its configuration, later
 * also those that DNS has brought.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_upstream_table(ngx_pool_t *pool,
    ngx_http_upstream_srv_conf_t *us, ngx_http_dsem_pool_t *table)
{
    ngx_int_t                      rc;
    ngx_array_t                    servers;
    ngx_http_upstream_rr_peer_t   *peer;
    ngx_http_upstream_rr_peers_t  *peers;

    rc = ngx_array_init(&servers, pool, 8,
                        sizeof(ngx_http_dsem_pool_server_t));

    for (peers = us->peer.data; rc == NGX_OK && peers; peers = peers->next) {

        ngx_http_upstream_rr_peers_rlock(peers);

        for (peer = peers->peer; rc == NGX_OK && peer; peer = peer->next) {
            rc = ngx_http_dsem_upstream_server(pool, &servers, peer);
        }

        ngx_http_upstream_rr_peers_unlock(peers);
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_qsort(servers.elts, servers.nelts,
              sizeof(ngx_http_dsem_pool_server_t), ngx_http_dsem_text_order);

    table->servers = servers.elts;
    table->n = servers.nelts;

    return NGX_OK;
}


/* the limit of all servers, which an order may raise, is not its own */

ngx_int_t
ngx_http_dsem_upstream_limit(ngx_http_upstream_rr_peer_t *peer)
{
    return peer->max_conns
           ? (ngx_int_t) ngx_min(peer->max_conns, NGX_HTTP_DSEM_MAX_LIMIT)
           : NGX_HTTP_DSEM_MAX_LIMIT;
}


static ngx_int_t
ngx_http_dsem_upstream_server(ngx_pool_t *pool, ngx_array_t *servers,
    ngx_http_upstream_rr_peer_t *peer)
{
    ngx_int_t                     limit;
    ngx_uint_t                    i;
    ngx_http_dsem_pool_server_t  *server;

    limit = ngx_http_dsem_upstream_limit(peer);
    server = servers->elts;

    for (i = 0; i < servers->nelts; i++) {
        if (ngx_http_dsem_text_order(&server[i].name, &peer->name) == 0) {
            /* an address that is written twice is one server */
            server[i].limit = ngx_min(server[i].limit, limit);
            return NGX_OK;
        }
    }

    server = ngx_array_push(servers);
    if (server == NULL) {
        return NGX_ERROR;
    }

    /* that of a peer may go with it */

    server->name.data = ngx_pstrdup(pool, &peer->name);
    if (server->name.data == NULL) {
        return NGX_ERROR;
    }

    server->name.len = peer->name.len;
    server->limit = limit;

    return ngx_http_dsem_key_encode(pool, &server->name, &server->encoded);
}


/* once per upstream: of the first server of each kind */

static void
ngx_http_dsem_upstream_warn(ngx_conf_t *cf, ngx_http_upstream_srv_conf_t *us)
{
    ngx_uint_t                     careless;
    ngx_http_upstream_rr_peer_t   *peer, *loopback;
    ngx_http_upstream_rr_peers_t  *peers;

    careless = 0;
    loopback = NULL;

    for (peers = us->peer.data; peers; peers = peers->next) {

#if (NGX_HTTP_DSEM_RESOLVE)
        careless = careless
                   || ngx_http_dsem_upstream_careless(cf, us, peers->resolve);
#endif
        careless = careless
                   || ngx_http_dsem_upstream_careless(cf, us, peers->peer);

        for (peer = peers->peer; peer; peer = peer->next) {

            if (loopback == NULL
                && ngx_http_dsem_conf_api_loopback(peer->sockaddr))
            {
                loopback = peer;
            }
        }
    }

    /* it stands around this directive, which was read before it */

    if (ngx_http_dsem_upstream_wraps(cf, us->srv_conf,
                                     ngx_http_dsem_upstream_sticky))
    {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "\"sticky\" of upstream \"%V\" in %s:%ui chooses only "
                      "for requests without a permit, \"dsem\" gives the "
                      "others the server with most free permits: affinity is "
                      "lost", &us->host, us->file_name, us->line);
    }

    if (loopback) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "server %V of upstream \"%V\" with \"dsem\" in %s:%ui "
                      "is taken for the same server at all nodes",
                      &loopback->name, &us->host, us->file_name, us->line);
    }
}


/* of this list of servers; true: it has such a server */

static ngx_uint_t
ngx_http_dsem_upstream_careless(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us, ngx_http_upstream_rr_peer_t *peer)
{
    while (peer && peer->max_fails) {
        peer = peer->next;
    }

    if (peer == NULL) {
        return 0;
    }

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "server %V of upstream \"%V\" has \"max_fails=0\" in %s:%ui, "
                  "if it fails at once it is always the freest one and gets "
                  "most requests", &peer->server, &us->host, us->file_name,
                  us->line);

    return 1;
}


/* a balancing method that was read later has replaced the wrapper */

ngx_int_t
ngx_http_dsem_upstream_check(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_uint_t                      i;
    ngx_http_dsem_srv_conf_t      **dscf;
    ngx_http_upstream_srv_conf_t   *us;

    if (dmcf->pools == NULL) {
        return NGX_OK;
    }

    dscf = dmcf->pools->elts;

    for (i = 0; i < dmcf->pools->nelts; i++) {

        if (dscf[i]->initialized) {
            continue;
        }

        us = dscf[i]->upstream;

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"dsem\" must follow the balancing method of upstream "
                      "\"%V\" in %s:%ui", &us->host, us->file_name, us->line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* the pool of the upstream with this name; NULL: there is none */

ngx_http_dsem_srv_conf_t *
ngx_http_dsem_upstream_find(ngx_http_dsem_main_conf_t *dmcf, ngx_str_t *name)
{
    ngx_str_t                  *host;
    ngx_uint_t                  i;
    ngx_http_dsem_srv_conf_t  **dscf;

    if (dmcf->pools == NULL) {
        return NULL;
    }

    dscf = dmcf->pools->elts;

    for (i = 0; i < dmcf->pools->nelts; i++) {
        host = &dscf[i]->upstream->host;

        /* as nginx finds that of a "proxy_pass" with variables */

        if (host->len == name->len
            && ngx_strncasecmp(host->data, name->data, name->len) == 0)
        {
            return dscf[i];
        }
    }

    return NULL;
}
