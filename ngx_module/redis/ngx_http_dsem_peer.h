
/*
 * The peer: the server to connect to, whatever the topology.
 *
 * A table has a row for each mode of "dsem_redis": a single server (host),
 * the master that sentinels name, and the node of a Cluster that has the keys
 * (both locate).  The struct of each begins with its peer, and only the room
 * of the row writes there.
 *
 * Used by: redis, before each attempt to connect; breaker, for the log;
 * subscription, which goes where the commands go.
 */


#ifndef _NGX_HTTP_DSEM_PEER_H_INCLUDED_
#define _NGX_HTTP_DSEM_PEER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_settings.h"


typedef struct ngx_http_dsem_peer_s  ngx_http_dsem_peer_t;


/* a row */
typedef struct {
    /* the server to connect to now: "found" is called once, maybe before this
       returns */
    void         (*find)(ngx_http_dsem_peer_t *peer);
    /* it has accepted a session, and is in use */
    void         (*good)(ngx_http_dsem_peer_t *peer);
    /* the connection is lost, or was not made; a find that has not ended is
       given up.  Returns how many servers have failed since the last pause, if
       it is time for one; 0: another is to be tried at once */
    ngx_uint_t   (*failed)(ngx_http_dsem_peer_t *peer);
    /* an error reply of the server.  True: it passes, as the keys have moved
       to another one, or are about to */
    ngx_uint_t   (*redirected)(ngx_http_dsem_peer_t *peer, const char *error);
    /* no handler is called any more */
    void         (*destroy)(ngx_http_dsem_peer_t *peer);
} ngx_http_dsem_peer_row_t;


/* "reason" is valid during the call only */
typedef struct {
    /* after a find; addr is NULL: there is none, for this reason */
    void         (*found)(void *data, ngx_addr_t *addr, const char *reason);
    /* the server in use is not the one to connect to any more: find again */
    void         (*moved)(void *data, const char *reason);
} ngx_http_dsem_peer_handlers_t;


struct ngx_http_dsem_peer_s {
    ngx_http_dsem_peer_row_t        *row;
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_peer_handlers_t   *handlers;
    void                            *data;

    ngx_addr_t                      *addr;      /* found last; NULL: none */
    ngx_str_t                       *unnamed;   /* for the log until then */
    const char                      *pending;   /* what is waited for first */
    ngx_uint_t                       burst;     /* servers without a pause */
    const char                      *reason;    /* of a find that has not
                                                   ended; NULL: none yet */

    /* when a server has named another one, which is asked since; 0: never */
    ngx_msec_t                       followed;
};


/* a single server */
ngx_http_dsem_peer_t *ngx_http_dsem_host_create(
    ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_peer_handlers_t *handlers, void *data);

/* a pool cleanup: its resolver goes with the configuration */
void ngx_http_dsem_host_forget(void *resolver);

/* Sentinel or Cluster */
ngx_http_dsem_peer_t *ngx_http_dsem_locate_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_keys_t *keys,
    ngx_http_dsem_peer_handlers_t *handlers, void *data);


/* for the log */

static ngx_inline ngx_str_t *
ngx_http_dsem_peer_name(ngx_http_dsem_peer_t *peer)
{
    return peer->addr ? &peer->addr->name : peer->unnamed;
}


#endif /* _NGX_HTTP_DSEM_PEER_H_INCLUDED_ */
