
/*
 * Memo: what the workers of a node share about limits.
 *
 * Owns, in the zone, the limits that were found last, by name: a worker that
 * has not seen requests of a name for a while, or has just started, has that
 * of its siblings when Redis is unavailable or has lost it; the limits in force
 * that are lower than those asked for, and pauses, for the same purpose; and
 * what the log has of lower limits of other nodes and of malformed orders, as
 * one worker logs for all.
 *
 * Limits that were found, and those in the log, are of names of the
 * configuration: the hash is enough for these.  Lower limits are also those of
 * names that clients choose, with the hash of another one if they want to:
 * their places have the name itself.  Some of these names never come back: a
 * place that no reply has shown for a while gives way to another name.
 *
 * Places of limits that were found are claimed, and never given back: reloads
 * that change names use them up, and of a name without a place each worker has
 * its own limit.  There is no lock, see zone: a process that is stopped, or
 * killed, while it writes a name keeps the place from others.
 *
 * Called by: limits, message; zone, at its creation.  A single process has no
 * memo, but one of its own for lower limits and foreign messages.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_memo.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_process.h"


/* names with "limit=auto" of a node, of all its configurations */
#define NGX_HTTP_DSEM_MEMO_LIMITS  64

/* names that are paused, or with a lower limit in force, such as an order */
#define NGX_HTTP_DSEM_MEMO_LOWER   64

/* ms without a reply of its name; then a place is for another one */
#define NGX_HTTP_DSEM_MEMO_KEEP    60000

/* lower limits of other nodes that the log has */
#define NGX_HTTP_DSEM_MEMO_LOGGED  64

/*
 * malformed orders that the log has; ms between two lines about others, or
 * until the line before is logged again
 */
#define NGX_HTTP_DSEM_MEMO_ORDERS      64
#define NGX_HTTP_DSEM_MEMO_ORDERS_LOG  60000

/* ms without a foreign message; the next one is logged again */
#define NGX_HTTP_DSEM_MEMO_QUIET   60000

/* instead of a value: a process writes the name of the place */
#define NGX_HTTP_DSEM_MEMO_TAKEN   ((ngx_atomic_uint_t) -1)


typedef struct {
    ngx_atomic_t                 value;        /* 2 * (limit + 1), and 1 more if
                                                  the name is paused; without a
                                                  lower limit 0, or 1 */
    ngx_atomic_t                 shown;        /* monotonic ms, of the last
                                                  reply with it */
    ngx_atomic_t                 sent;         /* monotonic ms, the command of
                                                  the reply with the value */
    uint32_t                     hash;         /* of the name, in its space */
    uint32_t                     len;          /* 0: never used */
    u_char                       name[NGX_HTTP_DSEM_MAX_NAME];
} ngx_http_dsem_memo_lower_t;


/* changed by any worker */
typedef struct {
    ngx_atomic_t                 hash;         /* of the name; 0: free */
    ngx_atomic_t                 line;         /* of the log, a checksum */
    ngx_atomic_t                 before;       /* the line before; 0: none */
    ngx_atomic_t                 changed;      /* monotonic ms, since then */
} ngx_http_dsem_memo_order_t;


struct ngx_http_dsem_memo_s {
    ngx_http_dsem_memo_limit_t   limits[NGX_HTTP_DSEM_MEMO_LIMITS];
    ngx_http_dsem_memo_lower_t   lower[NGX_HTTP_DSEM_MEMO_LOWER];
    ngx_atomic_t                 logged[NGX_HTTP_DSEM_MEMO_LOGGED];
    ngx_http_dsem_memo_order_t   orders[NGX_HTTP_DSEM_MEMO_ORDERS];
    ngx_atomic_t                 orders_last;  /* monotonic ms, the last that
                                                  took the place of another */
    ngx_atomic_t                 foreign;      /* messages, so far */
    ngx_atomic_t                 foreign_last; /* monotonic ms, or 0 */
};


static ngx_uint_t ngx_http_dsem_memo_order_changed(
    ngx_http_dsem_memo_order_t *order, uint32_t line);
static ngx_http_dsem_memo_lower_t *ngx_http_dsem_memo_find(
    ngx_http_dsem_memo_t *memo, ngx_uint_t i, ngx_str_t *name, uint32_t hash,
    ngx_atomic_uint_t *value);
static void ngx_http_dsem_memo_take(ngx_http_dsem_memo_t *memo,
    ngx_str_t *name, uint32_t hash, ngx_atomic_uint_t value, uint64_t sent);
static void ngx_http_dsem_memo_free_others(ngx_http_dsem_memo_t *memo,
    ngx_str_t *name, uint32_t hash);
static ngx_uint_t ngx_http_dsem_memo_better(ngx_http_dsem_memo_lower_t *lower,
    ngx_http_dsem_memo_lower_t *best);


/* of a process without a zone */
static ngx_http_dsem_memo_t  ngx_http_dsem_memo_alone;


/* bytes of a memo, which begins as zeros */

size_t
ngx_http_dsem_memo_size(void)
{
    return sizeof(ngx_http_dsem_memo_t);
}


/* the place of a name; NULL: there is no memo, or no place left */

ngx_http_dsem_memo_limit_t *
ngx_http_dsem_memo_limit(ngx_http_dsem_memo_t *memo, uint32_t hash)
{
    ngx_uint_t                   i;
    ngx_http_dsem_memo_limit_t  *limit;

    if (memo == NULL || hash == 0) {
        return NULL;
    }

    for (i = 0; i < NGX_HTTP_DSEM_MEMO_LIMITS; i++) {
        limit = &memo->limits[i];

        if (limit->hash == 0) {
            (void) ngx_atomic_cmp_set(&limit->hash, 0, hash);
        }

        if (limit->hash == hash) {
            return limit;
        }
    }

    return NULL;
}


/*
 * True for the first worker of the node that is to log that this limit is in
 * force instead of the node's own.  Names that share a place are logged once
 * more.
 */

ngx_uint_t
ngx_http_dsem_memo_claim(ngx_http_dsem_memo_t *memo, uint32_t hash,
    ngx_int_t limit, ngx_int_t own)
{
    u_char              text[3 * NGX_INT64_LEN + 3], *last;
    uint32_t            line;
    ngx_atomic_t       *logged;
    ngx_atomic_uint_t   before;

    if (memo == NULL) {
        return 1;
    }

    last = ngx_sprintf(text, "%uD %i %i", hash, limit, own);
    line = ngx_crc32_short(text, last - text) | 1;

    logged = &memo->logged[hash % NGX_HTTP_DSEM_MEMO_LOGGED];
    before = *logged;

    return before != line && ngx_atomic_cmp_set(logged, before, line);
}


/* the node's own limit is in force: a lower one is logged again */

void
ngx_http_dsem_memo_unclaim(ngx_http_dsem_memo_t *memo, uint32_t hash)
{
    if (memo) {
        memo->logged[hash % NGX_HTTP_DSEM_MEMO_LOGGED] = 0;
    }
}


/*
 * A malformed order of a name; line: a checksum, never 0.  True if this worker
 * is to log it: the log does not have it, and there is a place.  The order of
 * before the last change is not logged again for a minute: a worker that was
 * busy reads its message late.  Where no place is left a name takes that of
 * another one, which is logged again when it comes.  The node allows that once
 * a minute: malformed orders of many names would fill the log.
 */

ngx_uint_t
ngx_http_dsem_memo_claim_order(ngx_http_dsem_memo_t *memo, uint32_t hash,
    uint32_t line)
{
    ngx_uint_t                   i;
    ngx_atomic_uint_t            now, before;
    ngx_http_dsem_memo_order_t  *order;

    if (memo == NULL) {
        memo = &ngx_http_dsem_memo_alone;
    }

    hash = ngx_max(hash, 1);

    for (i = 0; i < NGX_HTTP_DSEM_MEMO_ORDERS; i++) {
        order = &memo->orders[i];

        if (order->hash == 0) {
            (void) ngx_atomic_cmp_set(&order->hash, 0, hash);
        }

        if (order->hash == hash) {
            return ngx_http_dsem_memo_order_changed(order, line);
        }
    }

    /* in this order: it is not ahead of the clock that is read after it */

    before = memo->orders_last;
    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

    if ((before && now - before < NGX_HTTP_DSEM_MEMO_ORDERS_LOG)
        || !ngx_atomic_cmp_set(&memo->orders_last, before, now))
    {
        return 0;
    }

    order = &memo->orders[hash % NGX_HTTP_DSEM_MEMO_ORDERS];

    order->line = line;
    order->before = 0;
    order->hash = hash;

    return 1;
}


static ngx_uint_t
ngx_http_dsem_memo_order_changed(ngx_http_dsem_memo_order_t *order,
    uint32_t line)
{
    ngx_atomic_uint_t  now, before, changed;

    before = order->line;

    if (before == line) {
        return 0;
    }

    changed = order->changed;
    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

    if (order->before == line && now - changed < NGX_HTTP_DSEM_MEMO_ORDERS_LOG)
    {
        return 0;
    }

    order->before = before;
    order->changed = now;

    return ngx_atomic_cmp_set(&order->line, before, line);
}


/*
 * The limit in force, and the one that was asked for; -1: unknown.  A lower one
 * takes a place, until the one that was asked for is in force, and so does a
 * pause.  A higher one says only that this request asked for less than others:
 * what others asked for is not in force.  sent: the command of the reply, in
 * monotonic ms.
 *
 * If two workers take or change a place at the same time one may do so in vain:
 * the next reply to a worker corrects it.
 */

void
ngx_http_dsem_memo_set_lower(ngx_http_dsem_memo_t *memo, ngx_str_t *name,
    uint32_t hash, ngx_int_t own, ngx_int_t limit, ngx_uint_t paused,
    uint64_t sent)
{
    ngx_atomic_uint_t            value, before;
    ngx_http_dsem_memo_lower_t  *lower;

    if (memo == NULL) {
        memo = &ngx_http_dsem_memo_alone;
    }

    lower = ngx_http_dsem_memo_find(memo, 0, name, hash, &before);
    value = before / 2;

    if (own != -1 && (value || limit < own)) {
        value = (limit == own) ? 0 : limit + 1;
    }

    value = 2 * value + paused;

    if (lower) {

        if (!ngx_http_dsem_process_latest(&lower->sent, sent)) {
            return;
        }

        if (value) {
            lower->shown = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();
        }

        /* unless it has become the place of another name */
        (void) ngx_atomic_cmp_set(&lower->value, before, value);

    } else if (value) {
        ngx_http_dsem_memo_take(memo, name, hash, value, sent);
    }
}


/*
 * The place of a name, of those from the i-th on, and its value; NULL: it has
 * none, the value is 0.
 */

static ngx_http_dsem_memo_lower_t *
ngx_http_dsem_memo_find(ngx_http_dsem_memo_t *memo, ngx_uint_t i,
    ngx_str_t *name, uint32_t hash, ngx_atomic_uint_t *value)
{
    ngx_uint_t                   same;
    ngx_http_dsem_memo_lower_t  *lower;

    for ( /* void */ ; i < NGX_HTTP_DSEM_MEMO_LOWER; i++) {
        lower = &memo->lower[i];

        /* the value is that of the name if neither has changed meanwhile */

        do {
            *value = lower->value;

            ngx_memory_barrier();

            same = (lower->hash == hash
                    && lower->len == name->len
                    && ngx_memcmp(lower->name, name->data, name->len) == 0);

            ngx_memory_barrier();

        } while (lower->value != *value);

        if (*value == 0 && lower->len == 0) {
            break;
        }

        if (*value != NGX_HTTP_DSEM_MEMO_TAKEN && same) {
            return lower;
        }
    }

    *value = 0;

    return NULL;
}


/*
 * A place for a name.  Where none is free it is that of the name whose last
 * reply is the oldest, but not of one in use: names that clients choose, for
 * each of which requests ask for different limits, would take that of a name
 * with an order.  Another process may be ahead, by the time of its reply, too.
 */

static void
ngx_http_dsem_memo_take(ngx_http_dsem_memo_t *memo, ngx_str_t *name,
    uint32_t hash, ngx_atomic_uint_t value, uint64_t sent)
{
    ngx_uint_t                   i;
    ngx_atomic_uint_t            now, before;
    ngx_http_dsem_memo_lower_t  *lower;

    lower = &memo->lower[0];

    for (i = 1; i < NGX_HTTP_DSEM_MEMO_LOWER; i++) {
        if (ngx_http_dsem_memo_better(&memo->lower[i], lower)) {
            lower = &memo->lower[i];
        }
    }

    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();
    before = lower->value;

    if (before == NGX_HTTP_DSEM_MEMO_TAKEN
        || (before
            && now + NGX_HTTP_DSEM_MEMO_KEEP - lower->shown
               < 2 * NGX_HTTP_DSEM_MEMO_KEEP)
        || !ngx_atomic_cmp_set(&lower->value, before,
                               NGX_HTTP_DSEM_MEMO_TAKEN))
    {
        return;
    }

    lower->shown = now;
    lower->sent = (ngx_atomic_uint_t) sent;
    lower->hash = hash;
    lower->len = ngx_min(name->len, NGX_HTTP_DSEM_MAX_NAME);
    ngx_memcpy(lower->name, name->data, lower->len);

    ngx_memory_barrier();

    lower->value = value;

    ngx_memory_barrier();

    ngx_http_dsem_memo_free_others(memo, name, hash);
}


/*
 * Processes that take a place for one name at the same time have one each.
 * Replies change the first of these only: another one would keep what it has
 * until the first is that of another name.  The last process sees all.
 */

static void
ngx_http_dsem_memo_free_others(ngx_http_dsem_memo_t *memo, ngx_str_t *name,
    uint32_t hash)
{
    ngx_uint_t                   i;
    ngx_atomic_uint_t            value;
    ngx_http_dsem_memo_lower_t  *lower;

    lower = ngx_http_dsem_memo_find(memo, 0, name, hash, &value);

    while (lower) {
        i = lower - memo->lower + 1;

        lower = ngx_http_dsem_memo_find(memo, i, name, hash, &value);

        if (lower) {
            (void) ngx_atomic_cmp_set(&lower->value, value, 0);
        }
    }
}


/* a free place, or the one whose last reply is the oldest */

static ngx_uint_t
ngx_http_dsem_memo_better(ngx_http_dsem_memo_lower_t *lower,
    ngx_http_dsem_memo_lower_t *best)
{
    if (lower->value == NGX_HTTP_DSEM_MEMO_TAKEN || best->value == 0) {
        return 0;
    }

    return lower->value == 0
           || best->value == NGX_HTTP_DSEM_MEMO_TAKEN
           || (ngx_atomic_int_t) (lower->shown - best->shown) < 0;
}


/*
 * own, or the lower limit in force that the node has seen.  seen: what this
 * worker has, which may be older; for a name without a place.
 */

ngx_int_t
ngx_http_dsem_memo_lower(ngx_http_dsem_memo_t *memo, ngx_str_t *name,
    uint32_t hash, ngx_int_t own, ngx_int_t seen)
{
    ngx_atomic_uint_t  value;

    if (memo == NULL) {
        memo = &ngx_http_dsem_memo_alone;
    }

    if (ngx_http_dsem_memo_find(memo, 0, name, hash, &value) == NULL) {
        return ngx_min(own, seen);
    }

    return (value < 2) ? own : ngx_min(own, (ngx_int_t) (value / 2) - 1);
}


ngx_uint_t
ngx_http_dsem_memo_paused(ngx_http_dsem_memo_t *memo, ngx_str_t *name,
    uint32_t hash)
{
    ngx_atomic_uint_t  value;

    if (memo == NULL) {
        memo = &ngx_http_dsem_memo_alone;
    }

    (void) ngx_http_dsem_memo_find(memo, 0, name, hash, &value);

    return value % 2;
}


/*
 * Counts a message that no script of dsem has sent.  True if the node has had
 * none for a while: it is to be logged.
 */

ngx_uint_t
ngx_http_dsem_memo_foreign(ngx_http_dsem_memo_t *memo)
{
    ngx_atomic_uint_t  now, last;

    if (memo == NULL) {
        memo = &ngx_http_dsem_memo_alone;
    }

    (void) ngx_atomic_fetch_add(&memo->foreign, 1);

    /* in this order, as above */

    last = memo->foreign_last;
    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

    return ngx_atomic_cmp_set(&memo->foreign_last, last, now)
           && (last == 0 || now - last >= NGX_HTTP_DSEM_MEMO_QUIET);
}


/* their number */

ngx_uint_t
ngx_http_dsem_memo_foreigners(ngx_http_dsem_memo_t *memo)
{
    return memo ? memo->foreign : ngx_http_dsem_memo_alone.foreign;
}
