
/*
 * A host: the addresses of one server of the directive.
 *
 * Owns the addresses, and which of them is tried next.  Those of a name are
 * asked of nginx's resolver again at each find; where it has no answer, the
 * last known ones stay.  They are sorted, so that all workers of a fleet try
 * the same one first, whatever the order of the answer is: addresses of
 * different servers would be different limits.
 *
 * The resolver belongs to a configuration, which a single process may replace
 * while it runs: it is looked up at each find and kept no longer.
 *
 * Called by: peer; conf, when a configuration and its resolver go.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_host.h"
#include "ngx_http_dsem_reason.h"


/* more addresses of a name are not used */
#define NGX_HTTP_DSEM_HOST_MAX_ADDRS  8

/* ms; the resolver repeats a lost question only after 5 s, a new find asks */
#define NGX_HTTP_DSEM_HOST_TIMEOUT    2000


typedef struct {
    ngx_sockaddr_t                   sockaddr;
    socklen_t                        socklen;
    size_t                           len;
    u_char                           text[NGX_SOCKADDR_STRLEN];
} ngx_http_dsem_host_addr_t;


struct ngx_http_dsem_host_s {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_server_t          *server;
    ngx_http_dsem_host_pt            handler;
    void                            *data;

    ngx_http_dsem_host_addr_t        addrs[NGX_HTTP_DSEM_HOST_MAX_ADDRS];
    ngx_uint_t                       naddrs;
    ngx_uint_t                       current;
    ngx_addr_t                       addr;      /* the current one */

    ngx_resolver_ctx_t              *ctx;       /* NULL: not being resolved */
    ngx_queue_t                      queue;     /* while it is */
    ngx_event_t                      event;     /* reports the result */
    char                             reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                         stale:1;   /* the loss was logged */
};


static void ngx_http_dsem_host_add(ngx_http_dsem_host_t *host,
    struct sockaddr *sockaddr, socklen_t socklen);
static ngx_int_t ngx_http_dsem_host_cmp(ngx_http_dsem_host_addr_t *one,
    ngx_http_dsem_host_addr_t *two);
static void ngx_http_dsem_host_set_current(ngx_http_dsem_host_t *host,
    ngx_uint_t current);
static ngx_int_t ngx_http_dsem_host_resolve(ngx_http_dsem_host_t *host,
    ngx_resolver_t *resolver, ngx_msec_t timeout);
static void ngx_http_dsem_host_resolve_handler(ngx_resolver_ctx_t *ctx);
static void ngx_http_dsem_host_failed(ngx_http_dsem_host_t *host,
    const char *reason);
static void ngx_http_dsem_host_event_handler(ngx_event_t *ev);


/* hosts that are being resolved; empty: next is NULL */
static ngx_queue_t  ngx_http_dsem_hosts;


/*
 * settings must outlive the host; handler is called once after a find that
 * could not tell at once.  NULL: no memory.
 */

ngx_http_dsem_host_t *
ngx_http_dsem_host_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_server_t *server, ngx_http_dsem_host_pt handler, void *data)
{
    ngx_uint_t             i;
    ngx_http_dsem_host_t  *host;

    host = ngx_calloc(sizeof(ngx_http_dsem_host_t), ngx_cycle->log);
    if (host == NULL) {
        return NULL;
    }

    host->settings = settings;
    host->server = server;
    host->handler = handler;
    host->data = data;

    host->event.handler = ngx_http_dsem_host_event_handler;
    host->event.data = host;
    host->event.log = ngx_cycle->log;

    for (i = 0; i < server->naddrs; i++) {
        ngx_http_dsem_host_add(host, server->addrs[i].sockaddr,
                               server->addrs[i].socklen);
    }

    ngx_http_dsem_host_set_current(host, 0);

    return host;
}


/* the handler is not called any more */

void
ngx_http_dsem_host_destroy(ngx_http_dsem_host_t *host)
{
    ngx_http_dsem_host_cancel(host);
    ngx_free(host);
}


/* in the order of their texts; the last ones may go */

static void
ngx_http_dsem_host_add(ngx_http_dsem_host_t *host, struct sockaddr *sockaddr,
    socklen_t socklen)
{
    ngx_uint_t                 i, n;
    ngx_http_dsem_host_addr_t  addr;

    ngx_memzero(&addr, sizeof(ngx_http_dsem_host_addr_t));
    ngx_memcpy(&addr.sockaddr, sockaddr, socklen);

    addr.socklen = socklen;

    if (sockaddr->sa_family != AF_UNIX) {
        ngx_inet_set_port(&addr.sockaddr.sockaddr, host->server->port);
    }

    addr.len = ngx_sock_ntop(&addr.sockaddr.sockaddr, socklen, addr.text,
                             NGX_SOCKADDR_STRLEN, 1);

    for (i = 0; i < host->naddrs; i++) {
        if (ngx_http_dsem_host_cmp(&addr, &host->addrs[i]) < 0) {
            break;
        }
    }

    if (i == NGX_HTTP_DSEM_HOST_MAX_ADDRS) {
        return;
    }

    n = ngx_min(host->naddrs, NGX_HTTP_DSEM_HOST_MAX_ADDRS - 1) - i;

    ngx_memmove(&host->addrs[i + 1], &host->addrs[i],
                n * sizeof(ngx_http_dsem_host_addr_t));

    host->addrs[i] = addr;
    host->naddrs = i + n + 1;
}


static ngx_int_t
ngx_http_dsem_host_cmp(ngx_http_dsem_host_addr_t *one,
    ngx_http_dsem_host_addr_t *two)
{
    return ngx_memn2cmp(one->text, two->text, one->len, two->len);
}


static void
ngx_http_dsem_host_set_current(ngx_http_dsem_host_t *host, ngx_uint_t current)
{
    ngx_http_dsem_host_addr_t  *addr;

    addr = &host->addrs[current];

    host->current = current;
    host->addr.sockaddr = &addr->sockaddr.sockaddr;
    host->addr.socklen = addr->socklen;
    host->addr.name.data = addr->text;
    host->addr.name.len = addr->len;
}


/*
 * Looks for the addresses that the server has now.  NGX_OK: they are known;
 * NGX_AGAIN: the handler is called, not before this has returned.
 */

ngx_int_t
ngx_http_dsem_host_find(ngx_http_dsem_host_t *host)
{
    ngx_msec_t       timeout;
    ngx_resolver_t  *resolver;

    resolver = NULL;
    timeout = 0;

    if (host->server->resolve && host->settings->resolver) {
        resolver = host->settings->resolver(&timeout);
    }

    if (resolver == NULL) {

        if (host->naddrs) {
            return NGX_OK;
        }

        ngx_http_dsem_host_failed(host, "no \"resolver\"");

    } else if (ngx_http_dsem_host_resolve(host, resolver, timeout) == NGX_OK) {
        return NGX_AGAIN;

    } else {
        ngx_http_dsem_host_failed(host, "no memory");
    }

    ngx_post_event(&host->event, &ngx_posted_events);

    return NGX_AGAIN;
}


/*
 * Where addresses are known, the resolver has a quarter of the time to
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

    most = host->naddrs ? ngx_max(host->settings->connect_timeout / 4, 1)
                        : NGX_HTTP_DSEM_HOST_TIMEOUT;

    ctx->name = host->server->host;
    ctx->handler = ngx_http_dsem_host_resolve_handler;
    ctx->data = host;
    ctx->timeout = ngx_min(timeout, most);

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
 * the same name: the owner hears of it later.
 */

static void
ngx_http_dsem_host_resolve_handler(ngx_resolver_ctx_t *ctx)
{
    ngx_uint_t                 i;
    ngx_http_dsem_host_t      *host;
    ngx_http_dsem_host_addr_t  last;

    host = ctx->data;

    if (ctx->state != NGX_OK || ctx->naddrs == 0) {
        ngx_http_dsem_host_failed(host, ngx_resolver_strerror(ctx->state));
        goto done;
    }

    last = host->addrs[host->current];
    host->naddrs = 0;

    for (i = 0; i < ctx->naddrs; i++) {
        ngx_http_dsem_host_add(host, ctx->addrs[i].sockaddr,
                               ctx->addrs[i].socklen);
    }

    /* the address that was to be tried next still is, if it is among them */

    for (i = 0; i < host->naddrs; i++) {
        if (ngx_http_dsem_host_cmp(&host->addrs[i], &last) == 0) {
            break;
        }
    }

    ngx_http_dsem_host_set_current(host, (i < host->naddrs) ? i : 0);

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
ngx_http_dsem_host_failed(ngx_http_dsem_host_t *host, const char *reason)
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

    host->handler(host->data, host->naddrs ? NULL : host->reason);
}


/* gives up a find that has not ended */

void
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
            ngx_http_dsem_host_failed(host, "configuration replaced");
            ngx_http_dsem_host_cancel(host);
            ngx_post_event(&host->event, &ngx_posted_events);
        }
    }
}


/* the address leaves its turn to the next one */

void
ngx_http_dsem_host_next(ngx_http_dsem_host_t *host)
{
    if (host->naddrs) {
        ngx_http_dsem_host_set_current(host,
                                       (host->current + 1) % host->naddrs);
    }
}


ngx_uint_t
ngx_http_dsem_host_naddrs(ngx_http_dsem_host_t *host)
{
    return host->naddrs;
}


/* until the next find ends; NULL: none is known */

ngx_addr_t *
ngx_http_dsem_host_addr(ngx_http_dsem_host_t *host)
{
    return host->naddrs ? &host->addr : NULL;
}


/* for the log: the current address, or what the directive has */

ngx_str_t *
ngx_http_dsem_host_name(ngx_http_dsem_host_t *host)
{
    return host->naddrs ? &host->addr.name : &host->server->name;
}
