
/*
 * Request bodies that are read before permits are acquired, so that a slow
 * upload holds none ("dsem_wait_body"), or before the values of "dsem" are
 * evaluated, which may be made of the body.
 *
 * Only the order of two steps changes: a body is read here if nginx would
 * read it whole before it connects to the upstream.  That is so for the
 * content handlers of the modules that have a directive "..._request_buffering"
 * beside their "..._pass", unless it is off, and of "dsem_hold", which makes no
 * use of it.  All other handlers (DAV, lua, gRPC) read a body in their own way,
 * and must find it unread.
 *
 * Called by: module, when a configuration is read; handler.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_body.h"
#include "ngx_http_dsem_module.h"


static ngx_int_t ngx_http_dsem_body_add_reader(ngx_conf_t *cf,
    ngx_array_t *readers, ngx_module_t *module);
static ngx_command_t *ngx_http_dsem_body_pass(ngx_module_t *module,
    ngx_command_t *flag);
static ngx_int_t ngx_http_dsem_body_handler_of(ngx_conf_t *cf,
    ngx_module_t *module, ngx_command_t *pass, ngx_http_handler_pt *handler);
static ngx_int_t ngx_http_dsem_body_create_conf(ngx_conf_t *cf,
    ngx_module_t *module);
static ngx_http_dsem_reader_t *ngx_http_dsem_body_reader(
    ngx_http_dsem_main_conf_t *dmcf, ngx_http_handler_pt handler);
static ngx_http_dsem_limit_t *ngx_http_dsem_body_value(
    ngx_http_dsem_loc_conf_t *dlcf);
static ngx_uint_t ngx_http_dsem_body_readable(ngx_http_dsem_ctx_t *ctx);
static ngx_uint_t ngx_http_dsem_body_buffered(ngx_http_dsem_reader_t *reader,
    void **loc_conf);


static ngx_str_t  ngx_http_dsem_body_suffix = ngx_string("_request_buffering");


/* finds the readers of this nginx; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_body_init(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_uint_t      i;
    ngx_module_t  **modules;

    dmcf->readers = ngx_array_create(cf->pool, 4,
                                     sizeof(ngx_http_dsem_reader_t));
    if (dmcf->readers == NULL) {
        return NGX_ERROR;
    }

    modules = cf->cycle->modules;

    for (i = 0; modules[i]; i++) {

        if (modules[i]->type == NGX_HTTP_MODULE
            && ngx_http_dsem_body_add_reader(cf, dmcf->readers, modules[i])
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_body_add_reader(ngx_conf_t *cf, ngx_array_t *readers,
    ngx_module_t *module)
{
    ngx_command_t           *flag, *pass;
    ngx_http_handler_pt      handler;
    ngx_http_dsem_reader_t  *reader;

    flag = ngx_http_dsem_target_command(module, &ngx_http_dsem_body_suffix,
                                        ngx_conf_set_flag_slot);
    if (flag == NULL) {
        return NGX_OK;
    }

    pass = ngx_http_dsem_body_pass(module, flag);
    if (pass == NULL) {
        return NGX_OK;
    }

    if (ngx_http_dsem_body_handler_of(cf, module, pass, &handler) != NGX_OK) {
        return NGX_ERROR;
    }

    if (handler == NULL) {
        return NGX_OK;
    }

    reader = ngx_array_push(readers);
    if (reader == NULL) {
        return NGX_ERROR;
    }

    reader->handler = handler;
    reader->ctx_index = module->ctx_index;
    reader->offset = flag->offset;
    reader->name = flag->name;

    return NGX_OK;
}


/* the directive "..._pass" beside it, or NULL */

static ngx_command_t *
ngx_http_dsem_body_pass(ngx_module_t *module, ngx_command_t *flag)
{
    size_t          prefix;
    ngx_command_t  *cmd;

    prefix = flag->name.len - ngx_http_dsem_body_suffix.len;

    for (cmd = module->commands; cmd->name.len; cmd++) {

        if (cmd->name.len == prefix + sizeof("_pass") - 1
            && ngx_memcmp(cmd->name.data, flag->name.data, prefix) == 0
            && ngx_memcmp(cmd->name.data + prefix, "_pass",
                          sizeof("_pass") - 1)
               == 0
            && (cmd->type & NGX_CONF_TAKE1)
            && cmd->conf == NGX_HTTP_LOC_CONF_OFFSET)
        {
            return cmd;
        }
    }

    return NULL;
}


/*
 * The content handlers of nginx have no public names: the directive is set in
 * a location that no request can reach, which shows what it sets.  An address
 * with a variable creates no upstream.  NULL: unknown.
 */

static ngx_int_t
ngx_http_dsem_body_handler_of(ngx_conf_t *cf, ngx_module_t *module,
    ngx_command_t *pass, ngx_http_handler_pt *handler)
{
    ngx_str_t                 *value;
    ngx_conf_t                 own;
    ngx_http_conf_ctx_t        ctx;
    ngx_http_core_loc_conf_t  *clcf;

    own = *cf;
    ctx = *(ngx_http_conf_ctx_t *) cf->ctx;
    own.ctx = &ctx;

    ctx.loc_conf = ngx_pcalloc(cf->temp_pool,
                               sizeof(void *) * ngx_http_max_module);
    own.args = ngx_array_create(cf->temp_pool, 2, sizeof(ngx_str_t));

    if (ctx.loc_conf == NULL
        || own.args == NULL
        || ngx_http_dsem_body_create_conf(&own, &ngx_http_core_module)
           != NGX_OK
        || ngx_http_dsem_body_create_conf(&own, module) != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* there is room for both */
    value = ngx_array_push_n(own.args, 2);
    value[0] = pass->name;
    ngx_str_set(&value[1], "$uri");

    *handler = NULL;

    if (pass->set(&own, pass, ctx.loc_conf[module->ctx_index])
        == NGX_CONF_OK)
    {
        clcf = ctx.loc_conf[ngx_http_core_module.ctx_index];
        *handler = clcf->handler;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_body_create_conf(ngx_conf_t *cf, ngx_module_t *module)
{
    void                 *conf;
    ngx_http_module_t    *functions;
    ngx_http_conf_ctx_t  *ctx;

    functions = module->ctx;
    ctx = cf->ctx;

    conf = functions->create_loc_conf(cf);
    ctx->loc_conf[module->ctx_index] = conf;

    return conf ? NGX_OK : NGX_ERROR;
}


/* of locations whose values were evaluated without the body so far */

void
ngx_http_dsem_body_warn(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    char                       *where;
    ngx_uint_t                  i;
    ngx_http_dsem_limit_t      *limit;
    ngx_http_dsem_reader_t     *reader;
    ngx_http_dsem_loc_conf_t  **dlcf;
    ngx_http_core_loc_conf_t   *clcf;

    if (dmcf->locations == NULL) {
        return;
    }

    dlcf = dmcf->locations->elts;

    for (i = 0; i < dmcf->locations->nelts; i++) {
        clcf = dlcf[i]->loc_conf[ngx_http_core_module.ctx_index];
        limit = ngx_http_dsem_body_value(dlcf[i]);

        if (clcf->handler == NULL || limit == NULL) {
            continue;
        }

        where = limit->pool ? "of the upstream of" : "in";

        if (dlcf[i]->wait_body == NGX_HTTP_DSEM_WAIT_BODY_OFF) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "\"dsem\" directive %s location \"%V\" "
                               "has $request_body, which is empty with "
                               "\"dsem_wait_body off\"", where,
                               &clcf->name);
            continue;
        }

        if (clcf->handler == dmcf->hold) {
            continue;
        }

        reader = ngx_http_dsem_body_reader(dmcf, clcf->handler);
        if (reader == NULL) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "\"dsem\" directive %s location \"%V\" has "
                               "values that are evaluated without the body, "
                               "which is not read first for its handler", where,
                               &clcf->name);
            continue;
        }

        if (ngx_http_dsem_body_buffered(reader, dlcf[i]->loc_conf)) {
            continue;
        }

        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"dsem\" directive %s location \"%V\" has "
                           "values that are evaluated without the body, with "
                           "\"%V off\" it is not read first", where,
                           &clcf->name, &reader->name);
    }
}


/* the first line with a value that may need the body; NULL: there is none */

static ngx_http_dsem_limit_t *
ngx_http_dsem_body_value(ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_uint_t              i, first;
    ngx_http_dsem_limit_t  *limit;

    if (dlcf->limits == NULL) {
        return NULL;
    }

    first = (dlcf->wait_body == NGX_HTTP_DSEM_WAIT_BODY_FIRST);
    limit = dlcf->limits->elts;

    for (i = 0; i < dlcf->limits->nelts; i++) {
        if (limit[i].body
            || (first && (limit[i].name.lengths
                          || limit[i].nvalues
                          || limit[i].fair)))
        {
            return &limit[i];
        }
    }

    return NULL;
}


static ngx_http_dsem_reader_t *
ngx_http_dsem_body_reader(ngx_http_dsem_main_conf_t *dmcf,
    ngx_http_handler_pt handler)
{
    ngx_uint_t               i;
    ngx_http_dsem_reader_t  *reader;

    reader = dmcf->readers->elts;

    for (i = 0; i < dmcf->readers->nelts; i++) {
        if (reader[i].handler == handler) {
            return &reader[i];
        }
    }

    return NULL;
}


/* of a pending body: whether values of this location have needed it before */

ngx_uint_t
ngx_http_dsem_body_first(ngx_http_dsem_ctx_t *ctx)
{
    return ctx->conf->limits
           && (ctx->conf->body_asked
               || ctx->conf->wait_body == NGX_HTTP_DSEM_WAIT_BODY_FIRST)
           && ngx_http_dsem_body_readable(ctx);
}


/*
 * A value has asked for the pending body: true if the body is to be read, so
 * that the values can be evaluated anew.  The location remembers, and reads
 * first from now on.
 */

ngx_uint_t
ngx_http_dsem_body_asked(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = ctx->request;

    if (ngx_http_dsem_body_readable(ctx)) {
        ctx->conf->body_asked = 1;
        return 1;
    }

    /* without a handler the request goes on to another location */

    if (r->content_handler && !ctx->conf->body_missed) {
        ctx->conf->body_missed = 1;

        clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "dsem: values in location \"%V\" are evaluated without "
                      "the request body, which is not read first there",
                      &clcf->name);
    }

    return 0;
}


/* of a pending body; a streamed one may never end, and is passed on at once */

ngx_uint_t
ngx_http_dsem_body_expected(ngx_http_dsem_ctx_t *ctx)
{
    return ctx->nclaims
           && (!ctx->request->headers_in.chunked || ctx->conf->hold)
           && ngx_http_dsem_body_readable(ctx);
}


/* whether nginx reads the whole body before it connects to the upstream */

static ngx_uint_t
ngx_http_dsem_body_readable(ngx_http_dsem_ctx_t *ctx)
{
    ngx_http_request_t         *r;
    ngx_http_dsem_reader_t     *reader;
    ngx_http_dsem_main_conf_t  *dmcf;

    r = ctx->request;

    if (ctx->conf->wait_body == NGX_HTTP_DSEM_WAIT_BODY_OFF
        || r->content_handler == NULL)
    {
        return 0;
    }

    if (ctx->conf->hold) {
        /* the time of a hold, which may have an end, begins behind the body */
        return 1;
    }

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);

    reader = ngx_http_dsem_body_reader(dmcf, r->content_handler);
    if (reader == NULL) {
        return 0;
    }

    return ngx_http_dsem_body_buffered(reader, r->loc_conf);
}


static ngx_uint_t
ngx_http_dsem_body_buffered(ngx_http_dsem_reader_t *reader, void **loc_conf)
{
    char  *conf;

    conf = loc_conf[reader->ctx_index];

    return *(ngx_flag_t *) (conf + reader->offset) == 1;
}


/*
 * Reads as the mirror module of nginx does; the result is for the phase
 * engine, which the handler runs again.  Permits kept over a redirect are not
 * held while a body is coming.
 */

ngx_int_t
ngx_http_dsem_body_read(ngx_http_dsem_ctx_t *ctx,
    ngx_http_client_body_handler_pt handler)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = ctx->request;

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "dsem reads the body first");

    rc = ngx_http_read_client_request_body(r, handler);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        /* it may linger; nor is there a ticket of an earlier dry run */
        ngx_http_dsem_ctx_release_all(ctx);
        return rc;
    }

    if (rc == NGX_AGAIN) {
        ngx_http_dsem_ctx_restart(ctx);
    }

    ngx_http_finalize_request(r, NGX_DONE);

    return NGX_DONE;
}
