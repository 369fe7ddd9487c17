
/*
 * TLS of one connection to Redis: the handshake, and what went wrong.
 *
 * The handshake is driven here and not by hiredis, which would report errno
 * as the cause of a failure.  After it hiredis reads and writes.  The chain
 * and the name of the server are checked by OpenSSL during the handshake: no
 * byte of a command is sent to a server that fails the check.
 *
 * OpenSSL's queue of errors is one for the process: it is empty before each
 * call, as an old error would end a good connection, and empty afterwards,
 * as nginx logs alerts for what others have left there.
 *
 * Called by: adapter, connection.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <hiredis/hiredis.h>
#include <hiredis/async.h>
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_tls.h"

#if (NGX_HTTP_DSEM_SSL)

#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <hiredis/hiredis_ssl.h>


static ngx_int_t ngx_http_dsem_tls_conn_name(ngx_http_dsem_tls_t *tls, SSL *ssl,
    ngx_addr_t *addr);
static void ngx_http_dsem_tls_conn_resume(ngx_http_dsem_tls_t *tls, SSL *ssl,
    ngx_addr_t *addr);
static ngx_int_t ngx_http_dsem_tls_conn_refused(SSL *ssl, char *reason);
static void ngx_http_dsem_tls_conn_invalid(SSL *ssl, long result, char *reason);


/*
 * A handshake on a connected socket; addr must outlive the connection.  It
 * has not ended yet, even if nothing is left to wait for.  NULL: the
 * connection must be closed, "reason" has the cause.
 */

ngx_http_dsem_tls_conn_t *
ngx_http_dsem_tls_conn_start(ngx_http_dsem_tls_t *tls, redisAsyncContext *ac,
    ngx_addr_t *addr, char *reason)
{
    SSL                      *ssl;
    const redisContextFuncs  *funcs;

    ERR_clear_error();

    ssl = SSL_new(tls->ctx);

    if (ssl == NULL
        || SSL_set_app_data(ssl, addr) != 1
        || ngx_http_dsem_tls_conn_name(tls, ssl, addr) != NGX_OK)
    {
        ngx_http_dsem_tls_error(reason);
        SSL_free(ssl);
        return NULL;
    }

    ngx_http_dsem_tls_conn_resume(tls, ssl, addr);

    funcs = ac->c.funcs;

    if (redisInitiateSSL(&ac->c, ssl) != REDIS_OK) {

        /* hiredis has set its functions, but has not taken "ssl" */

        ac->c.funcs = funcs;

        ngx_http_dsem_reason(reason, "%s", ac->c.errstr);
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }

    ERR_clear_error();

    return ssl;
}


/* what the certificate must be for; an address is never sent as a name */

static ngx_int_t
ngx_http_dsem_tls_conn_name(ngx_http_dsem_tls_t *tls, SSL *ssl,
    ngx_addr_t *addr)
{
    char               text[NGX_SOCKADDR_STRLEN + 1], *name;
    size_t             len;
    X509_VERIFY_PARAM  *param;

    name = tls->name;

    if (tls->len == 0) {
        len = ngx_sock_ntop(addr->sockaddr, addr->socklen, (u_char *) text,
                            NGX_SOCKADDR_STRLEN, 0);
        text[len] = '\0';
        name = text;
    }

    param = SSL_get0_param(ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1) {
        return NGX_OK;
    }

    ERR_clear_error();

    X509_VERIFY_PARAM_set_hostflags(param,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);

    if (X509_VERIFY_PARAM_set1_host(param, name, 0) != 1
        || SSL_set_tlsext_host_name(ssl, name) != 1)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * The second connection of a worker, and a reconnect, cost Redis no private
 * key.  Only to the address whose certificate was verified.  OpenSSL marks a
 * session as used: both connections would not have one at the same time.
 */

static void
ngx_http_dsem_tls_conn_resume(ngx_http_dsem_tls_t *tls, SSL *ssl,
    ngx_addr_t *addr)
{
    SSL_SESSION  *session;

    if (tls->session == NULL
        || ngx_cmp_sockaddr(&tls->sockaddr.sockaddr, tls->socklen,
                            addr->sockaddr, addr->socklen, 1) != NGX_OK)
    {
        return;
    }

    session = SSL_SESSION_dup(tls->session);

    if (session) {
        (void) SSL_set_session(ssl, session);
        SSL_SESSION_free(session);
    }

    ERR_clear_error();
}


/*
 * Goes on after an event.  NGX_OK: done; NGX_AGAIN; NGX_ERROR: the network
 * failed; NGX_DECLINED: the server is there, but another attempt would fail
 * as well.  "reason" has the cause of both.
 */

ngx_int_t
ngx_http_dsem_tls_conn_handshake(ngx_http_dsem_tls_conn_t *ssl, char *reason)
{
    int        n, error;
    ngx_int_t  rc;
    ngx_err_t  err;

    ERR_clear_error();
    ngx_set_errno(0);

    n = SSL_do_handshake(ssl);

    if (n == 1) {
        return NGX_OK;
    }

    err = ngx_errno;
    error = SSL_get_error(ssl, n);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        return NGX_AGAIN;
    }

    if (error == SSL_ERROR_SSL && ERR_peek_error()) {

        /* not the same session once more */
        ngx_http_dsem_tls_forget(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));

        rc = ngx_http_dsem_tls_conn_refused(ssl, reason);

    } else if (err) {
        ngx_http_dsem_tls_errno(reason, err);
        rc = NGX_ERROR;

    } else {
        ngx_http_dsem_reason(reason, "Server closed the connection");
        rc = NGX_ERROR;
    }

    ERR_clear_error();

    return rc;
}


static ngx_int_t
ngx_http_dsem_tls_conn_refused(SSL *ssl, char *reason)
{
    long    result;
    u_long  e;

    result = SSL_get_verify_result(ssl);

    if (SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE && result != X509_V_OK) {
        ngx_http_dsem_tls_conn_invalid(ssl, result, reason);
        return NGX_DECLINED;
    }

    e = ERR_peek_error();

    if (ERR_GET_LIB(e) == ERR_LIB_SSL
        && (ERR_GET_REASON(e) == SSL_R_WRONG_VERSION_NUMBER
            || ERR_GET_REASON(e) == SSL_R_PACKET_LENGTH_TOO_LONG))
    {
        ngx_http_dsem_reason(reason, "the server does not use TLS");
        return NGX_DECLINED;
    }

    ngx_http_dsem_tls_error(reason);

    return NGX_DECLINED;
}


/* with the name of the configuration; an address is in the log line anyway */

static void
ngx_http_dsem_tls_conn_invalid(SSL *ssl, long result, char *reason)
{
    const char           *text;
    ngx_http_dsem_tls_t  *tls;

    tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    text = X509_verify_cert_error_string(result);

    if (tls->len == 0
        || (result != X509_V_ERR_HOSTNAME_MISMATCH
            && result != X509_V_ERR_IP_ADDRESS_MISMATCH))
    {
        ngx_http_dsem_reason(reason, "%s", text);
        return;
    }

    ngx_http_dsem_reason(reason, "%s: \"%s\"", text, tls->name);
}


ngx_uint_t
ngx_http_dsem_tls_conn_wants_write(ngx_http_dsem_tls_conn_t *ssl)
{
    return SSL_want_write(ssl);
}


/* what hiredis has to write; the number of bytes that were written */

ssize_t
ngx_http_dsem_tls_conn_write(redisAsyncContext *ac)
{
    ERR_clear_error();

    return ac->c.funcs->write(&ac->c);
}


/*
 * NGX_OK: the cause of what hiredis reports as an error of the socket.  A
 * server that refuses the certificate of the client sends an alert and resets
 * the connection: a write may find that before the alert has been read.
 */

ngx_int_t
ngx_http_dsem_tls_conn_failure(ngx_http_dsem_tls_conn_t *ssl, char *reason)
{
    u_long  e;
    u_char  byte;

    e = ERR_peek_error();

    if (e == 0 || ERR_GET_LIB(e) == ERR_LIB_SYS) {
        ERR_clear_error();
        (void) SSL_read(ssl, &byte, 1);
        e = ERR_peek_error();
    }

    if (e == 0 || ERR_GET_LIB(e) == ERR_LIB_SYS) {
        return NGX_DECLINED;
    }

    ngx_http_dsem_tls_error(reason);

    return NGX_OK;
}


/* before hiredis reads or writes, and after it */

void
ngx_http_dsem_tls_conn_clear(void)
{
    ERR_clear_error();
}


/*
 * Before hiredis frees it.  Nothing is sent, as replies need no mark of the
 * end; a session of a connection that is not shut down could not be resumed.
 */

void
ngx_http_dsem_tls_conn_close(ngx_http_dsem_tls_conn_t *ssl)
{
    SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN|SSL_RECEIVED_SHUTDOWN);
}


#endif /* NGX_HTTP_DSEM_SSL */
