
/*
 * TLS to Redis: what the configuration loads, and the handshake.
 *
 * Owns the SSL_CTX of a "dsem_redis" directive.  The master makes it while it
 * reads the configuration; workers inherit it.  It is counted: the copy that
 * a worker has of its settings may outlive the configuration.  The private
 * key is in the memory of OpenSSL, as nginx's own are: a core has it.
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
 * Where hiredis has no TLS, nothing can be created, and nothing else here is
 * called with more than NULL.
 *
 * Called by: conf_tls, to create it; settings; connection.
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


struct ngx_http_dsem_tls_s {
    SSL_CTX         *ctx;
    ngx_uint_t       refs;
    ngx_uint_t       encrypted;   /* the private key; a password is needed */

    /* the last session, and the address of the server that gave it */
    SSL_SESSION     *session;
    ngx_sockaddr_t   sockaddr;
    socklen_t        socklen;

    size_t           len;
    char             name[1];     /* of the server; or empty: its address */
};


static int ngx_http_dsem_tls_password(char *buf, int size, int rwflag,
    void *data);
static int ngx_http_dsem_tls_new_session(SSL *ssl, SSL_SESSION *session);
static void ngx_http_dsem_tls_forget(ngx_http_dsem_tls_t *tls);
static void ngx_http_dsem_tls_resume(ngx_http_dsem_tls_t *tls, SSL *ssl,
    ngx_addr_t *addr);
static ngx_int_t ngx_http_dsem_tls_name(ngx_http_dsem_tls_t *tls, SSL *ssl,
    ngx_addr_t *addr);
static ngx_int_t ngx_http_dsem_tls_refused(SSL *ssl, char *reason);
static void ngx_http_dsem_tls_invalid(SSL *ssl, long result, char *reason);
static void ngx_http_dsem_tls_error(char *reason);
static void ngx_http_dsem_tls_errno(char *reason, ngx_err_t err);


/*
 * A context that verifies nothing yet.  name: what the certificate must be
 * for, a name or an address; empty: the address of each server.  NULL: the
 * buffer "reason" has the cause.
 */

ngx_http_dsem_tls_t *
ngx_http_dsem_tls_create(ngx_str_t *name, char *reason)
{
    ngx_http_dsem_tls_t  *tls;

    tls = ngx_calloc(sizeof(ngx_http_dsem_tls_t) + name->len, ngx_cycle->log);
    if (tls == NULL) {
        ngx_http_dsem_reason(reason, "no memory");
        return NULL;
    }

    tls->refs = 1;
    tls->len = name->len;
    ngx_memcpy(tls->name, name->data, name->len);

    ERR_clear_error();

    tls->ctx = SSL_CTX_new(TLS_client_method());

    if (tls->ctx == NULL
        || SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) != 1)
    {
        ngx_http_dsem_tls_error(reason);
        ngx_http_dsem_tls_free(tls);
        return NULL;
    }

    /*
     * hiredis reads once for each event of the socket: bytes that OpenSSL
     * has read ahead would wait there
     */

    SSL_CTX_set_read_ahead(tls->ctx, 0);

    /* writing never has to wait for the server's bytes */
    SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION);

#ifdef SSL_OP_IGNORE_UNEXPECTED_EOF
    /* replies have a length of their own: nothing can be cut off unseen */
    SSL_CTX_set_options(tls->ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
#endif

    SSL_CTX_set_app_data(tls->ctx, tls);
    SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_CLIENT
                                             |SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(tls->ctx, ngx_http_dsem_tls_new_session);

    return tls;
}


/*
 * The server's certificate is verified; ca is empty: by the authorities that
 * the system trusts.
 */

ngx_int_t
ngx_http_dsem_tls_verify(ngx_http_dsem_tls_t *tls, ngx_str_t *ca,
    char *reason)
{
    int  rc;

    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);

    rc = ca->len ? SSL_CTX_load_verify_locations(tls->ctx, (char *) ca->data,
                                                 NULL)
                 : SSL_CTX_set_default_verify_paths(tls->ctx);

    if (rc != 1) {
        ngx_http_dsem_tls_error(reason);
        return NGX_ERROR;
    }

    /* files of the system that are missing leave errors */
    ERR_clear_error();

    return NGX_OK;
}


/* what the server may ask for, with the chain that leads to it */

ngx_int_t
ngx_http_dsem_tls_certificate(ngx_http_dsem_tls_t *tls, ngx_str_t *cert,
    char *reason)
{
    if (SSL_CTX_use_certificate_chain_file(tls->ctx, (char *) cert->data)
        != 1)
    {
        ngx_http_dsem_tls_error(reason);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* after the certificate, which it must fit */

ngx_int_t
ngx_http_dsem_tls_key(ngx_http_dsem_tls_t *tls, ngx_str_t *key, char *reason)
{
    int     rc;
    u_long  e;

    /* without these OpenSSL would ask the terminal */

    SSL_CTX_set_default_passwd_cb(tls->ctx, ngx_http_dsem_tls_password);
    SSL_CTX_set_default_passwd_cb_userdata(tls->ctx, tls);

    rc = SSL_CTX_use_PrivateKey_file(tls->ctx, (char *) key->data,
                                     SSL_FILETYPE_PEM);

    if (rc == 1 && SSL_CTX_check_private_key(tls->ctx) == 1) {
        return NGX_OK;
    }

    e = ERR_peek_error();

    ngx_http_dsem_tls_error(reason);

    if (tls->encrypted) {
        ngx_http_dsem_reason(reason, "it is encrypted with a password");

    } else if (ERR_GET_LIB(e) != ERR_LIB_SYS && ERR_GET_LIB(e) != ERR_LIB_X509)
    {
        /* OpenSSL names what it did not understand of other formats */
        ngx_http_dsem_reason(reason, "no private key in it");
    }

    return NGX_ERROR;
}


static int
ngx_http_dsem_tls_password(char *buf, int size, int rwflag, void *data)
{
    ngx_http_dsem_tls_t *tls = data;

    tls->encrypted = 1;

    return -1;
}


/* one more owner; NULL stays NULL */

ngx_http_dsem_tls_t *
ngx_http_dsem_tls_ref(ngx_http_dsem_tls_t *tls)
{
    if (tls) {
        tls->refs++;
    }

    return tls;
}


void
ngx_http_dsem_tls_free(ngx_http_dsem_tls_t *tls)
{
    if (tls == NULL || --tls->refs) {
        return;
    }

    ngx_http_dsem_tls_forget(tls);

    if (tls->ctx) {
        /* a connection that is being closed may have it for a moment */
        SSL_CTX_sess_set_new_cb(tls->ctx, NULL);
        SSL_CTX_free(tls->ctx);
    }

    ngx_free(tls);
}


/*
 * A handshake on a connected socket; addr must outlive the connection.  It
 * has not ended yet, even if nothing is left to wait for.  NULL: the
 * connection must be closed, "reason" has the cause.
 */

ngx_http_dsem_tls_conn_t *
ngx_http_dsem_tls_start(ngx_http_dsem_tls_t *tls, redisAsyncContext *ac,
    ngx_addr_t *addr, char *reason)
{
    SSL                      *ssl;
    const redisContextFuncs  *funcs;

    ERR_clear_error();

    ssl = SSL_new(tls->ctx);

    if (ssl == NULL
        || SSL_set_app_data(ssl, addr) != 1
        || ngx_http_dsem_tls_name(tls, ssl, addr) != NGX_OK)
    {
        ngx_http_dsem_tls_error(reason);
        SSL_free(ssl);
        return NULL;
    }

    ngx_http_dsem_tls_resume(tls, ssl, addr);

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
ngx_http_dsem_tls_name(ngx_http_dsem_tls_t *tls, SSL *ssl, ngx_addr_t *addr)
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
ngx_http_dsem_tls_resume(ngx_http_dsem_tls_t *tls, SSL *ssl, ngx_addr_t *addr)
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


/* 1: the session is ours now */

static int
ngx_http_dsem_tls_new_session(SSL *ssl, SSL_SESSION *session)
{
    ngx_addr_t           *addr;
    ngx_http_dsem_tls_t  *tls;

    addr = SSL_get_app_data(ssl);
    tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    ngx_http_dsem_tls_forget(tls);

    tls->session = session;
    tls->socklen = addr->socklen;
    ngx_memcpy(&tls->sockaddr, addr->sockaddr, addr->socklen);

    return 1;
}


static void
ngx_http_dsem_tls_forget(ngx_http_dsem_tls_t *tls)
{
    if (tls->session) {
        SSL_SESSION_free(tls->session);
        tls->session = NULL;
    }
}


/*
 * Goes on after an event.  NGX_OK: done; NGX_AGAIN; NGX_ERROR: the network
 * failed; NGX_DECLINED: the server is there, but another attempt would fail
 * as well.  "reason" has the cause of both.
 */

ngx_int_t
ngx_http_dsem_tls_handshake(ngx_http_dsem_tls_conn_t *ssl, char *reason)
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

        rc = ngx_http_dsem_tls_refused(ssl, reason);

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
ngx_http_dsem_tls_refused(SSL *ssl, char *reason)
{
    long    result;
    u_long  e;

    result = SSL_get_verify_result(ssl);

    if (SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE && result != X509_V_OK) {
        ngx_http_dsem_tls_invalid(ssl, result, reason);
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
ngx_http_dsem_tls_invalid(SSL *ssl, long result, char *reason)
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
ngx_http_dsem_tls_wants_write(ngx_http_dsem_tls_conn_t *ssl)
{
    return SSL_want_write(ssl);
}


/* what hiredis has to write; the number of bytes that were written */

ssize_t
ngx_http_dsem_tls_write(redisAsyncContext *ac)
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
ngx_http_dsem_tls_failure(ngx_http_dsem_tls_conn_t *ssl, char *reason)
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
ngx_http_dsem_tls_clear(void)
{
    ERR_clear_error();
}


/*
 * Before hiredis frees it.  Nothing is sent, as replies need no mark of the
 * end; a session of a connection that is not shut down could not be resumed.
 */

void
ngx_http_dsem_tls_close(ngx_http_dsem_tls_conn_t *ssl)
{
    SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN|SSL_RECEIVED_SHUTDOWN);
}


/* the first error is the cause of the others */

static void
ngx_http_dsem_tls_error(char *reason)
{
    u_long       e;
    const char  *text;

    e = ERR_peek_error();

    if (ERR_GET_LIB(e) == ERR_LIB_SYS) {
        ngx_http_dsem_tls_errno(reason, ERR_GET_REASON(e));

    } else {
        text = ERR_reason_error_string(e);
        ngx_http_dsem_reason(reason, "%s", text ? text : "unknown error");
    }

    ERR_clear_error();
}


static void
ngx_http_dsem_tls_errno(char *reason, ngx_err_t err)
{
    u_char  *last;

    last = (u_char *) reason + NGX_HTTP_DSEM_REASON_LEN - 1;

    *ngx_strerror(err, (u_char *) reason, last - (u_char *) reason) = '\0';
}


#else


/* NULL, always: "nginx -t" tells the reason */

ngx_http_dsem_tls_t *
ngx_http_dsem_tls_create(ngx_str_t *name, char *reason)
{
#if (HIREDIS_MAJOR < 1)

    ngx_http_dsem_reason(reason, "hiredis %d.%d.%d, with which the module was "
                         "built, has no TLS",
                         HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);

#else

    ngx_http_dsem_reason(reason, "the module was built without "
                         "libhiredis_ssl or without OpenSSL");

#endif

    return NULL;
}


ngx_int_t
ngx_http_dsem_tls_verify(ngx_http_dsem_tls_t *tls, ngx_str_t *ca,
    char *reason)
{
    return NGX_ERROR;
}


ngx_int_t
ngx_http_dsem_tls_certificate(ngx_http_dsem_tls_t *tls, ngx_str_t *cert,
    char *reason)
{
    return NGX_ERROR;
}


ngx_int_t
ngx_http_dsem_tls_key(ngx_http_dsem_tls_t *tls, ngx_str_t *key, char *reason)
{
    return NGX_ERROR;
}


ngx_http_dsem_tls_t *
ngx_http_dsem_tls_ref(ngx_http_dsem_tls_t *tls)
{
    return tls;
}


void
ngx_http_dsem_tls_free(ngx_http_dsem_tls_t *tls)
{
}


ngx_http_dsem_tls_conn_t *
ngx_http_dsem_tls_start(ngx_http_dsem_tls_t *tls, redisAsyncContext *ac,
    ngx_addr_t *addr, char *reason)
{
    ngx_memcpy(reason, "no TLS", sizeof("no TLS"));

    return NULL;
}


ngx_int_t
ngx_http_dsem_tls_handshake(ngx_http_dsem_tls_conn_t *ssl, char *reason)
{
    return NGX_ERROR;
}


ngx_uint_t
ngx_http_dsem_tls_wants_write(ngx_http_dsem_tls_conn_t *ssl)
{
    return 0;
}


ssize_t
ngx_http_dsem_tls_write(redisAsyncContext *ac)
{
    return NGX_ERROR;
}


ngx_int_t
ngx_http_dsem_tls_failure(ngx_http_dsem_tls_conn_t *ssl, char *reason)
{
    return NGX_DECLINED;
}


void
ngx_http_dsem_tls_clear(void)
{
}


void
ngx_http_dsem_tls_close(ngx_http_dsem_tls_conn_t *ssl)
{
}


#endif /* NGX_HTTP_DSEM_SSL */
