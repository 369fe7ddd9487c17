
/*
 * Wants: what the lines of a location ask for, for one request.
 *
 * Evaluates names and numbers that may hold variables, that is, bytes from
 * clients.  What leaves here is safe to use in keys and logs, and every
 * number is in its range.
 *
 * Called by: request, subrequest; verdict, for one that is given up.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_name.h"
#include "ngx_http_dsem_claim.h"


/* what a number may be */
typedef struct {
    char       *what;
    ngx_int_t   min;
    ngx_int_t   max;
} ngx_http_dsem_range_t;


static ngx_int_t ngx_http_dsem_claim_line(ngx_http_request_t *r,
    ngx_http_dsem_limit_t *line, ngx_http_dsem_claim_t *claim);
static ngx_int_t ngx_http_dsem_claim_number(ngx_http_request_t *r,
    ngx_str_t *name, ngx_http_complex_value_t *cv,
    ngx_http_dsem_range_t *range, ngx_int_t *number);
static ngx_int_t ngx_http_dsem_claim_refuse(ngx_http_request_t *r,
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
 * Evaluates the lines in the order written, into the request's pool.  A
 * line whose name or limit is empty is left out; a name met twice is wanted
 * once, with the larger weight.  NGX_DECLINED: a value is no number in its
 * range; that line's want stands behind the last one.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_claims_evaluate(ngx_http_request_t *r,
    ngx_http_dsem_loc_conf_t *dlcf, ngx_http_dsem_claim_t **claims,
    ngx_uint_t *nclaims)
{
    ngx_int_t              rc;
    ngx_uint_t             i, n;
    ngx_http_dsem_limit_t  *line;

    *claims = NULL;
    *nclaims = 0;

    if (dlcf->limits == NULL) {
        return NGX_OK;
    }

    line = dlcf->limits->elts;
    n = dlcf->limits->nelts;

    *claims = ngx_pcalloc(r->pool, n * sizeof(ngx_http_dsem_claim_t));
    if (*claims == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        rc = ngx_http_dsem_claim_line(r, &line[i], &(*claims)[*nclaims]);

        if (rc == NGX_DONE) {
            /* not limited by this line */
            continue;
        }

        if (rc != NGX_OK) {
            return rc;
        }

        if (!ngx_http_dsem_claim_merge(*claims, *nclaims, &(*claims)[*nclaims]))
        {
            (*nclaims)++;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_claim_line(ngx_http_request_t *r, ngx_http_dsem_limit_t *line,
    ngx_http_dsem_claim_t *claim)
{
    ngx_int_t             rc;
    ngx_str_t             name;
    ngx_http_dsem_ask_t  *ask;

    ask = &claim->ask;
    ngx_memzero(ask, sizeof(ngx_http_dsem_ask_t));

    if (ngx_http_complex_value(r, &line->name, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (name.len == 0) {
        return NGX_DONE;
    }

    if (ngx_http_dsem_name_encode(r->pool, &name, &ask->name) != NGX_OK) {
        return NGX_ERROR;
    }

    ask->weight = 1;
    ask->queue = line->queue;
    ask->strict = line->strict ? *line->strict : (line->queue == 0);
    claim->timeout = line->timeout;

    rc = ngx_http_dsem_claim_number(r, &ask->name, &line->limit,
                                    &ngx_http_dsem_claim_limit, &ask->limit);
    if (rc != NGX_OK) {
        return rc;
    }

    if (line->weight) {
        rc = ngx_http_dsem_claim_number(r, &ask->name, line->weight,
                                        &ngx_http_dsem_claim_weight,
                                        &ask->weight);
        if (rc != NGX_OK && rc != NGX_DONE) {
            return rc;
        }
    }

    if (line->priority) {
        rc = ngx_http_dsem_claim_number(r, &ask->name, line->priority,
                                        &ngx_http_dsem_claim_priority,
                                        &ask->class);
        if (rc != NGX_OK && rc != NGX_DONE) {
            return rc;
        }
    }

    return NGX_OK;
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
        return ngx_http_dsem_claim_refuse(r, name, &value, range);
    }

    if (negative) {
        n = -n;
    }

    if (n < range->min || n > range->max) {
        return ngx_http_dsem_claim_refuse(r, name, &value, range);
    }

    *number = n;

    return NGX_OK;
}


/* says what is wrong with the value, which a client may have written */

static ngx_int_t
ngx_http_dsem_claim_refuse(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *value, ngx_http_dsem_range_t *range)
{
    ngx_str_t                  shown;
    ngx_http_dsem_loc_conf_t  *dlcf;

    if (ngx_http_dsem_name_encode(r->pool, value, &shown) != NGX_OK) {
        return NGX_ERROR;
    }

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "dsem error%s: value \"%V\" of \"%s\" of semaphore "
                  "\"%V\" is not a number between %i and %i",
                  dlcf->dry_run ? ", dry run" : "", &shown, range->what,
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


/* whether both are of the same semaphore */

ngx_uint_t
ngx_http_dsem_claim_same(ngx_http_dsem_claim_t *one,
    ngx_http_dsem_claim_t *other)
{
    return one->ask.name.len == other->ask.name.len
           && ngx_memcmp(one->ask.name.data, other->ask.name.data,
                         one->ask.name.len) == 0;
}


/* gives back what it has, or gives up what it waits for; idempotent */

void
ngx_http_dsem_claim_release(ngx_http_dsem_claim_t *claim)
{
    ngx_http_dsem_ticket_t  *ticket;

    ticket = claim->ticket;

    if (ticket) {
        claim->ticket = NULL;
        ngx_http_dsem_ticket_release(ticket);
    }
}
