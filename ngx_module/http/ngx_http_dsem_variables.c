
/*
 * Variables: the verdict of a request, for logs and headers.
 *
 * They read the request's context and change nothing; without one, or
 * before the verdict, they are not found, which shows as empty.
 *
 * Called by: module.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_ctx.h"
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_http.h"


static ngx_int_t ngx_http_dsem_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_dsem_string_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_dsem_wait_time_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_dsem_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_dsem_variables_integer(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_int_t number);
static ngx_int_t ngx_http_dsem_remaining_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_dsem_wait_estimate_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_dsem_variables_seconds(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_msec_t msec);
static ngx_http_dsem_ctx_t *ngx_http_dsem_variables_ctx(
    ngx_http_request_t *r);
static void ngx_http_dsem_variables_set(ngx_http_variable_value_t *v,
    u_char *data, size_t len);


static ngx_http_variable_t  ngx_http_dsem_vars[] = {

    { ngx_string("dsem_status"), NULL, ngx_http_dsem_status_variable, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_name"), NULL, ngx_http_dsem_string_variable,
      offsetof(ngx_http_dsem_ctx_t, name), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_key"), NULL, ngx_http_dsem_string_variable,
      offsetof(ngx_http_dsem_ctx_t, key), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_server"), NULL, ngx_http_dsem_string_variable,
      offsetof(ngx_http_dsem_ctx_t, server), NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_wait_time"), NULL, ngx_http_dsem_wait_time_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_queue_position"), NULL, ngx_http_dsem_number_variable,
      offsetof(ngx_http_dsem_ctx_t, position),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_limit"), NULL, ngx_http_dsem_number_variable,
      offsetof(ngx_http_dsem_ctx_t, limit),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_in_use"), NULL, ngx_http_dsem_number_variable,
      offsetof(ngx_http_dsem_ctx_t, in_use),
      NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_remaining"), NULL, ngx_http_dsem_remaining_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("dsem_wait_estimate"), NULL,
      ngx_http_dsem_wait_estimate_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


/* in the order of ngx_http_dsem_status_e */
static ngx_str_t  ngx_http_dsem_statuses[][2] = {
    { ngx_null_string, ngx_null_string },
    { ngx_string("PASSED"), ngx_string("PASSED") },
    { ngx_string("QUEUED"), ngx_string("QUEUED_DRY_RUN") },
    { ngx_string("REJECTED"), ngx_string("REJECTED_DRY_RUN") },
    { ngx_string("TIMEOUT"), ngx_string("TIMEOUT_DRY_RUN") },
    { ngx_string("DEGRADED"), ngx_string("DEGRADED") },
    { ngx_string("ERROR"), ngx_string("ERROR_DRY_RUN") },
    { ngx_string("ABORTED"), ngx_string("ABORTED") }
};


ngx_int_t
ngx_http_dsem_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_http_dsem_vars; v->name.len; v++) {
        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


/* NULL: not limited, or not decided yet and never queued */

static ngx_http_dsem_ctx_t *
ngx_http_dsem_variables_ctx(ngx_http_request_t *r)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_ctx_find(r);

    if (ctx == NULL && r != r->main) {
        ctx = ngx_http_dsem_ctx_find(r->main);
    }

    if (ctx == NULL
        || ctx->status == NGX_HTTP_DSEM_STATUS_NONE
        || (!ctx->decided && ctx->status != NGX_HTTP_DSEM_STATUS_QUEUED))
    {
        return NULL;
    }

    return ctx;
}


static void
ngx_http_dsem_variables_set(ngx_http_variable_value_t *v, u_char *data,
    size_t len)
{
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    v->len = len;
    v->data = data;
}


static ngx_int_t
ngx_http_dsem_status_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t            *word;
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_variables_ctx(r);

    if (ctx == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    word = &ngx_http_dsem_statuses[ctx->status][ctx->dry_run];
    ngx_http_dsem_variables_set(v, word->data, word->len);

    return NGX_OK;
}


/* data is the offset of the string; an empty one is not found */

static ngx_int_t
ngx_http_dsem_string_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_str_t            *string;
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_variables_ctx(r);

    if (ctx == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    string = (ngx_str_t *) ((u_char *) ctx + data);

    if (string->len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    ngx_http_dsem_variables_set(v, string->data, string->len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_wait_time_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_variables_ctx(r);

    if (ctx == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_dsem_variables_seconds(r, v, ctx->wait_time);
}


static ngx_int_t
ngx_http_dsem_variables_seconds(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_msec_t msec)
{
    u_char  *p, *last;

    p = ngx_pnalloc(r->pool, NGX_TIME_T_LEN + 4);
    if (p == NULL) {
        return NGX_ERROR;
    }

    last = ngx_sprintf(p, "%T.%03M", (time_t) msec / 1000, msec % 1000);
    ngx_http_dsem_variables_set(v, p, last - p);

    return NGX_OK;
}


/* data is the offset of the number; an unknown one is empty */

static ngx_int_t
ngx_http_dsem_number_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t             number;
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_variables_ctx(r);

    if (ctx == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    number = *(ngx_int_t *) ((u_char *) ctx + data);

    if (number < 0
        || (number == 0 && data == offsetof(ngx_http_dsem_ctx_t, position)))
    {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_dsem_variables_integer(r, v, number);
}


static ngx_int_t
ngx_http_dsem_variables_integer(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, ngx_int_t number)
{
    u_char  *p, *last;

    p = ngx_pnalloc(r->pool, NGX_INT_T_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    last = ngx_sprintf(p, "%i", number);
    ngx_http_dsem_variables_set(v, p, last - p);

    return NGX_OK;
}


/* a limit that was lowered below the permits in use has none left */

static ngx_int_t
ngx_http_dsem_remaining_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_variables_ctx(r);

    if (ctx == NULL || ctx->limit < 0 || ctx->in_use < 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_dsem_variables_integer(r, v,
                                        ngx_max(ctx->limit - ctx->in_use, 0));
}


/*
 * What "dsem_retry_after auto" is computed from.  The hint has the tickets that
 * waited when a request was last queued or rejected: a request that passed at
 * once has seen that none waits, whatever the hint says.
 */

static ngx_int_t
ngx_http_dsem_wait_estimate_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_int_t             limit;
    ngx_msec_t            msec;
    ngx_http_dsem_ctx_t  *ctx;

    ctx = ngx_http_dsem_variables_ctx(r);

    if (ctx == NULL
        || ctx->limit <= 0
        || ctx->in_use < 0
        || ctx->heavy)
    {
        v->not_found = 1;
        return NGX_OK;
    }

    limit = 0;

    if (ctx->status == NGX_HTTP_DSEM_STATUS_PASSED) {

        if (ctx->weight <= ctx->limit - ctx->in_use) {
            /* another one like this */
            return ngx_http_dsem_variables_seconds(r, v, 0);
        }

        limit = ctx->limit;
    }

    msec = ngx_http_dsem_hint_wait(&ctx->name, limit);

    if (msec == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    return ngx_http_dsem_variables_seconds(r, v, msec);
}
