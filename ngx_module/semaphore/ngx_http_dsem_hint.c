
/*
 * Hints: what is remembered of semaphores, for estimates only.
 *
 * Accounts are freed when they are empty; hints outlive them for a while.
 * They are a table of a fixed size: names that clients invent replace each
 * other, and cost no memory.
 *
 * Called by: account and ledger (hold times, usage), dispatch (a new epoch),
 * semaphore and refusal (estimates).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_hint.h"
#include "ngx_http_dsem_key.h"


#define NGX_HTTP_DSEM_HINTS        128

/* ms; after that the semaphore may have room again */
#define NGX_HTTP_DSEM_HINT_TIME    100

/* ms; no estimate is longer: 24 days */
#define NGX_HTTP_DSEM_HINT_LONGEST 0x7fffffff


typedef struct {
    uint32_t                hash;
    size_t                  len;        /* 0: unused */
    u_char                  name[NGX_HTTP_DSEM_MAX_NAME];

    ngx_msec_t              hold_time;  /* mean, in eighths; 0: unknown */
    double                  permit_time;  /* mean of it times the weight */
    ngx_http_dsem_usage_t   usage;
    ngx_msec_t              usage_time; /* time of the reply */
    ngx_int_t               limit;      /* that was asked for */
    unsigned                full:1;     /* a request was rejected */
} ngx_http_dsem_hint_t;


static ngx_http_dsem_hint_t *ngx_http_dsem_hint_find(ngx_str_t *name,
    uint32_t hash);
static ngx_http_dsem_hint_t *ngx_http_dsem_hint_take(ngx_str_t *name,
    uint32_t hash);


static ngx_http_dsem_hint_t  ngx_http_dsem_hints[NGX_HTTP_DSEM_HINTS];


/*
 * Mean hold time of requests of this semaphore, in 1/8 ms, and the mean of
 * their hold times times their weights: heavy ones may take longer.
 */

void
ngx_http_dsem_hint_set_hold_time(ngx_str_t *name, uint32_t hash,
    ngx_msec_t time, double permit_time)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_take(name, hash);

    hint->hold_time = time;
    hint->permit_time = permit_time;
}


/* a permit has come free */

void
ngx_http_dsem_hint_not_full(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name, hash);

    if (hint) {
        hint->full = 0;
    }
}


/* Redis may have lost everything: of all semaphores */

void
ngx_http_dsem_hints_not_full(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_DSEM_HINTS; i++) {
        ngx_http_dsem_hints[i].full = 0;
    }
}


/* in eighths of ms, 0: unknown */

ngx_msec_t
ngx_http_dsem_hint_hold_time(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name, hash);

    return hint ? hint->hold_time : 0;
}


double
ngx_http_dsem_hint_permit_time(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name, hash);

    return hint ? hint->permit_time : 0;
}


/* a request with this limit was queued, or rejected (full) */

void
ngx_http_dsem_hint_set_usage(ngx_str_t *name, uint32_t hash,
    ngx_http_dsem_usage_t *usage, ngx_int_t limit, ngx_uint_t full)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_take(name, hash);

    hint->usage = *usage;
    hint->usage_time = ngx_current_msec;
    hint->limit = limit;
    hint->full = full;
}


/*
 * The usage of a semaphore that had neither a permit nor a place in the last
 * reply, if that is recent and no permit has come free since; or NULL.  A
 * request with a higher limit, from a variable, may raise the one in force.
 */

ngx_http_dsem_usage_t *
ngx_http_dsem_hint_full(ngx_str_t *name, uint32_t hash, ngx_int_t limit)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name, hash);

    if (hint == NULL
        || !hint->full
        || limit > hint->limit
        || ngx_current_msec - hint->usage_time > NGX_HTTP_DSEM_HINT_TIME)
    {
        return NULL;
    }

    return &hint->usage;
}


/*
 * ms until one more request would be granted a permit; 0: unknown.  limit: all
 * of it is in use, and no request waits; 0: as in the last reply.
 */

ngx_msec_t
ngx_http_dsem_hint_wait(ngx_str_t *name, ngx_int_t limit)
{
    double                 time;
    ngx_int_t              requests;
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name,
                                   ngx_crc32_short(name->data, name->len));
    if (hint == NULL) {
        return 0;
    }

    requests = 1;

    if (limit == 0) {
        requests += hint->usage.waiting;
        limit = hint->usage.limit;
    }

    if (limit <= 0) {
        return 0;
    }

    time = hint->permit_time / (1 << NGX_HTTP_DSEM_HOLD_TIME_SHIFT)
           * requests / limit;

    return (ngx_msec_t) ngx_min(time, NGX_HTTP_DSEM_HINT_LONGEST);
}


static ngx_http_dsem_hint_t *
ngx_http_dsem_hint_find(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_hint_t  *hint;

    hint = &ngx_http_dsem_hints[hash % NGX_HTTP_DSEM_HINTS];

    if (hint->hash != hash
        || hint->len != name->len
        || ngx_memcmp(hint->name, name->data, name->len) != 0)
    {
        return NULL;
    }

    return hint;
}


/* this semaphore's; replaces that of another one */

static ngx_http_dsem_hint_t *
ngx_http_dsem_hint_take(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name, hash);

    if (hint) {
        return hint;
    }

    hint = &ngx_http_dsem_hints[hash % NGX_HTTP_DSEM_HINTS];

    ngx_memzero(hint, sizeof(ngx_http_dsem_hint_t));

    hint->hash = hash;
    hint->len = ngx_min(name->len, NGX_HTTP_DSEM_MAX_NAME);
    ngx_memcpy(hint->name, name->data, hint->len);

    return hint;
}
