
/*
 * A host: the addresses of a single server.
 *
 * Owns the addresses, and which of them is tried next: each in turn, without a
 * pause before all have failed; one that was good is tried first again.
 * Those of a name are asked of nginx's resolver again at each find; where it
 * has no answer, the last ones stay.  They are sorted, so that all workers of
 * a fleet try the same one first, whatever the order of the answer is:
 * addresses of different servers would be different limits.
 *
 * The resolver belongs to a configuration, which a single process may replace
 * while it runs: each find gets it anew and keeps it no longer.
 *
 * Called by: redis, as its peer; conf, when a configuration and its resolver
 * go.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_peer.h"


/* more addresses of a name are not used */
#define NGX_HTTP_DSEM_HOST_MAX_ADDRS  8

/* addresses that are tried without a pause */
#define NGX_HTTP_DSEM_HOST_MAX_BURST  4

/* ms; the resolver repeats a lost question only after 5 s, a new find asks */
#define NGX_HTTP_DSEM_HOST_TIMEOUT    2000


typedef struct {
    ngx_http_dsem_peer_t      peer;

    ngx_http_dsem_server_t   *server;
    ngx_http_dsem_addr_t      addrs[NGX_HTTP_DSEM_HOST_MAX_ADDRS];
    ngx_uint_t                naddrs;
    ngx_uint_t                current;
    ngx_uint_t                tried;     /* since the last pause */

    ngx_resolver_ctx_t       *ctx;       /* NULL: not being resolved */
    ngx_queue_t               queue;     /* while it is */
    ngx_event_t               event;     /* reports the result */
    char                      reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                  good:1;    /* it accepted a session */
    unsigned                  stale:1;   /* the loss was logged */
} ngx_http_dsem_host_t;


static void ngx_http_dsem_host_destroy(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_host_add(ngx_http_dsem_host_t *host,
    struct sockaddr *sockaddr, socklen_t socklen);
static void ngx_http_dsem_host_set_current(ngx_http_dsem_host_t *host,
    ngx_uint_t current);
static void ngx_http_dsem_host_find(ngx_http_dsem_peer_t *peer);
static ngx_int_t ngx_http_dsem_host_resolve(ngx_http_dsem_host_t *host,
    ngx_resolver_t *resolver, ngx_msec_t timeout);
static void ngx_http_dsem_host_resolve_handler(ngx_resolver_ctx_t *ctx);
static void ngx_http_dsem_host_unresolved(ngx_http_dsem_host_t *host,
    const char *reason);
static void ngx_http_dsem_host_event_handler(ngx_event_t *ev);
static void ngx_http_dsem_host_cancel(ngx_http_dsem_host_t *host);
static void ngx_http_dsem_host_good(ngx_http_dsem_peer_t *peer);
static ngx_uint_t ngx_http_dsem_host_failed(ngx_http_dsem_peer_t *peer);


static ngx_http_dsem_peer_row_t  ngx_http_dsem_host_single = {
    ngx_http_dsem_host_find,
    ngx_http_dsem_host_good,
    ngx_http_dsem_host_failed,
    NULL,
    ngx_http_dsem_host_destroy
};


/* hosts that are being resolved; empty: next is NULL */
static ngx_queue_t  ngx_http_dsem_hosts;


/* settings must outlive the host; NULL: no memory */

ngx_http_dsem_peer_t *
ngx_http_dsem_host_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_peer_handlers_t *handlers, void *data)
{
    ngx_uint_t               i;
    ngx_http_dsem_host_t    *host;
    ngx_http_dsem_server_t  *server;

    host = ngx_calloc(sizeof(ngx_http_dsem_host_t), ngx_cycle->log);
    if (host == NULL) {
        return NULL;
    }

    server = &settings->servers[0];

    host->server = server;

    host->peer.row = &ngx_http_dsem_host_single;
    host->peer.settings = settings;
    host->peer.handlers = handlers;
    host->peer.data = data;
    host->peer.unnamed = &server->name;
    host->peer.pending = "host not resolved in time";

    host->event.handler = ngx_http_dsem_host_event_handler;
    host->event.data = host;
    host->event.log = ngx_cycle->log;

    for (i = 0; i < server->naddrs; i++) {
        ngx_http_dsem_host_add(host, server->addrs[i].sockaddr,
                               server->addrs[i].socklen);
    }

    ngx_http_dsem_host_set_current(host, 0);

    return &host->peer;
}


static void
ngx_http_dsem_host_destroy(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_host_cancel((ngx_http_dsem_host_t *) peer);
    ngx_free(peer);
}


/* in the order of their texts; the last ones may go */

static void
ngx_http_dsem_host_add(ngx_http_dsem_host_t *host, struct sockaddr *sockaddr,
    socklen_t socklen)
{
    ngx_str_t             *name;
    ngx_uint_t             i;
    ngx_sockaddr_t         sa;
    ngx_http_dsem_addr_t   new, *addr;

    ngx_memcpy(&sa, sockaddr, socklen);

    if (sockaddr->sa_family != AF_UNIX) {
        ngx_inet_set_port(&sa.sockaddr, host->server->port);
    }

    ngx_http_dsem_addr_set(&new, &sa.sockaddr, socklen);

    for (i = host->naddrs; i; i--) {
        addr = &host->addrs[i - 1];
        name = &addr->addr.name;

        if (ngx_memn2cmp(new.text, name->data, new.addr.name.len, name->len)
            >= 0)
        {
            break;
        }

        if (i < NGX_HTTP_DSEM_HOST_MAX_ADDRS) {
            ngx_http_dsem_addr_set(&host->addrs[i], addr->addr.sockaddr,
                                   addr->addr.socklen);
        }
    }

    if (i < NGX_HTTP_DSEM_HOST_MAX_ADDRS) {
        ngx_http_dsem_addr_set(&host->addrs[i], &sa.sockaddr, socklen);
        host->naddrs = ngx_min(host->naddrs + 1,
                               NGX_HTTP_DSEM_HOST_MAX_ADDRS);
    }
}


static void
ngx_http_dsem_host_set_current(ngx_http_dsem_host_t *host, ngx_uint_t current)
{
    host->current = current;
    host->peer.addr = host->naddrs ? &host->addrs[current].addr : NULL;
    host->peer.burst = ngx_min(host->naddrs, NGX_HTTP_DSEM_HOST_MAX_BURST);
}


/*
 * Resolves the name again, but for the next address of a burst.  Its result is
 * reported by an event, as nginx's resolver may reply at once.
 */

static void
ngx_http_dsem_host_find(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_host_t *host = (ngx_http_dsem_host_t *) peer;

    ngx_msec_t       timeout;
    ngx_resolver_t  *resolver;

    resolver = NULL;
    timeout = 0;

    if (!host->tried && host->server->resolve && peer->settings->resolver) {
        resolver = peer->settings->resolver(&timeout);
    }

    if (resolver) {

        if (ngx_http_dsem_host_resolve(host, resolver, timeout) == NGX_OK) {
            return;
        }

        ngx_http_dsem_host_unresolved(host, "no memory");

    } else if (host->naddrs) {
        /* no event: the breaker may open before, for want of a name */
        ngx_http_dsem_host_event_handler(&host->event);
        return;

    } else {
        ngx_http_dsem_host_unresolved(host, "no \"resolver\"");
    }

    ngx_post_event(&host->event, &ngx_posted_events);
}


/*
 * Where there are addresses, the resolver has a quarter of the time to
 * connect: a silent one must not make Redis unavailable.
 */

static ngx_int_t
ngx_http_dsem_host_resolve(ngx_http_dsem_host_t *host,
    ngx_resolver_t *resolver, ngx_msec_t timeout)
{
    ngx_msec_t           most;
    ngx_resolver_ctx_t  *ctx;

    ctx = ngx_resolve_start(resolver, NULL);

    if (ctx == NULL || ctx == NGX_NO_RESOLVER) {
        return NGX_ERROR;
    }

    most = host->naddrs ? ngx_max(host->peer.settings->connect_timeout / 4, 1)
                        : NGX_HTTP_DSEM_HOST_TIMEOUT;

    ctx->name = host->server->host;
    ctx->handler = ngx_http_dsem_host_resolve_handler;
    ctx->data = host;

    /* 0: nginx would ask for ever, also where there is an address */
    ctx->timeout = timeout ? ngx_min(timeout, most) : most;

    /* an exiting worker does not wait for it */
    ctx->cancelable = 1;

    if (ngx_http_dsem_hosts.next == NULL) {
        ngx_queue_init(&ngx_http_dsem_hosts);
    }

    ngx_queue_insert_tail(&ngx_http_dsem_hosts, &host->queue);
    host->ctx = ctx;

    if (ngx_resolve_name(ctx) != NGX_OK) {
        /* it is freed */
        ngx_queue_remove(&host->queue);
        host->ctx = NULL;

        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Maybe inside of ngx_resolve_name(), and always among other requests for
 * this name: the owner gets the result later.
 */

static void
ngx_http_dsem_host_resolve_handler(ngx_resolver_ctx_t *ctx)
{
    ngx_uint_t             i, current;
    ngx_http_dsem_addr_t   last;
    ngx_http_dsem_host_t  *host;

    host = ctx->data;

    if (ctx->state != NGX_OK || ctx->naddrs == 0) {
        ngx_http_dsem_host_unresolved(host, ngx_resolver_strerror(ctx->state));
        goto done;
    }

    current = 0;
    last = host->addrs[host->current];
    last.addr.sockaddr = &last.sockaddr.sockaddr;
    host->naddrs = 0;

    for (i = 0; i < ctx->naddrs; i++) {
        ngx_http_dsem_host_add(host, ctx->addrs[i].sockaddr,
                               ctx->addrs[i].socklen);
    }

    /* the address that was to be tried next still is, if it is among them */

    for (i = 0; i < host->naddrs; i++) {
        if (ngx_http_dsem_addr_equal(&host->addrs[i].addr, &last.addr)) {
            current = i;
        }
    }

    ngx_http_dsem_host_set_current(host, current);

    if (host->stale) {
        host->stale = 0;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: redis host \"%V\" resolved again",
                      &host->server->host);
    }

done:

    ngx_http_dsem_host_cancel(host);
    ngx_post_event(&host->event, &ngx_posted_events);
}


/* without any address the loss of Redis is logged, with this reason */

static void
ngx_http_dsem_host_unresolved(ngx_http_dsem_host_t *host, const char *reason)
{
    ngx_http_dsem_reason(host->reason, "host not resolved: %s", reason);

    if (host->naddrs && !host->stale) {
        host->stale = 1;

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis host \"%V\" not resolved (%s), its last "
                      "known addresses are used", &host->server->host, reason);
    }
}


static void
ngx_http_dsem_host_event_handler(ngx_event_t *ev)
{
    ngx_http_dsem_host_t *host = ev->data;

    host->peer.handlers->found(host->peer.data, host->peer.addr,
                               host->reason);
}


/* gives up a find that has not ended */

static void
ngx_http_dsem_host_cancel(ngx_http_dsem_host_t *host)
{
    ngx_resolver_ctx_t  *ctx;

    ctx = host->ctx;

    if (ctx) {
        host->ctx = NULL;
        ngx_queue_remove(&host->queue);
        ngx_resolve_name_done(ctx);
    }

    if (host->event.posted) {
        ngx_delete_posted_event(&host->event);
    }
}


/*
 * The resolver goes with its configuration, and would free what it has not
 * resolved yet without telling.
 */

void
ngx_http_dsem_host_forget(void *resolver)
{
    ngx_queue_t           *q, *next;
    ngx_http_dsem_host_t  *host;

    if (ngx_http_dsem_hosts.next == NULL) {
        return;
    }

    for (q = ngx_queue_head(&ngx_http_dsem_hosts);
         q != ngx_queue_sentinel(&ngx_http_dsem_hosts);
         q = next)
    {
        next = ngx_queue_next(q);
        host = ngx_queue_data(q, ngx_http_dsem_host_t, queue);

        if (host->ctx->resolver == resolver) {
            ngx_http_dsem_host_unresolved(host, "configuration replaced");
            ngx_http_dsem_host_cancel(host);
            ngx_post_event(&host->event, &ngx_posted_events);
        }
    }
}


static void
ngx_http_dsem_host_good(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_host_t *host = (ngx_http_dsem_host_t *) peer;

    host->good = 1;
    host->tried = 0;
}


/* an address that was not good leaves its turn to the next one */

static ngx_uint_t
ngx_http_dsem_host_failed(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_host_t *host = (ngx_http_dsem_host_t *) peer;

    ngx_uint_t  tried;

    ngx_http_dsem_host_cancel(host);

    if (host->good) {
        host->good = 0;
        return 1;
    }

    if (host->naddrs) {
        ngx_http_dsem_host_set_current(host,
                                       (host->current + 1) % host->naddrs);
    }

    tried = host->tried + 1;

    host->tried = (tried < peer->burst) ? tried : 0;

    return host->tried ? 0 : tried;
}
