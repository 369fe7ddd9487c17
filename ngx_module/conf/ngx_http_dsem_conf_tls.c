
/*
 * TLS of the "dsem_redis" directive: "ssl" and the parameters that need it.
 *
 * Owns the rules between them, and what they become: the files are read here,
 * by the master with its rights, and no worker opens one.  The certificate of
 * the server is verified unless the configuration says otherwise.
 *
 * Called by: conf_redis, when the rest of the directive is read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_reason.h"


/* in the order in which conf_redis has their names and values */
typedef enum {
    NGX_HTTP_DSEM_TLS_CA = 0,
    NGX_HTTP_DSEM_TLS_CERT,
    NGX_HTTP_DSEM_TLS_KEY,
    NGX_HTTP_DSEM_TLS_NAME,
    NGX_HTTP_DSEM_TLS_VERIFY,
    NGX_HTTP_DSEM_TLS_NPARAMS
} ngx_http_dsem_tls_param_e;


typedef ngx_int_t (*ngx_http_dsem_tls_load_pt)(ngx_http_dsem_tls_t *tls,
    ngx_str_t *file, char *reason);


static ngx_int_t ngx_http_dsem_conf_tls_rules(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_uint_t ssl,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args);
static ngx_http_dsem_tls_t *ngx_http_dsem_conf_tls_create(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_str_t *name);
static ngx_int_t ngx_http_dsem_conf_tls_load(ngx_conf_t *cf,
    ngx_http_dsem_tls_t *tls, ngx_http_dsem_param_t *param,
    ngx_http_dsem_arg_t *arg, ngx_http_dsem_tls_load_pt load);
static void ngx_http_dsem_conf_tls_cleanup(void *data);


/*
 * params and args: by ngx_http_dsem_tls_param_e.
 */

ngx_int_t
ngx_http_dsem_conf_tls(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_uint_t ssl,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args)
{
    ngx_http_dsem_arg_t  *verify;
    ngx_http_dsem_tls_t  *tls;

    if (ngx_http_dsem_conf_tls_rules(cf, settings, ssl, params, args)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (!ssl) {
        return NGX_OK;
    }

    tls = ngx_http_dsem_conf_tls_create(cf, settings,
                                        &args[NGX_HTTP_DSEM_TLS_NAME].text);

    if (tls == NULL) {
        return NGX_ERROR;
    }

    /* "ssl_verify" is on, if it is not given */

    verify = &args[NGX_HTTP_DSEM_TLS_VERIFY];

    if ((verify->text.data == NULL || verify->number)
        && ngx_http_dsem_conf_tls_load(cf, tls, &params[NGX_HTTP_DSEM_TLS_CA],
                                       &args[NGX_HTTP_DSEM_TLS_CA],
                                       ngx_http_dsem_tls_verify)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (args[NGX_HTTP_DSEM_TLS_CERT].text.data == NULL) {
        return NGX_OK;
    }

    if (ngx_http_dsem_conf_tls_load(cf, tls, &params[NGX_HTTP_DSEM_TLS_CERT],
                                    &args[NGX_HTTP_DSEM_TLS_CERT],
                                    ngx_http_dsem_tls_certificate) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_dsem_conf_tls_load(cf, tls, &params[NGX_HTTP_DSEM_TLS_KEY],
                                       &args[NGX_HTTP_DSEM_TLS_KEY],
                                       ngx_http_dsem_tls_key);
}


static ngx_int_t
ngx_http_dsem_conf_tls_rules(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_uint_t ssl,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args)
{
    ngx_uint_t               i;
    const char              *wrong;
    ngx_http_dsem_server_t  *server;

    for (i = 0; !ssl && i < NGX_HTTP_DSEM_TLS_NPARAMS; i++) {
        if (args[i].text.data) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" without \"ssl\" in \"dsem_redis\" "
                               "directive", &params[i].name);
            return NGX_ERROR;
        }
    }

    wrong = NULL;

    server = &settings->servers[0];

    if (ssl
        && server->naddrs
        && server->addrs[0].sockaddr->sa_family == AF_UNIX)
    {
        wrong = "\"ssl\" with a path, for which Redis has no TLS,";

    } else if (args[NGX_HTTP_DSEM_TLS_CERT].text.data
               && args[NGX_HTTP_DSEM_TLS_KEY].text.data == NULL)
    {
        wrong = "\"ssl_cert\" without \"ssl_key\"";

    } else if (args[NGX_HTTP_DSEM_TLS_KEY].text.data
               && args[NGX_HTTP_DSEM_TLS_CERT].text.data == NULL)
    {
        wrong = "\"ssl_key\" without \"ssl_cert\"";
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s in \"dsem_redis\" directive", wrong);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Several servers have no name in common: without "ssl_name" each must be
 * certified for its address, which is all that Sentinel or a Cluster names.
 */

static ngx_http_dsem_tls_t *
ngx_http_dsem_conf_tls_create(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_str_t *name)
{
    char                  reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_pool_cleanup_t   *cln;
    ngx_http_dsem_tls_t  *tls;

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    /* that of an IPv6 address has brackets: the address itself is verified */

    if (name->data == NULL
        && settings->mode == NGX_HTTP_DSEM_MODE_SINGLE
        && settings->servers[0].host.len
        && settings->servers[0].host.data[0] != '[')
    {
        name = &settings->servers[0].host;
    }

    tls = ngx_http_dsem_tls_create(name, reason);

    if (tls == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"ssl\" in \"dsem_redis\" directive cannot be used "
                           "(%s), see \"TLS\" in docs/redis.md", reason);
        return NULL;
    }

    cln->handler = ngx_http_dsem_conf_tls_cleanup;
    cln->data = settings;

    settings->login.tls = tls;
    settings->sentinel_login.tls = ngx_http_dsem_tls_ref(tls);

    return tls;
}


static ngx_int_t
ngx_http_dsem_conf_tls_load(ngx_conf_t *cf, ngx_http_dsem_tls_t *tls,
    ngx_http_dsem_param_t *param, ngx_http_dsem_arg_t *arg,
    ngx_http_dsem_tls_load_pt load)
{
    char        reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_str_t  *file;

    file = &arg->text;

    if (file->data && ngx_conf_full_name(cf->cycle, file, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    if (load(tls, file, reason) == NGX_OK) {
        return NGX_OK;
    }

    if (file->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "cannot load \"%V\" file \"%V\" of "
                           "\"dsem_redis\" directive (%s)", &param->name,
                           ngx_http_dsem_param_word(cf, file), reason);

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "cannot load the CA certificates of the system "
                           "for \"dsem_redis\" directive (%s)", reason);
    }

    return NGX_ERROR;
}


static void
ngx_http_dsem_conf_tls_cleanup(void *data)
{
    ngx_http_dsem_redis_settings_t *settings = data;

    ngx_http_dsem_tls_free(settings->login.tls);
    ngx_http_dsem_tls_free(settings->sentinel_login.tls);
}
