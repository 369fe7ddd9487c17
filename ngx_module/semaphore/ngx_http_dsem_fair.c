
/*
 * Fair shares: the keys of one account, and the tags of its tickets.
 *
 * Owns what this worker knows of each key: how long its requests hold their
 * permits, how many wait, how many permits they hold.  The mean hold time is
 * the expected cost of a request, by which Redis computes its place.  While
 * Redis cannot be asked the same rule orders the requests of this worker: a
 * ticket starts at the start tag of the last ticket served, or at the finish
 * tag of the last ticket of its key, whichever is later, and finishes after
 * cost / share.  A key does not pay for tickets that leave without a permit:
 * later ones stay where they are, and the next ones cost less.
 *
 * A key without a ticket is forgotten when there are too many, the oldest
 * first: the number of keys is bounded by what clients have at this worker,
 * not by what they invent.  A key in two classes is two keys.
 *
 * Called by: account (life), ticket (all of its ways), local and sync.  Knows
 * neither accounts nor tickets.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fair.h"


/* keys without a ticket that are remembered, less those with one */
#define NGX_HTTP_DSEM_FAIR_KEYS      1024

/* keys among which the busiest are found */
#define NGX_HTTP_DSEM_FAIR_LOOKED    4096

/* us; of one permit, of one request */
#define NGX_HTTP_DSEM_FAIR_MIN_COST  1000
#define NGX_HTTP_DSEM_FAIR_MAX_COST  1e18

/* of tags in this worker, as in lua/include/fair.lua: in 1/8 us of the limit */
#define NGX_HTTP_DSEM_FAIR_UNITS     8
#define NGX_HTTP_DSEM_FAIR_MAX_STEP  1000000000

/* hold times in the mean: from then on the last one is a tenth of it */
#define NGX_HTTP_DSEM_FAIR_MEASURED  10

/* costs by which a key may owe more than it has paid; prepaid ones at most */
#define NGX_HTTP_DSEM_FAIR_BEHIND    4
#define NGX_HTTP_DSEM_FAIR_PREPAID   64

/* ms until debts are computed again, later it is late; keys of one time */
#define NGX_HTTP_DSEM_FAIR_PAUSE     4
#define NGX_HTTP_DSEM_FAIR_LONGEST   100
#define NGX_HTTP_DSEM_FAIR_LATE      20
#define NGX_HTTP_DSEM_FAIR_WATCHED   256

/* a class and a key */
#define NGX_HTTP_DSEM_FAIR_NAME_LEN  (1 + NGX_HTTP_DSEM_MAX_NAME)


static ngx_http_dsem_fair_key_t *ngx_http_dsem_fair_find(
    ngx_http_dsem_fair_t *fair, ngx_str_t *name, uint32_t hash);
static void ngx_http_dsem_fair_trim(ngx_http_dsem_fair_t *fair,
    ngx_uint_t left);
static void ngx_http_dsem_fair_measure(ngx_http_dsem_fair_key_t *key,
    ngx_msec_t hold_time, ngx_msec_t mean);
static int64_t ngx_http_dsem_fair_clock(ngx_http_dsem_fair_t *fair);
static void ngx_http_dsem_fair_stalled(ngx_http_dsem_fair_t *fair);
static void ngx_http_dsem_fair_update(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_key_t *key);
static double ngx_http_dsem_fair_used(ngx_http_dsem_fair_key_t *key);
static void ngx_http_dsem_fair_debt(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_key_t *key);
static void ngx_http_dsem_fair_watch(ngx_http_dsem_fair_t *fair, int64_t time);
static ngx_uint_t ngx_http_dsem_fair_rank(ngx_http_dsem_top_key_t *keys,
    ngx_uint_t n, ngx_http_dsem_fair_key_t *key);
static uint32_t ngx_http_dsem_fair_compose(u_char *buf, ngx_int_t class,
    ngx_str_t *key, ngx_str_t *name);


#define ngx_http_dsem_fair_class(class)                                       \
    (((class) - NGX_HTTP_DSEM_FAIR_FIRST) % NGX_HTTP_DSEM_FAIR_CLASSES)


/* of the semaphore with this encoded name; NULL: no memory */

ngx_http_dsem_fair_t *
ngx_http_dsem_fair_create(ngx_http_dsem_keys_t *keys, ngx_str_t *name)
{
    u_char                *p;
    ngx_http_dsem_fair_t  *fair;

    fair = ngx_calloc(sizeof(ngx_http_dsem_fair_t)
                      + 2 * ngx_http_dsem_key_len(keys, name),
                      ngx_cycle->log);
    if (fair == NULL) {
        return NULL;
    }

    p = (u_char *) fair + sizeof(ngx_http_dsem_fair_t);

    p = ngx_http_dsem_key_parts(keys, "f", name, &fair->key, p);
    (void) ngx_http_dsem_key_parts(keys, "n", name, &fair->drops_key, p);

    ngx_rbtree_init(&fair->keys, &fair->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&fair->used);
    ngx_queue_init(&fair->unused);
    ngx_queue_init(&fair->slow);
    ngx_queue_init(&fair->debts);

    return fair;
}


/* no ticket refers to any of its keys */

void
ngx_http_dsem_fair_free(ngx_http_dsem_fair_t *fair)
{
    ngx_http_dsem_top_hide(&fair->top);
    ngx_http_dsem_fair_trim(fair, 0);

    if (fair->watch.timer_set) {
        ngx_del_timer(&fair->watch);
    }

    ngx_free(fair);
}


/*
 * A ticket refers to its key, until it is released.  Without memory it has
 * none, and is sent as one without a key.
 */

void
ngx_http_dsem_fair_join(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t class, ngx_str_t *key)
{
    u_char                     buf[NGX_HTTP_DSEM_FAIR_NAME_LEN];
    uint32_t                   hash;
    ngx_str_t                  name;
    ngx_http_dsem_fair_key_t  *k;

    hash = ngx_http_dsem_fair_compose(buf, class, key, &name);

    k = ngx_http_dsem_fair_find(fair, &name, hash);

    if (k == NULL) {
        ngx_http_dsem_fair_trim(fair, NGX_HTTP_DSEM_FAIR_KEYS - 1);

        k = ngx_alloc(sizeof(ngx_http_dsem_fair_key_t) + name.len,
                      ngx_cycle->log);
        if (k == NULL) {
            tag->key = NULL;
            return;
        }

        ngx_memzero(k, sizeof(ngx_http_dsem_fair_key_t));

        k->node.node.key = hash;
        k->node.str.len = name.len;
        k->node.str.data = (u_char *) k + sizeof(ngx_http_dsem_fair_key_t);
        ngx_memcpy(k->node.str.data, name.data, name.len);

        ngx_rbtree_insert(&fair->keys, &k->node.node);
        fair->nkeys++;

    } else if (k->tickets == 0) {
        ngx_queue_remove(&k->queue);
    }

    if (k->tickets++ == 0) {
        ngx_queue_insert_tail(&fair->used, &k->queue);
    }

    tag->key = k;
}


/* another ticket has been made of this one */

void
ngx_http_dsem_fair_copied(ngx_http_dsem_fair_tag_t *tag)
{
    if (tag->key) {
        tag->key->tickets++;
    }
}


/* a ticket that has a key is freed */

void
ngx_http_dsem_fair_leave(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag)
{
    ngx_http_dsem_fair_key_t  *key;

    key = tag->key;
    tag->key = NULL;

    if (key && --key->tickets == 0) {
        ngx_queue_remove(&key->queue);

        /* used more than once, half as long again as others */

        ngx_queue_insert_tail((key->measured > 2
                               && 2 * key->hold_time > 3 * fair->mean)
                              ? &fair->slow : &fair->unused, &key->queue);

        ngx_http_dsem_fair_trim(fair, NGX_HTTP_DSEM_FAIR_KEYS);
    }
}


static ngx_http_dsem_fair_key_t *
ngx_http_dsem_fair_find(ngx_http_dsem_fair_t *fair, ngx_str_t *name,
    uint32_t hash)
{
    return (ngx_http_dsem_fair_key_t *)
               ngx_str_rbtree_lookup(&fair->keys, name, hash);
}


/*
 * Forgets keys without a ticket until "left" keys are left.  A slow one that
 * is forgotten would count as a usual one: many new keys must not do that.
 */

static void
ngx_http_dsem_fair_trim(ngx_http_dsem_fair_t *fair, ngx_uint_t left)
{
    ngx_queue_t               *q;
    ngx_http_dsem_fair_key_t  *key;

    while (fair->nkeys > left) {
        q = ngx_queue_head(ngx_queue_empty(&fair->unused) ? &fair->slow
                                                          : &fair->unused);
        if (q == ngx_queue_sentinel(&fair->slow)) {
            return;
        }

        key = ngx_queue_data(q, ngx_http_dsem_fair_key_t, queue);

        ngx_queue_remove(q);

        if (key->owing) {
            ngx_queue_remove(&key->debt);
        }

        ngx_rbtree_delete(&fair->keys, &key->node.node);
        fair->nkeys--;

        ngx_free(key);
    }
}


/*
 * What it will use; mean is that of the semaphore, in ms, for a new key.  While
 * no mean is there at all nothing is charged, either: all keys pay the same.
 */

void
ngx_http_dsem_fair_expect(ngx_http_dsem_fair_tag_t *tag, ngx_int_t weight,
    ngx_int_t share, ngx_msec_t mean)
{
    double                     cost;
    int64_t                    time;
    ngx_http_dsem_fair_key_t  *key;

    key = tag->key;

    time = (key && key->hold_time) ? key->hold_time : (int64_t) mean * 1000;
    time = ngx_max(time, NGX_HTTP_DSEM_FAIR_MIN_COST);

    cost = (double) time * weight / share;
    cost = ngx_min(cost, NGX_HTTP_DSEM_FAIR_MAX_COST);

    tag->cost = ngx_max((int64_t) cost, 1);
    tag->rate = 0;

    if (mean || (key && key->hold_time)) {
        tag->rate = 1000.0 * weight / share;
    }

    if (key) {
        key->cost = tag->cost;
    }
}


/*
 * It waits, at its cost as a part of the limit; a ticket without a key is
 * behind all of its class.
 */

void
ngx_http_dsem_fair_wait(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t class, ngx_int_t limit)
{
    int64_t                    step;
    uint64_t                   served, credit, spent, *latest;
    ngx_http_dsem_fair_key_t  *key;

    key = tag->key;
    latest = &fair->latest[ngx_http_dsem_fair_class(class)];

    if (key == NULL) {
        tag->start = *latest;
        return;
    }

    served = fair->served[ngx_http_dsem_fair_class(class)];
    /* R8: start tag */
    tag->start = ngx_max(served, key->finish);

    /* a key that has nothing to pay has no credit; no ticket is free */

    step = tag->cost * NGX_HTTP_DSEM_FAIR_UNITS / ngx_max(limit, 1);
    step = ngx_min(step, NGX_HTTP_DSEM_FAIR_MAX_STEP);
    tag->step = ngx_max(step, 1);

    credit = ngx_min(key->credit, tag->start - served);
    spent = ngx_min(credit, tag->step - 1);

    tag->finish = tag->start + tag->step - spent;

    *latest = ngx_max(*latest, tag->start);

    key->credit = credit - spent;
    key->finish = tag->finish;
    key->waiting++;
}


/*
 * Its owner leaves without a permit, and its key need not pay for it: the last
 * ticket of the key gives its share back, another one leaves a credit, which is
 * given back when none of the key waits.
 */

void
ngx_http_dsem_fair_unwait(ngx_http_dsem_fair_tag_t *tag)
{
    ngx_http_dsem_fair_key_t  *key;

    key = tag->key;

    if (key == NULL) {
        return;
    }

    key->credit += tag->step;

    if (key->finish == tag->finish) {
        key->credit -= tag->finish - tag->start;
        key->finish = tag->start;
    }

    if (--key->waiting == 0) {
        key->finish -= ngx_min(key->credit, key->finish);
        key->credit = 0;
    }
}


/* it is served, after it has waited */

void
ngx_http_dsem_fair_serve(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t class)
{
    uint64_t  *served;

    served = &fair->served[ngx_http_dsem_fair_class(class)];
    *served = ngx_max(*served, tag->start);

    if (tag->key) {
        tag->key->waiting--;
    }
}


/* a ticket with a key holds its permits */

void
ngx_http_dsem_fair_hold(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t weight)
{
    ngx_http_dsem_fair_key_t  *key;

    key = tag->key;

    ngx_http_dsem_fair_update(fair, key);

    tag->began = ngx_http_dsem_fair_clock(fair);
    tag->stalls = fair->stalls;

    key->holders++;
    key->in_use += weight;
    key->rate += tag->rate;
    key->over -= (tag->rate > 0) ? tag->cost : 0;

    ngx_http_dsem_fair_debt(fair, key);
}


/*
 * The permits of a ticket with a key come free after hold_time ms; mean is that
 * of the semaphore.  What it has used beyond its cost remains to be paid.
 * What it has not used counts for the next ones, if it was queued: a ticket
 * that is granted at once pays nothing.  Time in which this worker did not run
 * is not expected of the next ones either: ten of them would wait for it.
 */

void
ngx_http_dsem_fair_release(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t weight, ngx_msec_t hold_time,
    ngx_msec_t mean)
{
    double                     over;
    ngx_http_dsem_fair_key_t  *key;

    key = tag->key;

    ngx_http_dsem_fair_update(fair, key);

    over = ngx_http_dsem_fair_clock(fair) - tag->began;
    over = (tag->rate > 0) ? tag->rate * over - tag->cost : 0;

    key->in_use -= weight;
    key->rate -= tag->rate;
    key->over -= over;

    if (--key->holders == 0) {
        /* fractions may be left */
        key->rate = 0;
        key->over = 0;
    }

    fair->mean = (int64_t) mean * 1000;

    if (tag->limit == 0) {
        over = ngx_max(over, 0);
    }

    key->balance = ngx_max(key->balance + over,
                           -key->cost * NGX_HTTP_DSEM_FAIR_PREPAID);

    hold_time -= ngx_min(hold_time, fair->stalls - tag->stalls);

    ngx_http_dsem_fair_measure(key, hold_time, mean);
    ngx_http_dsem_fair_debt(fair, key);
}


/* ms in which tickets have waited in Redis: other time costs nothing */

static int64_t
ngx_http_dsem_fair_clock(ngx_http_dsem_fair_t *fair)
{
    if (!fair->contended) {
        return fair->clock;
    }

    ngx_http_dsem_fair_stalled(fair);

    return fair->clock + (int64_t) (ngx_current_msec - fair->since);
}


/*
 * A timer that is late shows that this worker did not run: that time is left
 * out, as far as the timer shows it.  It would be charged to those keys that
 * had more requests than usual by chance.
 */

static void
ngx_http_dsem_fair_stalled(ngx_http_dsem_fair_t *fair)
{
    ngx_msec_int_t  late, most;

    late = (ngx_msec_int_t) (ngx_current_msec - fair->due);

    if (fair->due == 0 || late <= NGX_HTTP_DSEM_FAIR_LATE) {
        return;
    }

    most = (ngx_msec_int_t) (ngx_current_msec - fair->since);
    fair->since += ngx_min(late, most);
    fair->stalls += late;

    fair->due = fair->watch.timer_set ? ngx_current_msec : 0;
}


/* the time until now is added to what the running requests of a key use */

static void
ngx_http_dsem_fair_update(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_key_t *key)
{
    int64_t  clock;

    clock = ngx_http_dsem_fair_clock(fair);

    key->over += key->rate * (clock - key->updated);
    key->updated = clock;
}


/* us that running requests have used beyond their costs, as of the update */

static double
ngx_http_dsem_fair_used(ngx_http_dsem_fair_key_t *key)
{
    return ngx_max(key->over, 0);
}


/*
 * A key whose requests use more than their costs is to be charged while tickets
 * wait: its own were placed by these costs.  A request that runs on and on is
 * charged for a fourth of its time at once, so that a slow one takes some tens
 * of charges, and not thousands.
 */

static void
ngx_http_dsem_fair_debt(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_key_t *key)
{
    double  bound, left;

    if (!fair->contended || key->owing) {
        return;
    }

    /* of what running requests use, when the balance is that of now */

    bound = key->cost * (NGX_HTTP_DSEM_FAIR_BEHIND + key->holders);
    bound = ngx_max(bound - key->balance, -key->balance * 4 / 3);

    left = bound - ngx_http_dsem_fair_used(key);

    if (left <= 0) {
        key->owing = 1;
        ngx_queue_insert_tail(&fair->debts, &key->debt);
        ngx_http_dsem_fair_watch(fair, NGX_HTTP_DSEM_FAIR_PAUSE);

    } else if (key->rate > 0) {
        left = (bound - key->over) / key->rate + 1;

        ngx_http_dsem_fair_watch(fair, (int64_t) ngx_min(left,
                                                NGX_HTTP_DSEM_FAIR_LONGEST));
    }
}


/* debts are computed again within this time, in ms */

static void
ngx_http_dsem_fair_watch(ngx_http_dsem_fair_t *fair, int64_t time)
{
    ngx_event_t  *watch;

    watch = &fair->watch;

    time = ngx_max(time, NGX_HTTP_DSEM_FAIR_PAUSE);
    time = ngx_min(time, NGX_HTTP_DSEM_FAIR_LONGEST);

    if (watch->timer_set) {

        if ((ngx_msec_int_t) (watch->timer.key - ngx_current_msec) <= time) {
            return;
        }

        ngx_del_timer(watch);
    }

    ngx_add_timer(watch, (ngx_msec_t) time);
    fair->due = watch->timer.key;
}


/*
 * Whether tickets wait in Redis, by the last reply; not while it is unknown.
 * Tags end with the queue, and with them what is owed.
 */

void
ngx_http_dsem_fair_contend(ngx_http_dsem_fair_t *fair, ngx_uint_t contended)
{
    ngx_queue_t               *q;
    ngx_http_dsem_fair_key_t  *key;

    if (contended == fair->contended) {
        return;
    }

    fair->clock = ngx_http_dsem_fair_clock(fair);
    fair->since = ngx_current_msec;
    fair->contended = contended;

    if (contended) {
        ngx_http_dsem_fair_watch(fair, NGX_HTTP_DSEM_FAIR_PAUSE);
        return;
    }

    for (q = ngx_queue_head(&fair->debts);
         q != ngx_queue_sentinel(&fair->debts);
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_http_dsem_fair_key_t, debt);
        key->owing = 0;

        ngx_http_dsem_fair_update(fair, key);
        key->balance = -ngx_http_dsem_fair_used(key);
    }

    ngx_queue_init(&fair->debts);
}


/*
 * The debts of keys with tickets, some at a time, as of now.  True if there are
 * keys to be charged.
 */

ngx_uint_t
ngx_http_dsem_fair_debts(ngx_http_dsem_fair_t *fair)
{
    ngx_uint_t                 n;
    ngx_queue_t               *q, *last;
    ngx_http_dsem_fair_key_t  *key;

    if (!fair->contended) {
        fair->due = 0;
        return 0;
    }

    ngx_http_dsem_fair_stalled(fair);
    fair->due = 0;

    n = 0;
    last = ngx_queue_last(&fair->used);

    while (!ngx_queue_empty(&fair->used)) {

        if (n++ == NGX_HTTP_DSEM_FAIR_WATCHED) {
            ngx_http_dsem_fair_watch(fair, NGX_HTTP_DSEM_FAIR_PAUSE);
            break;
        }

        q = ngx_queue_head(&fair->used);
        key = ngx_queue_data(q, ngx_http_dsem_fair_key_t, queue);

        ngx_queue_remove(q);
        ngx_queue_insert_tail(&fair->used, q);

        ngx_http_dsem_fair_update(fair, key);
        ngx_http_dsem_fair_debt(fair, key);

        if (q == last) {
            break;
        }
    }

    return !ngx_queue_empty(&fair->debts);
}


/* takes what keys owe, of n keys at most; returns their number */

ngx_uint_t
ngx_http_dsem_fair_charge(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_charge_t *charges, ngx_uint_t n)
{
    double                     cost;
    ngx_uint_t                 i;
    ngx_queue_t               *q;
    ngx_http_dsem_fair_key_t  *key;

    i = 0;

    while (i < n && !ngx_queue_empty(&fair->debts)) {
        q = ngx_queue_head(&fair->debts);
        ngx_queue_remove(q);

        key = ngx_queue_data(q, ngx_http_dsem_fair_key_t, debt);
        key->owing = 0;

        ngx_http_dsem_fair_update(fair, key);

        cost = key->balance + ngx_http_dsem_fair_used(key);

        if (cost < 1) {
            continue;
        }

        charges[i].cost = (int64_t) ngx_min(cost, NGX_HTTP_DSEM_FAIR_MAX_COST);
        key->balance -= charges[i].cost;

        charges[i].class = (ngx_int_t) key->node.str.data[0]
                           + NGX_HTTP_DSEM_FAIR_FIRST;
        charges[i].key.data = key->node.str.data + 1;
        charges[i].key.len = key->node.str.len - 1;
        i++;

        ngx_http_dsem_fair_debt(fair, key);
    }

    if (!ngx_queue_empty(&fair->debts)) {
        ngx_http_dsem_fair_watch(fair, NGX_HTTP_DSEM_FAIR_PAUSE);
    }

    return i;
}


/*
 * The mean of the semaphore counts as the first hold time of a key: a key whose
 * first request was an exception would pay for it ten times.
 */

static void
ngx_http_dsem_fair_measure(ngx_http_dsem_fair_key_t *key,
    ngx_msec_t hold_time, ngx_msec_t mean)
{
    int64_t  time;

    time = (int64_t) hold_time * 1000;

    if (key->measured == 0 && mean) {
        key->hold_time = (int64_t) mean * 1000;
        key->measured = 1;
    }

    if (key->measured < NGX_HTTP_DSEM_FAIR_MEASURED) {
        key->measured++;
    }

    key->hold_time += (time - key->hold_time) / key->measured;
    key->hold_time = ngx_max(key->hold_time, 1);
}


/* its busiest keys are shown in the API, as the keys of this semaphore */

void
ngx_http_dsem_fair_show(ngx_http_dsem_fair_t *fair, ngx_str_t *name,
    uint32_t hash)
{
    ngx_uint_t                 n, looked;
    ngx_queue_t               *q;
    ngx_http_dsem_fair_key_t  *key;
    ngx_http_dsem_top_key_t    keys[NGX_HTTP_DSEM_TOP_KEYS];

    n = 0;
    looked = 0;

    for (q = ngx_queue_head(&fair->used);
         q != ngx_queue_sentinel(&fair->used)
         && looked++ < NGX_HTTP_DSEM_FAIR_LOOKED;
         q = ngx_queue_next(q))
    {
        key = ngx_queue_data(q, ngx_http_dsem_fair_key_t, queue);

        if (key->in_use || key->waiting) {
            n = ngx_http_dsem_fair_rank(keys, n, key);
        }
    }

    if (n || fair->top.block) {
        ngx_http_dsem_top_show(&fair->top, name, hash, keys, n);
    }
}


/* enters a key among the first n, the busiest first; returns their number */

static ngx_uint_t
ngx_http_dsem_fair_rank(ngx_http_dsem_top_key_t *keys, ngx_uint_t n,
    ngx_http_dsem_fair_key_t *key)
{
    ngx_int_t   busy;
    ngx_uint_t  i;

    busy = key->in_use + key->waiting;

    if (n == NGX_HTTP_DSEM_TOP_KEYS) {

        if (busy <= keys[n - 1].in_use + keys[n - 1].waiting) {
            return n;
        }

        n--;
    }

    for (i = n; i && keys[i - 1].in_use + keys[i - 1].waiting < busy; i--) {
        keys[i] = keys[i - 1];
    }

    keys[i].in_use = key->in_use;
    keys[i].waiting = key->waiting;
    keys[i].key.data = key->node.str.data + 1;
    keys[i].key.len = key->node.str.len - 1;

    return n + 1;
}


/* the start tag of a ticket that would wait now */

uint64_t
ngx_http_dsem_fair_start(ngx_http_dsem_fair_t *fair, ngx_int_t class,
    ngx_str_t *key)
{
    u_char                     buf[NGX_HTTP_DSEM_FAIR_NAME_LEN];
    uint32_t                   hash;
    uint64_t                   served;
    ngx_str_t                  name;
    ngx_http_dsem_fair_key_t  *record;

    hash = ngx_http_dsem_fair_compose(buf, class, key, &name);

    record = ngx_http_dsem_fair_find(fair, &name, hash);
    served = fair->served[ngx_http_dsem_fair_class(class)];

    /* R8: start tag */
    return record ? ngx_max(served, record->finish) : served;
}


/* the key of a ticket that has one, encoded */

void
ngx_http_dsem_fair_name(ngx_http_dsem_fair_tag_t *tag, ngx_str_t *name)
{
    name->data = tag->key->node.str.data + 1;
    name->len = tag->key->node.str.len - 1;
}


/*
 * The name of a key in a class, written to buf; returns its hash.  No encoded
 * key is "~", which stands for the empty one.
 */

static uint32_t
ngx_http_dsem_fair_compose(u_char *buf, ngx_int_t class, ngx_str_t *key,
    ngx_str_t *name)
{
    u_char  *p;

    p = buf;

    *p++ = (u_char) (class - NGX_HTTP_DSEM_FAIR_FIRST);

    if (key->len == 0) {
        *p++ = '~';
    }

    p = ngx_cpymem(p, key->data, ngx_min(key->len, NGX_HTTP_DSEM_MAX_NAME));

    name->data = buf;
    name->len = p - buf;

    return ngx_crc32_short(name->data, name->len);
}
