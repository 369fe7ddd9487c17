
/*
 * Which pool a location passes its requests to.
 *
 * The line of the pool becomes the last one of the location.  Levels are read
 * after all modules have merged theirs: nginx's own "..._pass" of whichever
 * module, and "dsem upstream=name", for a target with variables.
 *
 * Called by: module, when all is read; http/body, which finds directives of
 * other modules, too.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_module.h"


static ngx_int_t ngx_http_dsem_target_module(ngx_conf_t *cf,
    void **loc_conf, ngx_module_t *module,
    ngx_http_upstream_srv_conf_t **target);
static ngx_http_dsem_srv_conf_t *ngx_http_dsem_target_pool(
    ngx_http_upstream_srv_conf_t *us);
static ngx_http_upstream_srv_conf_t *ngx_http_dsem_target_upstream(
    void **loc_conf, ngx_module_t *module, ngx_command_t *cmd);
static ngx_uint_t ngx_http_dsem_target_passes(void **loc_conf,
    ngx_module_t *module, ngx_command_t *cmd);
static void ngx_http_dsem_target_warn(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf, ngx_http_dsem_loc_conf_t *dlcf);
static ngx_http_dsem_reader_t *ngx_http_dsem_target_varies(
    ngx_http_dsem_main_conf_t *dmcf, void **loc_conf);
static ngx_int_t ngx_http_dsem_target_named(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf, void **loc_conf,
    ngx_http_upstream_srv_conf_t *target);
static ngx_http_handler_pt ngx_http_dsem_target_handler(void **loc_conf);
static ngx_int_t ngx_http_dsem_target_add(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *dlcf, ngx_http_dsem_limit_t *line);


/*
 * The pools that locations pass to: their line is taken last, after those of
 * the location, which "dsem off" does not end.  Every module with "..._pass"
 * has "..._next_upstream_tries" in the same part of its configuration, which
 * has the upstream, too; NULL where the target has variables, and "dsem
 * upstream=name" may name it.  NGX_ERROR: no memory, or a message has been
 * logged.
 */

ngx_int_t
ngx_http_dsem_targets(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_uint_t                      i, j;
    ngx_module_t                  **modules;
    ngx_http_dsem_loc_conf_t      **dlcf;
    ngx_http_upstream_srv_conf_t   *target;

    if (dmcf->locations == NULL) {
        return NGX_OK;
    }

    modules = cf->cycle->modules;
    dlcf = dmcf->locations->elts;

    for (i = 0; i < dmcf->locations->nelts; i++) {

        if (dmcf->pools == NULL && dlcf[i]->named == NULL) {
            continue;
        }

        target = NULL;

        for (j = 0; modules[j]; j++) {

            if (modules[j]->type == NGX_HTTP_MODULE
                && ngx_http_dsem_target_module(cf, dlcf[i]->loc_conf,
                                               modules[j], &target)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }
        }

        if (dlcf[i]->named == NULL) {
            ngx_http_dsem_target_warn(cf, dmcf, dlcf[i]);

        } else if (ngx_http_dsem_target_named(cf, dmcf, dlcf[i]->loc_conf,
                                              target)
                   != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * target: where this module passes requests of this level; or untouched.  Of
 * two modules at one level nginx runs that of the last directive: levels have
 * no order of directives.
 */

static ngx_int_t
ngx_http_dsem_target_module(ngx_conf_t *cf, void **loc_conf,
    ngx_module_t *module, ngx_http_upstream_srv_conf_t **target)
{
    ngx_command_t                 *cmd;
    ngx_http_handler_pt            handler;
    ngx_http_dsem_srv_conf_t      *pool;
    ngx_http_core_loc_conf_t      *clcf;
    ngx_http_dsem_main_conf_t     *dmcf;
    ngx_http_upstream_srv_conf_t  *uscf, *other;

    static ngx_str_t  suffix = ngx_string("_next_upstream_tries");

    cmd = ngx_http_dsem_target_command(module, &suffix, ngx_conf_set_num_slot);
    if (cmd == NULL) {
        return NGX_OK;
    }

    uscf = ngx_http_dsem_target_upstream(loc_conf, module, cmd);

    if (uscf == NULL || !ngx_http_dsem_target_passes(loc_conf, module, cmd)) {
        return NGX_OK;
    }

    other = *target;
    *target = uscf;

    pool = ngx_http_dsem_target_pool(uscf);
    clcf = loc_conf[ngx_http_core_module.ctx_index];
    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    handler = ngx_http_dsem_target_handler(loc_conf);

    if (pool && (handler == dmcf->api || handler == dmcf->hold)) {
        /* the directive of the module is before that of this one */
        return NGX_OK;
    }

    if (other && (pool || ngx_http_dsem_target_pool(other))) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "location \"%V\" has \"..._pass\" directives of two "
                      "modules, to upstreams \"%V\" and \"%V\", with \"dsem\" "
                      "in one of these it must have one only", &clcf->name,
                      &other->host, &uscf->host);
        return NGX_ERROR;
    }

    return pool ? ngx_http_dsem_target_add(cf,
                                loc_conf[ngx_http_dsem_module.ctx_index],
                                pool->limit)
                : NGX_OK;
}


/* NULL: it is no pool; an address has no configurations, only a block has */

static ngx_http_dsem_srv_conf_t *
ngx_http_dsem_target_pool(ngx_http_upstream_srv_conf_t *us)
{
    ngx_http_dsem_srv_conf_t  *dscf;

    dscf = us->srv_conf
           ? ngx_http_conf_upstream_srv_conf(us, ngx_http_dsem_module) : NULL;

    return (dscf && dscf->limit) ? dscf : NULL;
}


/* the upstream of a module at some level, NULL: it has none, or variables */

static ngx_http_upstream_srv_conf_t *
ngx_http_dsem_target_upstream(void **loc_conf, ngx_module_t *module,
    ngx_command_t *cmd)
{
    char                      *conf;
    ngx_http_upstream_conf_t  *ucf;

    conf = loc_conf[module->ctx_index];
    ucf = (ngx_http_upstream_conf_t *)
              (conf + cmd->offset
               - offsetof(ngx_http_upstream_conf_t, next_upstream_tries));

    return ucf->upstream;
}


/*
 * Whether requests of this level are passed by this module.  An "if" has the
 * handler of the level above, unless it sets its own, and its upstreams in any
 * case, as levels below a "memcached_pass" have.  An upstream is used if it was
 * set at a level with the handler that is in force here.
 */

static ngx_uint_t
ngx_http_dsem_target_passes(void **loc_conf, ngx_module_t *module,
    ngx_command_t *cmd)
{
    void                      **above;
    ngx_http_handler_pt         handler;
    ngx_http_dsem_loc_conf_t   *dlcf;
    ngx_http_core_loc_conf_t   *clcf;

    handler = ngx_http_dsem_target_handler(loc_conf);

    if (handler == NULL) {
        return 0;
    }

    for ( ;; ) {
        clcf = loc_conf[ngx_http_core_module.ctx_index];
        dlcf = loc_conf[ngx_http_dsem_module.ctx_index];
        above = dlcf->above ? dlcf->above->loc_conf : NULL;

        if (above == NULL
            || ngx_http_dsem_target_upstream(above, module, cmd)
               != ngx_http_dsem_target_upstream(loc_conf, module, cmd))
        {
            return clcf->handler == handler;
        }

        loc_conf = above;
    }
}


/*
 * The directive of locations whose name ends so, of any module: what it sets is
 * found by its offset.  NULL: the module has none.
 */

ngx_command_t *
ngx_http_dsem_target_command(ngx_module_t *module, ngx_str_t *suffix,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf))
{
    ngx_command_t  *cmd;

    for (cmd = module->commands; cmd && cmd->name.len; cmd++) {

        if (cmd->name.len > suffix->len
            && ngx_memcmp(cmd->name.data + cmd->name.len - suffix->len,
                          suffix->data, suffix->len)
               == 0
            && cmd->set == set
            && cmd->conf == NGX_HTTP_LOC_CONF_OFFSET)
        {
            return cmd;
        }
    }

    return NULL;
}


/*
 * The upstream of a target with variables is found when the request has been
 * let through.  A level without a name may have the target of the one above.
 */

static void
ngx_http_dsem_target_warn(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf,
    ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_str_t                  pass;
    ngx_http_dsem_reader_t    *reader;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = dlcf->loc_conf[ngx_http_core_module.ctx_index];
    reader = ngx_http_dsem_target_varies(dmcf, dlcf->loc_conf);

    if (reader == NULL
        || (clcf->noname
            && ngx_http_dsem_target_varies(dmcf, dlcf->above->loc_conf)))
    {
        return;
    }

    pass.data = reader->name.data;
    pass.len = reader->name.len - (sizeof("_request_buffering") - 1);

    ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                  "\"%V_pass\" in location \"%V\" has variables, a request "
                  "that comes to an upstream with \"dsem\" by it is answered "
                  "with 500, name the upstream with \"dsem upstream=\"",
                  &pass, &clcf->name);
}


/* the handler of a level that has it itself, without an upstream; or NULL */

static ngx_http_dsem_reader_t *
ngx_http_dsem_target_varies(ngx_http_dsem_main_conf_t *dmcf, void **loc_conf)
{
    char                      *conf;
    ngx_uint_t                 i;
    ngx_http_dsem_reader_t    *reader;
    ngx_http_upstream_conf_t  *ucf;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = loc_conf[ngx_http_core_module.ctx_index];
    reader = dmcf->readers->elts;

    for (i = 0; i < dmcf->readers->nelts; i++) {

        if (reader[i].handler != clcf->handler) {
            continue;
        }

        conf = loc_conf[reader[i].ctx_index];
        ucf = (ngx_http_upstream_conf_t *)
                  (conf + reader[i].offset
                   - offsetof(ngx_http_upstream_conf_t, request_buffering));

        return ucf->upstream ? NULL : &reader[i];
    }

    return NULL;
}


/*
 * The pool that "dsem upstream=name" names for this level.  A target without
 * variables needs no name, also where that is inherited.  NGX_ERROR: no memory,
 * or a message has been logged.
 */

static ngx_int_t
ngx_http_dsem_target_named(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf,
    void **loc_conf, ngx_http_upstream_srv_conf_t *target)
{
    char                       *wrong;
    ngx_uint_t                  i, answers;
    ngx_http_dsem_named_t      *named;
    ngx_http_dsem_loc_conf_t   *dlcf;
    ngx_http_dsem_srv_conf_t   *dscf, **pool;

    dlcf = loc_conf[ngx_http_dsem_module.ctx_index];
    named = dlcf->named;
    answers = (dlcf->hold == 1 || dlcf->api == 1);
    dscf = ngx_http_dsem_upstream_find(dmcf, &named->text);
    wrong = NULL;

    if (named->limit.name.lengths ? dmcf->pools == NULL
                                  : dscf == NULL && named->text.len)
    {
        wrong = "names no upstream that has a \"dsem\" directive";

    } else if (answers
               || (target && (dscf == NULL || dscf->upstream != target)))
    {
        wrong = "is only for a \"proxy_pass\" with variables";
    }

    if (wrong && named->level == dlcf) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"upstream=%V\" of \"dsem\" in %V:%ui %s",
                      &named->text, &named->file, named->line, wrong);
        return NGX_ERROR;
    }

    if (target || answers || ngx_http_dsem_target_handler(loc_conf) == NULL) {
        return NGX_OK;
    }

    if (named->limit.name.lengths == NULL) {
        return dscf ? ngx_http_dsem_target_add(cf, dlcf, dscf->limit)
                    : NGX_OK;
    }

    for (i = 0; dmcf->pools && i < dmcf->pools->nelts; i++) {
        pool = dmcf->pools->elts;
        named->limit.body |= pool[i]->limit->body;
    }

    return ngx_http_dsem_target_add(cf, dlcf, &named->limit);
}


/*
 * What answers requests of this level, NULL: nothing; an "if" has the handler
 * of the level above, unless it sets its own.
 */

static ngx_http_handler_pt
ngx_http_dsem_target_handler(void **loc_conf)
{
    ngx_http_dsem_loc_conf_t  *dlcf;
    ngx_http_core_loc_conf_t  *clcf;

    for ( ;; ) {
        clcf = loc_conf[ngx_http_core_module.ctx_index];
        dlcf = loc_conf[ngx_http_dsem_module.ctx_index];

        if (clcf->handler || !clcf->noname) {
            return clcf->handler;
        }

        loc_conf = dlcf->above->loc_conf;
    }
}


static ngx_int_t
ngx_http_dsem_target_add(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *dlcf,
    ngx_http_dsem_limit_t *line)
{
    ngx_uint_t              n;
    ngx_array_t            *limits;
    ngx_http_dsem_limit_t  *limit;

    n = dlcf->limits ? dlcf->limits->nelts : 0;

    limits = ngx_array_create(cf->pool, n + 1, sizeof(ngx_http_dsem_limit_t));
    if (limits == NULL) {
        return NGX_ERROR;
    }

    limit = ngx_array_push_n(limits, n + 1);
    if (limit == NULL) {
        return NGX_ERROR;
    }

    if (n) {
        ngx_memcpy(limit, dlcf->limits->elts,
                   n * sizeof(ngx_http_dsem_limit_t));
    }

    limit[n] = *line;

    /* other levels go on with the list that they inherit */
    dlcf->limits = limits;

    return NGX_OK;
}
