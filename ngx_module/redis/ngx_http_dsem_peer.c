
/*
 * The peer: the server to connect to, whatever the topology.
 *
 * Owns the choice of the next address, and the address in use.  A server with
 * several addresses (a name for both families) is tried at each in turn;
 * one that was good is tried first again.  With Sentinel the choice is that of
 * the sentinels.
 *
 * Called by: redis, before each attempt to connect; subscription, which goes
 * where the commands go.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_peer.h"
#include "ngx_http_dsem_sentinel.h"


struct ngx_http_dsem_peer_s {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_peer_handlers_t   *handlers;
    void                            *data;

    ngx_http_dsem_sentinel_t        *sentinel;  /* NULL: another mode */

    ngx_uint_t                       current;   /* address of the server */
    unsigned                         good:1;    /* it accepted a session */
};


static void ngx_http_dsem_peer_found(void *data, ngx_addr_t *addr,
    const char *reason);
static void ngx_http_dsem_peer_moved(void *data, const char *reason);


static ngx_http_dsem_sentinel_handlers_t  ngx_http_dsem_peer_sentinel = {
    ngx_http_dsem_peer_found,
    ngx_http_dsem_peer_moved
};


/*
 * settings must outlive the peer; "found" is called once after each find,
 * maybe before that returns.  NULL: no memory.
 */

ngx_http_dsem_peer_t *
ngx_http_dsem_peer_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_peer_handlers_t *handlers, void *data)
{
    ngx_http_dsem_peer_t  *peer;

    peer = ngx_calloc(sizeof(ngx_http_dsem_peer_t), ngx_cycle->log);
    if (peer == NULL) {
        return NULL;
    }

    peer->settings = settings;
    peer->handlers = handlers;
    peer->data = data;

    if (settings->mode != NGX_HTTP_DSEM_MODE_SENTINEL) {
        return peer;
    }

    peer->sentinel = ngx_http_dsem_sentinel_create(settings,
                                                &ngx_http_dsem_peer_sentinel,
                                                peer);
    if (peer->sentinel == NULL) {
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

    ngx_http_dsem_peer_found(peer, ngx_http_dsem_peer_addr(peer), NULL);
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


/* the address is in use, and is tried first from now on */

void
ngx_http_dsem_peer_good(ngx_http_dsem_peer_t *peer)
{
    if (peer->sentinel) {
        ngx_http_dsem_sentinel_good(peer->sentinel);
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
    if (peer->sentinel) {
        ngx_http_dsem_sentinel_failed(peer->sentinel);
        return;
    }

    if (!peer->good) {
        peer->current = (peer->current + 1)
                        % peer->settings->servers[0].naddrs;
    }

    peer->good = 0;
}


/* the last one that was found; NULL: none yet */

ngx_addr_t *
ngx_http_dsem_peer_addr(ngx_http_dsem_peer_t *peer)
{
    if (peer->sentinel) {
        return ngx_http_dsem_sentinel_addr(peer->sentinel);
    }

    return &peer->settings->servers[0].addrs[peer->current];
}


/* for the log */

ngx_str_t *
ngx_http_dsem_peer_name(ngx_http_dsem_peer_t *peer)
{
    ngx_addr_t  *addr;

    addr = ngx_http_dsem_peer_addr(peer);

    return addr ? &addr->name : &peer->settings->master;
}


/* what an attempt to connect begins with, for the log */

const char *
ngx_http_dsem_peer_pending(ngx_http_dsem_peer_t *peer)
{
    return peer->sentinel ? "no sentinel replies" : "connect timed out";
}
