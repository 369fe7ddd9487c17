
/*
 * The "dsem_redis" directive: where Redis is, and how it is spoken to.
 *
 * Owns the parameters of the directive and the rules between them.  What it
 * makes is settings of redis/.  A password is part of no message: of a
 * parameter only the name is.
 *
 * Called by: nginx, through the table of directives; conf, for the default.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"


#define NGX_HTTP_DSEM_REDIS_PORT     6379
#define NGX_HTTP_DSEM_SENTINEL_PORT  26379


/* a parameter name=value; the indices of the table below */
typedef enum {
    NGX_HTTP_DSEM_REDIS_MODE = 0,
    NGX_HTTP_DSEM_REDIS_MASTER,
    NGX_HTTP_DSEM_REDIS_DB,
    NGX_HTTP_DSEM_REDIS_USER,
    NGX_HTTP_DSEM_REDIS_PASSWORD,
    NGX_HTTP_DSEM_REDIS_PASSWORD_FILE,
    NGX_HTTP_DSEM_REDIS_SENTINEL_USER,
    NGX_HTTP_DSEM_REDIS_SENTINEL_PASSWORD,
    NGX_HTTP_DSEM_REDIS_SENTINEL_PASSWORD_FILE,
    NGX_HTTP_DSEM_REDIS_SSL_CA,     /* by ngx_http_dsem_tls_param_e */
    NGX_HTTP_DSEM_REDIS_SSL_CERT,
    NGX_HTTP_DSEM_REDIS_SSL_KEY,
    NGX_HTTP_DSEM_REDIS_SSL_NAME,
    NGX_HTTP_DSEM_REDIS_SSL_VERIFY,
    NGX_HTTP_DSEM_REDIS_NPARAMS
} ngx_http_dsem_redis_param_e;


/* data is NULL: not given */
typedef struct {
    ngx_command_t                    *cmd;
    ngx_str_t                         values[NGX_HTTP_DSEM_REDIS_NPARAMS];
    ngx_array_t                       addresses;    /* ngx_str_t */
    ngx_http_dsem_redis_settings_t   *settings;
    unsigned                          ssl:1;
} ngx_http_dsem_redis_conf_t;


static ngx_int_t ngx_http_dsem_redis_read(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_redis_word(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf, ngx_str_t *word);
static ngx_int_t ngx_http_dsem_redis_value(ngx_conf_t *cf, ngx_str_t *name,
    ngx_str_t *value, ngx_str_t *given);
static ngx_int_t ngx_http_dsem_redis_ssl(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_redis_find(ngx_str_t *names, ngx_str_t *name);
static ngx_int_t ngx_http_dsem_redis_mode(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_redis_mode_rules(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_redis_servers(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_redis_server(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_str_t *address,
    ngx_http_dsem_server_t *server);
static ngx_int_t ngx_http_dsem_redis_db(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);


static ngx_str_t  ngx_http_dsem_redis_params[] = {
    ngx_string("mode"),
    ngx_string("master"),
    ngx_string("db"),
    ngx_string("user"),
    ngx_string("password"),
    ngx_string("password_file"),
    ngx_string("sentinel_user"),
    ngx_string("sentinel_password"),
    ngx_string("sentinel_password_file"),
    ngx_string("ssl_ca"),
    ngx_string("ssl_cert"),
    ngx_string("ssl_key"),
    ngx_string("ssl_name"),
    ngx_string("ssl_verify"),
    ngx_null_string
};


/* by ngx_http_dsem_mode_e */
static ngx_str_t  ngx_http_dsem_redis_modes[] = {
    ngx_string("single"),
    ngx_string("sentinel"),
    ngx_string("cluster"),
    ngx_null_string
};


static ngx_http_dsem_param_t  ngx_http_dsem_redis_db_param =
    ngx_http_dsem_number("db", 0, 16383, 0);


/* NGX_CONF_ERROR: a message has been logged */

char *
ngx_http_dsem_redis(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_main_conf_t *dmcf = conf;

    ngx_int_t                    rc;
    ngx_http_dsem_redis_conf_t   rcf;

    if (dmcf->redis) {
        ngx_http_dsem_conf_wipe(cf, 1);
        return "is duplicate";
    }

    ngx_memzero(&rcf, sizeof(ngx_http_dsem_redis_conf_t));

    rcf.cmd = cmd;
    rcf.settings = ngx_pcalloc(cf->pool,
                               sizeof(ngx_http_dsem_redis_settings_t));

    if (rcf.settings == NULL
        || ngx_array_init(&rcf.addresses, cf->temp_pool, 4, sizeof(ngx_str_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    rc = ngx_http_dsem_redis_read(cf, &rcf);

    ngx_http_dsem_conf_wipe(cf, rc != NGX_OK);

    if (rc != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    dmcf->redis = rcf.settings;
    dmcf->redis_file = cf->conf_file->file.name;
    dmcf->redis_line = cf->conf_file->line;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_dsem_redis_read(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf)
{
    ngx_str_t                       *word;
    ngx_uint_t                       i;
    ngx_http_dsem_redis_settings_t  *settings;

    settings = conf->settings;
    word = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_dsem_redis_word(cf, conf, &word[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (ngx_http_dsem_redis_mode(cf, conf) != NGX_OK
        || ngx_http_dsem_redis_mode_rules(cf, conf) != NGX_OK
        || ngx_http_dsem_redis_servers(cf, conf) != NGX_OK
        || ngx_http_dsem_redis_db(cf, conf) != NGX_OK
        || ngx_http_dsem_conf_login(cf, &settings->login,
                    &ngx_http_dsem_redis_params[NGX_HTTP_DSEM_REDIS_USER],
                    &conf->values[NGX_HTTP_DSEM_REDIS_USER]) != NGX_OK
        || ngx_http_dsem_conf_login(cf, &settings->sentinel_login,
              &ngx_http_dsem_redis_params[NGX_HTTP_DSEM_REDIS_SENTINEL_USER],
              &conf->values[NGX_HTTP_DSEM_REDIS_SENTINEL_USER]) != NGX_OK
        || ngx_http_dsem_conf_tls(cf, settings, conf->ssl,
                    &ngx_http_dsem_redis_params[NGX_HTTP_DSEM_REDIS_SSL_CA],
                    &conf->values[NGX_HTTP_DSEM_REDIS_SSL_CA]) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* without the directive; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_redis_default(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    static ngx_str_t  address = ngx_string("127.0.0.1:6379");

    dmcf->redis = ngx_pcalloc(cf->pool,
                              sizeof(ngx_http_dsem_redis_settings_t)
                              + sizeof(ngx_http_dsem_server_t));
    if (dmcf->redis == NULL) {
        return NGX_ERROR;
    }

    dmcf->redis->servers = (ngx_http_dsem_server_t *) (dmcf->redis + 1);
    dmcf->redis->nservers = 1;

    return ngx_http_dsem_redis_server(cf, dmcf->redis, &address,
                                      dmcf->redis->servers);
}


/*
 * A word without "=", and a path, is an address; "ssl" is none.  What is like
 * a URL may have a password, and is not printed.
 */

static ngx_int_t
ngx_http_dsem_redis_word(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf,
    ngx_str_t *word)
{
    u_char      *p, *last;
    ngx_int_t    i;
    ngx_str_t    name, value, *address;
    ngx_uint_t   path;

    if (ngx_strcmp(word->data, "ssl") == 0) {
        return ngx_http_dsem_redis_ssl(cf, conf);
    }

    last = word->data + word->len;
    p = ngx_strlchr(word->data, last, '=');

    path = (ngx_strncmp(word->data, "unix:", sizeof("unix:") - 1) == 0);

    if (path) {
        p = NULL;
    }

    name.data = word->data;
    name.len = p ? (size_t) (p - word->data) : 0;

    i = ngx_http_dsem_redis_find(ngx_http_dsem_redis_params, &name);

    if (i == NGX_DECLINED
        && !path
        && (ngx_strlchr(word->data, last, '@')
            || ngx_strnstr(word->data, "://", word->len)))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "URL in \"dsem_redis\" directive, write it as "
                           "\"dsem_redis host:port [user=name] "
                           "[password=word] [db=number] [ssl]\"");
        return NGX_ERROR;
    }

    if (p == NULL) {
        address = ngx_array_push(&conf->addresses);
        if (address == NULL) {
            return NGX_ERROR;
        }

        *address = *word;

        return NGX_OK;
    }

    if (i == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"dsem_redis\" "
                           "directive", ngx_http_dsem_conf_word(cf, &name));
        return NGX_ERROR;
    }

    value.data = p + 1;
    value.len = last - value.data;

    return ngx_http_dsem_redis_value(cf, &name, &value, &conf->values[i]);
}


/* the value of a parameter, once */

static ngx_int_t
ngx_http_dsem_redis_value(ngx_conf_t *cf, ngx_str_t *name, ngx_str_t *value,
    ngx_str_t *given)
{
    if (given->data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate \"%V\" parameter in \"dsem_redis\" "
                           "directive", name);
        return NGX_ERROR;
    }

    if (value->len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "empty \"%V\" parameter in \"dsem_redis\" "
                           "directive", name);
        return NGX_ERROR;
    }

    *given = *value;

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_redis_ssl(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf)
{
    if (conf->ssl) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate \"ssl\" parameter in \"dsem_redis\" "
                           "directive");
        return NGX_ERROR;
    }

    conf->ssl = 1;

    return NGX_OK;
}


/* the index of a name, or NGX_DECLINED */

static ngx_int_t
ngx_http_dsem_redis_find(ngx_str_t *names, ngx_str_t *name)
{
    ngx_int_t  i;

    for (i = 0; names[i].len; i++) {
        if (names[i].len == name->len
            && ngx_memcmp(names[i].data, name->data, name->len) == 0)
        {
            return i;
        }
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_dsem_redis_mode(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf)
{
    ngx_int_t   mode;
    ngx_str_t  *value;

    value = &conf->values[NGX_HTTP_DSEM_REDIS_MODE];

    if (value->data == NULL) {
        return NGX_OK;
    }

    mode = ngx_http_dsem_redis_find(ngx_http_dsem_redis_modes, value);

    if (mode == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" of \"mode\" parameter in "
                           "\"dsem_redis\" directive, it must be \"single\", "
                           "\"sentinel\" or \"cluster\"",
                           ngx_http_dsem_conf_word(cf, value));
        return NGX_ERROR;
    }

    conf->settings->mode = mode;

    return NGX_OK;
}


/* what goes with which mode */

static ngx_int_t
ngx_http_dsem_redis_mode_rules(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf)
{
    ngx_str_t             *values;
    const char            *wrong;
    ngx_http_dsem_mode_e   mode;

    values = conf->values;
    mode = conf->settings->mode;
    wrong = NULL;

    if (conf->addresses.nelts == 0) {
        wrong = "no address";

    } else if (conf->addresses.nelts > 1
               && mode == NGX_HTTP_DSEM_MODE_SINGLE)
    {
        wrong = "more than one address needs \"mode=sentinel\" or "
                "\"mode=cluster\"";

    } else if (mode == NGX_HTTP_DSEM_MODE_SENTINEL
               && values[NGX_HTTP_DSEM_REDIS_MASTER].data == NULL)
    {
        wrong = "\"mode=sentinel\" needs \"master=name\"";

    } else if (mode != NGX_HTTP_DSEM_MODE_SENTINEL
               && values[NGX_HTTP_DSEM_REDIS_MASTER].data)
    {
        wrong = "\"master\" needs \"mode=sentinel\"";

    } else if (mode != NGX_HTTP_DSEM_MODE_SENTINEL
               && (values[NGX_HTTP_DSEM_REDIS_SENTINEL_USER].data
                   || values[NGX_HTTP_DSEM_REDIS_SENTINEL_PASSWORD].data
                   || values[NGX_HTTP_DSEM_REDIS_SENTINEL_PASSWORD_FILE].data))
    {
        wrong = "a password of Sentinel needs \"mode=sentinel\"";

    } else if (mode == NGX_HTTP_DSEM_MODE_CLUSTER
               && values[NGX_HTTP_DSEM_REDIS_DB].data)
    {
        wrong = "a Cluster has no \"db\"";
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s in \"dsem_redis\" directive", wrong);
        return NGX_ERROR;
    }

    conf->settings->master = values[NGX_HTTP_DSEM_REDIS_MASTER];

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_redis_servers(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf)
{
    ngx_str_t                       *address;
    ngx_uint_t                       i;
    ngx_http_dsem_redis_settings_t  *settings;

    settings = conf->settings;

    settings->nservers = conf->addresses.nelts;
    settings->servers = ngx_pcalloc(cf->pool,
                                    settings->nservers
                                    * sizeof(ngx_http_dsem_server_t));
    if (settings->servers == NULL) {
        return NGX_ERROR;
    }

    address = conf->addresses.elts;

    for (i = 0; i < settings->nservers; i++) {
        if (ngx_http_dsem_redis_server(cf, settings, &address[i],
                                       &settings->servers[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* a name is resolved later: whether there is a resolver is not known yet */

static ngx_int_t
ngx_http_dsem_redis_server(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_str_t *address,
    ngx_http_dsem_server_t *server)
{
    ngx_url_t         u;
    static ngx_str_t  local = ngx_string("localhost");

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = *address;
    u.no_resolve = 1;
    u.default_port = (settings->mode == NGX_HTTP_DSEM_MODE_SENTINEL)
                     ? NGX_HTTP_DSEM_SENTINEL_PORT : NGX_HTTP_DSEM_REDIS_PORT;

    if (ngx_parse_url(cf->pool, &u) != NGX_OK) {
        if (u.err) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "%s in address \"%V\" "
                               "of \"dsem_redis\" directive",
                               u.err, ngx_http_dsem_conf_word(cf, address));
        }

        return NGX_ERROR;
    }

    if (u.family == AF_UNIX && settings->mode != NGX_HTTP_DSEM_MODE_SINGLE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "a path needs \"mode=single\" in \"dsem_redis\" "
                           "directive");
        return NGX_ERROR;
    }

    server->name = *address;
    server->host = u.host;
    server->port = u.port;
    server->addrs = u.addrs;
    server->naddrs = u.naddrs;
    server->resolve = (u.naddrs == 0
                       && (u.host.len != local.len
                           || ngx_strncasecmp(u.host.data, local.data,
                                              local.len) != 0));

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_redis_db(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf)
{
    ngx_http_dsem_arg_t  arg;

    arg.text = conf->values[NGX_HTTP_DSEM_REDIS_DB];

    if (arg.text.data == NULL) {
        return NGX_OK;
    }

    if (ngx_http_dsem_conf_arg(cf, conf->cmd, &ngx_http_dsem_redis_db_param,
                               &arg)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    conf->settings->login.db = arg.number;

    return NGX_OK;
}
