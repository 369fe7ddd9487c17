
/*
 * The peer: the server to connect to, whatever the topology.
 *
 * Owns the choice of the next address, and the address in use.  A server with
 * several addresses (a name for both families) is tried at each in turn,
 * without a pause before all have failed; one that was good is tried first
 * again.
 *
 * Called by: redis, before each attempt to connect; subscription, which goes
 * where the commands go.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_host.h"
#include "ngx_http_dsem_peer.h"


/* addresses that are tried without a pause */
#define NGX_HTTP_DSEM_PEER_MAX_BURST  4


struct ngx_http_dsem_peer_s {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_peer_pt            handler;
    void                            *data;

    ngx_http_dsem_host_t            *host;
    ngx_uint_t                       tried;     /* since the last pause */
    unsigned                         good:1;    /* it accepted a session */
};


static void ngx_http_dsem_peer_host_handler(void *data, const char *reason);
static ngx_uint_t ngx_http_dsem_peer_burst(ngx_http_dsem_peer_t *peer);


/*
 * settings must outlive the peer; handler is called once after each find,
 * maybe before that returns.  NULL: no memory.
 */

ngx_http_dsem_peer_t *
ngx_http_dsem_peer_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_peer_pt handler, void *data)
{
    ngx_http_dsem_peer_t  *peer;

    peer = ngx_calloc(sizeof(ngx_http_dsem_peer_t), ngx_cycle->log);
    if (peer == NULL) {
        return NULL;
    }

    peer->settings = settings;
    peer->handler = handler;
    peer->data = data;

    peer->host = ngx_http_dsem_host_create(settings, &settings->servers[0],
                                           ngx_http_dsem_peer_host_handler,
                                           peer);
    if (peer->host == NULL) {
        ngx_free(peer);
        return NULL;
    }

    return peer;
}


/* the handler is not called any more */

void
ngx_http_dsem_peer_destroy(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_host_destroy(peer->host);
    ngx_free(peer);
}


/* the server to connect to now */

void
ngx_http_dsem_peer_find(ngx_http_dsem_peer_t *peer)
{
    if (peer->tried || ngx_http_dsem_host_find(peer->host) == NGX_OK) {
        peer->handler(peer->data, ngx_http_dsem_peer_addr(peer), NULL);
    }
}


static void
ngx_http_dsem_peer_host_handler(void *data, const char *reason)
{
    ngx_http_dsem_peer_t *peer = data;

    peer->handler(peer->data, ngx_http_dsem_peer_addr(peer), reason);
}


/* the address is in use, and is tried first from now on */

void
ngx_http_dsem_peer_good(ngx_http_dsem_peer_t *peer)
{
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


/* the last one that was found; NULL: none yet */

ngx_addr_t *
ngx_http_dsem_peer_addr(ngx_http_dsem_peer_t *peer)
{
    return ngx_http_dsem_host_addr(peer->host);
}


/* for the log */

ngx_str_t *
ngx_http_dsem_peer_name(ngx_http_dsem_peer_t *peer)
{
    return ngx_http_dsem_host_name(peer->host);
}


/* what an attempt to connect begins with, for the log */

const char *
ngx_http_dsem_peer_pending(ngx_http_dsem_peer_t *peer)
{
    return "host not resolved in time";
}
