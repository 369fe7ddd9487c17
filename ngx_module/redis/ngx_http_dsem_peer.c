
/*
 * The peer: the server to connect to, whatever the topology.
 *
 * Owns the choice of the next address, and the address in use.  A server with
 * several addresses (a name for both families) is tried at each in turn,
 * without a pause before all have failed; one that was good is tried first
 * again.  With Sentinel the choice is that of the sentinels; in a Cluster it
 * is the node that has the keys.
 *
 * Called by: redis, before each attempt to connect; subscription, which goes
 * where the commands go.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_cluster.h"
#include "ngx_http_dsem_host.h"
#include "ngx_http_dsem_peer.h"
#include "ngx_http_dsem_sentinel.h"


/* addresses that are tried without a pause */
#define NGX_HTTP_DSEM_PEER_MAX_BURST  4


struct ngx_http_dsem_peer_s {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_peer_handlers_t   *handlers;
    void                            *data;

    /* one of them, by mode */
    ngx_http_dsem_sentinel_t        *sentinel;
    ngx_http_dsem_cluster_t         *cluster;
    ngx_http_dsem_host_t            *host;

    ngx_uint_t                       tried;     /* since the last pause */
    unsigned                         good:1;    /* it accepted a session */
};


static void ngx_http_dsem_peer_found(void *data, ngx_addr_t *addr,
    const char *reason);
static void ngx_http_dsem_peer_moved(void *data, const char *reason);
static void ngx_http_dsem_peer_host_handler(void *data, const char *reason);
static ngx_uint_t ngx_http_dsem_peer_burst(ngx_http_dsem_peer_t *peer);


static ngx_http_dsem_sentinel_handlers_t  ngx_http_dsem_peer_sentinel = {
    ngx_http_dsem_peer_found,
    ngx_http_dsem_peer_moved
};


/*
 * settings and keys must outlive the peer; "found" is called once after each
 * find, maybe before that returns.  NULL: no memory.
 */

ngx_http_dsem_peer_t *
ngx_http_dsem_peer_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_keys_t *keys, ngx_http_dsem_peer_handlers_t *handlers,
    void *data)
{
    ngx_http_dsem_peer_t  *peer;

    peer = ngx_calloc(sizeof(ngx_http_dsem_peer_t), ngx_cycle->log);
    if (peer == NULL) {
        return NULL;
    }

    peer->settings = settings;
    peer->handlers = handlers;
    peer->data = data;

    switch (settings->mode) {

    case NGX_HTTP_DSEM_MODE_SENTINEL:
        peer->sentinel = ngx_http_dsem_sentinel_create(settings,
                                                &ngx_http_dsem_peer_sentinel,
                                                peer);
        break;

    case NGX_HTTP_DSEM_MODE_CLUSTER:
        peer->cluster = ngx_http_dsem_cluster_create(settings, keys,
                                                     ngx_http_dsem_peer_found,
                                                     peer);
        break;

    default: /* NGX_HTTP_DSEM_MODE_SINGLE */
        peer->host = ngx_http_dsem_host_create(settings,
                                               &settings->servers[0],
                                               ngx_http_dsem_peer_host_handler,
                                               peer);
    }

    if (!peer->sentinel && !peer->cluster && !peer->host) {
        ngx_free(peer);
        return NULL;
    }

    return peer;
}


/* no handler is called any more */

void
ngx_http_dsem_peer_destroy(ngx_http_dsem_peer_t *peer)
{
    if (peer->sentinel) {
        ngx_http_dsem_sentinel_destroy(peer->sentinel);

    } else if (peer->cluster) {
        ngx_http_dsem_cluster_destroy(peer->cluster);

    } else {
        ngx_http_dsem_host_destroy(peer->host);
    }

    ngx_free(peer);
}


/* the server to connect to now */

void
ngx_http_dsem_peer_find(ngx_http_dsem_peer_t *peer)
{
    if (peer->sentinel) {
        ngx_http_dsem_sentinel_find(peer->sentinel);
        return;
    }

    if (peer->cluster) {
        ngx_http_dsem_cluster_find(peer->cluster);
        return;
    }

    if (peer->tried || ngx_http_dsem_host_find(peer->host) == NGX_OK) {
        ngx_http_dsem_peer_found(peer, ngx_http_dsem_peer_addr(peer), NULL);
    }
}


static void
ngx_http_dsem_peer_found(void *data, ngx_addr_t *addr, const char *reason)
{
    ngx_http_dsem_peer_t *peer = data;

    peer->handlers->found(peer->data, addr, reason);
}


static void
ngx_http_dsem_peer_moved(void *data, const char *reason)
{
    ngx_http_dsem_peer_t *peer = data;

    peer->handlers->moved(peer->data, reason);
}


static void
ngx_http_dsem_peer_host_handler(void *data, const char *reason)
{
    ngx_http_dsem_peer_t *peer = data;

    ngx_http_dsem_peer_found(peer, ngx_http_dsem_peer_addr(peer), reason);
}


/* the address is in use, and is tried first from now on */

void
ngx_http_dsem_peer_good(ngx_http_dsem_peer_t *peer)
{
    if (peer->sentinel) {
        ngx_http_dsem_sentinel_good(peer->sentinel);
    }

    if (peer->cluster) {
        ngx_http_dsem_cluster_good(peer->cluster);
    }

    peer->good = 1;
    peer->tried = 0;
}


/*
 * The connection is lost, or was not made, or the caller does not want one
 * any more: a find that has not ended is given up.  An address that was not
 * good leaves its turn to the next one.  Returns how many have failed since
 * the last pause, if it is time for one; 0: another is to be tried at once.
 */

ngx_uint_t
ngx_http_dsem_peer_failed(ngx_http_dsem_peer_t *peer)
{
    ngx_uint_t  tried;

    if (peer->sentinel) {
        ngx_http_dsem_sentinel_failed(peer->sentinel);
        return 1;
    }

    if (peer->cluster) {
        ngx_http_dsem_cluster_stop(peer->cluster);
        return 1;
    }

    ngx_http_dsem_host_cancel(peer->host);

    if (peer->good) {
        peer->good = 0;
        return 1;
    }

    ngx_http_dsem_host_next(peer->host);

    tried = peer->tried + 1;

    if (tried < ngx_http_dsem_peer_burst(peer)) {
        peer->tried = tried;
        return 0;
    }

    peer->tried = 0;

    return tried;
}


static ngx_uint_t
ngx_http_dsem_peer_burst(ngx_http_dsem_peer_t *peer)
{
    if (peer->host == NULL) {
        return 1;
    }

    return ngx_min(ngx_http_dsem_host_naddrs(peer->host),
                   NGX_HTTP_DSEM_PEER_MAX_BURST);
}


/*
 * For one attempt while requests wait, in ms: a dead address leaves the
 * others their part of the time to connect.
 */

ngx_msec_t
ngx_http_dsem_peer_timeout(ngx_http_dsem_peer_t *peer)
{
    ngx_msec_t  timeout;

    timeout = peer->settings->connect_timeout;

    return ngx_max(timeout / ngx_max(ngx_http_dsem_peer_burst(peer), 1), 1);
}


/*
 * An error reply of the server.  True: it passes, as the keys have moved to
 * another one, or are about to.
 */

ngx_uint_t
ngx_http_dsem_peer_redirected(ngx_http_dsem_peer_t *peer, const char *error)
{
    return peer->cluster && ngx_http_dsem_cluster_moved(peer->cluster, error);
}


/* the last one that was found; NULL: none yet */

ngx_addr_t *
ngx_http_dsem_peer_addr(ngx_http_dsem_peer_t *peer)
{
    if (peer->sentinel) {
        return ngx_http_dsem_sentinel_addr(peer->sentinel);
    }

    return peer->cluster ? ngx_http_dsem_cluster_addr(peer->cluster)
                         : ngx_http_dsem_host_addr(peer->host);
}


/* for the log */

ngx_str_t *
ngx_http_dsem_peer_name(ngx_http_dsem_peer_t *peer)
{
    ngx_addr_t  *addr;

    if (peer->host) {
        return ngx_http_dsem_host_name(peer->host);
    }

    addr = ngx_http_dsem_peer_addr(peer);

    if (addr) {
        return &addr->name;
    }

    return peer->sentinel ? &peer->settings->master
                          : &peer->settings->servers[0].name;
}


/* what an attempt to connect begins with, for the log */

const char *
ngx_http_dsem_peer_pending(ngx_http_dsem_peer_t *peer)
{
    if (peer->sentinel) {
        return "no sentinel replies";
    }

    return peer->cluster ? "no node replies" : "host not resolved in time";
}


/* why a find has not ended yet; NULL: there is no reason, or none pending */

const char *
ngx_http_dsem_peer_reason(ngx_http_dsem_peer_t *peer)
{
    return peer->cluster ? ngx_http_dsem_cluster_reason(peer->cluster) : NULL;
}


/* when a server has named another one, which is asked since; 0: never */

ngx_msec_t
ngx_http_dsem_peer_followed(ngx_http_dsem_peer_t *peer)
{
    return peer->cluster ? ngx_http_dsem_cluster_followed(peer->cluster) : 0;
}
