
/*
 * TLS to Redis: what the configuration loads.
 *
 * Owns the SSL_CTX of a "dsem_redis" directive.  The master makes it while it
 * reads the configuration; workers inherit it.  It is counted: the copy that
 * a worker has of its settings may outlive the configuration.  The private
 * key is in the memory of OpenSSL, as nginx's own are: a core has it.  It
 * keeps the last session of OpenSSL, too.
 *
 * Where hiredis has no TLS, nothing can be created.
 *
 * Called by: conf_tls, to create it; settings; tls_conn (sessions, errors).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <hiredis/hiredis.h>
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_tls.h"

#if (NGX_HTTP_DSEM_SSL)

#include <openssl/ssl.h>
#include <openssl/err.h>


static int ngx_http_dsem_tls_password(char *buf, int size, int rwflag,
    void *data);
static int ngx_http_dsem_tls_new_session(SSL *ssl, SSL_SESSION *session);


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


void
ngx_http_dsem_tls_forget(ngx_http_dsem_tls_t *tls)
{
    if (tls->session) {
        SSL_SESSION_free(tls->session);
        tls->session = NULL;
    }
}


/* the first error is the cause of the others */

void
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


void
ngx_http_dsem_tls_errno(char *reason, ngx_err_t err)
{
    u_char  *last;

    last = (u_char *) reason + NGX_HTTP_DSEM_REASON_LEN - 1;

    *ngx_strerror(err, (u_char *) reason, last - (u_char *) reason) = '\0';
}


#else


/* NULL, always: "nginx -t" logs the reason */

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


#endif /* NGX_HTTP_DSEM_SSL */
