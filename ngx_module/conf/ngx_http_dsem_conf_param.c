
/*
 * Values of directives and parameters, and the messages for wrong ones.
 *
 * Owns the setters of directives that are a single value, and knows no
 * directive: cmd->post describes the allowed values.  Every value is checked
 * against an entry of a table.  A message names the word at fault, shortened
 * and with control characters escaped: no value can forge a line of the log,
 * or push the rest of its message out of it.
 *
 * Called by: nginx, through the table of directives; all of conf/.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_key.h"


/* bytes of a word in a message */
#define NGX_HTTP_DSEM_MAX_WORD   128

/* bytes of the allowed words in a message */
#define NGX_HTTP_DSEM_MAX_WORDS  64

/* bytes of a time or a size without its digits */
#define NGX_HTTP_DSEM_MAX_FORM   32


static void ngx_http_dsem_param_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *param, ngx_str_t *text, const char *must);
static ngx_int_t ngx_http_dsem_param_form(ngx_str_t *text, ngx_str_t *form);


/* a number, a time or a size */

char *
ngx_http_dsem_param_number(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_int_t            *np;
    ngx_str_t            *value;
    ngx_http_dsem_arg_t   arg;

    /* a time is unset by the same bits */

    np = (ngx_int_t *) (p + cmd->offset);

    if (*np != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    value = cf->args->elts;
    arg.text = value[1];

    if (ngx_http_dsem_param_value(cf, cmd, cmd->post, &arg) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    *np = arg.number;

    return NGX_CONF_OK;
}


/* characters that are plain in names, all or all but one */

char *
ngx_http_dsem_param_string(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_str_t               *sp, *value;
    ngx_uint_t               i, valid;
    ngx_http_dsem_string_t  *string;

    string = cmd->post;
    sp = (ngx_str_t *) (p + cmd->offset);

    if (sp->data) {
        return "is duplicate";
    }

    value = cf->args->elts;
    valid = value[1].len > 0 && value[1].len <= NGX_HTTP_DSEM_MAX_STRING;

    for (i = 0; valid && i < value[1].len; i++) {
        valid = ngx_http_dsem_key_plain(value[1].data[i])
                && value[1].data[i] != string->refused;
    }

    if (!valid) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive, "
                           "it must be %s",
                           ngx_http_dsem_param_word(cf, &value[1]), &cmd->name,
                           string->kind);
        return NGX_CONF_ERROR;
    }

    *sp = value[1];

    return NGX_CONF_OK;
}


/*
 * One of several words: ngx_conf_set_enum_slot() and the flags would print
 * the value raw.
 */

char *
ngx_http_dsem_param_enum(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    u_char            must[NGX_HTTP_DSEM_MAX_WORDS], *q;
    ngx_str_t        *value;
    ngx_uint_t       *np, i;
    ngx_conf_enum_t  *e;

    np = (ngx_uint_t *) (p + cmd->offset);

    if (*np != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;
    e = cmd->post;

    for (i = 0; e[i].name.len; i++) {
        if (e[i].name.len == value[1].len
            && ngx_strncasecmp(e[i].name.data, value[1].data, value[1].len)
               == 0)
        {
            *np = e[i].value;
            return NGX_CONF_OK;
        }
    }

    q = must;

    for (i = 0; e[i].name.len; i++) {
        q = ngx_slprintf(q, must + sizeof(must), "%s\"%V\"",
                         (i == 0) ? "" : e[i + 1].name.len ? ", " : " or ",
                         &e[i].name);
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"%V\" directive, "
                       "it must be %*s",
                       ngx_http_dsem_param_word(cf, &value[1]), &cmd->name,
                       (size_t) (q - must), must);

    return NGX_CONF_ERROR;
}


/*
 * Reads the parameters of a directive: name=value, in any order, each at most
 * once.
 *
 * first    the first of its words that is a parameter
 * params   the allowed ones, up to an entry without a name
 * args     result, one for each of params
 *
 * Returns NGX_OK, or NGX_ERROR when a message has been logged.
 */

ngx_int_t
ngx_http_dsem_param_args(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t first, ngx_http_dsem_param_t *params,
    ngx_http_dsem_arg_t *args)
{
    ngx_int_t    rc;
    ngx_str_t   *value;
    ngx_uint_t   i;

    for (i = 0; params[i].name.len; i++) {
        ngx_str_null(&args[i].text);
        args[i].number = NGX_CONF_UNSET;
        args[i].variables = 0;
    }

    value = cf->args->elts;

    for (i = first; i < cf->args->nelts; i++) {
        rc = ngx_http_dsem_param_arg(cf, cmd, params, args, &value[i]);

        if (rc == NGX_DECLINED) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" in \"%V\" directive%s",
                               ngx_http_dsem_param_word(cf, &value[i]),
                               &cmd->name,
                               ngx_strchr(value[i].data, '=')
                               ? "" : ", write it as name=value");
        }

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the row of "name=value"; the last one, without a name: there is none */

ngx_http_dsem_param_t *
ngx_http_dsem_param_find(ngx_http_dsem_param_t *params, ngx_str_t *word)
{
    ngx_http_dsem_param_t  *param;

    for (param = params; param->name.len; param++) {

        if (word->len > param->name.len
            && word->data[param->name.len] == '='
            && ngx_strncmp(word->data, param->name.data, param->name.len) == 0)
        {
            break;
        }
    }

    return param;
}


/*
 * Reads one word, name=value.  No message has the value of a text: it may be
 * a password.
 *
 * Returns NGX_OK, NGX_DECLINED if it is none of the parameters, or NGX_ERROR
 * when a message has been logged.
 */

ngx_int_t
ngx_http_dsem_param_arg(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args,
    ngx_str_t *value)
{
    size_t      len;
    ngx_uint_t  i;

    i = ngx_http_dsem_param_find(params, value) - params;
    len = params[i].name.len;

    if (len == 0) {
        return NGX_DECLINED;
    }

    if (args[i].text.data) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate parameter \"%V\" in \"%V\" directive",
                           &params[i].name, &cmd->name);
        return NGX_ERROR;
    }

    args[i].text.data = value->data + len + 1;
    args[i].text.len = value->len - len - 1;

    if (args[i].text.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" parameter in \"%V\" directive "
                           "has no value",
                           &params[i].name, &cmd->name);
        return NGX_ERROR;
    }

    return ngx_http_dsem_param_value(cf, cmd, &params[i], &args[i]);
}


/*
 * Checks a text and gives its number.
 *
 * param   its bounds; without a name it is the directive's own value
 * arg     text is given; number is the result, in milliseconds for a time,
 *         NGX_CONF_UNSET for a text with variables, and for "auto"
 *
 * Returns NGX_OK, or NGX_ERROR when a message has been logged.
 */

ngx_int_t
ngx_http_dsem_param_value(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *param, ngx_http_dsem_arg_t *arg)
{
    u_char      must[sizeof("between  bytes and  bytes") + 2 * NGX_INT_T_LEN];
    ngx_int_t   rc;
    ngx_str_t  *text;

    text = &arg->text;
    arg->number = NGX_CONF_UNSET;
    arg->variables = 0;

    if (ngx_strlchr(text->data, text->data + text->len, '$')) {

        if (param->variables) {
            arg->variables = 1;
            return NGX_OK;
        }

        ngx_http_dsem_param_invalid(cf, cmd, param, text, "without variables");
        return NGX_ERROR;
    }

    rc = param->parse(text, &arg->number);

    if (rc == NGX_DONE) {
        return NGX_OK;
    }

    if (rc == NGX_ERROR) {
        ngx_http_dsem_param_invalid(cf, cmd, param, text, param->kind);
        return NGX_ERROR;
    }

    if (rc == NGX_DECLINED
        || arg->number < param->low
        || arg->number > param->high)
    {
        ngx_sprintf(must, "between %i%s and %i%s%Z",
                    param->low, param->unit, param->high, param->unit);

        ngx_http_dsem_param_invalid(cf, cmd, param, text, (char *) must);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_param_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_param_t *param, ngx_str_t *text, const char *must)
{
    ngx_str_t  *word;

    word = ngx_http_dsem_param_word(cf, text);

    if (param->name.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive, "
                           "it must be %s",
                           word, &cmd->name, must);
        return;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" of \"%V\" parameter "
                       "in \"%V\" directive, it must be %s",
                       word, &param->name, &cmd->name, must);
}


/*
 * Reads a whole decimal number, which may be negative.
 *
 * Returns NGX_OK, NGX_DECLINED when the number does not fit: it is out of every
 * range, or NGX_ERROR when the text is no number.
 */

ngx_int_t
ngx_http_dsem_parse_number(ngx_str_t *text, ngx_int_t *number)
{
    u_char     *p, *digits, *last;
    ngx_int_t   n;

    digits = text->data;
    last = text->data + text->len;

    if (digits < last && *digits == '-') {
        digits++;
    }

    if (digits == last) {
        return NGX_ERROR;
    }

    for (p = digits; p < last; p++) {
        if (*p < '0' || *p > '9') {
            return NGX_ERROR;
        }
    }

    n = ngx_atoi(digits, last - digits);

    if (n == NGX_ERROR) {
        return NGX_DECLINED;
    }

    *number = (digits == text->data) ? n : -n;

    return NGX_OK;
}


/* any text is valid; it has no number */

ngx_int_t
ngx_http_dsem_parse_text(ngx_str_t *text, ngx_int_t *number)
{
    *number = 0;

    return NGX_OK;
}


/* 1 or 0 */

ngx_int_t
ngx_http_dsem_parse_flag(ngx_str_t *text, ngx_int_t *number)
{
    *number = (text->len == 2 && ngx_strncmp(text->data, "on", 2) == 0);

    return (*number || (text->len == 3
                        && ngx_strncmp(text->data, "off", 3) == 0))
           ? NGX_OK : NGX_ERROR;
}


/* a number; NGX_DONE: the text is "auto", and has no number */

ngx_int_t
ngx_http_dsem_parse_auto(ngx_str_t *text, ngx_int_t *number)
{
    if (text->len == 4 && ngx_strncmp(text->data, "auto", 4) == 0) {
        return NGX_DONE;
    }

    return ngx_http_dsem_parse_number(text, number);
}


/*
 * Reads a time as nginx writes it, seconds where no unit is given; the number
 * is in milliseconds.  Returns NGX_OK, NGX_DECLINED when the time does not fit,
 * or NGX_ERROR when the text is no time.
 */

ngx_int_t
ngx_http_dsem_parse_time(ngx_str_t *text, ngx_int_t *number)
{
    u_char     buf[NGX_HTTP_DSEM_MAX_FORM];
    ngx_str_t  form;

    *number = ngx_parse_time(text, 0);

    if (*number != NGX_ERROR) {
        return NGX_OK;
    }

    form.data = buf;

    if (ngx_http_dsem_param_form(text, &form) != NGX_OK
        || ngx_parse_time(&form, 0) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    return NGX_DECLINED;
}


/* reads a size in bytes, as nginx writes it, with k or m; the same */

ngx_int_t
ngx_http_dsem_parse_size(ngx_str_t *text, ngx_int_t *number)
{
    u_char     buf[NGX_HTTP_DSEM_MAX_FORM];
    ngx_str_t  form;

    *number = ngx_parse_size(text);

    if (*number != NGX_ERROR) {
        return NGX_OK;
    }

    form.data = buf;

    if (ngx_http_dsem_param_form(text, &form) != NGX_OK
        || ngx_parse_size(&form) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    return NGX_DECLINED;
}


/*
 * A time or size as text with small numbers: nginx rejects what is written
 * wrong, and what overflows, in the same way; 30 days in ms overflow 32 bits.
 * form->data has room for NGX_HTTP_DSEM_MAX_FORM bytes; NGX_ERROR: the text
 * needs more.
 */

static ngx_int_t
ngx_http_dsem_param_form(ngx_str_t *text, ngx_str_t *form)
{
    size_t      i;
    ngx_uint_t  digit, last;

    form->len = 0;
    digit = 0;

    for (i = 0; i < text->len; i++) {
        last = digit;
        digit = (text->data[i] >= '0' && text->data[i] <= '9');

        if (digit && last) {
            continue;
        }

        if (form->len == NGX_HTTP_DSEM_MAX_FORM) {
            return NGX_ERROR;
        }

        form->data[form->len++] = digit ? '1' : text->data[i];
    }

    return NGX_OK;
}


/*
 * A word for a message: a long one ends with "...", bytes that are not
 * printable ASCII are written as \xHH.  Never NULL; the result lives as long
 * as the configuration is read.
 */

ngx_str_t *
ngx_http_dsem_param_word(ngx_conf_t *cf, ngx_str_t *text)
{
    u_char            *p;
    size_t             i, len;
    ngx_str_t         *word;

    static ngx_str_t   unknown = ngx_string("?");

    len = ngx_min(text->len, NGX_HTTP_DSEM_MAX_WORD);

    word = ngx_palloc(cf->temp_pool,
                      sizeof(ngx_str_t) + len * 4 + sizeof("...") - 1);
    if (word == NULL) {
        return &unknown;
    }

    word->data = (u_char *) word + sizeof(ngx_str_t);

    p = word->data;

    for (i = 0; i < len; i++) {
        if (text->data[i] >= 0x20 && text->data[i] < 0x7f) {
            *p++ = text->data[i];

        } else {
            p = ngx_sprintf(p, "\\x%02Xd", text->data[i]);
        }
    }

    if (len < text->len) {
        p = ngx_cpymem(p, "...", 3);
    }

    word->len = p - word->data;

    return word;
}
