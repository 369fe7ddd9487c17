
/*
 * Values of directives and parameters: their bounds, and the given ones.
 */


#ifndef _NGX_HTTP_DSEM_CONF_PARAM_H_INCLUDED_
#define _NGX_HTTP_DSEM_CONF_PARAM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* timers compare differences of milliseconds, also where they have 32 bits */
#define NGX_HTTP_DSEM_MAX_TIME    NGX_MAX_INT32_VALUE

/* of a prefix, of a node */
#define NGX_HTTP_DSEM_MAX_STRING  64


/* bounds of a value; a directive's own value has no name */
typedef struct {
    ngx_str_t     name;
    ngx_int_t   (*parse)(ngx_str_t *text, ngx_int_t *number);
    ngx_int_t     low;
    ngx_int_t     high;
    ngx_uint_t    variables;    /* unsigned:1 */
    const char   *kind;
    const char   *unit;
} ngx_http_dsem_param_t;


/* a given value */
typedef struct {
    ngx_str_t     text;         /* data is NULL: not given */
    ngx_int_t     number;       /* NGX_CONF_UNSET: not given, "auto", or
                                   variables */
    ngx_uint_t    variables;    /* unsigned:1, the text has some */
} ngx_http_dsem_arg_t;


/* bounds of a string */
typedef struct {
    u_char        refused;      /* plain in names, but not here */
    const char   *kind;
} ngx_http_dsem_string_t;


#define ngx_http_dsem_number(name, low, high, variables)                      \
    { ngx_string(name), ngx_http_dsem_parse_number, low, high, variables,     \
      "a number", "" }

#define ngx_http_dsem_number_or_auto(name, low, high, variables)              \
    { ngx_string(name), ngx_http_dsem_parse_auto, low, high, variables,       \
      "a number or \"auto\"", "" }

#define ngx_http_dsem_time(name, low, high, variables)                        \
    { ngx_string(name), ngx_http_dsem_parse_time, low, high, variables,       \
      "a time", "ms" }

#define ngx_http_dsem_time_or(name, low, high, or)                            \
    { ngx_string(name), ngx_http_dsem_parse_time, low, high, 0,               \
      "a time" or, "ms" }

#define ngx_http_dsem_size(name, low, high)                                   \
    { ngx_string(name), ngx_http_dsem_parse_size, low, high, 0,               \
      "a size", " bytes" }

#define ngx_http_dsem_text(name)                                              \
    { ngx_string(name), ngx_http_dsem_parse_text, 0, 0, 1, "a text", "" }

/* one of several words, each with a number */
#define ngx_http_dsem_words(name, parse, kind)                                \
    { ngx_string(name), parse, 0, NGX_MAX_INT32_VALUE, 0, kind, "" }

#define ngx_http_dsem_flag(name)                                              \
    ngx_http_dsem_words(name, ngx_http_dsem_parse_flag, "\"on\" or \"off\"")

#define ngx_http_dsem_null_param                                              \
    { ngx_null_string, NULL, 0, 0, 0, NULL, NULL }


char *ngx_http_dsem_param_number(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_dsem_param_string(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
char *ngx_http_dsem_param_enum(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

ngx_int_t ngx_http_dsem_param_args(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t first, ngx_http_dsem_param_t *params,
    ngx_http_dsem_arg_t *args);
ngx_http_dsem_param_t *ngx_http_dsem_param_find(ngx_http_dsem_param_t *params,
    ngx_str_t *word);
ngx_int_t ngx_http_dsem_param_arg(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args,
    ngx_str_t *value);
ngx_int_t ngx_http_dsem_param_value(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *param, ngx_http_dsem_arg_t *arg);
ngx_str_t *ngx_http_dsem_param_word(ngx_conf_t *cf, ngx_str_t *text);

ngx_int_t ngx_http_dsem_parse_number(ngx_str_t *text, ngx_int_t *number);
ngx_int_t ngx_http_dsem_parse_text(ngx_str_t *text, ngx_int_t *number);
ngx_int_t ngx_http_dsem_parse_flag(ngx_str_t *text, ngx_int_t *number);
ngx_int_t ngx_http_dsem_parse_auto(ngx_str_t *text, ngx_int_t *number);
ngx_int_t ngx_http_dsem_parse_time(ngx_str_t *text, ngx_int_t *number);
ngx_int_t ngx_http_dsem_parse_size(ngx_str_t *text, ngx_int_t *number);


#endif /* _NGX_HTTP_DSEM_CONF_PARAM_H_INCLUDED_ */
