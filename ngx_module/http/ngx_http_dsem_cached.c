
/*
 * Variables that nginx has cached for a request, and how to forget them.
 *
 * nginx evaluates a variable once and caches the result: of $request_body,
 * and of all that is made of it, "not found" for ever if that is before the
 * body is read.  So that values can be evaluated then and anew later, this
 * file saves what was cached before, sees whether the body was asked for, and
 * restores.
 *
 * Only $request_body and $request_body_file are seen, however many maps are
 * between them and a value.  What a variable of a script needs is not.
 *
 * Called by: module, when a configuration is read; handler.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_cached.h"
#include "ngx_http_dsem_module.h"


static ngx_str_t  ngx_http_dsem_cached_names[NGX_HTTP_DSEM_NBODIES] = {
    ngx_string("request_body"),
    ngx_string("request_body_file")
};


/* the indices, if anything in the configuration uses these variables */

void
ngx_http_dsem_cached_init(ngx_http_core_main_conf_t *cmcf,
    ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_str_t            *name;
    ngx_uint_t            i, n;
    ngx_http_variable_t  *v;

    v = cmcf->variables.elts;

    for (i = 0; i < NGX_HTTP_DSEM_NBODIES; i++) {

        name = &ngx_http_dsem_cached_names[i];
        dmcf->bodies[i] = NGX_CONF_UNSET_UINT;

        for (n = 0; n < cmcf->variables.nelts; n++) {
            if (v[n].name.len == name->len
                && ngx_strncasecmp(v[n].name.data, name->data, name->len) == 0)
            {
                dmcf->bodies[i] = n;
            }
        }
    }
}


/*
 * Before values are evaluated while the body is to be read; nothing is saved
 * where no variable could ask for it.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_cached_save(ngx_http_request_t *r,
    ngx_http_dsem_cached_t *cached)
{
    size_t                      size;
    ngx_http_core_main_conf_t  *cmcf;
    ngx_http_dsem_main_conf_t  *dmcf;

    cached->variables = NULL;

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);

    if (dmcf->bodies[0] == NGX_CONF_UNSET_UINT
        && dmcf->bodies[1] == NGX_CONF_UNSET_UINT)
    {
        return NGX_OK;
    }

    /* another module may have asked, and what it got is not right for long */

    ngx_http_dsem_cached_forget_body(r);

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);
    size = cmcf->variables.nelts * sizeof(ngx_http_variable_value_t);

    cached->variables = ngx_palloc(r->pool, size);
    if (cached->variables == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(cached->variables, r->variables, size);

    return NGX_OK;
}


/* all that has been evaluated since is forgotten */

void
ngx_http_dsem_cached_restore(ngx_http_request_t *r,
    ngx_http_dsem_cached_t *cached)
{
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    ngx_memcpy(r->variables, cached->variables,
               cmcf->variables.nelts * sizeof(ngx_http_variable_value_t));
}


/* whether the body has been asked for since it was forgotten */

ngx_uint_t
ngx_http_dsem_cached_body(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_variable_value_t  *v;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);

    for (i = 0; i < NGX_HTTP_DSEM_NBODIES; i++) {

        if (dmcf->bodies[i] == NGX_CONF_UNSET_UINT) {
            continue;
        }

        v = &r->variables[dmcf->bodies[i]];

        if (v->valid || v->not_found) {
            return 1;
        }
    }

    return 0;
}


/* it was not there yet when nginx cached it */

void
ngx_http_dsem_cached_forget_body(ngx_http_request_t *r)
{
    ngx_uint_t                  i;
    ngx_http_variable_value_t  *v;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);

    for (i = 0; i < NGX_HTTP_DSEM_NBODIES; i++) {

        if (dmcf->bodies[i] != NGX_CONF_UNSET_UINT) {
            v = &r->variables[dmcf->bodies[i]];
            v->valid = 0;
            v->not_found = 0;
        }
    }
}
