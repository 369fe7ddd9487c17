
/*
 * Names of hosts in the "dsem_redis" directive.
 *
 * Resolves them once with the system's resolver, which knows /etc/hosts and
 * may block, as nothing serves requests yet.  With nginx's resolver these
 * addresses are only the first ones: a worker asks again whenever it connects,
 * and a name may be unknown until then.  Without it they are all there is.
 *
 * Called by: conf, when all directives of the level are read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_peer.h"


/* servers that the resolver asks: an array in nginx, a list in Angie */

#if (NGX_HTTP_DSEM_RESOLVER_LIST)
#define ngx_http_dsem_conf_has_servers(resolver)                              \
    ((resolver)->connections != NULL)
#else
#define ngx_http_dsem_conf_has_servers(resolver)                              \
    ((resolver)->connections.nelts != 0)
#endif


static ngx_int_t ngx_http_dsem_conf_names_resolver(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
static ngx_int_t ngx_http_dsem_conf_names_resolve(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
static ngx_int_t ngx_http_dsem_conf_names_host(ngx_conf_t *cf,
    ngx_http_dsem_server_t *server, ngx_uint_t later);


/* messages have the line of the directive, not that of the end of its level */

ngx_int_t
ngx_http_dsem_conf_names(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_int_t         rc;
    ngx_conf_file_t  *level, file;

    level = cf->conf_file;
    file = *level;

    file.file.name = dmcf->redis_file;
    file.line = dmcf->redis_line;

    cf->conf_file = &file;
    rc = ngx_http_dsem_conf_names_resolve(cf, dmcf);
    cf->conf_file = level;

    return rc;
}


/* NGX_ERROR: no memory, or a message has been logged */

static ngx_int_t
ngx_http_dsem_conf_names_resolve(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_uint_t                       i, later;
    ngx_http_dsem_server_t          *server;
    ngx_http_dsem_redis_settings_t  *settings;

    if (ngx_http_dsem_conf_names_resolver(cf, dmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    settings = dmcf->redis;

    /* Sentinel and Cluster have the addresses of the configuration only */

    later = (dmcf->resolver && settings->mode == NGX_HTTP_DSEM_MODE_SINGLE);

    for (i = 0; i < settings->nservers; i++) {
        server = &settings->servers[i];

        if (server->naddrs == 0
            && ngx_http_dsem_conf_names_host(cf, server,
                                             later && server->resolve)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* that of the http level, where the directive is */

static ngx_int_t
ngx_http_dsem_conf_names_resolver(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_pool_cleanup_t        *cln;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* without the directive nginx has a resolver that asks nothing */

    if (clcf->resolver == NULL
        || !ngx_http_dsem_conf_has_servers(clcf->resolver))
    {
        return NGX_OK;
    }

    dmcf->resolver = clcf->resolver;

    /* nginx's own default is set only where the level below inherits it */

    dmcf->resolver_timeout = (clcf->resolver_timeout == NGX_CONF_UNSET_MSEC)
                             ? 30000 : clcf->resolver_timeout;

    /* it runs before the cleanup of the resolver, which was added earlier */

    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_dsem_host_forget;
    cln->data = dmcf->resolver;

    return NGX_OK;
}


/* "later": nginx's resolver is asked later, maybe with success */

static ngx_int_t
ngx_http_dsem_conf_names_host(ngx_conf_t *cf, ngx_http_dsem_server_t *server,
    ngx_uint_t later)
{
    ngx_url_t   u;
    ngx_str_t  *word;

    word = ngx_http_dsem_param_word(cf, &server->name);

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = server->name;
    u.default_port = server->port;

    if (ngx_parse_url(cf->pool, &u) == NGX_OK) {
        server->addrs = u.addrs;
        server->naddrs = u.naddrs;

        if (server->resolve && !later) {
            ngx_conf_log_error(NGX_LOG_NOTICE, cf, 0,
                               "host in address \"%V\" of \"dsem_redis\" "
                               "directive is resolved now only, changes of "
                               "DNS need a reload", word);
        }

        return NGX_OK;
    }

    if (u.err == NULL) {
        return NGX_ERROR;
    }

    if (later) {
        ngx_conf_log_error(NGX_LOG_NOTICE, cf, 0,
                           "%s in address \"%V\" of \"dsem_redis\" "
                           "directive, \"resolver\" is asked at run time",
                           u.err, word);
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "%s in address \"%V\" of \"dsem_redis\" directive",
                       u.err, word);

    return NGX_ERROR;
}
