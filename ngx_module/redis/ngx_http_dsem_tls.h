
/*
 * TLS to Redis: what the configuration loads, and a connection.
 */


#ifndef _NGX_HTTP_DSEM_TLS_H_INCLUDED_
#define _NGX_HTTP_DSEM_TLS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* Redis itself waits for more where it expects no TLS */
#define NGX_HTTP_DSEM_TLS_SILENT                                             \
    "TLS handshake timed out (does the server use TLS?)"


typedef struct ngx_http_dsem_tls_s  ngx_http_dsem_tls_t;


/* for reading only, outside of tls and tls_conn */
struct ngx_http_dsem_tls_s {
    struct ssl_ctx_st      *ctx;
    ngx_uint_t              refs;
    ngx_uint_t              encrypted;   /* the private key */

    /* the last session, and the address of the server that gave it */
    struct ssl_session_st  *session;
    ngx_sockaddr_t          sockaddr;
    socklen_t               socklen;

    size_t                  len;
    char                    name[1];     /* of the server; empty: address */
};


/* hiredis frees it with its context */
typedef struct ssl_st  ngx_http_dsem_tls_conn_t;

struct redisAsyncContext;


ngx_http_dsem_tls_t *ngx_http_dsem_tls_create(ngx_str_t *name, char *reason);

#if (NGX_HTTP_DSEM_SSL)

ngx_int_t ngx_http_dsem_tls_verify(ngx_http_dsem_tls_t *tls, ngx_str_t *ca,
    char *reason);
ngx_int_t ngx_http_dsem_tls_certificate(ngx_http_dsem_tls_t *tls,
    ngx_str_t *cert, char *reason);
ngx_int_t ngx_http_dsem_tls_key(ngx_http_dsem_tls_t *tls, ngx_str_t *key,
    char *reason);
ngx_http_dsem_tls_t *ngx_http_dsem_tls_ref(ngx_http_dsem_tls_t *tls);
void ngx_http_dsem_tls_free(ngx_http_dsem_tls_t *tls);

void ngx_http_dsem_tls_forget(ngx_http_dsem_tls_t *tls);
void ngx_http_dsem_tls_error(char *reason);
void ngx_http_dsem_tls_errno(char *reason, ngx_err_t err);

/* tls_conn */
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

#else

/* nothing is created: of these only "ref" and "free" are reached, with NULL */

#define ngx_http_dsem_tls_verify                      NULL
#define ngx_http_dsem_tls_certificate                 NULL
#define ngx_http_dsem_tls_key                         NULL
#define ngx_http_dsem_tls_ref(tls)                    (tls)
#define ngx_http_dsem_tls_free(tls)                   (void) (tls)

#define ngx_http_dsem_tls_conn_start(tls, ac, addr, reason)                   \
    (*(reason) = '\0', NULL)
#define ngx_http_dsem_tls_conn_handshake(ssl, reason)                         \
    (*(reason) = '\0', NGX_ERROR)
#define ngx_http_dsem_tls_conn_wants_write(ssl)       0
#define ngx_http_dsem_tls_conn_write(ac)              NGX_ERROR
#define ngx_http_dsem_tls_conn_failure(ssl, reason)   NGX_DECLINED
#define ngx_http_dsem_tls_conn_clear()
#define ngx_http_dsem_tls_conn_close(ssl)

#endif


#endif /* _NGX_HTTP_DSEM_TLS_H_INCLUDED_ */
