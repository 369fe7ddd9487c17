
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
#include "ngx_http_dsem_pace.h"


#define NGX_HTTP_DSEM_PACES        128

/* an answer is good for so long, ms: then the semaphore may have room */
#define NGX_HTTP_DSEM_STAND_TIME   100

/* the mean follows the last eight or so; it is kept in eighths of ms */
#define NGX_HTTP_DSEM_PACE_SHIFT   3


typedef struct {
    uint32_t                hash;
    size_t                  len;        /* 0: nobody's */
    u_char                  name[NGX_HTTP_DSEM_MAX_NAME];

    ngx_msec_t              held;       /* mean, in eighths; 0: not known */
    ngx_msec_t              told;       /* when the stand was as it is */
    ngx_http_dsem_stand_t   stand;
    ngx_msec_t              off;        /* nothing is kept idle until then */
    unsigned                held_off:1;
    unsigned                full:1;     /* and somebody was refused */
} ngx_http_dsem_pace_t;


static ngx_http_dsem_pace_t *ngx_http_dsem_pace_find(ngx_str_t *name,
    uint32_t hash);
static ngx_http_dsem_pace_t *ngx_http_dsem_pace_take(ngx_str_t *name,
    uint32_t hash);


static ngx_http_dsem_pace_t  ngx_http_dsem_paces[NGX_HTTP_DSEM_PACES];


/* a permit of this semaphore was held for so long, ms, and went back */

void
ngx_http_dsem_pace_held(ngx_str_t *name, uint32_t hash, ngx_msec_t time)
{
    ngx_http_dsem_pace_t  *pace;

    pace = ngx_http_dsem_pace_take(name, hash);

    pace->full = 0;

    if (pace->held == 0) {
        pace->held = ngx_max(time << NGX_HTTP_DSEM_PACE_SHIFT, 1);
        return;
    }

    pace->held += time - (pace->held >> NGX_HTTP_DSEM_PACE_SHIFT);
    pace->held = ngx_max(pace->held, 1);
}


/* somebody was refused (full), or was queued: so the semaphore stands */

void
ngx_http_dsem_pace_stand(ngx_str_t *name, uint32_t hash,
    ngx_http_dsem_stand_t *stand, ngx_uint_t full)
{
    ngx_http_dsem_pace_t  *pace;

    pace = ngx_http_dsem_pace_take(name, hash);

    pace->stand = *stand;
    pace->told = ngx_current_msec;
    pace->full = full;
}


/* somebody has to wait: for so long, ms, no permits are kept idle */

void
ngx_http_dsem_pace_hold_off(ngx_str_t *name, uint32_t hash, ngx_msec_t time)
{
    ngx_http_dsem_pace_t  *pace;

    pace = ngx_http_dsem_pace_take(name, hash);

    pace->off = ngx_current_msec + time;
    pace->held_off = 1;
}


ngx_uint_t
ngx_http_dsem_pace_held_off(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_pace_t  *pace;

    pace = ngx_http_dsem_pace_find(name, hash);

    if (pace == NULL || !pace->held_off) {
        return 0;
    }

    pace->held_off = ((ngx_msec_int_t) (pace->off - ngx_current_msec) > 0);

    return pace->held_off;
}


/*
 * How the semaphore stood when it had neither a permit nor a place, if
 * nothing better has been heard since and that is not long ago; or NULL.
 */

ngx_http_dsem_stand_t *
ngx_http_dsem_pace_last(ngx_str_t *name)
{
    ngx_http_dsem_pace_t  *pace;

    pace = ngx_http_dsem_pace_find(name,
                                   ngx_crc32_short(name->data, name->len));

    if (pace == NULL
        || !pace->full
        || ngx_current_msec - pace->told > NGX_HTTP_DSEM_STAND_TIME)
    {
        return NULL;
    }

    return &pace->stand;
}


/*
 * In how many ms one more would have its turn, if all who waited when Redis
 * last told are served first; 0 when that is not known.
 */

ngx_msec_t
ngx_http_dsem_pace_wait(ngx_str_t *name)
{
    ngx_http_dsem_pace_t  *pace;

    pace = ngx_http_dsem_pace_find(name,
                                   ngx_crc32_short(name->data, name->len));

    if (pace == NULL || pace->stand.limit == 0) {
        return 0;
    }

    return (ngx_msec_t) ((uint64_t) (pace->stand.waiting + 1)
                         * (pace->held >> NGX_HTTP_DSEM_PACE_SHIFT)
                         / pace->stand.limit);
}


static ngx_http_dsem_pace_t *
ngx_http_dsem_pace_find(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_pace_t  *pace;

    pace = &ngx_http_dsem_paces[hash % NGX_HTTP_DSEM_PACES];

    if (pace->hash != hash
        || pace->len != name->len
        || ngx_memcmp(pace->name, name->data, name->len) != 0)
    {
        return NULL;
    }

    return pace;
}


/* this semaphore's from now on, whosever it was */

static ngx_http_dsem_pace_t *
ngx_http_dsem_pace_take(ngx_str_t *name, uint32_t hash)
{
    ngx_http_dsem_pace_t  *pace;

    pace = ngx_http_dsem_pace_find(name, hash);

    if (pace) {
        return pace;
    }

    pace = &ngx_http_dsem_paces[hash % NGX_HTTP_DSEM_PACES];

    ngx_memzero(pace, sizeof(ngx_http_dsem_pace_t));

    pace->hash = hash;
    pace->len = ngx_min(name->len, NGX_HTTP_DSEM_MAX_NAME);
    ngx_memcpy(pace->name, name->data, pace->len);

    return pace;
}
