
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

/* keys among which the busiest are looked for */
#define NGX_HTTP_DSEM_FAIR_LOOKED    4096

/* us; of one permit, of one request */
#define NGX_HTTP_DSEM_FAIR_MIN_COST  1000
#define NGX_HTTP_DSEM_FAIR_MAX_COST  10000000000

/* hold times in the mean: from then on the last one is a part of so many */
#define NGX_HTTP_DSEM_FAIR_MEASURED  10

/* a class and a key */
#define NGX_HTTP_DSEM_FAIR_NAME_LEN  (1 + NGX_HTTP_DSEM_MAX_NAME)


static ngx_http_dsem_fair_key_t *ngx_http_dsem_fair_find(
    ngx_http_dsem_fair_t *fair, ngx_str_t *name, uint32_t hash);
static ngx_http_dsem_fair_key_t *ngx_http_dsem_fair_add(
    ngx_http_dsem_fair_t *fair, ngx_str_t *name, uint32_t hash);
static void ngx_http_dsem_fair_trim(ngx_http_dsem_fair_t *fair,
    ngx_uint_t left);
static void ngx_http_dsem_fair_measure(ngx_http_dsem_fair_key_t *key,
    ngx_msec_t hold_time, ngx_msec_t mean);
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
                      + ngx_http_dsem_key_len(keys, name), ngx_cycle->log);
    if (fair == NULL) {
        return NULL;
    }

    p = (u_char *) fair + sizeof(ngx_http_dsem_fair_t);

    (void) ngx_http_dsem_key_parts(keys, "f", name, &fair->key, p);

    ngx_rbtree_init(&fair->keys, &fair->sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&fair->used);
    ngx_queue_init(&fair->unused);

    return fair;
}


/* no ticket refers to any of its keys */

void
ngx_http_dsem_fair_free(ngx_http_dsem_fair_t *fair)
{
    ngx_http_dsem_top_hide(&fair->top);
    ngx_http_dsem_fair_trim(fair, 0);

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
    u_char     buf[NGX_HTTP_DSEM_FAIR_NAME_LEN];
    uint32_t   hash;
    ngx_str_t  name;

    hash = ngx_http_dsem_fair_compose(buf, class, key, &name);

    tag->key = ngx_http_dsem_fair_find(fair, &name, hash);

    if (tag->key == NULL) {
        tag->key = ngx_http_dsem_fair_add(fair, &name, hash);

        if (tag->key == NULL) {
            return;
        }

    } else if (tag->key->tickets == 0) {
        ngx_queue_remove(&tag->key->queue);
    }

    if (tag->key->tickets++ == 0) {
        ngx_queue_insert_tail(&fair->used, &tag->key->queue);
    }
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
        ngx_queue_insert_tail(&fair->unused, &key->queue);
        ngx_http_dsem_fair_trim(fair, NGX_HTTP_DSEM_FAIR_KEYS);
    }
}


static ngx_http_dsem_fair_key_t *
ngx_http_dsem_fair_find(ngx_http_dsem_fair_t *fair, ngx_str_t *name,
    uint32_t hash)
{
    ngx_str_node_t  *node;

    node = ngx_str_rbtree_lookup(&fair->keys, name, hash);

    if (node == NULL) {
        return NULL;
    }

    return (ngx_http_dsem_fair_key_t *)
                  ((u_char *) node - offsetof(ngx_http_dsem_fair_key_t, node));
}


static ngx_http_dsem_fair_key_t *
ngx_http_dsem_fair_add(ngx_http_dsem_fair_t *fair, ngx_str_t *name,
    uint32_t hash)
{
    ngx_http_dsem_fair_key_t  *key;

    ngx_http_dsem_fair_trim(fair, NGX_HTTP_DSEM_FAIR_KEYS - 1);

    key = ngx_alloc(sizeof(ngx_http_dsem_fair_key_t) + name->len,
                    ngx_cycle->log);
    if (key == NULL) {
        return NULL;
    }

    ngx_memzero(key, sizeof(ngx_http_dsem_fair_key_t));

    key->node.node.key = hash;
    key->node.str.len = name->len;
    key->node.str.data = (u_char *) key + sizeof(ngx_http_dsem_fair_key_t);
    ngx_memcpy(key->node.str.data, name->data, name->len);

    ngx_rbtree_insert(&fair->keys, &key->node.node);
    fair->nkeys++;

    return key;
}


/* forgets keys without a ticket until so many keys are left */

static void
ngx_http_dsem_fair_trim(ngx_http_dsem_fair_t *fair, ngx_uint_t left)
{
    ngx_queue_t               *q;
    ngx_http_dsem_fair_key_t  *key;

    while (fair->nkeys > left && !ngx_queue_empty(&fair->unused)) {
        q = ngx_queue_head(&fair->unused);
        key = ngx_queue_data(q, ngx_http_dsem_fair_key_t, queue);

        ngx_queue_remove(q);
        ngx_rbtree_delete(&fair->keys, &key->node.node);
        fair->nkeys--;

        ngx_free(key);
    }
}


/*
 * It waits; mean is that of the semaphore, in ms, for a key without one.  A
 * ticket without a key is behind all of its class.
 */

void
ngx_http_dsem_fair_wait(ngx_http_dsem_fair_t *fair,
    ngx_http_dsem_fair_tag_t *tag, ngx_int_t class, ngx_int_t weight,
    ngx_int_t share, ngx_msec_t mean)
{
    int64_t                    cost;
    uint64_t                   served, credit, spent, *latest;
    ngx_http_dsem_fair_key_t  *key;

    key = tag->key;

    cost = (key && key->hold_time) ? key->hold_time : (int64_t) mean * 1000;
    cost = ngx_max(cost, NGX_HTTP_DSEM_FAIR_MIN_COST);

    cost = (cost > NGX_HTTP_DSEM_FAIR_MAX_COST / weight)
           ? NGX_HTTP_DSEM_FAIR_MAX_COST : cost * weight;

    tag->cost = ngx_max(cost / share, 1);
    latest = &fair->latest[ngx_http_dsem_fair_class(class)];

    if (key == NULL) {
        tag->start = *latest;
        return;
    }

    served = fair->served[ngx_http_dsem_fair_class(class)];
    /* R8: start tag */
    tag->start = ngx_max(served, key->finish);

    /* a key that has nothing to pay has no credit; no ticket is free */

    credit = ngx_min(key->credit, tag->start - served);
    spent = ngx_min(credit, (uint64_t) tag->cost - 1);

    tag->finish = tag->start + tag->cost - spent;

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

    key->credit += tag->cost;

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


/* it holds its permits */

void
ngx_http_dsem_fair_hold(ngx_http_dsem_fair_tag_t *tag, ngx_int_t weight)
{
    if (tag->key) {
        tag->key->in_use += weight;
    }
}


/* its permits come free after so many ms; mean is that of the semaphore */

void
ngx_http_dsem_fair_release(ngx_http_dsem_fair_tag_t *tag, ngx_int_t weight,
    ngx_msec_t hold_time, ngx_msec_t mean)
{
    if (tag->key) {
        tag->key->in_use -= weight;
        ngx_http_dsem_fair_measure(tag->key, hold_time, mean);
    }
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
    ngx_http_dsem_fair_key_t  *known;

    hash = ngx_http_dsem_fair_compose(buf, class, key, &name);

    known = ngx_http_dsem_fair_find(fair, &name, hash);
    served = fair->served[ngx_http_dsem_fair_class(class)];

    /* R8: start tag */
    return known ? ngx_max(served, known->finish) : served;
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
