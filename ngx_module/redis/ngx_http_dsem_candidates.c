
/*
 * Candidates: servers that may be asked for the one to connect to.
 *
 * Owns their addresses: those of the configuration, which stay, and a few
 * more that nodes of a Cluster have named, where a new one replaces the one
 * that was not asked for the longest time.
 *
 * The text of MOVED and ASK comes from the network and may be anything: what
 * is not exactly "MOVED slot host:port" leads nowhere.  An IPv6 address has no
 * brackets there, so that the last colon is before the port.
 *
 * Called by: locate.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_locate.h"


/* candidates that the configuration does not name */
#define NGX_HTTP_DSEM_CANDIDATES_LEARNED  16

/* of a host: that of the longest name in DNS */
#define NGX_HTTP_DSEM_MOVED_HOST_LEN  255


static ngx_addr_t *ngx_http_dsem_candidates_name(
    ngx_http_dsem_candidates_t *candidates, ngx_str_t *host,
    ngx_addr_t *from);
static ngx_http_dsem_candidate_t *ngx_http_dsem_candidates_add(
    ngx_http_dsem_candidates_t *candidates, ngx_addr_t *addr);


/* settings must stay, elts are to be freed; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_candidates_create(ngx_http_dsem_candidates_t *candidates,
    ngx_http_dsem_redis_settings_t *settings)
{
    ngx_uint_t                  i, j;
    ngx_http_dsem_server_t     *server;
    ngx_http_dsem_candidate_t  *candidate;

    candidates->settings = settings;
    candidates->size = NGX_HTTP_DSEM_CANDIDATES_LEARNED;

    for (i = 0; i < settings->nservers; i++) {
        candidates->size += settings->servers[i].naddrs;
    }

    candidates->elts = ngx_calloc(candidates->size
                                  * sizeof(ngx_http_dsem_candidate_t),
                                  ngx_cycle->log);
    if (candidates->elts == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < settings->nservers; i++) {
        server = &settings->servers[i];

        for (j = 0; j < server->naddrs; j++) {
            candidate = ngx_http_dsem_candidates_add(candidates,
                                                     &server->addrs[j]);

            if (candidate && candidate->server == NULL) {
                candidate->server = server;
            }
        }
    }

    candidates->nconfigured = candidates->n;

    return NGX_OK;
}


/*
 * The next one to ask: that with the oldest connection, of those which were not
 * asked in this search, or else of all.  NULL: all are being asked.
 */

ngx_http_dsem_candidate_t *
ngx_http_dsem_candidates_oldest(ngx_http_dsem_candidates_t *candidates,
    ngx_uint_t search)
{
    ngx_uint_t                  i, again, oldest_again;
    ngx_http_dsem_candidate_t  *candidate, *oldest;

    oldest = NULL;
    oldest_again = 1;

    for (i = 0; i < candidates->n; i++) {
        candidate = &candidates->elts[i];
        again = (candidate->search == search);

        if (candidate->asking || again > oldest_again) {
            continue;
        }

        if (oldest == NULL
            || again < oldest_again
            || (ngx_msec_int_t) (candidate->asked - oldest->asked) < 0)
        {
            oldest = candidate;
            oldest_again = again;
        }
    }

    return oldest;
}


/*
 * The error reply of "from", which may name another node for the slot.  NGX_OK:
 * it has moved there; NGX_AGAIN: it is about to; NGX_DECLINED: it is another
 * error.  The candidate is NULL for a name that was not resolved, or if there
 * is no place for another one.
 */

ngx_int_t
ngx_http_dsem_candidates_learn(ngx_http_dsem_candidates_t *candidates,
    ngx_uint_t slot, const char *error, ngx_addr_t *from,
    ngx_http_dsem_candidate_t **candidate)
{
    ngx_str_t              *host;
    ngx_addr_t             *addr;
    ngx_http_dsem_addr_t    at;
    ngx_http_dsem_moved_t   moved;

    *candidate = NULL;

    if (ngx_http_dsem_candidates_parse(&moved, error) != NGX_OK
        || moved.slot != slot)
    {
        return NGX_DECLINED;
    }

    host = &moved.host;

    addr = host->len ? ngx_http_dsem_candidates_name(candidates, host, from)
                     : from;

    if (addr) {
        ngx_http_dsem_addr_set(&at, addr->sockaddr, addr->socklen);
        ngx_inet_set_port(&at.sockaddr.sockaddr, moved.port);
    }

    if (addr || ngx_http_dsem_addr_parse(&at, host, moved.port) == NGX_OK) {
        *candidate = ngx_http_dsem_candidates_add(candidates, &at.addr);
    }

    if (*candidate == NULL && !candidates->unnamed) {
        candidates->unnamed = 1;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V names another node \"%V:%ui\", which is "
                      "no address, set \"cluster-preferred-endpoint-type ip\" "
                      "in Redis, or write that name in \"dsem_redis\"",
                      &from->name, host, (ngx_uint_t) moved.port);
    }

    return moved.ask ? NGX_AGAIN : NGX_OK;
}


/* NGX_DECLINED: it is neither MOVED nor ASK */

ngx_int_t
ngx_http_dsem_candidates_parse(ngx_http_dsem_moved_t *moved,
    const char *error)
{
    u_char     *p, *last, *host, *colon;
    ngx_int_t   slot;

    p = (u_char *) error;
    last = p + ngx_strlen(p);

    if (ngx_strncmp(p, "MOVED ", sizeof("MOVED ") - 1) == 0) {
        p += sizeof("MOVED ") - 1;
        moved->ask = 0;

    } else if (ngx_strncmp(p, "ASK ", sizeof("ASK ") - 1) == 0) {
        p += sizeof("ASK ") - 1;
        moved->ask = 1;

    } else {
        return NGX_DECLINED;
    }

    host = ngx_strlchr(p, last, ' ');

    if (host == NULL) {
        return NGX_DECLINED;
    }

    slot = ngx_atoi(p, host - p);

    host++;

    for (colon = last; colon > host && *colon != ':'; colon--) {
        /* void */
    }

    if (slot < 0
        || slot >= NGX_HTTP_DSEM_SLOTS
        || *colon != ':'
        || colon - host > NGX_HTTP_DSEM_MOVED_HOST_LEN)
    {
        return NGX_DECLINED;
    }

    /* of an address, a name, or "?", which stands for one that is not set */

    for (p = host; p < colon; p++) {
        if (!(*p >= '0' && *p <= '9')
            && !(*p >= 'a' && *p <= 'z')
            && !(*p >= 'A' && *p <= 'Z')
            && ngx_strchr(".:-_?", *p) == NULL)
        {
            return NGX_DECLINED;
        }
    }

    moved->slot = slot;
    moved->host.data = host;
    moved->host.len = colon - host;
    moved->port = ngx_http_dsem_addr_port(colon + 1, last - colon - 1);

    return moved->port ? NGX_OK : NGX_DECLINED;
}


/* an address of a configured name, of the family of "from" */

static ngx_addr_t *
ngx_http_dsem_candidates_name(ngx_http_dsem_candidates_t *candidates,
    ngx_str_t *host, ngx_addr_t *from)
{
    ngx_uint_t               i, j;
    ngx_addr_t              *addr;
    ngx_http_dsem_server_t  *server;

    for (i = 0; i < candidates->settings->nservers; i++) {
        server = &candidates->settings->servers[i];

        if (server->host.len != host->len
            || ngx_strncasecmp(server->host.data, host->data, host->len) != 0)
        {
            continue;
        }

        for (j = 0; j < server->naddrs; j++) {
            addr = &server->addrs[j];

            if (addr->sockaddr->sa_family == from->sockaddr->sa_family) {
                return addr;
            }
        }
    }

    return NULL;
}


/* the one with this address, or a new one; NULL: there is no place for it */

static ngx_http_dsem_candidate_t *
ngx_http_dsem_candidates_add(ngx_http_dsem_candidates_t *candidates,
    ngx_addr_t *addr)
{
    ngx_uint_t                  i;
    ngx_http_dsem_candidate_t  *candidate, *place;

    place = NULL;

    for (i = 0; i < candidates->n; i++) {
        candidate = &candidates->elts[i];

        if (ngx_http_dsem_addr_equal(&candidate->at.addr, addr)) {
            return candidate;
        }

        if (candidate->server == NULL
            && !candidate->asking
            && candidate != candidates->likely
            && (place == NULL
                || (ngx_msec_int_t) (candidate->asked - place->asked) < 0))
        {
            place = candidate;
        }
    }

    if (candidates->n < candidates->size) {
        place = &candidates->elts[candidates->n++];
    }

    if (place) {
        ngx_memzero(place, sizeof(ngx_http_dsem_candidate_t));
        ngx_http_dsem_addr_set(&place->at, addr->sockaddr, addr->socklen);

        place->asked = ngx_current_msec;
    }

    return place;
}
