
/*
 * The "dsem" directive: the limits of a level.
 *
 * Owns the parameters of a limit, and the rules for those of one line.
 *
 * Called by: nginx, through the table of directives in conf.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_module.h"


static char *ngx_http_dsem_limit_line(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_loc_conf_t *dlcf);
static ngx_int_t ngx_http_dsem_limit_list(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *dlcf);
static char *ngx_http_dsem_limit_longest(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf, ngx_int_t queue, ngx_str_t *name);
static char *ngx_http_dsem_limit_off(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *dlcf);
static char *ngx_http_dsem_limit_upstream(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *dlcf);
static ngx_int_t ngx_http_dsem_limit_params(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_limit_pool_words(ngx_conf_t *cf,
    ngx_command_t *cmd);
static ngx_int_t ngx_http_dsem_limit_per_server(ngx_str_t *text,
    ngx_int_t *number);
static ngx_uint_t ngx_http_dsem_limit_is_max_conns(ngx_str_t *text);
static ngx_int_t ngx_http_dsem_limit_first(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *limit);
static ngx_uint_t ngx_http_dsem_limit_is_auto(ngx_http_dsem_arg_t *limit);
static ngx_int_t ngx_http_dsem_limit_bounds(ngx_conf_t *cf,
    ngx_command_t *cmd, ngx_http_dsem_arg_t *args);
static void ngx_http_dsem_limit_warn(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_limit_make(ngx_conf_t *cf,
    ngx_http_dsem_limit_t *limit, ngx_str_t *name,
    ngx_http_dsem_arg_t *args);
static ngx_uint_t ngx_http_dsem_limit_body(ngx_str_t *text);
static void ngx_http_dsem_limit_numbers(ngx_http_dsem_limit_t *limit,
    ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_limit_number(ngx_http_dsem_arg_t *arg,
    ngx_int_t default_value);
static ngx_int_t ngx_http_dsem_limit_values(ngx_conf_t *cf,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_limit_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);


/* ms; a warning above it, without a unit */
#define NGX_HTTP_DSEM_LONG_TIMEOUT  300000


/* the rows of both tables after limit and weight */
#define ngx_http_dsem_params_after_weight                                     \
    ngx_http_dsem_number("priority", NGX_HTTP_DSEM_MIN_PRIORITY,              \
                         NGX_HTTP_DSEM_MAX_PRIORITY, 1),                      \
    ngx_http_dsem_number_or_auto("queue", 0, NGX_HTTP_DSEM_MAX_QUEUE, 1),     \
    ngx_http_dsem_time("timeout", 1, NGX_HTTP_DSEM_MAX_TIME, 1),              \
    ngx_http_dsem_number("share", 1, NGX_HTTP_DSEM_MAX_SHARE, 1),             \
    ngx_http_dsem_text("fair"),                                               \
    ngx_http_dsem_number("min", 1, NGX_HTTP_DSEM_AUTO_MOST, 0),               \
    ngx_http_dsem_number("max", 1, NGX_HTTP_DSEM_AUTO_MOST, 0),               \
    ngx_http_dsem_null_param


/* by ngx_http_dsem_param_e */
static ngx_http_dsem_param_t  ngx_http_dsem_params[] = {
    ngx_http_dsem_number_or_auto("limit", 0, NGX_HTTP_DSEM_MAX_LIMIT, 1),
    ngx_http_dsem_number("weight", 1, NGX_HTTP_DSEM_MAX_LIMIT, 1),
    ngx_http_dsem_params_after_weight
};


/* in an upstream; it differs in the limit, and takes no weight but 1 */
static ngx_http_dsem_param_t  ngx_http_dsem_pool_params[] = {
    { ngx_string("limit"), ngx_http_dsem_limit_per_server, 1,
      NGX_HTTP_DSEM_MAX_LIMIT, 0, "\"n/server\" with a number, or "
      "\"max_conns\"", "" },
    ngx_http_dsem_number("weight", 1, 1, 0),
    ngx_http_dsem_params_after_weight
};


static ngx_str_t  ngx_http_dsem_limit_named = ngx_string("upstream=");


/*
 * Reads one "dsem" directive of a level, "dsem off", or "dsem upstream=name".
 *
 * conf   the level's ngx_http_dsem_loc_conf_t: limits grows by one, or is
 *        NULL from now on; or named is set
 *
 * Returns NGX_CONF_OK, or as nginx's setters do: NGX_CONF_ERROR when a
 * message has been logged, or the rest of a message for nginx to log.
 */

char *
ngx_http_dsem_limit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_loc_conf_t *dlcf = conf;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {
        return ngx_http_dsem_limit_off(cf, dlcf);
    }

    if (value[1].len >= ngx_http_dsem_limit_named.len
        && ngx_strncmp(value[1].data, ngx_http_dsem_limit_named.data,
                       ngx_http_dsem_limit_named.len)
           == 0)
    {
        return ngx_http_dsem_limit_upstream(cf, dlcf);
    }

    return ngx_http_dsem_limit_line(cf, cmd, dlcf);
}


static char *
ngx_http_dsem_limit_line(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_str_t                  *value;
    ngx_http_dsem_arg_t         args[NGX_HTTP_DSEM_NPARAMS];
    ngx_http_dsem_limit_t       made, *limit;
    ngx_http_dsem_main_conf_t  *dmcf;

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty name";
    }

    if (dlcf->limits == NULL) {
        return "is not allowed beside \"dsem off\" of the same level";
    }

    if (ngx_http_dsem_limit_params(cf, cmd, ngx_http_dsem_params, args)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_dsem_limit_warn(cf, cmd, args);

    if (ngx_http_dsem_limit_list(cf, dlcf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_dsem_limit_make(cf, &made, &value[1], args) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (made.name.lengths && made.max) {
        return "with \"limit=auto\" must have a name without variables";
    }

    if (made.name.lengths == NULL
        && ngx_http_dsem_check_literal(cf, dlcf->limits, &made) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    limit = ngx_array_push(dlcf->limits);
    if (limit == NULL) {
        return NGX_CONF_ERROR;
    }

    *limit = made;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    dmcf->enabled = 1;

    return ngx_http_dsem_limit_longest(cf, dmcf, limit->queue, &value[1]);
}


/*
 * Reads one "dsem" directive of an upstream.  NGX_ERROR: a message has been
 * logged, or there is no memory.
 */

ngx_int_t
ngx_http_dsem_limit_pool(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_limit_t *limit)
{
    ngx_str_t                  *value;
    ngx_http_dsem_arg_t         args[NGX_HTTP_DSEM_NPARAMS];
    ngx_http_dsem_main_conf_t  *dmcf;

    value = cf->args->elts;

    if (value[1].len == 0
        || (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0)
        || ngx_http_script_variables_count(&value[1]))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" directive in an upstream must have a name "
                           "without variables, and not \"off\"", &cmd->name);
        return NGX_ERROR;
    }

    if (ngx_http_dsem_limit_pool_words(cf, cmd) != NGX_OK
        || ngx_http_dsem_limit_params(cf, cmd, ngx_http_dsem_pool_params, args)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_limit_warn(cf, cmd, args);

    if (ngx_http_dsem_limit_make(cf, limit, &value[1], args) != NGX_OK) {
        return NGX_ERROR;
    }

    limit->max_conns = ngx_http_dsem_limit_is_max_conns(
                                      &args[NGX_HTTP_DSEM_PARAM_LIMIT].text);

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);

    return (ngx_http_dsem_limit_longest(cf, dmcf, limit->queue, &value[1])
            == NGX_CONF_OK) ? NGX_OK : NGX_ERROR;
}


/* words that are right in a location only, or not yet in an upstream */

static ngx_int_t
ngx_http_dsem_limit_pool_words(ngx_conf_t *cf, ngx_command_t *cmd)
{
    ngx_str_t   *value;
    ngx_uint_t   i, j;

    static struct {
        ngx_str_t    word;      /* it begins so */
        const char  *why;
    } refused[] = {
        { ngx_string("limit=auto"), "write \"limit=n/server\" with a number" },
        { ngx_string("weight="), "a request takes one permit of its server" },
        { ngx_string("min="), "it is for \"limit=auto\"" },
        { ngx_string("max="), "it is for \"limit=auto\"" }
    };

    value = cf->args->elts;

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "weight=1") == 0) {
            continue;
        }

        for (j = 0; j < sizeof(refused) / sizeof(refused[0]); j++) {

            if (value[i].len >= refused[j].word.len
                && ngx_strncmp(value[i].data, refused[j].word.data,
                               refused[j].word.len)
                   == 0)
            {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                                   "\"%V\" is not allowed in \"%V\" "
                                   "directive of an upstream, %s",
                                   ngx_http_dsem_param_word(cf, &value[i]),
                                   &cmd->name, refused[j].why);
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


/* "n/server"; "max_conns" is the largest one: servers have lower ones */

static ngx_int_t
ngx_http_dsem_limit_per_server(ngx_str_t *text, ngx_int_t *number)
{
    size_t     len;
    ngx_str_t  digits;

    if (ngx_http_dsem_limit_is_max_conns(text)) {
        *number = NGX_HTTP_DSEM_MAX_LIMIT;
        return NGX_OK;
    }

    len = sizeof("/server") - 1;

    if (text->len <= len
        || ngx_strncmp(text->data + text->len - len, "/server", len) != 0)
    {
        return NGX_ERROR;
    }

    digits.data = text->data;
    digits.len = text->len - len;

    return ngx_http_dsem_parse_number(&digits, number);
}


static ngx_uint_t
ngx_http_dsem_limit_is_max_conns(ngx_str_t *text)
{
    return text->len == sizeof("max_conns") - 1
           && ngx_strncmp(text->data, "max_conns", text->len) == 0;
}


/* that of the level; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_dsem_limit_list(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *dlcf)
{
    if (dlcf->limits == NGX_CONF_UNSET_PTR) {
        dlcf->limits = ngx_array_create(cf->pool, 1,
                                       sizeof(ngx_http_dsem_limit_t));
    }

    return dlcf->limits ? NGX_OK : NGX_ERROR;
}


/* the word outlives the configuration's reading: a warning may name it */

static char *
ngx_http_dsem_limit_longest(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf,
    ngx_int_t queue, ngx_str_t *name)
{
    ngx_str_t  *word;

    if (queue <= dmcf->longest) {
        return NGX_CONF_OK;
    }

    word = ngx_http_dsem_param_word(cf, name);

    dmcf->longest = queue;
    dmcf->longest_name.len = word->len;
    dmcf->longest_name.data = ngx_pstrdup(cf->pool, word);

    return dmcf->longest_name.data ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_dsem_limit_off(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_str_t  *value;

    if (cf->args->nelts > 2) {
        value = cf->args->elts;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"dsem off\", "
                           "a semaphore cannot be named \"off\"",
                           ngx_http_dsem_param_word(cf, &value[2]));
        return NGX_CONF_ERROR;
    }

    if (dlcf->limits == NULL) {
        return "is duplicate";
    }

    if (dlcf->limits != NGX_CONF_UNSET_PTR) {
        return "with \"off\" is not allowed beside others of the same level";
    }

    dlcf->limits = NULL;

    return NGX_CONF_OK;
}


/* conf_upstream checks the name when all upstreams are read */

static char *
ngx_http_dsem_limit_upstream(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_str_t                  *value;
    ngx_http_dsem_named_t      *named;
    ngx_http_dsem_main_conf_t  *dmcf;

    value = cf->args->elts;

    if (cf->cmd_type != NGX_HTTP_LOC_CONF) {
        return "with \"upstream=\" is allowed in a location only";
    }

    if (cf->args->nelts > 2) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"dsem upstream=\", "
                           "the limit is that of the upstream",
                           ngx_http_dsem_param_word(cf, &value[2]));
        return NGX_CONF_ERROR;
    }

    if (dlcf->named) {
        return "with \"upstream=\" is duplicate";
    }

    named = ngx_pcalloc(cf->pool, sizeof(ngx_http_dsem_named_t));
    if (named == NULL) {
        return NGX_CONF_ERROR;
    }

    named->text.len = value[1].len - ngx_http_dsem_limit_named.len;
    named->text.data = value[1].data + ngx_http_dsem_limit_named.len;
    named->level = dlcf;
    named->file = cf->conf_file->file.name;
    named->line = cf->conf_file->line;

    named->limit.upstream = 1;
    named->limit.body = ngx_http_dsem_limit_body(&named->text);

    if (ngx_http_dsem_limit_compile(cf, &named->text, &named->limit.name)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    dlcf->named = named;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    dmcf->enabled = 1;

    return NGX_CONF_OK;
}


/* reads the parameters, and checks them against each other */

static ngx_int_t
ngx_http_dsem_limit_params(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args)
{
    ngx_uint_t            i;
    ngx_http_dsem_arg_t  *limit, *weight;

    if (ngx_http_dsem_param_args(cf, cmd, 2, params, args) != NGX_OK) {
        return NGX_ERROR;
    }

    limit = &args[NGX_HTTP_DSEM_PARAM_LIMIT];
    weight = &args[NGX_HTTP_DSEM_PARAM_WEIGHT];

    if (ngx_http_dsem_limit_first(cf, cmd, params, limit) != NGX_OK) {
        return NGX_ERROR;
    }

    if (limit->text.data == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" directive must have \"limit\" parameter",
                           &cmd->name);
        return NGX_ERROR;
    }

    if (args[NGX_HTTP_DSEM_PARAM_SHARE].text.data
        && args[NGX_HTTP_DSEM_PARAM_FAIR].text.data == NULL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"share\" parameter in \"%V\" directive needs "
                           "\"fair\"", &cmd->name);
        return NGX_ERROR;
    }

    if (ngx_http_dsem_limit_is_auto(limit)) {
        return ngx_http_dsem_limit_bounds(cf, cmd, args);
    }

    for (i = NGX_HTTP_DSEM_PARAM_MIN; i <= NGX_HTTP_DSEM_PARAM_MAX; i++) {
        if (args[i].text.data) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" parameter in \"%V\" directive needs "
                               "\"limit=auto\"",
                               &ngx_http_dsem_params[i].name, &cmd->name);
            return NGX_ERROR;
        }
    }

    /* unset is below any limit; a limit of zero means that nothing passes */

    if (limit->number > 0 && weight->number > limit->number) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weight=%i\" is greater than \"limit=%i\" "
                           "in \"%V\" directive, no request could pass",
                           weight->number, limit->number, &cmd->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * The first word is the name, whatever it is: a line without one limits a
 * semaphore that no other node has.  NGX_ERROR: a message has been logged.
 */

static ngx_int_t
ngx_http_dsem_limit_first(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *limit)
{
    ngx_str_t              *name;
    ngx_http_dsem_param_t  *param;

    /* as in "limit_conn_zone" and "limit_req" */
    static ngx_http_dsem_param_t  others[] = {
        ngx_http_dsem_text("name"),
        ngx_http_dsem_text("zone"),
        ngx_http_dsem_null_param
    };

    name = (ngx_str_t *) cf->args->elts + 1;
    param = ngx_http_dsem_param_find(params, name);

    if (param->name.len == 0
        && ngx_http_dsem_param_find(others, name)->name.len == 0)
    {
        return NGX_OK;
    }

    if (param == &params[NGX_HTTP_DSEM_PARAM_LIMIT]
        && limit->text.data == NULL)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" directive has no name before \"%V\"",
                           &cmd->name, ngx_http_dsem_param_word(cf, name));
        return NGX_ERROR;
    }

    ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                       "the first word \"%V\" of \"%V\" directive is the "
                       "name of a semaphore, not a parameter",
                       ngx_http_dsem_param_word(cf, name), &cmd->name);

    return NGX_OK;
}


static ngx_uint_t
ngx_http_dsem_limit_is_auto(ngx_http_dsem_arg_t *limit)
{
    return limit->number == NGX_CONF_UNSET
           && limit->text.len == 4
           && ngx_strncmp(limit->text.data, "auto", 4) == 0;
}


/* of "limit=auto"; those that are not given get their defaults */

static ngx_int_t
ngx_http_dsem_limit_bounds(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args)
{
    ngx_http_dsem_arg_t  *min, *max, *weight;

    min = &args[NGX_HTTP_DSEM_PARAM_MIN];
    max = &args[NGX_HTTP_DSEM_PARAM_MAX];
    weight = &args[NGX_HTTP_DSEM_PARAM_WEIGHT];

    if (min->text.data == NULL) {
        min->number = NGX_HTTP_DSEM_AUTO_MIN;
    }

    if (max->text.data == NULL) {
        max->number = NGX_HTTP_DSEM_AUTO_MAX;
    }

    if (min->number > max->number) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"min=%i\" is greater than %s\"max=%i\" "
                           "in \"%V\" directive", min->number,
                           max->text.data ? "" : "the default ", max->number,
                           &cmd->name);
        return NGX_ERROR;
    }

    /* the limit found may be the lowest one */

    if (weight->number > min->number) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weight=%i\" is greater than %s\"min=%i\" "
                           "in \"%V\" directive, at that limit no request "
                           "could pass", weight->number,
                           min->text.data ? "" : "the default ", min->number,
                           &cmd->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* parameters that are of no use without a queue, or hardly meant so with it */

static void
ngx_http_dsem_limit_warn(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args)
{
    ngx_str_t            *timeout;
    ngx_uint_t            i;
    ngx_http_dsem_arg_t  *queue;

    static ngx_uint_t  waits[] = {
        NGX_HTTP_DSEM_PARAM_TIMEOUT, NGX_HTTP_DSEM_PARAM_PRIORITY,
        NGX_HTTP_DSEM_PARAM_FAIR
    };

    queue = &args[NGX_HTTP_DSEM_PARAM_QUEUE];
    timeout = &args[NGX_HTTP_DSEM_PARAM_TIMEOUT].text;

    if (queue->text.data && queue->number != 0) {

        /* with a unit it is meant so: programs may wait for an hour */

        if (args[NGX_HTTP_DSEM_PARAM_TIMEOUT].number
            > NGX_HTTP_DSEM_LONG_TIMEOUT
            && timeout->data[timeout->len - 1] <= '9')
        {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "\"timeout=%V\" in \"%V\" directive is more "
                               "than five minutes, a time without a unit is "
                               "in seconds", timeout, &cmd->name);
        }

        return;
    }

    for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        if (args[waits[i]].text.data) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "\"%V\" parameter in \"%V\" directive needs "
                               "\"queue\", without it no request waits for "
                               "a permit",
                               &ngx_http_dsem_params[waits[i]].name,
                               &cmd->name);
        }
    }
}


/* the arguments are valid */

static ngx_int_t
ngx_http_dsem_limit_make(ngx_conf_t *cf, ngx_http_dsem_limit_t *limit,
    ngx_str_t *name, ngx_http_dsem_arg_t *args)
{
    ngx_uint_t  i;

    ngx_memzero(limit, sizeof(ngx_http_dsem_limit_t));

    limit->body = ngx_http_dsem_limit_body(name);

    for (i = 0; i < NGX_HTTP_DSEM_NPARAMS; i++) {
        limit->body |= ngx_http_dsem_limit_body(&args[i].text);
    }

    if (ngx_http_dsem_limit_compile(cf, name, &limit->name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (limit->name.lengths == NULL) {

        if (ngx_http_dsem_key_encode(cf->pool, name, &limit->encoded)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        limit->hash = ngx_crc32_short(limit->encoded.data,
                                      limit->encoded.len);
    }

    ngx_http_dsem_limit_numbers(limit, args);

    limit->strict = ngx_palloc(cf->pool, sizeof(ngx_flag_t));
    if (limit->strict == NULL) {
        return NGX_ERROR;
    }

    *limit->strict = (limit->queue == 0
                      && !args[NGX_HTTP_DSEM_PARAM_QUEUE].variables);

    if (ngx_http_dsem_limit_values(cf, limit, args) != NGX_OK) {
        return NGX_ERROR;
    }

    if (args[NGX_HTTP_DSEM_PARAM_FAIR].text.data == NULL) {
        return NGX_OK;
    }

    limit->fair = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (limit->fair == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_limit_compile(cf,
                                       &args[NGX_HTTP_DSEM_PARAM_FAIR].text,
                                       limit->fair);
}


/* whether the text has $request_body or $request_body_file itself */

static ngx_uint_t
ngx_http_dsem_limit_body(ngx_str_t *text)
{
    return text->data
           && (ngx_strlcasestrn(text->data, text->data + text->len,
                                (u_char *) "$request_body",
                                sizeof("$request_body") - 2)
               || ngx_strlcasestrn(text->data, text->data + text->len,
                                   (u_char *) "${request_body",
                                   sizeof("${request_body") - 2));
}


static void
ngx_http_dsem_limit_numbers(ngx_http_dsem_limit_t *limit,
    ngx_http_dsem_arg_t *args)
{
    ngx_int_t  min, max;

    limit->number = args[NGX_HTTP_DSEM_PARAM_LIMIT].number;

    if (ngx_http_dsem_limit_is_auto(&args[NGX_HTTP_DSEM_PARAM_LIMIT])) {

        /* where it begins; without room between its bounds it is plain */

        min = args[NGX_HTTP_DSEM_PARAM_MIN].number;
        max = args[NGX_HTTP_DSEM_PARAM_MAX].number;

        limit->number = ngx_max(min, ngx_min(max, NGX_HTTP_DSEM_AUTO_START));

        if (min < max) {
            limit->min = min;
            limit->max = max;
        }
    }

    limit->weight =
           ngx_http_dsem_limit_number(&args[NGX_HTTP_DSEM_PARAM_WEIGHT], 1);
    limit->priority =
         ngx_http_dsem_limit_number(&args[NGX_HTTP_DSEM_PARAM_PRIORITY], 0);
    limit->queue =
            ngx_http_dsem_limit_number(&args[NGX_HTTP_DSEM_PARAM_QUEUE], 0);
    limit->timeout =
       ngx_http_dsem_limit_number(&args[NGX_HTTP_DSEM_PARAM_TIMEOUT], 5000);
    limit->share =
            ngx_http_dsem_limit_number(&args[NGX_HTTP_DSEM_PARAM_SHARE], 1);
}


/* the default is for an empty value of variables, too */

static ngx_int_t
ngx_http_dsem_limit_number(ngx_http_dsem_arg_t *arg, ngx_int_t default_value)
{
    return (arg->text.data && !arg->variables) ? arg->number : default_value;
}


/* NGX_ERROR: no memory, or a message has been logged */

static ngx_int_t
ngx_http_dsem_limit_values(ngx_conf_t *cf, ngx_http_dsem_limit_t *limit,
    ngx_http_dsem_arg_t *args)
{
    ngx_uint_t              i, n;
    ngx_http_dsem_value_t  *value;

    n = 0;

    for (i = 0; i < NGX_HTTP_DSEM_PARAM_FAIR; i++) {
        n += args[i].variables;
    }

    if (n == 0) {
        return NGX_OK;
    }

    limit->values = ngx_palloc(cf->pool, n * sizeof(ngx_http_dsem_value_t));
    if (limit->values == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_HTTP_DSEM_PARAM_FAIR; i++) {

        if (!args[i].variables) {
            continue;
        }

        value = &limit->values[limit->nvalues++];

        value->index = i;
        value->param = &ngx_http_dsem_params[i];
        value->high = value->param->high;

        /* a limit that is found may be the lowest one */

        if (i == NGX_HTTP_DSEM_PARAM_WEIGHT && limit->max) {
            value->high = limit->min;
        }

        if (ngx_http_dsem_limit_compile(cf, &args[i].text, &value->text)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_limit_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = cv;

    return ngx_http_compile_complex_value(&ccv);
}
