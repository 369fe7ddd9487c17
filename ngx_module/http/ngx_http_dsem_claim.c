
/*
 * Claims: what the limits of a location ask for, for one request.
 *
 * Evaluates names and numbers that may hold variables, and so bytes of
 * clients.  Every evaluated name is safe in keys and logs, and every number
 * is within its bounds.
 *
 * Called by: handler; ctx, to compare claims.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_claim.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_semaphore.h"
#include "ngx_http_dsem_text.h"


static ngx_int_t ngx_http_dsem_claim_evaluate(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_fault_t *fault);
static ngx_int_t ngx_http_dsem_claim_upstream(ngx_http_request_t *r,
    ngx_http_dsem_limit_t **limit, ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_fault_t *fault);
static ngx_int_t ngx_http_dsem_claim_name(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_ask_t *ask);
static ngx_int_t ngx_http_dsem_claim_encode(ngx_http_request_t *r,
    ngx_str_t *name, ngx_http_dsem_ask_t *ask);
static ngx_int_t ngx_http_dsem_claim_fair(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_ask_t *ask);
static ngx_int_t ngx_http_dsem_claim_value(ngx_http_request_t *r,
    ngx_http_dsem_value_t *value, ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_fault_t *fault);
static ngx_int_t ngx_http_dsem_claim_text(ngx_http_request_t *r,
    ngx_http_complex_value_t *value, ngx_str_t *text);
#if (NGX_PCRE)
static ngx_int_t ngx_http_dsem_claim_variables(ngx_http_request_t *r,
    ngx_http_complex_value_t *value);
#endif


/* by ngx_http_dsem_param_e; each is an ngx_int_t */
static size_t  ngx_http_dsem_claim_numbers[] = {
    offsetof(ngx_http_dsem_claim_t, ask.limit),
    offsetof(ngx_http_dsem_claim_t, ask.weight),
    offsetof(ngx_http_dsem_claim_t, ask.class),
    offsetof(ngx_http_dsem_claim_t, ask.queue),
    offsetof(ngx_http_dsem_claim_t, timeout),
    offsetof(ngx_http_dsem_claim_t, ask.share)
};


/*
 * Evaluates the limits in the order written, into claims, which has room for
 * all.  A limit whose name or number is empty is left out; a name met twice
 * is claimed once, with the larger weight and the first key.  NGX_DECLINED: a
 * value is not a number within its bounds, or names no pool, see fault; its
 * claim follows the last one.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_claims_evaluate(ngx_http_request_t *r, ngx_array_t *limits,
    ngx_http_dsem_claim_t *claims, ngx_uint_t *nclaims,
    ngx_http_dsem_fault_t *fault)
{
    ngx_int_t               rc;
    ngx_uint_t              i, k;
    ngx_http_dsem_claim_t  *claim;
    ngx_http_dsem_limit_t  *limit;

    *nclaims = 0;

    limit = limits->elts;

    for (i = 0; i < limits->nelts; i++) {
        claim = &claims[*nclaims];

        rc = ngx_http_dsem_claim_evaluate(r, &limit[i], claim, fault);

        if (rc == NGX_DONE) {
            /* not limited */
            continue;
        }

        if (rc != NGX_OK) {
            return rc;
        }

        for (k = 0; k < *nclaims; k++) {
            if (ngx_http_dsem_claim_same(&claims[k], claim)) {
                claims[k].ask.weight = ngx_max(claims[k].ask.weight,
                                              claim->ask.weight);
                break;
            }
        }

        if (k == *nclaims) {
            (*nclaims)++;
        }
    }

    return NGX_OK;
}


/* NGX_DONE: the name or the limit is empty */

static ngx_int_t
ngx_http_dsem_claim_evaluate(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_fault_t *fault)
{
    ngx_int_t             rc;
    ngx_uint_t            i;
    ngx_http_dsem_ask_t  *ask;

    ngx_memzero(claim, sizeof(ngx_http_dsem_claim_t));

    ask = &claim->ask;

    if (limit->upstream) {
        rc = ngx_http_dsem_claim_upstream(r, &limit, ask, fault);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    rc = ngx_http_dsem_claim_name(r, limit, ask);
    if (rc != NGX_OK) {
        return rc;
    }

    ask->limit = limit->number;
    ask->weight = limit->weight;
    ask->class = limit->priority;
    ask->queue = limit->queue;
    ask->share = limit->share;
    ask->strict = *limit->strict;
    ask->pool = limit->pool;
    claim->timeout = limit->timeout;

    if (limit->max) {
        ask->auto_limit = 1;

        if (r->upstream_states) {
            claim->states = r->upstream_states->nelts;
        }
    }

    for (i = 0; i < limit->nvalues; i++) {
        rc = ngx_http_dsem_claim_value(r, &limit->values[i], claim, fault);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (ask->queue == NGX_CONF_UNSET) {
        ask->queue = ngx_http_dsem_semaphore_drains(ask, claim->timeout);
    }

    return limit->fair ? ngx_http_dsem_claim_fair(r, limit, ask) : NGX_OK;
}


/*
 * Replaces the limit by that of the upstream that it names.  NGX_DONE: the name
 * is empty; NGX_DECLINED: no such upstream has a limit.
 */

static ngx_int_t
ngx_http_dsem_claim_upstream(ngx_http_request_t *r,
    ngx_http_dsem_limit_t **limit, ngx_http_dsem_ask_t *ask,
    ngx_http_dsem_fault_t *fault)
{
    ngx_str_t                   name;
    ngx_http_dsem_srv_conf_t   *dscf;
    ngx_http_dsem_main_conf_t  *dmcf;

    if (ngx_http_dsem_claim_text(r, &(*limit)->name, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (name.len == 0) {
        return NGX_DONE;
    }

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);
    dscf = ngx_http_dsem_upstream_find(dmcf, &name);

    if (dscf) {
        *limit = dscf->limit;
        return NGX_OK;
    }

    fault->value = NULL;
    fault->text = name;

    /* counted as a semaphore with this name is */

    if (ngx_http_dsem_claim_encode(r, &name, ask) != NGX_OK) {
        return NGX_ERROR;
    }

    return NGX_DECLINED;
}


/* the encoded name and its hash; NGX_DONE: it is empty */

static ngx_int_t
ngx_http_dsem_claim_name(ngx_http_request_t *r, ngx_http_dsem_limit_t *limit,
    ngx_http_dsem_ask_t *ask)
{
    ngx_str_t  name;

    if (limit->encoded.data) {
        ask->name = limit->encoded;
        ask->hash = limit->hash;
        return NGX_OK;
    }

    if (ngx_http_dsem_claim_text(r, &limit->name, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (name.len == 0) {
        return NGX_DONE;
    }

    return ngx_http_dsem_claim_encode(r, &name, ask);
}


/* a name that is not empty, as in keys, and its hash */

static ngx_int_t
ngx_http_dsem_claim_encode(ngx_http_request_t *r, ngx_str_t *name,
    ngx_http_dsem_ask_t *ask)
{
    if (ngx_http_dsem_key_encode(r->pool, name, &ask->name) != NGX_OK) {
        return NGX_ERROR;
    }

    ask->hash = ngx_crc32_short(ask->name.data, ask->name.len);

    return NGX_OK;
}


/* the encoded key, which may be empty */

static ngx_int_t
ngx_http_dsem_claim_fair(ngx_http_request_t *r, ngx_http_dsem_limit_t *limit,
    ngx_http_dsem_ask_t *ask)
{
    ngx_str_t  key;

    ask->fair = 1;

    if (ngx_http_dsem_claim_text(r, limit->fair, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_key_encode(r->pool, &key, &ask->key);
}


/*
 * An empty value leaves the number as it is; NGX_DONE: it is that of the
 * limit.  NGX_DECLINED: it is not valid.
 */

static ngx_int_t
ngx_http_dsem_claim_value(ngx_http_request_t *r,
    ngx_http_dsem_value_t *value, ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_fault_t *fault)
{
    u_char     *p;
    ngx_int_t   n, rc;
    ngx_str_t   text;

    if (ngx_http_dsem_claim_text(r, &value->text, &text) != NGX_OK) {
        return NGX_ERROR;
    }

    if (text.len == 0) {
        return (value->index == NGX_HTTP_DSEM_PARAM_LIMIT) ? NGX_DONE
                                                           : NGX_OK;
    }

    rc = value->param->parse(&text, &n);

    if (rc == NGX_DONE && value->index == NGX_HTTP_DSEM_PARAM_QUEUE) {
        /* "auto" */
        n = NGX_CONF_UNSET;

    } else if (rc != NGX_OK || n < value->param->low || n > value->high) {
        fault->value = value;
        fault->text = text;
        return NGX_DECLINED;
    }

    p = (u_char *) claim + ngx_http_dsem_claim_numbers[value->index];
    *(ngx_int_t *) p = n;

    return NGX_OK;
}


#if (NGX_PCRE)

/*
 * A value.  A map overwrites the captures of the location, which are of use in
 * all of the value, in the next one and in "proxy_pass": they are put back.
 * The map is evaluated before the value is composed, which has as many bytes
 * then as nginx counts first; and not again while it is, so that does not
 * flush.  That nginx allocates others (realloc_captures) would not do: these
 * are not set where the map does not match.
 */

static ngx_int_t
ngx_http_dsem_claim_text(ngx_http_request_t *r, ngx_http_complex_value_t *value,
    ngx_str_t *text)
{
    int                       *captures, *saved;
    size_t                     size;
    u_char                    *data;
    unsigned                   alone;
    ngx_int_t                  rc;
    ngx_uint_t                 n, composed;
    ngx_http_complex_value_t   evaluated;

    if (value->lengths == NULL) {
        *text = value->value;
        return NGX_OK;
    }

    n = r->ncaptures;
    data = r->captures_data;
    captures = r->captures;
    alone = r->realloc_captures;

    /* an expression without groups has a number, but no captures */

    size = captures ? n * sizeof(int) : 0;
    saved = NULL;

    if (size) {
        saved = ngx_palloc(r->pool, size);
        if (saved == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(saved, captures, size);
    }

    evaluated = *value;
    evaluated.flushes = NULL;

    rc = NGX_OK;

    for (composed = 0; composed < 2; composed++) {
        rc = composed ? ngx_http_complex_value(r, &evaluated, text)
                      : ngx_http_dsem_claim_variables(r, value);

        r->ncaptures = n;

        if (size) {
            ngx_memcpy(captures, saved, size);

            r->captures_data = data;
            r->captures = captures;
            r->realloc_captures = alone;
        }
    }

    return rc;
}


/* they are evaluated, and cached where nginx does that */

static ngx_int_t
ngx_http_dsem_claim_variables(ngx_http_request_t *r,
    ngx_http_complex_value_t *value)
{
    ngx_http_script_engine_t     e;
    ngx_http_script_len_code_pt  code;

    ngx_http_script_flush_complex_value(r, value);

    ngx_memzero(&e, sizeof(ngx_http_script_engine_t));

    e.ip = value->lengths;
    e.request = r;
    e.flushed = 1;

    while (*(uintptr_t *) e.ip) {
        code = *(ngx_http_script_len_code_pt *) e.ip;
        (void) code(&e);
    }

    return NGX_OK;
}

#else

static ngx_int_t
ngx_http_dsem_claim_text(ngx_http_request_t *r, ngx_http_complex_value_t *value,
    ngx_str_t *text)
{
    return ngx_http_complex_value(r, value, text);
}

#endif


/*
 * True if both are of the same semaphore.  A name with variables may be that
 * of a pool, whose permits have servers: it is not the same.
 */

ngx_uint_t
ngx_http_dsem_claim_same(ngx_http_dsem_claim_t *one,
    ngx_http_dsem_claim_t *other)
{
    return one->ask.pool == other->ask.pool
           && ngx_http_dsem_text_order(&one->ask.name, &other->ask.name) == 0;
}


/* why the claim is not valid */

void
ngx_http_dsem_claim_log(ngx_http_request_t *r, ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_fault_t *fault)
{
    ngx_str_t                  shown;
    ngx_http_dsem_param_t     *param;
    ngx_http_dsem_loc_conf_t  *dlcf;

    if (ngx_http_dsem_key_encode(r->pool, &fault->text, &shown) != NGX_OK) {
        ngx_str_set(&shown, "?");
    }

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    if (fault->value == NULL) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "dsem error%s: value \"%V\" of \"upstream\" names no "
                      "upstream that has a \"dsem\" directive",
                      dlcf->dry_run ? ", dry run" : "", &shown);
        return;
    }

    param = fault->value->param;

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "dsem error%s: value \"%V\" of \"%V\" of semaphore "
                  "\"%V\" is not a %s between %i%s and %i%s",
                  dlcf->dry_run ? ", dry run" : "", &shown, &param->name,
                  &claim->ask.name, param->unit[0] ? "time" : "number",
                  param->low, param->unit, fault->value->high, param->unit);
}
