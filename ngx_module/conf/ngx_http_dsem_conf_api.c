
/*
 * The "dsem_api" directive: a location in which the API answers.
 *
 * The handler is handed down by module, as main conf->api.  A limit never
 * applies to the API itself, so that a full semaphore can be read; the
 * locations below inherit the limits all the same.
 *
 * "dsem_hold" answers requests, too, and is merged at levels without a name in
 * the same way.
 *
 * Called by: nginx, through the table of directives in conf; conf, when
 * levels are merged.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_module.h"


/* as in ngx_http_access_module */
typedef struct {
    in_addr_t   mask;
    in_addr_t   addr;
    ngx_uint_t  deny;
} ngx_http_dsem_conf_api_rule_t;


static ngx_int_t ngx_http_dsem_conf_api_full(ngx_str_t *text,
    ngx_int_t *number);
static ngx_uint_t ngx_http_dsem_conf_api_regex(
    ngx_http_core_loc_conf_t *clcf);
static ngx_int_t ngx_http_dsem_conf_api_location(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf, ngx_uint_t regex);
static void ngx_http_dsem_conf_api_warn_exact(ngx_conf_t *cf,
    ngx_str_t *path);
static ngx_int_t ngx_http_dsem_conf_api_writable(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *conf, ngx_http_core_loc_conf_t *clcf);
static ngx_uint_t ngx_http_dsem_conf_api_restricted(ngx_conf_t *cf);
static ngx_uint_t ngx_http_dsem_conf_api_access(void *conf);
static ngx_uint_t ngx_http_dsem_conf_api_password(void *conf);
static ngx_uint_t ngx_http_dsem_conf_api_asks(void *conf);
static ngx_uint_t ngx_http_dsem_conf_api_private(ngx_conf_t *cf,
    ngx_http_core_srv_conf_t *cscf);
static ngx_uint_t ngx_http_dsem_conf_api_verified(ngx_conf_t *cf,
    ngx_http_listen_opt_t *opt);


static ngx_http_dsem_param_t  ngx_http_dsem_api_params[] = {
    ngx_http_dsem_flag("write"),
    ngx_http_dsem_words("metrics", ngx_http_dsem_conf_api_full, "\"full\""),
    ngx_http_dsem_null_param
};


/*
 * Reads "dsem_api [write=on|off] [metrics=full]".
 *
 * conf   the location's ngx_http_dsem_loc_conf_t: api, write and full are set
 *
 * Returns NGX_CONF_OK, or as nginx's setters do: NGX_CONF_ERROR when a
 * message has been logged, or the rest of a message for nginx to log.
 */

char *
ngx_http_dsem_conf_api(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_loc_conf_t *dlcf = conf;

    ngx_http_dsem_arg_t         args[2];
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_dsem_main_conf_t  *dmcf;

    if (dlcf->api != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    if (ngx_http_dsem_param_args(cf, cmd, 1, ngx_http_dsem_api_params, args)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);

    if (ngx_http_dsem_conf_api_location(cf, clcf,
                                        ngx_http_dsem_conf_api_regex(clcf))
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    dlcf->write = (args[0].number == 1);
    dlcf->full = (args[1].number == 1);
    dlcf->api = 1;
    dmcf->enabled = 1;
    clcf->handler = dmcf->api;

    /* "/dsem" becomes "/dsem/", below which the addresses of the page are */

    if (!clcf->exact_match && clcf->name.data[clcf->name.len - 1] == '/') {
        clcf->auto_redirect = 1;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_dsem_conf_api_full(ngx_str_t *text, ngx_int_t *number)
{
    *number = 1;

    return (text->len == 4 && ngx_strncmp(text->data, "full", 4) == 0)
           ? NGX_OK : NGX_ERROR;
}


static ngx_uint_t
ngx_http_dsem_conf_api_regex(ngx_http_core_loc_conf_t *clcf)
{
#if (NGX_PCRE)
    return clcf->regex != NULL;
#else
    return 0;
#endif
}


/*
 * The name of the location is cut off what is asked for: it has to be a path.
 * NGX_ERROR: a message has been logged.
 */

static ngx_int_t
ngx_http_dsem_conf_api_location(ngx_conf_t *cf,
    ngx_http_core_loc_conf_t *clcf, ngx_uint_t regex)
{
    if (!regex && !clcf->named && clcf->name.len && clcf->name.data[0] == '/')
    {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"dsem_api\" directive needs a location with a "
                       "prefix or an exact path, it is not allowed in a named "
                       "location or one given by a regular expression");
    return NGX_ERROR;
}


/*
 * The limits are merged already.
 *
 * own   whether the level has "dsem" directives of its own
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory, or a message has been
 * logged.
 */

ngx_int_t
ngx_http_dsem_conf_api_merge(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *prev,
    ngx_http_dsem_loc_conf_t *conf, ngx_uint_t own)
{
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_dsem_main_conf_t  *dmcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);

    /* a level without a name has the path of its location, and no more */

    conf->exact = clcf->noname ? prev->exact : clcf->exact_match;
    conf->regex = clcf->noname ? prev->regex
                               : ngx_http_dsem_conf_api_regex(clcf);

    if (ngx_http_dsem_conf_api_answers(cf, prev->api, &conf->api, dmcf->api,
                                       "dsem_api"))
    {
        conf->write = prev->write;
        conf->full = prev->full;
    }

    ngx_conf_init_value(conf->write, 0);
    ngx_conf_init_value(conf->full, 0);

    if (!conf->api) {
        return NGX_OK;
    }

    /* where the directive is read an "if" does not show its location */

    if (ngx_http_dsem_conf_api_location(cf, clcf, conf->regex) != NGX_OK) {
        return NGX_ERROR;
    }

    if (clcf->exact_match) {
        ngx_http_dsem_conf_api_warn_exact(cf, &clcf->name);
    }

    conf->below = conf->limits;
    conf->limits = NULL;

    if (own) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"dsem\" directive limits no request in location "
                           "\"%V\", where \"dsem_api\" answers",
                           &clcf->name);
    }

    return conf->write ? ngx_http_dsem_conf_api_writable(cf, conf, clcf)
                       : NGX_OK;
}


/*
 * Merges a directive that answers the requests of its location.  "if" and
 * "limit_except" are levels without a name: they answer as their location does.
 *
 * above   whether it answers at the level above
 * here    the same of this level, NGX_CONF_UNSET: not set; then 0 or 1
 * name    of the directive
 *
 * Returns 1 if the level has it from the level above, otherwise 0.
 */

ngx_uint_t
ngx_http_dsem_conf_api_answers(ngx_conf_t *cf, ngx_flag_t above,
    ngx_flag_t *here, ngx_http_handler_pt handler, const char *name)
{
    ngx_uint_t                 inherited;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    inherited = (clcf->noname
                 && above == 1
                 && *here == NGX_CONF_UNSET
                 && clcf->handler == NULL);

    if (inherited) {
        *here = 1;

        /* as the modules of nginx do: a level of methods has no handler */

        if (clcf->lmt_excpt) {
            clcf->handler = handler;
        }
    }

    ngx_conf_init_value(*here, 0);

    if (*here && clcf->handler && clcf->handler != handler) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"%s\" directive has no effect in location "
                           "\"%V\", a later directive answers its requests",
                           name, &clcf->name);
        *here = 0;
    }

    return inherited;
}


/* the last part of the path selects the answer */

static void
ngx_http_dsem_conf_api_warn_exact(ngx_conf_t *cf, ngx_str_t *path)
{
    size_t      len;
    ngx_uint_t  i;

    /* R18: paths of answers */

    static ngx_str_t  answers[] = {
        ngx_string("/"),
        ngx_string("/semaphores"),
        ngx_string("/metrics"),
        ngx_string("/health")
    };

    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        len = answers[i].len;

        if (path->len >= len
            && ngx_strncmp(path->data + path->len - len, answers[i].data, len)
               == 0)
        {
            return;
        }
    }

    ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                       "\"dsem_api\" in exact location \"%V\" answers 404 "
                       "only, its path must end with \"/\", "
                       "\"/semaphores\", \"/metrics\" or \"/health\"", path);
}


/* a level in which changes are made: by which clients, under which names */

static ngx_int_t
ngx_http_dsem_conf_api_writable(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *conf,
    ngx_http_core_loc_conf_t *clcf)
{
    size_t                     size;
    ngx_array_t               *names;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    if ((~clcf->limit_except & (NGX_HTTP_PATCH|NGX_HTTP_DELETE))
        && !ngx_http_dsem_conf_api_restricted(cf)
        && !ngx_http_dsem_conf_api_private(cf, cscf))
    {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"write=on\" in location \"%V\" lets every client "
                           "change limits, restrict it with \"allow\" and "
                           "\"deny\", \"auth_basic\" or \"auth_request\"",
                           &clcf->name);
    }

    /* those of nginx are gone when the configuration is read */

    size = sizeof(ngx_http_server_name_t);
    names = ngx_array_create(cf->pool, cscf->server_names.nelts, size);

    if (names == NULL
        || ngx_array_push_n(names, cscf->server_names.nelts) == NULL)
    {
        return NGX_ERROR;
    }

    ngx_memcpy(names->elts, cscf->server_names.elts, names->nelts * size);

    conf->names = names;

    return NGX_OK;
}


/*
 * The configurations of other modules, which nginx has merged already, begin
 * with what shows a restriction.
 */

static ngx_uint_t
ngx_http_dsem_conf_api_restricted(ngx_conf_t *cf)
{
    void        **loc_conf;
    ngx_uint_t    i, n;

    static const struct {
        const char   *name;
        ngx_uint_t  (*restricts)(void *conf);
    } modules[] = {
        { "ngx_http_access_module", ngx_http_dsem_conf_api_access },
        { "ngx_http_auth_basic_module", ngx_http_dsem_conf_api_password },
        { "ngx_http_auth_request_module", ngx_http_dsem_conf_api_asks }
    };

    loc_conf = ((ngx_http_conf_ctx_t *) cf->ctx)->loc_conf;

    for (i = 0; cf->cycle->modules[i] != &ngx_http_dsem_module; i++) {

        for (n = 0; n < sizeof(modules) / sizeof(modules[0]); n++) {

            if (ngx_strcmp(cf->cycle->modules[i]->name, modules[n].name) == 0
                && modules[n].restricts(
                                loc_conf[cf->cycle->modules[i]->ctx_index]))
            {
                return 1;
            }
        }
    }

    return 0;
}


/* the rules of IPv4: one denies, or all are allowed on purpose */

static ngx_uint_t
ngx_http_dsem_conf_api_access(void *conf)
{
    ngx_uint_t                      i;
    ngx_array_t                    *rules;
    ngx_http_dsem_conf_api_rule_t  *rule;

    rules = *(ngx_array_t **) conf;

    if (rules == NULL) {
        return 0;
    }

    rule = rules->elts;

    for (i = 0; i < rules->nelts; i++) {
        if (rule[i].deny || rule[i].mask == 0) {
            return 1;
        }
    }

    return 0;
}


/* the realm, which may be "off", and the file */

static ngx_uint_t
ngx_http_dsem_conf_api_password(void *conf)
{
    ngx_str_t                  *value;
    ngx_http_complex_value_t  **words = conf;

    if (words[0] == NULL || words[1] == NULL) {
        return 0;
    }

    value = &words[0]->value;

    return words[0]->lengths
           || value->len != 3
           || ngx_strncmp(value->data, "off", 3) != 0;
}


/* the length of a URI */

static ngx_uint_t
ngx_http_dsem_conf_api_asks(void *conf)
{
    return *(size_t *) conf != 0;
}


/*
 * The server listens on addresses of this machine only, or answers clients with
 * a certificate only.
 */

static ngx_uint_t
ngx_http_dsem_conf_api_private(ngx_conf_t *cf, ngx_http_core_srv_conf_t *cscf)
{
    ngx_uint_t                   i, k, n;
    ngx_http_conf_port_t        *port;
    ngx_http_conf_addr_t        *addr;
    ngx_http_core_srv_conf_t   **server;
    ngx_http_core_main_conf_t   *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    port = cmcf->ports->elts;

    for (i = 0; i < cmcf->ports->nelts; i++) {
        addr = port[i].addrs.elts;

        for (k = 0; k < port[i].addrs.nelts; k++) {
            server = addr[k].servers.elts;

            for (n = 0; n < addr[k].servers.nelts; n++) {
                if (server[n] == cscf
                    && !ngx_http_dsem_conf_api_loopback(addr[k].opt.sockaddr)
                    && !ngx_http_dsem_conf_api_verified(cf, &addr[k].opt))
                {
                    return 0;
                }
            }
        }
    }

    return 1;
}


/*
 * An nginx without TLS loads this module, too, and one with it may have got it
 * from a build without: its module is found by its name.
 */

static ngx_uint_t
ngx_http_dsem_conf_api_verified(ngx_conf_t *cf, ngx_http_listen_opt_t *opt)
{
    char            *conf;
    void           **srv_conf;
    ngx_uint_t       i, tls;
    ngx_module_t   **modules;
    ngx_command_t   *cmd;

    tls = opt->ssl;
#if (nginx_version >= 1025000)
    tls |= opt->quic;
#endif

    srv_conf = ((ngx_http_conf_ctx_t *) cf->ctx)->srv_conf;
    modules = cf->cycle->modules;

    for (i = 0; tls && modules[i]; i++) {

        if (ngx_strcmp(modules[i]->name, "ngx_http_ssl_module") != 0) {
            continue;
        }

        conf = srv_conf[modules[i]->ctx_index];

        for (cmd = modules[i]->commands; cmd->name.len; cmd++) {

            if (ngx_strcmp(cmd->name.data, "ssl_verify_client") == 0
                && cmd->set == ngx_conf_set_enum_slot
                && cmd->conf == NGX_HTTP_SRV_CONF_OFFSET)
            {
                return *(ngx_uint_t *) (conf + cmd->offset) == 1;
            }
        }
    }

    return 0;
}


/* the address is one of this machine only */

ngx_uint_t
ngx_http_dsem_conf_api_loopback(struct sockaddr *sa)
{
    switch (sa->sa_family) {

    case AF_INET:
        return ntohl(((struct sockaddr_in *) sa)->sin_addr.s_addr) >> 24
               == IN_LOOPBACKNET;

#if (NGX_HAVE_INET6)
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *) sa)->sin6_addr);
#endif

    default: /* AF_UNIX */
        return 1;
    }
}
