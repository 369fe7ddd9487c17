
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
    ngx_str_t                  name;       /* as nginx prints the address */
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
};


/* of one server; the sums over all rows are those of the account */
typedef struct {
    ngx_int_t                  held;
    ngx_int_t                  pending_release;
    ngx_int_t                  unclaimed;
    ngx_int_t                  last_reported;    /* void while the sum is 0 */
} ngx_http_dsem_servers_row_t;


/* of an account */
typedef struct {
    ngx_uint_t                   n;
    ngx_http_dsem_pool_server_t      *servers; /* a copy: an account may
                                              outlive the configuration */
    ngx_http_dsem_servers_row_t *rows;
    void                        *check;    /* the sync that compares counts,
                                              unanswered; or NULL */
} ngx_http_dsem_servers_t;


/* the servers of this semaphore that the worker can use now, as a list */
typedef uint64_t (*ngx_http_dsem_servers_usable_pt)(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers);


void ngx_http_dsem_servers_init(ngx_http_dsem_servers_usable_pt usable);
ngx_http_dsem_servers_t *ngx_http_dsem_servers_create(
    ngx_http_dsem_pool_t *pool);
ngx_int_t ngx_http_dsem_servers_permits(ngx_http_dsem_pool_t *pool,
    ngx_int_t limit);
ngx_uint_t ngx_http_dsem_servers_of(ngx_http_dsem_servers_t *servers,
    ngx_http_dsem_pool_t *pool);
uint64_t ngx_http_dsem_servers_usable(ngx_str_t *semaphore,
    ngx_http_dsem_servers_t *servers);

ngx_int_t ngx_http_dsem_servers_find(ngx_http_dsem_pool_server_t *servers,
    ngx_uint_t n, ngx_str_t *name);
ngx_int_t ngx_http_dsem_servers_encoded(ngx_http_dsem_servers_t *servers,
    ngx_str_t *text);
ngx_int_t ngx_http_dsem_servers_nth(uint64_t list, int64_t number);
ngx_uint_t ngx_http_dsem_servers_count(uint64_t list);

size_t ngx_http_dsem_servers_size(ngx_http_dsem_servers_t *servers);
u_char *ngx_http_dsem_servers_list(ngx_http_dsem_servers_t *servers,
    uint64_t list, u_char *p);
u_char *ngx_http_dsem_servers_counts(ngx_http_dsem_servers_t *servers,
    ngx_uint_t held, u_char *p);


#endif /* _NGX_HTTP_DSEM_SERVERS_H_INCLUDED_ */
