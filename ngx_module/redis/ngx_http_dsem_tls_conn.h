
/*
 * TLS of one connection to Redis: the handshake, and what went wrong.
 */


#ifndef _NGX_HTTP_DSEM_TLS_CONN_H_INCLUDED_
#define _NGX_HTTP_DSEM_TLS_CONN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_tls.h"


/* hiredis frees it with its context */
typedef struct ssl_st  ngx_http_dsem_tls_conn_t;

struct redisAsyncContext;


ngx_http_dsem_tls_conn_t *ngx_http_dsem_tls_conn_start(ngx_http_dsem_tls_t *tls,
    struct redisAsyncContext *ac, ngx_addr_t *addr, char *reason);
ngx_int_t ngx_http_dsem_tls_conn_handshake(ngx_http_dsem_tls_conn_t *ssl,
    char *reason);
ngx_uint_t ngx_http_dsem_tls_conn_wants_write(ngx_http_dsem_tls_conn_t *ssl);
ssize_t ngx_http_dsem_tls_conn_write(struct redisAsyncContext *ac);
ngx_int_t ngx_http_dsem_tls_conn_failure(ngx_http_dsem_tls_conn_t *ssl,
    char *reason);
void ngx_http_dsem_tls_conn_clear(void);
void ngx_http_dsem_tls_conn_close(ngx_http_dsem_tls_conn_t *ssl);


#endif /* _NGX_HTTP_DSEM_TLS_CONN_H_INCLUDED_ */
