
/*
 * Servers of a pool: a semaphore whose permits each belong to one server.
 *
 * Owns the texts that Redis has of servers: lists ("<id> <server>=<limit> ...",
 * the servers that this worker can use now) and counts ("<server>=<permits>
 * ...").  A server is a number here, and a list is a set of bits; texts, and
 * numbers in replies, are in the order of names.  The rows of an account are
 * changed by the ledger only.
 *
 * With "resolve" servers come and go: a new address gets a number, and keeps it
 * when it has left DNS, as requests may be there.  Only where all numbers are
 * taken those are given to others that nothing refers to: no permit, and no
 * command whose reply is to come.
 *
 * Called by: account (life), ledger (rows), sync, sync_reply, declare, message
 * (texts), semaphore (a request asks); conf, which sorts servers by name.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_servers.h"
#include "ngx_http_dsem_text.h"


static ngx_int_t ngx_http_dsem_servers_find(ngx_http_dsem_servers_t *servers,
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_servers_add(ngx_http_dsem_servers_t *servers,
    ngx_str_t *name);
static u_char *ngx_http_dsem_servers_text(ngx_http_dsem_pool_server_t *server,
    ngx_int_t number, ngx_uint_t first, u_char *p);


static ngx_http_dsem_servers_usable_pt  ngx_http_dsem_servers_handler;


/* with the worker; usable knows the upstreams of nginx */

void
ngx_http_dsem_servers_init(ngx_http_dsem_servers_usable_pt usable)
{
    ngx_http_dsem_servers_handler = usable;
}


/* of a new account; NULL: no memory */

ngx_http_dsem_servers_t *
ngx_http_dsem_servers_create(ngx_http_dsem_pool_t *pool)
{
    size_t                        size;
    u_char                       *p;
    ngx_uint_t                    i, n;
    ngx_http_dsem_servers_t      *servers;
    ngx_http_dsem_pool_server_t  *server;

    n = pool->resolve ? NGX_HTTP_DSEM_MAX_SERVERS : pool->n;

    size = sizeof(ngx_http_dsem_servers_t)
           + n * (sizeof(ngx_http_dsem_pool_server_t)
                  + sizeof(ngx_http_dsem_servers_row_t));

    if (pool->resolve) {
        size += sizeof(ngx_http_dsem_servers_resolved_t);
    }

    for (i = 0; i < pool->n; i++) {
        size += pool->servers[i].name.len + pool->servers[i].encoded.len;
    }

    servers = ngx_calloc(size, ngx_cycle->log);
    if (servers == NULL) {
        return NULL;
    }

    servers->n = n;
    servers->servers = (ngx_http_dsem_pool_server_t *) &servers[1];
    servers->rows = (ngx_http_dsem_servers_row_t *) &servers->servers[n];

    p = (u_char *) &servers->rows[n];

    if (pool->resolve) {
        servers->resolved = (ngx_http_dsem_servers_resolved_t *) p;
        servers->resolved->written = pool->n;
        p += sizeof(ngx_http_dsem_servers_resolved_t);
    }

    for (i = 0; i < pool->n; i++) {
        server = &servers->servers[i];
        *server = pool->servers[i];

        server->name.data = p;
        p = ngx_cpymem(p, pool->servers[i].name.data, server->name.len);

        server->encoded.data = p;
        p = ngx_cpymem(p, pool->servers[i].encoded.data, server->encoded.len);

        servers->sorted[servers->nsorted++] = (u_char) i;
    }

    return servers;
}


void
ngx_http_dsem_servers_free(ngx_http_dsem_servers_t *servers)
{
    ngx_uint_t  i;

    if (servers->resolved) {
        for (i = servers->resolved->written; i < servers->n; i++) {
            if (servers->servers[i].name.len) {
                ngx_free(servers->servers[i].name.data);
            }
        }
    }

    ngx_free(servers);
}


/*
 * The limit of a semaphore as this node has it: of a pool the sum over all its
 * servers, pool NULL: a plain semaphore.  limit: that of each server; also the
 * sum, where servers, of the account, may be NULL, and DNS has the addresses.
 */

ngx_int_t
ngx_http_dsem_servers_permits(ngx_http_dsem_pool_t *pool,
    ngx_http_dsem_servers_t *servers, ngx_int_t limit)
{
    uint64_t                      present;
    int64_t                       permits;
    ngx_uint_t                    i, n;
    ngx_http_dsem_pool_server_t  *server;

    if (pool == NULL) {
        return limit;
    }

    n = pool->n;
    server = pool->servers;
    present = (uint64_t) -1;

    if (pool->resolve) {

        if (servers == NULL
            || servers->resolved == NULL
            || servers->resolved->present == 0)
        {
            return limit;
        }

        n = servers->n;
        server = servers->servers;
        present = servers->resolved->present;
    }

    permits = 0;

    for (i = 0; i < n; i++) {
        if (present & ((uint64_t) 1 << i)) {
            permits += ngx_min(server[i].limit, limit);
        }
    }

    /* a system of 32 bits cannot count what DNS may bring */

    return (ngx_int_t) ngx_min(permits, NGX_MAX_INT_T_VALUE);
}


/* true if an account has the servers of this pool, NULL: a plain semaphore */

ngx_uint_t
ngx_http_dsem_servers_of(ngx_http_dsem_servers_t *servers,
    ngx_http_dsem_pool_t *pool)
{
    ngx_uint_t                    i, n;
    ngx_http_dsem_pool_server_t  *one, *other;

    if (servers == NULL || pool == NULL) {
        return servers == NULL && pool == NULL;
    }

    n = servers->resolved ? servers->resolved->written : servers->n;

    if (n != pool->n || (servers->resolved != NULL) != pool->resolve) {
        return 0;
    }

    /* a single process may have read another configuration */

    for (i = 0; i < pool->n; i++) {
        one = &servers->servers[i];
        other = &pool->servers[i];

        if (ngx_http_dsem_text_order(&one->name, &other->name) != 0) {
            return 0;
        }

        one->limit = other->limit;
    }

    return 1;
}


uint64_t
ngx_http_dsem_servers_usable(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers)
{
    if (servers && servers->resolved) {
        servers->resolved->present = 0;
        servers->resolved->full = 0;
    }

    return ngx_http_dsem_servers_handler(semaphore, servers);
}


/*
 * The server with this name, which its upstream has, with a limit of its own.
 * NGX_HTTP_DSEM_NO_SERVER: an address that is new, and has got no number.
 */

ngx_int_t
ngx_http_dsem_servers_number(ngx_http_dsem_servers_t *servers, ngx_str_t *name,
    ngx_int_t limit)
{
    uint64_t                           bit;
    ngx_int_t                          number;
    ngx_http_dsem_pool_server_t       *server;
    ngx_http_dsem_servers_resolved_t  *resolved;

    number = ngx_http_dsem_servers_find(servers, name);
    resolved = servers->resolved;

    if (resolved == NULL) {
        return number;
    }

    if (number == NGX_HTTP_DSEM_NO_SERVER) {
        number = ngx_http_dsem_servers_add(servers, name);

        if (number == NGX_HTTP_DSEM_NO_SERVER) {
            resolved->full = 1;
            return number;
        }
    }

    server = &servers->servers[number];
    bit = (uint64_t) 1 << number;

    /* an address that two names have is one server */

    server->limit = (resolved->present & bit) ? ngx_min(server->limit, limit)
                                              : limit;
    resolved->present |= bit;

    return number;
}


static ngx_int_t
ngx_http_dsem_servers_find(ngx_http_dsem_servers_t *servers, ngx_str_t *name)
{
    ngx_int_t                     rc;
    ngx_uint_t                    low, high, middle;
    ngx_http_dsem_pool_server_t  *server;

    low = 0;
    high = servers->nsorted;

    while (low < high) {
        middle = (low + high) / 2;
        server = &servers->servers[servers->sorted[middle]];

        rc = ngx_memn2cmp(server->name.data, name->data, server->name.len,
                          name->len);

        if (rc == 0) {
            return servers->sorted[middle];
        }

        if (rc < 0) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return NGX_HTTP_DSEM_NO_SERVER;
}


/*
 * An address of DNS, no path of a socket: its name is short.  The caller has
 * locked the peers.
 */

static ngx_int_t
ngx_http_dsem_servers_add(ngx_http_dsem_servers_t *servers, ngx_str_t *name)
{
    u_char                       *p;
    ngx_uint_t                    i, k, number;
    ngx_http_dsem_pool_server_t  *server, *before;

    for (i = 0; i < servers->n; i++) {
        if (servers->servers[i].name.len == 0) {
            break;
        }
    }

    if (i == servers->n || 3 * name->len > NGX_HTTP_DSEM_MAX_NAME) {
        return NGX_HTTP_DSEM_NO_SERVER;
    }

    p = ngx_alloc(4 * name->len, ngx_cycle->log);
    if (p == NULL) {
        return NGX_HTTP_DSEM_NO_SERVER;
    }

    number = i;
    server = &servers->servers[number];

    server->name.data = p;
    server->name.len = name->len;

    p = ngx_cpymem(p, name->data, name->len);

    server->encoded.data = p;
    server->encoded.len = ngx_http_dsem_key_escape(p, name->data, name->len)
                          - p;

    for (k = servers->nsorted++; k; k--) {
        before = &servers->servers[servers->sorted[k - 1]];

        if (ngx_memn2cmp(before->name.data, name->data, before->name.len,
                         name->len)
            < 0)
        {
            break;
        }

        servers->sorted[k] = servers->sorted[k - 1];
    }

    servers->sorted[k] = (u_char) number;

    return number;
}


/*
 * Addresses that left, and that nothing refers to, lose their numbers; true if
 * there are any.  Counts of the last loss are void: only a worker whose account
 * is declared sends syncs.
 */

ngx_uint_t
ngx_http_dsem_servers_vacate(ngx_http_dsem_servers_t *servers)
{
    ngx_uint_t                         i, n, number;
    ngx_http_dsem_servers_row_t       *row;
    ngx_http_dsem_servers_resolved_t  *resolved;

    resolved = servers->resolved;
    n = 0;

    for (i = 0; i < servers->nsorted; i++) {
        number = servers->sorted[i];
        row = &servers->rows[number];

        if (number < resolved->written
            || (resolved->present & ((uint64_t) 1 << number))
            || row->held
            || row->idle
            || row->pending_release
            || resolved->stated[number] > resolved->answered)
        {
            servers->sorted[n++] = (u_char) number;
            continue;
        }

        ngx_free(servers->servers[number].name.data);

        ngx_memzero(&servers->servers[number],
                    sizeof(ngx_http_dsem_pool_server_t));
        ngx_memzero(row, sizeof(ngx_http_dsem_servers_row_t));
    }

    i = servers->nsorted;
    servers->nsorted = n;

    return n < i;
}


/* a sync states this list; returns the number of the sync */

uint64_t
ngx_http_dsem_servers_stated(ngx_http_dsem_servers_t *servers, uint64_t list)
{
    ngx_uint_t                         i;
    ngx_http_dsem_servers_resolved_t  *resolved;

    resolved = servers->resolved;

    if (resolved == NULL) {
        return 0;
    }

    resolved->sent++;

    for (i = 0; list; i++, list >>= 1) {
        if (list & 1) {
            resolved->stated[i] = resolved->sent;
        }
    }

    return resolved->sent;
}


/* replies come in the order of commands */

void
ngx_http_dsem_servers_answered(ngx_http_dsem_servers_t *servers,
    uint64_t number)
{
    if (servers->resolved) {
        servers->resolved->answered = number;
    }
}


/* a new epoch: no reply to a command so far is to come */

void
ngx_http_dsem_servers_reset(ngx_http_dsem_servers_t *servers)
{
    if (servers->resolved) {
        servers->resolved->answered = servers->resolved->sent;
    }
}


/* the server with this encoded name, of a message that may be forged */

ngx_int_t
ngx_http_dsem_servers_encoded(ngx_http_dsem_servers_t *servers,
    ngx_str_t *text)
{
    ngx_uint_t                    i;
    ngx_http_dsem_pool_server_t  *server;

    for (i = 0; i < servers->nsorted; i++) {
        server = &servers->servers[servers->sorted[i]];

        if (ngx_http_dsem_text_order(&server->encoded, text) == 0) {
            return servers->sorted[i];
        }
    }

    return NGX_HTTP_DSEM_NO_SERVER;
}


/* the server with this number in a list, 1 is the first */

ngx_int_t
ngx_http_dsem_servers_nth(ngx_http_dsem_servers_t *servers, uint64_t list,
    int64_t number)
{
    ngx_uint_t  i;

    for (i = 0; i < servers->nsorted; i++) {
        if ((list >> servers->sorted[i] & 1) && --number == 0) {
            return servers->sorted[i];
        }
    }

    return NGX_HTTP_DSEM_NO_SERVER;
}


ngx_uint_t
ngx_http_dsem_servers_count(uint64_t list)
{
    ngx_uint_t  n;

    for (n = 0; list; n++) {
        list &= list - 1;
    }

    return n;
}


/* bytes of any text of these servers, at most */

size_t
ngx_http_dsem_servers_size(ngx_http_dsem_servers_t *servers)
{
    size_t      size;
    ngx_uint_t  i;

    size = NGX_HTTP_DSEM_SERVERS_ID;

    for (i = 0; i < servers->n; i++) {
        size += servers->servers[i].encoded.len + NGX_INT_T_LEN + 2;
    }

    return size;
}


/* "<id> <server>=<limit> ...", or "-": an empty one; returns the end */

u_char *
ngx_http_dsem_servers_list(ngx_http_dsem_servers_t *servers, uint64_t list,
    u_char *p)
{
    u_char                       *text, *last, digest[20];
    ngx_sha1_t                    sha1;
    ngx_uint_t                    i, first;
    ngx_http_dsem_pool_server_t  *server;

    if (list == 0) {
        *p++ = '-';
        return p;
    }

    text = p + NGX_HTTP_DSEM_SERVERS_ID;
    *text++ = ' ';

    last = text;
    first = 1;

    for (i = 0; i < servers->nsorted; i++) {

        if (list & ((uint64_t) 1 << servers->sorted[i])) {
            server = &servers->servers[servers->sorted[i]];

            last = ngx_http_dsem_servers_text(server, server->limit, first,
                                              last);
            first = 0;
        }
    }

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, text, last - text);
    ngx_sha1_final(digest, &sha1);

    (void) ngx_hex_dump(p, digest, NGX_HTTP_DSEM_SERVERS_ID / 2);

    return last;
}


static u_char *
ngx_http_dsem_servers_text(ngx_http_dsem_pool_server_t *server,
    ngx_int_t number, ngx_uint_t first, u_char *p)
{
    return ngx_sprintf(p, "%s%V=%i", first ? "" : " ", &server->encoded,
                       number);
}


/* "<server>=<permits> ..." of what is to be given back, and of what is held */

u_char *
ngx_http_dsem_servers_counts(ngx_http_dsem_servers_t *servers, ngx_uint_t held,
    u_char *p)
{
    u_char                       *start;
    ngx_int_t                     permits;
    ngx_uint_t                    i;
    ngx_http_dsem_servers_row_t  *row;

    start = p;

    for (i = 0; i < servers->n; i++) {
        row = &servers->rows[i];
        permits = row->pending_release + (held ? row->held + row->idle : 0);

        if (permits) {
            p = ngx_http_dsem_servers_text(&servers->servers[i], permits,
                                           p == start, p);
        }
    }

    return p;
}
