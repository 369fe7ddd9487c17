
/*
 * Pools: the server of a pool's permit is the one that a request gets.
 *
 * A wrapper directly around the balancer of an upstream.  It keeps the
 * balancer's data, free, notify and sessions; only "get" is its own where the
 * request has a permit: it does what every balancer of nginx does at its end.
 * A try that failed is followed by another one only if its connection came
 * from the cache, and to the same server: the permit is for no other.
 *
 * Called by: nginx, through the upstream that conf has prepared; semaphore,
 * through a handler (which servers can be used now); acquire; api_pool.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_pool.h"
#include "ngx_http_dsem_result.h"
#include "ngx_http_dsem_text.h"


typedef struct {
    ngx_http_upstream_t               *upstream;
    ngx_http_upstream_rr_peer_data_t  *rrp;      /* of the balancer */
    ngx_http_upstream_rr_peers_t      *peers;
    ngx_http_dsem_srv_conf_t          *conf;

    ngx_http_dsem_ctx_t               *ctx;      /* of the claim */
    ngx_http_dsem_claim_t             *claim;    /* in use; or NULL */
    ngx_str_t                          server;   /* empty: none */
    unsigned                           tried:1;

    ngx_event_get_peer_pt              get;
    ngx_event_free_peer_pt             free;
#if (NGX_SSL || NGX_COMPAT)
    /* nginx may have TLS, though the tree of the build had not */
    ngx_event_set_peer_session_pt      set_session;
    ngx_event_save_peer_session_pt     save_session;
#endif
    ngx_event_notify_peer_pt           notify;
} ngx_http_dsem_pool_peer_t;


static ngx_int_t ngx_http_dsem_pool_init(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us);
static ngx_int_t ngx_http_dsem_pool_permit(ngx_http_request_t *r,
    ngx_http_dsem_srv_conf_t *dscf, ngx_http_dsem_claim_t **claim,
    ngx_str_t *server);
static void ngx_http_dsem_pool_error(ngx_http_request_t *r,
    ngx_http_dsem_srv_conf_t *dscf, ngx_uint_t dry_run);
static ngx_http_dsem_claim_t *ngx_http_dsem_pool_claim(
    ngx_http_dsem_ctx_t *ctx, ngx_http_dsem_srv_conf_t *dscf);
static ngx_uint_t ngx_http_dsem_pool_gets(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claim);
static void ngx_http_dsem_pool_left_handler(ngx_event_t *ev);
static void ngx_http_dsem_pool_wrap(ngx_http_upstream_t *u,
    ngx_http_dsem_pool_peer_t *peer);
static ngx_int_t ngx_http_dsem_pool_get(ngx_peer_connection_t *pc,
    void *data);
static ngx_http_upstream_rr_peer_t *ngx_http_dsem_pool_find(
    ngx_http_dsem_pool_peer_t *peer, ngx_http_upstream_rr_peers_t **peersp);
static void ngx_http_dsem_pool_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state);
#if (NGX_SSL || NGX_COMPAT)
static ngx_int_t ngx_http_dsem_pool_set_session(ngx_peer_connection_t *pc,
    void *data);
static void ngx_http_dsem_pool_save_session(ngx_peer_connection_t *pc,
    void *data);
#endif
static void ngx_http_dsem_pool_notify(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t type);
static ngx_uint_t ngx_http_dsem_pool_peer_usable(
    ngx_http_upstream_rr_peers_t *peers, ngx_http_upstream_rr_peer_t *peer);
static uint64_t ngx_http_dsem_pool_list(ngx_http_upstream_rr_peers_t *peers,
    ngx_http_dsem_servers_t *servers);


/* once per upstream, when all is read */

ngx_int_t
ngx_http_dsem_pool_init_upstream(ngx_conf_t *cf,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_http_dsem_srv_conf_t  *dscf;

    dscf = ngx_http_conf_upstream_srv_conf(us, ngx_http_dsem_module);

    if (dscf->init_upstream(cf, us) != NGX_OK
        || ngx_http_dsem_upstream_servers(cf, dscf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    dscf->init_peer = us->peer.init;
    us->peer.init = ngx_http_dsem_pool_init;
    dscf->initialized = 1;

    return NGX_OK;
}


/* once per request, before its first try */

static ngx_int_t
ngx_http_dsem_pool_init(ngx_http_request_t *r,
    ngx_http_upstream_srv_conf_t *us)
{
    ngx_int_t                   rc;
    ngx_str_t                   server;
    ngx_http_dsem_claim_t      *claim;
    ngx_http_dsem_srv_conf_t   *dscf;
    ngx_http_dsem_pool_peer_t  *peer;

    dscf = ngx_http_conf_upstream_srv_conf(us, ngx_http_dsem_module);

    if (dscf->init_peer(r, us) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_http_dsem_pool_permit(r, dscf, &claim, &server);

    if (rc != NGX_OK) {
        /* the balancer chooses, or nothing may be chosen at all */
        return (rc == NGX_DECLINED) ? NGX_OK : NGX_ERROR;
    }

    peer = ngx_pcalloc(r->pool, sizeof(ngx_http_dsem_pool_peer_t));
    if (peer == NULL) {
        return NGX_ERROR;
    }

    /* first in the data of each balancer of nginx */

    peer->upstream = r->upstream;
    peer->rrp = r->upstream->peer.data;
    peer->peers = us->peer.data;
    peer->conf = dscf;
    peer->ctx = ngx_http_dsem_ctx_find(r->main);
    peer->claim = claim;
    peer->server = server;

    if (peer->rrp->peers != peer->peers) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                      "dsem: unknown balancing method of upstream \"%V\"",
                      &us->host);
        return NGX_ERROR;
    }

    /* for a permit that goes back when its server is left */

    if (claim
        && ngx_http_dsem_ctx_event(peer->ctx, &peer->ctx->left,
                                   ngx_http_dsem_pool_left_handler)
           == NULL)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_pool_wrap(r->upstream, peer);

    return NGX_OK;
}


/* nginx has asked the server once more by now, or does not */

static void
ngx_http_dsem_pool_left_handler(ngx_event_t *ev)
{
    ngx_http_dsem_ctx_t *ctx = ev->data;

    ngx_uint_t  i;

    for (i = 0; i < ctx->nclaims; i++) {
        if (ctx->claims[i].ends && ctx->claims[i].busy == NULL) {
            ngx_http_dsem_ctx_release_all(ctx);
            return;
        }
    }
}


static void
ngx_http_dsem_pool_wrap(ngx_http_upstream_t *u,
    ngx_http_dsem_pool_peer_t *peer)
{
    /*
     * the answer of the only try is passed on; nginx adds one for a cached
     * connection that was closed
     */

    u->peer.tries = 1;

    peer->get = u->peer.get;
    peer->free = u->peer.free;

    u->peer.data = peer;
    u->peer.get = ngx_http_dsem_pool_get;
    u->peer.free = ngx_http_dsem_pool_free;

#if (NGX_SSL || NGX_COMPAT)
    peer->set_session = u->peer.set_session;
    peer->save_session = u->peer.save_session;
    u->peer.set_session = ngx_http_dsem_pool_set_session;
    u->peer.save_session = ngx_http_dsem_pool_save_session;
#endif

    if (u->peer.notify) {
        peer->notify = u->peer.notify;
        u->peer.notify = ngx_http_dsem_pool_notify;
    }
}


/*
 * The server of the request's permit.  NGX_DECLINED: it needs none;
 * NGX_ERROR: it must not get to any server.
 */

static ngx_int_t
ngx_http_dsem_pool_permit(ngx_http_request_t *r,
    ngx_http_dsem_srv_conf_t *dscf, ngx_http_dsem_claim_t **claim,
    ngx_str_t *server)
{
    ngx_http_dsem_ctx_t       *ctx;
    ngx_http_dsem_loc_conf_t  *dlcf;

    static ngx_uint_t  warned;

    ctx = ngx_http_dsem_ctx_find(r->main);
    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);
    *claim = ngx_http_dsem_pool_claim(ctx, dscf);

    if (*claim && !ctx->conf->dry_run && ngx_http_dsem_pool_gets(r, *claim)) {
        *server = ctx->server;
        return NGX_OK;
    }

    if (r->post_action || r != r->main) {

        if (!warned) {
            warned = 1;

            ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                          "dsem: subrequest to upstream \"%V\" has no permit "
                          "(subrequests take none), its balancing method "
                          "chooses the server", &dscf->upstream->host);
        }

        *claim = NULL;
        return NGX_DECLINED;
    }

    if (*claim && (*claim)->unusable) {
        ngx_str_null(server);
        *claim = NULL;
        return NGX_OK;
    }

    /* of a dry run that could ask for nothing the cause is in the log */

    if ((*claim && ctx->status == NGX_HTTP_DSEM_STATUS_DEGRADED)
        || (dlcf->dry_run && (*claim || (ctx && ctx->invalid))))
    {
        *claim = NULL;
        return NGX_DECLINED;
    }

    ngx_http_dsem_pool_error(r, dscf, dlcf->dry_run);

    return dlcf->dry_run ? NGX_DECLINED : NGX_ERROR;
}


/* counted as an error of the pool, as the request has no claim to it */

static void
ngx_http_dsem_pool_error(ngx_http_request_t *r,
    ngx_http_dsem_srv_conf_t *dscf, ngx_uint_t dry_run)
{
    ngx_http_dsem_claim_t  claim;

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "dsem: request to upstream \"%V\" has no permit (its "
                  "location has variables in \"proxy_pass\" and does not name "
                  "this upstream by \"dsem upstream=\", or answers a refusal), "
                  "%s", &dscf->upstream->host,
                  dry_run ? "dry run" : "request failed");

    ngx_memzero(&claim, sizeof(ngx_http_dsem_claim_t));

    claim.ask.name = dscf->limit->encoded;
    claim.ask.hash = dscf->limit->hash;
    claim.ask.dry_run = dry_run;

    ngx_http_dsem_result_invalid(&claim);
}


/* that of this pool; NULL: the request has none, ctx may be NULL */

static ngx_http_dsem_claim_t *
ngx_http_dsem_pool_claim(ngx_http_dsem_ctx_t *ctx,
    ngx_http_dsem_srv_conf_t *dscf)
{
    ngx_uint_t  i;

    for (i = 0; ctx && i < ctx->nclaims; i++) {
        if (ctx->claims[i].ask.pool == &dscf->pool) {
            return &ctx->claims[i];
        }
    }

    return NULL;
}


/* a subrequest gets no permit that its request has yet to use, or uses now */

static ngx_uint_t
ngx_http_dsem_pool_gets(ngx_http_request_t *r, ngx_http_dsem_claim_t *claim)
{
    if (claim->busy || !ngx_http_dsem_claim_granted(claim)) {
        return 0;
    }

#if (NGX_HTTP_CACHE)
    if (r->main->cached) {
        return 1;
    }
#endif

    return r == r->main || claim->came;
}


/* what a balancer does when it has chosen; NGX_BUSY: there is no such server */

static ngx_int_t
ngx_http_dsem_pool_get(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_dsem_pool_peer_t *peer = data;

    time_t                         now;
    ngx_uint_t                     again;
    ngx_http_upstream_rr_peer_t   *chosen;
    ngx_http_upstream_rr_peers_t  *peers;

    peers = NULL;

    /* of the last try: the permit is still that of its server */

    again = !peer->tried || pc->cached;

    peer->tried = 1;
    pc->cached = 0;
    pc->connection = NULL;

    /* not under the lock: a log may block */
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, pc->log, 0,
                   "dsem get peer \"%V\"", &peer->server);

    chosen = (again && peer->server.len)
             ? ngx_http_dsem_pool_find(peer, &peers) : NULL;

    if (chosen == NULL) {
        pc->name = peer->peers->name;
        return NGX_BUSY;
    }

    now = ngx_time();

    if (now - chosen->checked > chosen->fail_timeout) {
        chosen->checked = now;
    }

    peer->rrp->peers = peers;
    peer->rrp->current = chosen;
#ifdef ngx_http_upstream_rr_peer_ref
    /* since 1.27.3: "resolve" may free it meanwhile */
    ngx_http_upstream_rr_peer_ref(peers, chosen);
#endif

    pc->sockaddr = chosen->sockaddr;
    pc->socklen = chosen->socklen;
    pc->name = &chosen->name;
#if (NGX_HTTP_UPSTREAM_SID && !NGX_HTTP_DSEM_NO_POOLS)
    pc->sid = &chosen->sid;
#endif

    chosen->conns++;

    ngx_http_upstream_rr_peers_unlock(peers);

    if (peer->claim) {
        peer->claim->busy = peer->upstream;
    }

    return NGX_OK;
}


/*
 * The server of the permit, whose peers are locked then; or NULL.  nginx has a
 * peer for each time that an upstream has the address: one is usable as long as
 * the server is.
 */

static ngx_http_upstream_rr_peer_t *
ngx_http_dsem_pool_find(ngx_http_dsem_pool_peer_t *peer,
    ngx_http_upstream_rr_peers_t **peersp)
{
    ngx_http_upstream_rr_peer_t   *found, *next;
    ngx_http_upstream_rr_peers_t  *peers;

    for (peers = peer->peers; peers; peers = peers->next) {

        ngx_http_upstream_rr_peers_wlock(peers);

        found = NULL;

        for (next = peers->peer; next; next = next->next) {

            if (ngx_http_dsem_text_order(&next->name, &peer->server) == 0
                && (found == NULL
                    || ngx_http_dsem_pool_peer_usable(peers, next)))
            {
                found = next;
            }
        }

        if (found) {
            *peersp = peers;
            return found;
        }

        ngx_http_upstream_rr_peers_unlock(peers);
    }

    return NULL;
}


static void
ngx_http_dsem_pool_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_http_dsem_pool_peer_t *peer = data;

    if (peer->claim) {
        peer->claim->busy = NULL;
        peer->claim->came = 1;
    }

    if (state == 0 && ngx_http_dsem_pool_failed(peer->upstream)) {
        state = NGX_PEER_FAILED;
    }

    peer->free(pc, peer->rrp, state);

    if (state & NGX_PEER_FAILED) {

        if (peer->claim) {
            /* a redirect leads to another server */
            peer->claim->spent = 1;
        }

        ngx_http_dsem_semaphore_servers(&peer->conf->limit->encoded,
                                        peer->conf->limit->hash);
    }

    if (peer->claim && peer->claim->ends && peer->claim->ticket) {
        /* what else had it has ended before */
        ngx_post_event(peer->ctx->left, &ngx_posted_events);
    }
}


/*
 * Answers that "..._next_upstream" takes for failed tries: nginx reads it only
 * where another try may follow, and here none does.  The header is that of the
 * cache where a stale page has taken the place of the answer; the status is
 * that of early hints where there were some.
 */

ngx_uint_t
ngx_http_dsem_pool_failed(ngx_http_upstream_t *u)
{
    ngx_uint_t  i, status;

    static struct {
        ngx_uint_t  status;
        ngx_uint_t  mask;
    } answers[] = {
        { NGX_HTTP_TOO_MANY_REQUESTS, NGX_HTTP_UPSTREAM_FT_HTTP_429 },
        { NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_HTTP_UPSTREAM_FT_HTTP_500 },
        { NGX_HTTP_BAD_GATEWAY, NGX_HTTP_UPSTREAM_FT_HTTP_502 },
        { NGX_HTTP_SERVICE_UNAVAILABLE, NGX_HTTP_UPSTREAM_FT_HTTP_503 },
        { NGX_HTTP_GATEWAY_TIME_OUT, NGX_HTTP_UPSTREAM_FT_HTTP_504 }
    };

    status = u->state ? u->state->status : 0;

    if (status < NGX_HTTP_OK) {
        status = u->headers_in.status_n;
    }

    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        if (status == answers[i].status) {
            return (u->conf->next_upstream & answers[i].mask) != 0;
        }
    }

    return 0;
}


#if (NGX_SSL || NGX_COMPAT)

static ngx_int_t
ngx_http_dsem_pool_set_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_dsem_pool_peer_t *peer = data;

    return peer->set_session(pc, peer->rrp);
}


static void
ngx_http_dsem_pool_save_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_http_dsem_pool_peer_t *peer = data;

    peer->save_session(pc, peer->rrp);
}

#endif


static void
ngx_http_dsem_pool_notify(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t type)
{
    ngx_http_dsem_pool_peer_t *peer = data;

    peer->notify(pc, peer->rrp, type);
}


/*
 * The servers that this worker can use now: primary ones, or backups if there
 * are none.  With "resolve" this is where an account gets to know which
 * addresses there are.
 */

uint64_t
ngx_http_dsem_pool_usable(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers)
{
    uint64_t                       list, usable;
    ngx_uint_t                     all;
    ngx_http_dsem_srv_conf_t      *dscf;
    ngx_http_upstream_rr_peers_t  *peers;

    dscf = ngx_http_dsem_pool_conf(semaphore);

    if (dscf == NULL) {
        return 0;
    }

    list = 0;
    all = (servers && servers->resolved);

    for (peers = dscf->upstream->peer.data; peers; peers = peers->next) {
        usable = ngx_http_dsem_pool_list(peers, servers);

        if (list == 0) {
            list = usable;
        }

        if (list && !all) {
            break;
        }
    }

    return list;
}


/*
 * A redirected request does not keep a permit whose server has failed for
 * others meanwhile, or is gone.
 */

void
ngx_http_dsem_pool_spend(ngx_http_dsem_ctx_t *ctx)
{
    ngx_uint_t                     i;
    ngx_str_t                     *server;
    ngx_http_dsem_claim_t         *claim;
    ngx_http_dsem_pool_peer_t      peer;
    ngx_http_dsem_srv_conf_t      *dscf;
    ngx_http_upstream_rr_peer_t   *found;
    ngx_http_upstream_rr_peers_t  *peers;

    for (i = 0; i < ctx->nclaims; i++) {
        claim = &ctx->claims[i];

        if (claim->ask.pool == NULL || !ngx_http_dsem_claim_granted(claim)) {
            continue;
        }

        server = ngx_http_dsem_semaphore_server(claim->ticket);
        dscf = ngx_http_dsem_pool_conf(&claim->ask.name);

        if (server == NULL || dscf == NULL) {
            continue;
        }

        peer.peers = dscf->upstream->peer.data;
        peer.server = *server;

        found = ngx_http_dsem_pool_find(&peer, &peers);

        if (found == NULL) {
            claim->spent = 1;
            continue;
        }

        if (!ngx_http_dsem_pool_peer_usable(peers, found)) {
            claim->spent = 1;
        }

        ngx_http_upstream_rr_peers_unlock(peers);
    }
}


/*
 * The pool with this name.  Of the configuration in force: a single process may
 * have read it anew.  NULL: there is none.
 */

ngx_http_dsem_srv_conf_t *
ngx_http_dsem_pool_conf(ngx_str_t *semaphore)
{
    ngx_uint_t                  i;
    ngx_http_dsem_main_conf_t  *dmcf;
    ngx_http_dsem_srv_conf_t  **dscf;

    dmcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                               ngx_http_dsem_module);

    if (dmcf == NULL || dmcf->pools == NULL) {
        return NULL;
    }

    dscf = dmcf->pools->elts;

    for (i = 0; i < dmcf->pools->nelts; i++) {

        if (ngx_http_dsem_text_order(&dscf[i]->limit->encoded, semaphore) == 0)
        {
            return dscf[i];
        }
    }

    return NULL;
}


/* as nginx has it, which uses the only server after any failures */

static ngx_uint_t
ngx_http_dsem_pool_peer_usable(ngx_http_upstream_rr_peers_t *peers,
    ngx_http_upstream_rr_peer_t *peer)
{
    if (peer->down) {
        return 0;
    }

    return peers->single
           || peer->max_fails == 0
           || peer->fails < peer->max_fails
           || ngx_time() - peer->checked > peer->fail_timeout;
}


static uint64_t
ngx_http_dsem_pool_list(ngx_http_upstream_rr_peers_t *peers,
    ngx_http_dsem_servers_t *servers)
{
    uint64_t                      list;
    ngx_int_t                     i;
    ngx_uint_t                    usable;
    ngx_http_upstream_rr_peer_t  *peer;

    list = 0;

    ngx_http_upstream_rr_peers_rlock(peers);

    for (peer = peers->peer; peer; peer = peer->next) {

        usable = ngx_http_dsem_pool_peer_usable(peers, peer);

        if (servers == NULL) {
            list |= usable;
            continue;
        }

        i = ngx_http_dsem_servers_number(servers, &peer->name,
                                         ngx_http_dsem_upstream_limit(peer));

        if (usable && i != NGX_HTTP_DSEM_NO_SERVER) {
            list |= (uint64_t) 1 << i;
        }
    }

    ngx_http_upstream_rr_peers_unlock(peers);

    return list;
}
