
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


/* bounds of a number */
typedef struct {
    char       *name;
    ngx_int_t   min;
    ngx_int_t   max;
} ngx_http_dsem_range_t;


static ngx_int_t ngx_http_dsem_claim_evaluate(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_claim_t *claim);
static ngx_int_t ngx_http_dsem_claim_name(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_ask_t *ask);
static ngx_int_t ngx_http_dsem_claim_fair(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_ask_t *ask);
static ngx_int_t ngx_http_dsem_claim_heavy(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_ask_t *ask);
static ngx_int_t ngx_http_dsem_claim_number(ngx_http_request_t *r,
    ngx_str_t *name, ngx_http_complex_value_t *cv,
    ngx_http_dsem_range_t *range, ngx_int_t *number);
static ngx_int_t ngx_http_dsem_claim_invalid(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *value, ngx_http_dsem_range_t *range);
static ngx_uint_t ngx_http_dsem_claim_merge(ngx_http_dsem_claim_t *claims,
    ngx_uint_t n, ngx_http_dsem_claim_t *claim);


static ngx_http_dsem_range_t  ngx_http_dsem_claim_limit =
    { "limit", 0, NGX_HTTP_DSEM_MAX_LIMIT };

static ngx_http_dsem_range_t  ngx_http_dsem_claim_weight =
    { "weight", 1, NGX_HTTP_DSEM_MAX_LIMIT };

static ngx_http_dsem_range_t  ngx_http_dsem_claim_priority =
    { "priority", NGX_HTTP_DSEM_MIN_PRIORITY, NGX_HTTP_DSEM_MAX_PRIORITY };


/*
 * Evaluates the limits in the order written, into claims, which has room for
 * all.  A limit whose name or number is empty is left out; a name met twice
 * is claimed once, with the larger weight and the first key.  NGX_DECLINED: a
 * value is not a number within its bounds; its claim follows the last one.
 * NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_claims_evaluate(ngx_http_request_t *r, ngx_array_t *limits,
    ngx_http_dsem_claim_t *claims, ngx_uint_t *nclaims)
{
    ngx_int_t               rc;
    ngx_uint_t              i;
    ngx_http_dsem_claim_t  *claim;
    ngx_http_dsem_limit_t  *limit;

    *nclaims = 0;

    limit = limits->elts;

    for (i = 0; i < limits->nelts; i++) {
        claim = &claims[*nclaims];

        rc = ngx_http_dsem_claim_evaluate(r, &limit[i], claim);

        if (rc == NGX_DONE) {
            /* not limited */
            continue;
        }

        if (rc != NGX_OK) {
            return rc;
        }

        if (!ngx_http_dsem_claim_merge(claims, *nclaims, claim)) {
            (*nclaims)++;
        }
    }

    return NGX_OK;
}


/* NGX_DONE: the name or the limit is empty */

static ngx_int_t
ngx_http_dsem_claim_evaluate(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *limit, ngx_http_dsem_claim_t *claim)
{
    ngx_int_t             rc;
    ngx_http_dsem_ask_t  *ask;

    ngx_memzero(claim, sizeof(ngx_http_dsem_claim_t));

    ask = &claim->ask;

    rc = ngx_http_dsem_claim_name(r, limit, ask);
    if (rc != NGX_OK) {
        return rc;
    }

    ask->weight = 1;
    ask->queue = limit->queue;
    ask->strict = limit->strict ? *limit->strict : (limit->queue == 0);
    claim->timeout = limit->timeout;

    if (limit->number != NGX_CONF_UNSET) {
        ask->limit = limit->number;
        ask->found = (limit->max != 0);

        if (ask->found && r->upstream_states) {
            claim->states = r->upstream_states->nelts;
        }

    } else {
        rc = ngx_http_dsem_claim_number(r, &ask->name, &limit->limit,
                                        &ngx_http_dsem_claim_limit,
                                        &ask->limit);
        if (rc != NGX_OK) {
            return rc;
        }
    }

    if (limit->weight) {
        rc = ngx_http_dsem_claim_heavy(r, limit, ask);
        if (rc != NGX_OK && rc != NGX_DONE) {
            return rc;
        }
    }

    if (limit->priority) {
        rc = ngx_http_dsem_claim_number(r, &ask->name, limit->priority,
                                        &ngx_http_dsem_claim_priority,
                                        &ask->class);
        if (rc != NGX_OK && rc != NGX_DONE) {
            return rc;
        }
    }

    return limit->fair ? ngx_http_dsem_claim_fair(r, limit, ask) : NGX_OK;
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

    if (ngx_http_complex_value(r, &limit->name, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (name.len == 0) {
        return NGX_DONE;
    }

    if (ngx_http_dsem_key_encode(r->pool, &name, &ask->name) != NGX_OK) {
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
    ask->share = limit->share;

    if (ngx_http_complex_value(r, limit->fair, &key) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_key_encode(r->pool, &key, &ask->key);
}


/* a limit that is found may be the lowest one: "weight" is not above "min" */

static ngx_int_t
ngx_http_dsem_claim_heavy(ngx_http_request_t *r, ngx_http_dsem_limit_t *limit,
    ngx_http_dsem_ask_t *ask)
{
    ngx_http_dsem_range_t  range;

    range = ngx_http_dsem_claim_weight;

    if (limit->max) {
        range.max = limit->min;
    }

    return ngx_http_dsem_claim_number(r, &ask->name, limit->weight, &range,
                                      &ask->weight);
}


/* NGX_DONE: the value is empty, number is left as it is */

static ngx_int_t
ngx_http_dsem_claim_number(ngx_http_request_t *r, ngx_str_t *name,
    ngx_http_complex_value_t *cv, ngx_http_dsem_range_t *range,
    ngx_int_t *number)
{
    ngx_int_t   n;
    ngx_str_t   value;
    ngx_uint_t  negative;

    if (ngx_http_complex_value(r, cv, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.len == 0) {
        return NGX_DONE;
    }

    negative = (value.data[0] == '-');

    n = ngx_atoi(value.data + negative, value.len - negative);

    if (n == NGX_ERROR) {
        return ngx_http_dsem_claim_invalid(r, name, &value, range);
    }

    if (negative) {
        n = -n;
    }

    if (n < range->min || n > range->max) {
        return ngx_http_dsem_claim_invalid(r, name, &value, range);
    }

    *number = n;

    return NGX_OK;
}


/* logs the value, which may come from a client */

static ngx_int_t
ngx_http_dsem_claim_invalid(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value, ngx_http_dsem_range_t *range)
{
    ngx_str_t                  shown;
    ngx_http_dsem_loc_conf_t  *dlcf;

    if (ngx_http_dsem_key_encode(r->pool, value, &shown) != NGX_OK) {
        return NGX_ERROR;
    }

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "dsem error%s: value \"%V\" of \"%s\" of semaphore "
                  "\"%V\" is not a number between %i and %i",
                  dlcf->dry_run ? ", dry run" : "", &shown, range->name,
                  name, range->min, range->max);

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_dsem_claim_merge(ngx_http_dsem_claim_t *claims, ngx_uint_t n,
    ngx_http_dsem_claim_t *claim)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (ngx_http_dsem_claim_same(&claims[i], claim)) {
            claims[i].ask.weight = ngx_max(claims[i].ask.weight,
                                          claim->ask.weight);
            return 1;
        }
    }

    return 0;
}


/* true if both are of the same semaphore */

ngx_uint_t
ngx_http_dsem_claim_same(ngx_http_dsem_claim_t *one,
    ngx_http_dsem_claim_t *other)
{
    return one->ask.name.len == other->ask.name.len
           && ngx_memcmp(one->ask.name.data, other->ask.name.data,
                         one->ask.name.len) == 0;
}
