
/*
 * Servers of a pool: permits by server, and the list of a session.
 */


#ifndef _NGX_HTTP_DSEM_SERVERS_H_INCLUDED_
#define _NGX_HTTP_DSEM_SERVERS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* a list is a set of bits */
#define NGX_HTTP_DSEM_MAX_SERVERS    64

/* digits of the id of a list */
#define NGX_HTTP_DSEM_SERVERS_ID     16

/* a ticket without a server */
#define NGX_HTTP_DSEM_NO_SERVER      -1


typedef struct {
    ngx_str_t                  name;       /* first, for text_order(); as nginx
                                              prints the address */
    ngx_str_t                  encoded;    /* as texts of Redis have it */
    ngx_int_t                  limit;      /* its own, "max_conns", permits;
                                              without one the largest there
                                              is */
} ngx_http_dsem_pool_server_t;


typedef struct ngx_http_dsem_pool_s  ngx_http_dsem_pool_t;

/* a pool of the configuration; outlives the requests that ask for it */
struct ngx_http_dsem_pool_s {
    ngx_uint_t                 n;
    ngx_http_dsem_pool_server_t    *servers;    /* by name */
    ngx_uint_t                 resolve;    /* unsigned:1, others come and go
                                              by DNS */
};


/* of one server; the sums over all rows are those of the account */
typedef struct {
    ngx_int_t                  held;
    ngx_int_t                  idle;
    ngx_int_t                  pending_release;
    ngx_int_t                  unclaimed;
    ngx_int_t                  last_reported;    /* void while the sum is 0 */
} ngx_http_dsem_servers_row_t;


/* of a pool with "resolve" */
typedef struct {
    ngx_uint_t                 written;    /* servers of the configuration,
                                              which have the first numbers */
    uint64_t                   present;    /* servers that the upstream has,
                                              usable or not */
    ngx_uint_t                 full;       /* unsigned:1, one of these has no
                                              number */

    /* numbers of syncs */
    uint64_t                   sent;
    uint64_t                   answered;
    uint64_t                   stated[NGX_HTTP_DSEM_MAX_SERVERS];
} ngx_http_dsem_servers_resolved_t;


/* of an account */
typedef struct {
    ngx_uint_t                   n;        /* also numbers of no server: these
                                              have no name */
    ngx_http_dsem_pool_server_t      *servers; /* a copy: an account may
                                              outlive the configuration */
    ngx_http_dsem_servers_row_t *rows;

    ngx_uint_t                   nsorted;
    u_char                       sorted[NGX_HTTP_DSEM_MAX_SERVERS];
                                           /* numbers of servers, by name */
    ngx_http_dsem_servers_resolved_t *resolved; /* NULL: all servers are of
                                              the configuration */
} ngx_http_dsem_servers_t;


/*
 * The servers of this semaphore that the worker can use now, as a list; servers
 * may be NULL: whether there is any.
 */
typedef uint64_t (*ngx_http_dsem_servers_usable_pt)(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers);


void ngx_http_dsem_servers_init(ngx_http_dsem_servers_usable_pt usable);
ngx_http_dsem_servers_t *ngx_http_dsem_servers_create(
    ngx_http_dsem_pool_t *pool);
void ngx_http_dsem_servers_free(ngx_http_dsem_servers_t *servers);
ngx_int_t ngx_http_dsem_servers_permits(ngx_http_dsem_pool_t *pool,
    ngx_http_dsem_servers_t *servers, ngx_int_t limit);
ngx_uint_t ngx_http_dsem_servers_of(ngx_http_dsem_servers_t *servers,
    ngx_http_dsem_pool_t *pool);
uint64_t ngx_http_dsem_servers_usable(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers);

ngx_int_t ngx_http_dsem_servers_number(ngx_http_dsem_servers_t *servers,
    ngx_str_t *name, ngx_int_t limit);
ngx_uint_t ngx_http_dsem_servers_vacate(ngx_http_dsem_servers_t *servers);
uint64_t ngx_http_dsem_servers_stated(ngx_http_dsem_servers_t *servers,
    uint64_t list);
void ngx_http_dsem_servers_answered(ngx_http_dsem_servers_t *servers,
    uint64_t number);
void ngx_http_dsem_servers_reset(ngx_http_dsem_servers_t *servers);

ngx_int_t ngx_http_dsem_servers_encoded(ngx_http_dsem_servers_t *servers,
    ngx_str_t *text);
ngx_int_t ngx_http_dsem_servers_nth(ngx_http_dsem_servers_t *servers,
    uint64_t list, int64_t number);
ngx_uint_t ngx_http_dsem_servers_count(uint64_t list);

size_t ngx_http_dsem_servers_size(ngx_http_dsem_servers_t *servers);
u_char *ngx_http_dsem_servers_list(ngx_http_dsem_servers_t *servers,
    uint64_t list, u_char *p);
u_char *ngx_http_dsem_servers_counts(ngx_http_dsem_servers_t *servers,
    ngx_uint_t held, u_char *p);


#endif /* _NGX_HTTP_DSEM_SERVERS_H_INCLUDED_ */
