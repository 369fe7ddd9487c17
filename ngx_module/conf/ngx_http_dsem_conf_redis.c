
/*
 * The "dsem_redis" directive: where Redis is, and how it is spoken to.
 *
 * Owns the parameters of the directive and the rules between them.  What it
 * makes is settings of redis/.  A password goes into memory of its own, is
 * wiped wherever it has been read, and is part of no message: of a parameter
 * only the name is.
 *
 * Called by: nginx, through the table of directives; conf, for the default.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_resp.h"


#define NGX_HTTP_DSEM_REDIS_PORT     6379
#define NGX_HTTP_DSEM_SENTINEL_PORT  26379

/* of a user and of a password, bytes */
#define NGX_HTTP_DSEM_MAX_SECRET     512

/* a user, a password, and the rest of an AUTH command */
#define NGX_HTTP_DSEM_AUTH_SIZE      (2 * NGX_HTTP_DSEM_MAX_SECRET + 256)


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
    NGX_HTTP_DSEM_REDIS_SSL_CA,     /* the first of TLS */
    NGX_HTTP_DSEM_REDIS_SSL_CERT,
    NGX_HTTP_DSEM_REDIS_SSL_KEY,
    NGX_HTTP_DSEM_REDIS_SSL_NAME,
    NGX_HTTP_DSEM_REDIS_SSL_VERIFY,
    NGX_HTTP_DSEM_REDIS_NPARAMS
} ngx_http_dsem_redis_param_e;


/* data is NULL: not given */
typedef struct {
    ngx_str_t                         values[NGX_HTTP_DSEM_REDIS_NPARAMS];
    ngx_array_t                       addresses;    /* ngx_str_t */
    ngx_http_dsem_redis_settings_t   *settings;
    unsigned                          ssl:1;
} ngx_http_dsem_redis_conf_t;


static ngx_int_t ngx_http_dsem_redis_word(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf, ngx_str_t *word);
static ngx_int_t ngx_http_dsem_redis_ssl(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf);
static ngx_int_t ngx_http_dsem_redis_param(ngx_str_t *word);
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
static ngx_int_t ngx_http_dsem_redis_login(ngx_conf_t *cf,
    ngx_http_dsem_redis_conf_t *conf, ngx_http_dsem_login_t *login,
    ngx_uint_t user);
static ngx_int_t ngx_http_dsem_redis_password(ngx_conf_t *cf,
    ngx_str_t *value, ngx_http_dsem_secret_t *password);
static ngx_int_t ngx_http_dsem_redis_password_file(ngx_conf_t *cf,
    ngx_str_t *path, ngx_http_dsem_secret_t *password);
static void ngx_http_dsem_redis_wipe(ngx_conf_t *cf, ngx_str_t *value);
static void ngx_http_dsem_redis_wipe_text(u_char *start, u_char *last,
    ngx_str_t *value);
static ngx_int_t ngx_http_dsem_redis_auth(ngx_conf_t *cf,
    ngx_http_dsem_login_t *login, ngx_str_t *user,
    ngx_http_dsem_secret_t *password);
static void ngx_http_dsem_redis_cleanup(void *data);


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

    ngx_str_t                   *value;
    ngx_uint_t                   i;
    ngx_http_dsem_redis_conf_t   rcf;

    if (dmcf->redis) {
        return "is duplicate";
    }

    ngx_memzero(&rcf, sizeof(ngx_http_dsem_redis_conf_t));

    rcf.settings = ngx_pcalloc(cf->pool,
                               sizeof(ngx_http_dsem_redis_settings_t));

    if (rcf.settings == NULL
        || ngx_array_init(&rcf.addresses, cf->temp_pool, 4, sizeof(ngx_str_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_dsem_redis_word(cf, &rcf, &value[i]) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_dsem_redis_mode(cf, &rcf) != NGX_OK
        || ngx_http_dsem_redis_mode_rules(cf, &rcf) != NGX_OK
        || ngx_http_dsem_redis_servers(cf, &rcf) != NGX_OK
        || ngx_http_dsem_redis_db(cf, &rcf) != NGX_OK
        || ngx_http_dsem_redis_login(cf, &rcf, &rcf.settings->login,
                                     NGX_HTTP_DSEM_REDIS_USER) != NGX_OK
        || ngx_http_dsem_redis_login(cf, &rcf, &rcf.settings->sentinel_login,
                                     NGX_HTTP_DSEM_REDIS_SENTINEL_USER)
           != NGX_OK
        || ngx_http_dsem_conf_tls(cf, rcf.settings, rcf.ssl,
                                  &rcf.values[NGX_HTTP_DSEM_REDIS_SSL_CA])
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    dmcf->redis = rcf.settings;

    return NGX_CONF_OK;
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


/* a word without "=", and a path, is an address; "ssl" is none */

static ngx_int_t
ngx_http_dsem_redis_word(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf,
    ngx_str_t *word)
{
    u_char     *p;
    ngx_int_t   i;
    ngx_str_t   name, *address;

    if (ngx_strcmp(word->data, "ssl") == 0) {
        return ngx_http_dsem_redis_ssl(cf, conf);
    }

    p = ngx_strlchr(word->data, word->data + word->len, '=');

    if (p == NULL
        || ngx_strncmp(word->data, "unix:", sizeof("unix:") - 1) == 0)
    {
        address = ngx_array_push(&conf->addresses);
        if (address == NULL) {
            return NGX_ERROR;
        }

        *address = *word;

        return NGX_OK;
    }

    name.data = word->data;
    name.len = p - word->data;

    i = ngx_http_dsem_redis_param(&name);

    if (i == NGX_DECLINED) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"dsem_redis\" "
                           "directive", ngx_http_dsem_conf_word(cf, &name));
        return NGX_ERROR;
    }

    if (conf->values[i].data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate \"%V\" parameter in \"dsem_redis\" "
                           "directive", &name);
        return NGX_ERROR;
    }

    conf->values[i].data = p + 1;
    conf->values[i].len = word->data + word->len - (p + 1);

    if (conf->values[i].len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "empty \"%V\" parameter in \"dsem_redis\" "
                           "directive", &name);
        return NGX_ERROR;
    }

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


/* the index of a parameter, or NGX_DECLINED */

static ngx_int_t
ngx_http_dsem_redis_param(ngx_str_t *name)
{
    ngx_int_t   i;
    ngx_str_t  *known;

    known = ngx_http_dsem_redis_params;

    for (i = 0; known[i].len; i++) {
        if (known[i].len == name->len
            && ngx_memcmp(known[i].data, name->data, name->len) == 0)
        {
            return i;
        }
    }

    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_dsem_redis_mode(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf)
{
    ngx_str_t   *mode, *value;
    ngx_uint_t   i;

    value = &conf->values[NGX_HTTP_DSEM_REDIS_MODE];

    if (value->data == NULL) {
        return NGX_OK;
    }

    mode = ngx_http_dsem_redis_modes;

    for (i = 0; mode[i].len; i++) {
        if (mode[i].len == value->len
            && ngx_memcmp(mode[i].data, value->data, value->len) == 0)
        {
            conf->settings->mode = i;
            return NGX_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" of \"mode\" parameter in "
                       "\"dsem_redis\" directive, it must be \"single\", "
                       "\"sentinel\" or \"cluster\"",
                       ngx_http_dsem_conf_word(cf, value));

    return NGX_ERROR;
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

    if (ngx_strlcasestrn(address->data, address->data + address->len,
                         (u_char *) "://", 3 - 1))
    {
        /* it may have a password */
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "URL in \"dsem_redis\" directive, write it as "
                           "\"dsem_redis host:port [user=name] "
                           "[password=word] [db=number] [ssl]\"");
        return NGX_ERROR;
    }

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
    ngx_command_t        cmd;
    ngx_http_dsem_arg_t  arg;

    arg.text = conf->values[NGX_HTTP_DSEM_REDIS_DB];

    if (arg.text.data == NULL) {
        return NGX_OK;
    }

    ngx_memzero(&cmd, sizeof(ngx_command_t));
    ngx_str_set(&cmd.name, "dsem_redis");

    if (ngx_http_dsem_conf_arg(cf, &cmd, &ngx_http_dsem_redis_db_param, &arg)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    conf->settings->login.db = arg.number;

    return NGX_OK;
}


/* user: index of the user; password and its file follow */

static ngx_int_t
ngx_http_dsem_redis_login(ngx_conf_t *cf, ngx_http_dsem_redis_conf_t *conf,
    ngx_http_dsem_login_t *login, ngx_uint_t user)
{
    ngx_int_t                rc;
    ngx_str_t               *value, *names;
    ngx_http_dsem_secret_t   password;

    value = &conf->values[user];
    names = &ngx_http_dsem_redis_params[user];

    if (value[1].data && value[2].data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "both \"%V\" and \"%V\" in \"dsem_redis\" "
                           "directive", &names[1], &names[2]);
        return NGX_ERROR;
    }

    if (value[1].data == NULL && value[2].data == NULL) {

        if (value[0].data) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" without \"%V\" in \"dsem_redis\" "
                               "directive", &names[0], &names[1]);
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (ngx_http_dsem_secret_create(&password, NGX_HTTP_DSEM_MAX_SECRET + 2)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = value[1].data
         ? ngx_http_dsem_redis_password(cf, &value[1], &password)
         : ngx_http_dsem_redis_password_file(cf, &value[2], &password);

    if (rc == NGX_OK) {
        rc = ngx_http_dsem_redis_auth(cf, login, &value[0], &password);
    }

    ngx_http_dsem_secret_free(&password);

    return rc;
}


static ngx_int_t
ngx_http_dsem_redis_password(ngx_conf_t *cf, ngx_str_t *value,
    ngx_http_dsem_secret_t *password)
{
    if (value->len > NGX_HTTP_DSEM_MAX_SECRET) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "password in \"dsem_redis\" directive is longer "
                           "than %d bytes", NGX_HTTP_DSEM_MAX_SECRET);
        return NGX_ERROR;
    }

    ngx_memcpy(password->data, value->data, value->len);
    password->len = value->len;

    ngx_http_dsem_redis_wipe(cf, value);

    return NGX_OK;
}


/*
 * The first line of the file, which the master reads before it gives up its
 * rights.
 */

static ngx_int_t
ngx_http_dsem_redis_password_file(ngx_conf_t *cf, ngx_str_t *path,
    ngx_http_dsem_secret_t *password)
{
    u_char   *end;
    ssize_t   n;
    ngx_fd_t  fd;

    if (ngx_conf_full_name(cf->cycle, path, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    fd = ngx_open_file(path->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_open_file_n " password file \"%V\" failed",
                           path);
        return NGX_ERROR;
    }

    n = ngx_read_fd(fd, password->data, NGX_HTTP_DSEM_MAX_SECRET + 2);

    if (n == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           ngx_read_fd_n " password file \"%V\" failed",
                           path);
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        ngx_conf_log_error(NGX_LOG_ALERT, cf, ngx_errno,
                           ngx_close_file_n " \"%V\" failed", path);
    }

    if (n == -1) {
        return NGX_ERROR;
    }

    end = ngx_strlchr(password->data, password->data + n, LF);
    n = end ? end - password->data : n;

    if (n && password->data[n - 1] == CR) {
        n--;
    }

    if (n == 0 || n > NGX_HTTP_DSEM_MAX_SECRET) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the first line of password file \"%V\" must have "
                           "1 to %d bytes", path, NGX_HTTP_DSEM_MAX_SECRET);
        return NGX_ERROR;
    }

    password->len = n;

    return NGX_OK;
}


/*
 * The word, and the text that it was read from: in the buffer of the file,
 * what is read already, and what an earlier part of the file has left behind;
 * in the copy for "nginx -T", which a build with debugging always has.
 */

static void
ngx_http_dsem_redis_wipe(ngx_conf_t *cf, ngx_str_t *value)
{
    ngx_buf_t  *b, *dump;

    if (cf->conf_file && cf->conf_file->buffer) {
        b = cf->conf_file->buffer;
        dump = cf->conf_file->dump;

        ngx_http_dsem_redis_wipe_text(b->start, b->pos, value);
        ngx_http_dsem_redis_wipe_text(b->last, b->end, value);

        if (dump) {
            ngx_http_dsem_redis_wipe_text(dump->start,
                                          dump->last - (b->last - b->pos),
                                          value);
        }
    }

    ngx_explicit_memzero(value->data, value->len);
}


/*
 * From the last "password=" on, as the text may have quotes and escapes that
 * the word has not.
 */

static void
ngx_http_dsem_redis_wipe_text(u_char *start, u_char *last, ngx_str_t *value)
{
    u_char  *p;
    size_t   len;

    static u_char  name[] = "password=";

    len = sizeof(name) - 1;

    for (p = last - len; p >= start; p--) {
        if (ngx_memcmp(p, name, len) == 0) {
            p += len;

            if ((size_t) (last - p) >= value->len
                && ngx_memcmp(p, value->data, value->len) == 0)
            {
                last = p + value->len;
            }

            ngx_memset(p, 'x', last - p);
            return;
        }
    }
}


/* the command is composed once: no connection has to copy the password */

static ngx_int_t
ngx_http_dsem_redis_auth(ngx_conf_t *cf, ngx_http_dsem_login_t *login,
    ngx_str_t *user, ngx_http_dsem_secret_t *password)
{
    ngx_pool_cleanup_t    *cln;
    ngx_http_dsem_resp_t   command;

    if (user->len > NGX_HTTP_DSEM_MAX_SECRET) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "user in \"dsem_redis\" directive is longer than "
                           "%d bytes", NGX_HTTP_DSEM_MAX_SECRET);
        return NGX_ERROR;
    }

    cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (cln == NULL
        || ngx_http_dsem_secret_create(&login->auth, NGX_HTTP_DSEM_AUTH_SIZE)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_dsem_redis_cleanup;
    cln->data = &login->auth;

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    /* it never grows out of this memory */

    command.data = login->auth.data;
    command.size = login->auth.size;

    ngx_http_dsem_resp_begin(&command, user->len ? 3 : 2);
    ngx_http_dsem_resp_bytes(&command, "AUTH", sizeof("AUTH") - 1);

    if (user->len) {
        ngx_http_dsem_resp_string(&command, user);
    }

    ngx_http_dsem_resp_bytes(&command, password->data, password->len);

    login->auth.len = command.len;

    return NGX_OK;
}


static void
ngx_http_dsem_redis_cleanup(void *data)
{
    ngx_http_dsem_secret_free(data);
}
