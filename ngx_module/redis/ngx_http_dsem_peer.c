
/*
 * The peer: the server to connect to, whatever the topology.
 *
 * Owns the choice of the next address, and the address in use.  A server with
 * several addresses (a name for both families) is tried at each in turn;
 * one that was good is tried first again.  In a Cluster the address is that
 * of the node that has the keys.
 *
 * Called by: redis, before each attempt to connect; subscription, which goes
 * where the commands go.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_cluster.h"
#include "ngx_http_dsem_peer.h"


struct ngx_http_dsem_peer_s {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_peer_pt            handler;
    void                            *data;

    ngx_http_dsem_cluster_t         *cluster;   /* NULL: another mode */

    ngx_uint_t                       current;   /* address of the server */
    unsigned                         good:1;    /* it accepted a session */
};


/*
 * settings and keys must outlive the peer; handler is called once after each
 * find, maybe before that returns.  NULL: no memory.
 */

ngx_http_dsem_peer_t *
ngx_http_dsem_peer_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_keys_t *keys, ngx_http_dsem_peer_pt handler, void *data)
{
    ngx_http_dsem_peer_t  *peer;

    peer = ngx_calloc(sizeof(ngx_http_dsem_peer_t), ngx_cycle->log);
    if (peer == NULL) {
        return NULL;
    }

    peer->settings = settings;
    peer->handler = handler;
    peer->data = data;

    if (settings->mode == NGX_HTTP_DSEM_MODE_CLUSTER) {
        peer->cluster = ngx_http_dsem_cluster_create(settings, keys, handler,
                                                     data);
        if (peer->cluster == NULL) {
            ngx_free(peer);
            return NULL;
        }
    }

    return peer;
}


/* the handler is not called any more */

void
ngx_http_dsem_peer_destroy(ngx_http_dsem_peer_t *peer)
{
    if (peer->cluster) {
        ngx_http_dsem_cluster_destroy(peer->cluster);
    }

    ngx_free(peer);
}


/* the server to connect to now */

void
ngx_http_dsem_peer_find(ngx_http_dsem_peer_t *peer)
{
    if (peer->cluster) {
        ngx_http_dsem_cluster_find(peer->cluster);
        return;
    }

    peer->handler(peer->data, ngx_http_dsem_peer_addr(peer), NULL);
}


/* the address is in use, and is tried first from now on */

void
ngx_http_dsem_peer_good(ngx_http_dsem_peer_t *peer)
{
    if (peer->cluster) {
        ngx_http_dsem_cluster_good(peer->cluster);
        return;
    }

    peer->good = 1;
}


/*
 * The connection is lost, or was not made, or the caller does not want one
 * any more: a find that has not ended is given up.  An address that was not
 * good leaves its turn to the next one.
 */

void
ngx_http_dsem_peer_failed(ngx_http_dsem_peer_t *peer)
{
    if (peer->cluster) {
        ngx_http_dsem_cluster_stop(peer->cluster);
        return;
    }

    if (!peer->good) {
        peer->current = (peer->current + 1)
                        % peer->settings->servers[0].naddrs;
    }

    peer->good = 0;
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


/* the last one that was found */

ngx_addr_t *
ngx_http_dsem_peer_addr(ngx_http_dsem_peer_t *peer)
{
    if (peer->cluster) {
        return ngx_http_dsem_cluster_addr(peer->cluster);
    }

    return &peer->settings->servers[0].addrs[peer->current];
}


/* for the log */

ngx_str_t *
ngx_http_dsem_peer_name(ngx_http_dsem_peer_t *peer)
{
    return &ngx_http_dsem_peer_addr(peer)->name;
}


/* why a find has not ended yet; NULL: there is no reason, or none pending */

const char *
ngx_http_dsem_peer_reason(ngx_http_dsem_peer_t *peer)
{
    return peer->cluster ? ngx_http_dsem_cluster_reason(peer->cluster) : NULL;
}
