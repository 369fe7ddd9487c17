
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
#include "ngx_http_dsem_text.h"


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


typedef struct {
    ngx_command_t                    *cmd;
    ngx_http_dsem_arg_t               args[NGX_HTTP_DSEM_REDIS_NPARAMS];
    ngx_array_t                       addresses;    /* ngx_str_t */
    ngx_http_dsem_redis_settings_t   *settings;
    unsigned                          ssl:1;
} ngx_http_dsem_redis_conf_t;


static ngx_int_t ngx_http_dsem_conf_redis_read(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_conf_redis_word(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf, ngx_str_t *word);
static ngx_int_t ngx_http_dsem_conf_redis_mode(ngx_str_t *text,
    ngx_int_t *number);
static ngx_int_t ngx_http_dsem_conf_redis_login(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf, ngx_http_dsem_login_t *login,
    ngx_uint_t first);
static ngx_int_t ngx_http_dsem_conf_redis_mode_rules(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_conf_redis_servers(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_conf_redis_server(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_str_t *address,
    ngx_http_dsem_server_t *server);


/* by ngx_http_dsem_mode_e */
static ngx_str_t  ngx_http_dsem_redis_modes[] = {
    ngx_string("single"),
    ngx_string("sentinel"),
    ngx_string("cluster"),
    ngx_null_string
};


static ngx_http_dsem_param_t  ngx_http_dsem_redis_params[] = {
    ngx_http_dsem_words("mode", ngx_http_dsem_conf_redis_mode,
                        "\"single\", \"sentinel\" or \"cluster\""),
    ngx_http_dsem_text("master"),
    ngx_http_dsem_number("db", 0, 16383, 0),
    ngx_http_dsem_text("user"),
    ngx_http_dsem_text("password"),
    ngx_http_dsem_text("password_file"),
    ngx_http_dsem_text("sentinel_user"),
    ngx_http_dsem_text("sentinel_password"),
    ngx_http_dsem_text("sentinel_password_file"),
    ngx_http_dsem_text("ssl_ca"),
    ngx_http_dsem_text("ssl_cert"),
    ngx_http_dsem_text("ssl_key"),
    ngx_http_dsem_text("ssl_name"),
    ngx_http_dsem_flag("ssl_verify"),
    ngx_http_dsem_null_param
};


/* NGX_CONF_ERROR: a message has been logged */

char *
ngx_http_dsem_conf_redis(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_main_conf_t *dmcf = conf;

    ngx_int_t                    rc;
    ngx_http_dsem_redis_conf_t   rcf;

    if (dmcf->redis) {
        ngx_http_dsem_conf_secret_wipe(cf, 1);
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

    rc = ngx_http_dsem_conf_redis_read(cf, &rcf);

    ngx_http_dsem_conf_secret_wipe(cf, rc != NGX_OK);

    if (rc != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    dmcf->redis = rcf.settings;
    dmcf->redis_file = cf->conf_file->file.name;
    dmcf->redis_line = cf->conf_file->line;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_dsem_conf_redis_read(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf)
{
    ngx_int_t                        rc;
    ngx_str_t                       *word;
    ngx_uint_t                       i;
    ngx_http_dsem_redis_settings_t  *settings;

    settings = conf->settings;
    word = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        rc = ngx_http_dsem_param_arg(cf, conf->cmd,
                                     ngx_http_dsem_redis_params, conf->args,
                                     &word[i]);

        if (rc == NGX_DECLINED) {
            rc = ngx_http_dsem_conf_redis_word(cf, conf, &word[i]);
        }

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }

    /* 0, single, if it is not given */

    settings->mode = conf->args[NGX_HTTP_DSEM_REDIS_MODE].number;
    settings->master = conf->args[NGX_HTTP_DSEM_REDIS_MASTER].text;
    settings->login.db = conf->args[NGX_HTTP_DSEM_REDIS_DB].number;

    if (ngx_http_dsem_conf_redis_mode_rules(cf, conf) != NGX_OK
        || ngx_http_dsem_conf_redis_servers(cf, conf) != NGX_OK
        || ngx_http_dsem_conf_redis_login(cf, conf, &settings->login,
                                          NGX_HTTP_DSEM_REDIS_USER) != NGX_OK
        || ngx_http_dsem_conf_redis_login(cf, conf, &settings->sentinel_login,
                                          NGX_HTTP_DSEM_REDIS_SENTINEL_USER)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_dsem_conf_tls(cf, settings, conf->ssl,
                       &ngx_http_dsem_redis_params[NGX_HTTP_DSEM_REDIS_SSL_CA],
                       &conf->args[NGX_HTTP_DSEM_REDIS_SSL_CA]);
}


/* without the directive; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_conf_redis_default(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf)
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

    /* a Redis on each node is a limit on each node */

    if (dmcf->enabled) {
        ngx_conf_log_error(NGX_LOG_NOTICE, cf, 0,
                           "no \"dsem_redis\" directive, permits are in redis "
                           "%V of this machine", &address);
    }

    return ngx_http_dsem_conf_redis_server(cf, dmcf->redis, &address,
                                           dmcf->redis->servers);
}


/*
 * What is no parameter: a word without "=", and a path, is an address; "ssl"
 * is none.  What is like a URL may have a password, and is not printed.
 */

static ngx_int_t
ngx_http_dsem_conf_redis_word(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf,
    ngx_str_t *word)
{
    u_char      *p, *last;
    ngx_str_t    name, *address;
    ngx_uint_t   path;

    if (ngx_strcmp(word->data, "ssl") == 0) {

        if (conf->ssl) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate parameter \"ssl\" in \"dsem_redis\" "
                               "directive");
            return NGX_ERROR;
        }

        conf->ssl = 1;

        return NGX_OK;
    }

    last = word->data + word->len;
    path = (ngx_strncmp(word->data, "unix:", sizeof("unix:") - 1) == 0);

    if (!path
        && (ngx_strlchr(word->data, last, '@')
            || ngx_strnstr(word->data, "://", word->len)))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "URL in \"dsem_redis\" directive, write it as "
                           "\"dsem_redis host:port [user=name] "
                           "[password=word] [db=number] [ssl]\"");
        return NGX_ERROR;
    }

    p = path ? NULL : ngx_strlchr(word->data, last, '=');

    if (p) {
        name.data = word->data;
        name.len = p - word->data;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"dsem_redis\" "
                           "directive", ngx_http_dsem_param_word(cf, &name));
        return NGX_ERROR;
    }

    address = ngx_array_push(&conf->addresses);
    if (address == NULL) {
        return NGX_ERROR;
    }

    *address = *word;

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_conf_redis_mode(ngx_str_t *text, ngx_int_t *number)
{
    ngx_int_t  i;

    for (i = 0; ngx_http_dsem_redis_modes[i].len; i++) {
        if (ngx_http_dsem_text_order(&ngx_http_dsem_redis_modes[i], text)
            == 0)
        {
            *number = i;
            return NGX_OK;
        }
    }

    return NGX_ERROR;
}


/* user, password and password_file begin at "first" */

static ngx_int_t
ngx_http_dsem_conf_redis_login(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf,
    ngx_http_dsem_login_t *login, ngx_uint_t first)
{
    ngx_str_t   names[3], values[3];
    ngx_uint_t  i;

    for (i = 0; i < 3; i++) {
        names[i] = ngx_http_dsem_redis_params[first + i].name;
        values[i] = conf->args[first + i].text;
    }

    return ngx_http_dsem_conf_secret_login(cf, login, names, values);
}


/* what goes with which mode */

static ngx_int_t
ngx_http_dsem_conf_redis_mode_rules(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf)
{
    const char            *wrong;
    ngx_http_dsem_arg_t   *args;
    ngx_http_dsem_mode_e   mode;

    args = conf->args;
    mode = conf->settings->mode;
    wrong = NULL;

    if (conf->addresses.nelts == 0) {
        wrong = "no address";

    } else if (conf->addresses.nelts > 1
               && mode == NGX_HTTP_DSEM_MODE_SINGLE)
    {
        wrong = "more than one address (a word without \"=\" is one) needs "
                "\"mode=sentinel\" or \"mode=cluster\"";

    } else if (mode == NGX_HTTP_DSEM_MODE_SENTINEL
               && args[NGX_HTTP_DSEM_REDIS_MASTER].text.data == NULL)
    {
        wrong = "\"mode=sentinel\" needs \"master=name\"";

    } else if (mode != NGX_HTTP_DSEM_MODE_SENTINEL
               && args[NGX_HTTP_DSEM_REDIS_MASTER].text.data)
    {
        wrong = "\"master\" needs \"mode=sentinel\"";

    } else if (mode != NGX_HTTP_DSEM_MODE_SENTINEL
               && (args[NGX_HTTP_DSEM_REDIS_SENTINEL_USER].text.data
                   || args[NGX_HTTP_DSEM_REDIS_SENTINEL_PASSWORD].text.data
                   || args[NGX_HTTP_DSEM_REDIS_SENTINEL_PASSWORD_FILE]
                      .text.data))
    {
        wrong = "a password of Sentinel needs \"mode=sentinel\"";

    } else if (mode == NGX_HTTP_DSEM_MODE_CLUSTER
               && args[NGX_HTTP_DSEM_REDIS_DB].text.data)
    {
        wrong = "a Cluster has no \"db\"";
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s in \"dsem_redis\" directive", wrong);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_conf_redis_servers(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf)
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
        if (ngx_http_dsem_conf_redis_server(cf, settings, &address[i],
                                            &settings->servers[i])
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* a name is resolved later: "resolver" may stand further down */

static ngx_int_t
ngx_http_dsem_conf_redis_server(ngx_conf_t *cf,
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
                               u.err, ngx_http_dsem_param_word(cf, address));
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
