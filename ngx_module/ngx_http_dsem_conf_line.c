
/*
 * The "dsem" directive: a level's list of semaphores.
 *
 * Owns what a line may say, and what may not stand together in one level.
 *
 * Called by: nginx, through the table of directives in conf.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_check.h"
#include "ngx_http_dsem_conf_value.h"
#include "ngx_http_dsem_module.h"


static char *ngx_http_dsem_off(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *dlcf);
static ngx_int_t ngx_http_dsem_line_params(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_line_make(ngx_conf_t *cf,
    ngx_http_dsem_limit_t *line, ngx_str_t *name, ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_line_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);
static ngx_int_t ngx_http_dsem_line_compile_optional(ngx_conf_t *cf,
    ngx_str_t *text, ngx_http_complex_value_t **cv);


/* indices of the parameters of "dsem" */
enum {
    NGX_HTTP_DSEM_PARAM_LIMIT = 0,
    NGX_HTTP_DSEM_PARAM_QUEUE,
    NGX_HTTP_DSEM_PARAM_TIMEOUT,
    NGX_HTTP_DSEM_PARAM_WEIGHT,
    NGX_HTTP_DSEM_PARAM_PRIORITY,
    NGX_HTTP_DSEM_NPARAMS
};


static ngx_http_dsem_param_t  ngx_http_dsem_params[] = {
    ngx_http_dsem_number("limit", 0, NGX_HTTP_DSEM_MAX_LIMIT, 1),
    ngx_http_dsem_number("queue", 0, NGX_HTTP_DSEM_MAX_QUEUE, 0),
    ngx_http_dsem_time("timeout", 1, NGX_HTTP_DSEM_MAX_TIME),
    ngx_http_dsem_number("weight", 1, NGX_HTTP_DSEM_MAX_LIMIT, 1),
    ngx_http_dsem_number("priority", NGX_HTTP_DSEM_MIN_PRIORITY,
                         NGX_HTTP_DSEM_MAX_PRIORITY, 1),
    ngx_http_dsem_null_param
};


/*
 * Reads one "dsem" line of a level, or "dsem off".
 *
 * conf   the level's ngx_http_dsem_loc_conf_t: lines grows by one, or is NULL
 *        from now on
 *
 * Returns NGX_CONF_OK, or as nginx's setters do: NGX_CONF_ERROR when a
 * sentence has been logged, or the rest of a sentence for nginx to log.
 */

char *
ngx_http_dsem_line(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_loc_conf_t *dlcf = conf;

    ngx_str_t                  *value;
    ngx_http_dsem_arg_t         args[NGX_HTTP_DSEM_NPARAMS];
    ngx_http_dsem_limit_t        made, *line;
    ngx_http_dsem_main_conf_t  *dmcf;

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {
        return ngx_http_dsem_off(cf, dlcf);
    }

    if (value[1].len == 0) {
        return "has an empty name";
    }

    if (dlcf->limits == NULL) {
        return "may not stand beside \"dsem off\" of the same level";
    }

    if (ngx_http_dsem_line_params(cf, cmd, args) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (dlcf->limits == NGX_CONF_UNSET_PTR) {
        dlcf->limits = ngx_array_create(cf->pool, 1,
                                       sizeof(ngx_http_dsem_limit_t));
        if (dlcf->limits == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_dsem_line_make(cf, &made, &value[1], args) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (made.name.lengths == NULL
        && ngx_http_dsem_check_literal(cf, dlcf->limits, &made,
                                       args[NGX_HTTP_DSEM_PARAM_LIMIT].number)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    line = ngx_array_push(dlcf->limits);
    if (line == NULL) {
        return NGX_CONF_ERROR;
    }

    *line = made;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    dmcf->enabled = 1;

    return NGX_CONF_OK;
}


static char *
ngx_http_dsem_off(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_str_t  *value;

    if (cf->args->nelts > 2) {
        value = cf->args->elts;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"dsem off\", "
                           "a semaphore cannot be named \"off\"",
                           ngx_http_dsem_conf_word(cf, &value[2]));
        return NGX_CONF_ERROR;
    }

    if (dlcf->limits == NULL) {
        return "is duplicate";
    }

    if (dlcf->limits != NGX_CONF_UNSET_PTR) {
        return "with \"off\" may not stand beside others of the same level";
    }

    dlcf->limits = NULL;

    return NGX_CONF_OK;
}


/* reads the parameters, and checks them against each other */

static ngx_int_t
ngx_http_dsem_line_params(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args)
{
    ngx_http_dsem_arg_t  *limit, *weight;

    if (ngx_http_dsem_conf_params(cf, cmd, ngx_http_dsem_params, args)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    limit = &args[NGX_HTTP_DSEM_PARAM_LIMIT];
    weight = &args[NGX_HTTP_DSEM_PARAM_WEIGHT];

    if (limit->text.data == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" directive must have \"limit\" parameter",
                           &cmd->name);
        return NGX_ERROR;
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


/* a line of what is written: the texts are good */

static ngx_int_t
ngx_http_dsem_line_make(ngx_conf_t *cf, ngx_http_dsem_limit_t *line,
    ngx_str_t *name, ngx_http_dsem_arg_t *args)
{
    ngx_memzero(line, sizeof(ngx_http_dsem_limit_t));

    if (ngx_http_dsem_line_compile(cf, name, &line->name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_line_compile(cf, &args[NGX_HTTP_DSEM_PARAM_LIMIT].text,
                                   &line->limit)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_line_compile_optional(cf,
                                            &args[NGX_HTTP_DSEM_PARAM_WEIGHT].text,
                                            &line->weight)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_line_compile_optional(cf,
                                            &args[NGX_HTTP_DSEM_PARAM_PRIORITY].text,
                                            &line->priority)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    line->queue = 0;
    line->timeout = 5000;

    if (args[NGX_HTTP_DSEM_PARAM_QUEUE].text.data) {
        line->queue = args[NGX_HTTP_DSEM_PARAM_QUEUE].number;
    }

    if (args[NGX_HTTP_DSEM_PARAM_TIMEOUT].text.data) {
        line->timeout = args[NGX_HTTP_DSEM_PARAM_TIMEOUT].number;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_line_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = cv;

    return ngx_http_compile_complex_value(&ccv);
}


static ngx_int_t
ngx_http_dsem_line_compile_optional(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t **cv)
{
    if (text->data == NULL) {
        return NGX_OK;
    }

    *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*cv == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_line_compile(cf, text, *cv);
}
