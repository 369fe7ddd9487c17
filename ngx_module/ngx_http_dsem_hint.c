
/*
 * Pace: how fast permits come back, as far as this worker has seen.
 *
 * Accounts go when nothing is left in them; this is what is remembered of
 * them for a while, for estimates only.  A table of a fixed size: names that
 * clients invent push each other out, and cost no memory.
 *
 * Called by: ticket (a permit went back), sync_reply (an answer has come),
 * idle (whether to keep permits), semaphore and refusal (what is to be
 * expected).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_name.h"
#include "ngx_http_dsem_hint.h"


#define NGX_HTTP_DSEM_HINTS        128

/* an answer is good for so long, ms: then the semaphore may have room */
#define NGX_HTTP_DSEM_USAGE_TIME   100

/* the mean follows the last eight or so; it is kept in eighths of ms */
#define NGX_HTTP_DSEM_HINT_SHIFT   3


typedef struct {
    uint32_t                hash;
    size_t                  len;        /* 0: nobody's */
    u_char                  name[NGX_HTTP_DSEM_MAX_NAME];

    ngx_msec_t              held;       /* mean, in eighths; 0: not known */
    ngx_msec_t              told;       /* when the stand was as it is */
    ngx_http_dsem_usage_t   usage;
    ngx_msec_t              off;        /* nothing is kept idle until then */
    unsigned                held_off:1;
    unsigned                full:1;     /* and somebody was refused */
} ngx_http_dsem_hint_t;


static ngx_http_dsem_hint_t *ngx_http_dsem_hint_find(ngx_str_t *name,
    uint32_t hash);
static ngx_http_dsem_hint_t *ngx_http_dsem_hint_take(ngx_str_t *name,
    uint32_t hash);


static ngx_http_dsem_hint_t  ngx_http_dsem_hints[NGX_HTTP_DSEM_HINTS];


/* a permit of this semaphore was held for so long, ms, and went back */

void
ngx_http_dsem_hint_held(ngx_str_t *name, uint32_t hash, ngx_msec_t time)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_take(name, hash);

    hint->full = 0;

    if (hint->held == 0) {
        hint->held = ngx_max(time << NGX_HTTP_DSEM_HINT_SHIFT, 1);
        return;
    }

    hint->held += time - (hint->held >> NGX_HTTP_DSEM_HINT_SHIFT);
    hint->held = ngx_max(hint->held, 1);
}


/* somebody was refused (full), or was queued: so the semaphore stands */

void
ngx_http_dsem_hint_usage(ngx_str_t *name, uint32_t hash,
    ngx_http_dsem_usage_t *usage, ngx_uint_t full)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_take(name, hash);

    hint->usage = *usage;
    hint->told = ngx_current_msec;
    hint->full = full;
}


/* somebody has to wait: for so long, ms, no permits are kept idle */

void
ngx_http_dsem_hint_hold_off(ngx_str_t *name, uint32_t hash, ngx_msec_t time)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_take(name, hash);

    hint->off = ngx_current_msec + time;
    hint->held_off = 1;
}


ngx_uint_t
ngx_http_dsem_hint_held_off(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name, hash);

    if (hint == NULL || !hint->held_off) {
        return 0;
    }

    hint->held_off = ((ngx_msec_int_t) (hint->off - ngx_current_msec) > 0);

    return hint->held_off;
}


/*
 * How the semaphore stood when it had neither a permit nor a place, if
 * nothing better has been heard since and that is not long ago; or NULL.
 */

ngx_http_dsem_usage_t *
ngx_http_dsem_hint_last(ngx_str_t *name)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name,
                                   ngx_crc32_short(name->data, name->len));

    if (hint == NULL
        || !hint->full
        || ngx_current_msec - hint->told > NGX_HTTP_DSEM_USAGE_TIME)
    {
        return NULL;
    }

    return &hint->usage;
}


/*
 * In how many ms one more would have its turn, if all who waited when Redis
 * last told are served first; 0 when that is not known.
 */

ngx_msec_t
ngx_http_dsem_hint_wait(ngx_str_t *name)
{
    ngx_http_dsem_hint_t  *hint;

    hint = ngx_http_dsem_hint_find(name,
                                   ngx_crc32_short(name->data, name->len));

    if (hint == NULL || hint->usage.limit == 0) {
        return 0;
    }

    return (ngx_msec_t) ((uint64_t) (hint->usage.waiting + 1)
                         * (hint->held >> NGX_HTTP_DSEM_HINT_SHIFT)
                         / hint->usage.limit);
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


/* this semaphore's from now on, whosever it was */

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
