
/*
 * Where Redis is, and how it is spoken to: what the configuration says.
 */


#ifndef _NGX_HTTP_DSEM_SETTINGS_H_INCLUDED_
#define _NGX_HTTP_DSEM_SETTINGS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_tls.h"


typedef enum {
    NGX_HTTP_DSEM_MODE_SINGLE = 0,
    NGX_HTTP_DSEM_MODE_SENTINEL,
    NGX_HTTP_DSEM_MODE_CLUSTER
} ngx_http_dsem_mode_e;


/*
 * The resolver of the configuration in force, NULL if it has none; timeout in
 * ms.  It may go with the next event: nothing keeps it.
 */
typedef ngx_resolver_t *(*ngx_http_dsem_resolver_pt)(ngx_msec_t *timeout);


/* one "address" of the directive */
typedef struct {
    ngx_str_t                 name;        /* for the log: host:port, path */
    ngx_str_t                 host;        /* as written, without the port */
    in_port_t                 port;
    ngx_addr_t               *addrs;       /* when the configuration is read */
    ngx_uint_t                naddrs;      /* may be 0 if "resolve" */
    unsigned                  resolve:1;   /* the host is a name in DNS */
} ngx_http_dsem_server_t;


/* a password, in memory that is in no core; all zero: none */
typedef struct {
    u_char                   *data;
    size_t                    len;
    size_t                    size;
} ngx_http_dsem_secret_t;


/* what a connection says first */
typedef struct {
    ngx_http_dsem_tls_t      *tls;         /* NULL: in plain */
    ngx_http_dsem_secret_t    auth;        /* a whole AUTH command; or empty */
    ngx_uint_t                db;
    unsigned                  pairs:1;     /* replies are those of Sentinel */
    unsigned                  replied:1;   /* a server has, to any command */
} ngx_http_dsem_login_t;


/* all zero: nothing is configured */
typedef struct {
    ngx_http_dsem_mode_e      mode;
    ngx_http_dsem_server_t   *servers;
    ngx_uint_t                nservers;
    ngx_str_t                 master;      /* its name for Sentinel */

    ngx_http_dsem_login_t     login;
    ngx_http_dsem_login_t     sentinel_login;

    ngx_http_dsem_resolver_pt  resolver;   /* NULL: names stay as they are */

    ngx_msec_t                connect_timeout;
    ngx_msec_t                timeout;
    ngx_msec_t                backoff;     /* longest pause, ms */
    ngx_msec_t                heartbeat;
} ngx_http_dsem_redis_settings_t;


ngx_int_t ngx_http_dsem_settings_copy(ngx_http_dsem_redis_settings_t *copy,
    ngx_http_dsem_redis_settings_t *settings, ngx_pool_t *pool);
void ngx_http_dsem_settings_free(ngx_http_dsem_redis_settings_t *copy);

ngx_int_t ngx_http_dsem_secret_create(ngx_http_dsem_secret_t *secret,
    size_t size);
void ngx_http_dsem_secret_free(void *data);


#endif /* _NGX_HTTP_DSEM_SETTINGS_H_INCLUDED_ */
