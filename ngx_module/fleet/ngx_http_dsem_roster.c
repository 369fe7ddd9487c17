
/*
 * The roster: names of semaphores and of nodes, for a survey.
 *
 * Names come from the counters of this node, and from the shards: those that
 * have a literal limit or an order there.  A shard is read in steps, some per
 * survey; a name is remembered until a whole pass over its shard has not met
 * it.  The same pass counts the sessions of each node.  A survey has a bounded
 * number of names: first those that are in use on this node, then those of the
 * shards, then the rest.
 *
 * Called by: survey (init, exit), reading.  The form of the lines is that of
 * lua/names.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_reading.h"
#include "ngx_http_dsem_text.h"


/* nodes of one shard */
#define NGX_HTTP_DSEM_ROSTER_MAX_NODES  1024

/* of one survey, and remembered of one shard */
#define NGX_HTTP_DSEM_ROSTER_MAX_NAMES  1000

#define NGX_HTTP_DSEM_ROSTER_POOL       (16 * 1024)

/* a cursor is a decimal number of 64 bits */
#define NGX_HTTP_DSEM_ROSTER_CURSOR     20


/* the order in which names are taken */
typedef enum {
    NGX_HTTP_DSEM_ROSTER_BUSY = 0,
    NGX_HTTP_DSEM_ROSTER_LISTED,
    NGX_HTTP_DSEM_ROSTER_COUNTED,
    NGX_HTTP_DSEM_ROSTER_NRANKS
} ngx_http_dsem_roster_rank_e;


/* a name that may be in a survey */
typedef struct {
    ngx_str_t                    name;
    ngx_http_dsem_roster_rank_e  rank;
    ngx_uint_t                   counted;    /* unsigned:1 */
} ngx_http_dsem_roster_found_t;


/* a name, or a node with sessions, that was met in a shard */
typedef struct {
    ngx_str_node_t               node;       /* str: the encoded name */
    ngx_queue_t                  queue;
    ngx_uint_t                   pass;       /* the last that met it */

    /* of a node */
    ngx_uint_t                   met;        /* sessions, in that pass so far */
    ngx_uint_t                   sessions;   /* in the last whole pass */
    uint64_t                     heard;      /* monotonic ms */
} ngx_http_dsem_roster_entry_t;


typedef struct {
    ngx_rbtree_t                 tree;
    ngx_rbtree_node_t            sentinel;
    ngx_queue_t                  entries;
    ngx_uint_t                   n;
    ngx_uint_t                   max;
} ngx_http_dsem_roster_list_t;


typedef struct {
    ngx_str_t                    cursor;     /* of the next step */
    u_char                       buf[NGX_HTTP_DSEM_ROSTER_CURSOR];
    ngx_uint_t                   pass;
    ngx_http_dsem_roster_list_t  names;
    ngx_http_dsem_roster_list_t  nodes;
    unsigned                     full:1;     /* names were left out */
} ngx_http_dsem_roster_shard_t;


static void ngx_http_dsem_roster_list_init(ngx_http_dsem_roster_list_t *list,
    ngx_uint_t max);
static ngx_int_t ngx_http_dsem_roster_name(
    ngx_http_dsem_roster_shard_t *shard, ngx_str_t *name);
static ngx_http_dsem_roster_entry_t *ngx_http_dsem_roster_meet(
    ngx_http_dsem_roster_list_t *list, ngx_str_t *name, ngx_uint_t pass);
static ngx_int_t ngx_http_dsem_roster_count(
    ngx_http_dsem_roster_shard_t *shard, ngx_str_t *line);
static void ngx_http_dsem_roster_forget(ngx_http_dsem_roster_list_t *list,
    ngx_uint_t pass);
static ngx_int_t ngx_http_dsem_roster_nodes(ngx_http_dsem_fleet_t *fleet,
    ngx_uint_t nshards);
static void ngx_http_dsem_roster_advance(ngx_http_dsem_roster_shard_t *shard,
    ngx_str_t *cursor);
static ngx_int_t ngx_http_dsem_roster_listed(ngx_array_t *found,
    ngx_http_dsem_fleet_t *fleet, ngx_uint_t nshards);
static ngx_int_t ngx_http_dsem_roster_counted(ngx_array_t *found,
    ngx_pool_t *pool);
static void ngx_http_dsem_roster_merge(ngx_array_t *found);
static ngx_int_t ngx_http_dsem_roster_select(ngx_array_t *found,
    ngx_http_dsem_fleet_t *fleet, ngx_uint_t nshards);


static ngx_http_dsem_roster_shard_t
    ngx_http_dsem_roster[NGX_HTTP_DSEM_SHARDS];


void
ngx_http_dsem_roster_init(void)
{
    ngx_uint_t                     i;
    ngx_http_dsem_roster_shard_t  *shard;

    ngx_memzero(ngx_http_dsem_roster, sizeof(ngx_http_dsem_roster));

    for (i = 0; i < NGX_HTTP_DSEM_SHARDS; i++) {
        shard = &ngx_http_dsem_roster[i];

        shard->buf[0] = '0';
        shard->cursor.data = shard->buf;
        shard->cursor.len = 1;
        shard->pass = 1;

        ngx_http_dsem_roster_list_init(&shard->names,
                                       NGX_HTTP_DSEM_ROSTER_MAX_NAMES);
        ngx_http_dsem_roster_list_init(&shard->nodes,
                                       NGX_HTTP_DSEM_ROSTER_MAX_NODES);
    }
}


static void
ngx_http_dsem_roster_list_init(ngx_http_dsem_roster_list_t *list,
    ngx_uint_t max)
{
    ngx_rbtree_init(&list->tree, &list->sentinel, ngx_str_rbtree_insert_value);
    ngx_queue_init(&list->entries);

    list->max = max;
}


void
ngx_http_dsem_roster_free(void)
{
    ngx_uint_t                     i;
    ngx_http_dsem_roster_shard_t  *shard;

    for (i = 0; i < NGX_HTTP_DSEM_SHARDS; i++) {
        shard = &ngx_http_dsem_roster[i];

        /* no entry is of the next pass */

        ngx_http_dsem_roster_forget(&shard->names, shard->pass + 1);
        ngx_http_dsem_roster_forget(&shard->nodes, shard->pass + 1);
    }
}


/* where the next step in a shard begins */

ngx_str_t *
ngx_http_dsem_roster_cursor(ngx_uint_t shard)
{
    return &ngx_http_dsem_roster[shard].cursor;
}


/* the pass over a shard has not ended */

ngx_uint_t
ngx_http_dsem_roster_more(ngx_uint_t shard)
{
    ngx_str_t  *cursor;

    cursor = &ngx_http_dsem_roster[shard].cursor;

    return cursor->len != 1 || cursor->data[0] != '0';
}


/*
 * Reads a reply of "names": "cursor <next>", then lines of names and nodes.
 * NGX_DECLINED: the text has another form; NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_roster_read(ngx_uint_t number, ngx_str_t *text)
{
    ngx_int_t                      rc;
    ngx_str_t                      line, word, cursor;
    ngx_uint_t                     i;
    ngx_http_dsem_roster_shard_t  *shard;

    shard = &ngx_http_dsem_roster[number];

    if (ngx_http_dsem_text_line(text, &line) != NGX_OK) {
        return NGX_DECLINED;
    }

    word = ngx_http_dsem_text_word(&line);
    cursor = line;

    if (!ngx_http_dsem_text_is(&word, "cursor")
        || cursor.len == 0
        || cursor.len > NGX_HTTP_DSEM_ROSTER_CURSOR)
    {
        return NGX_DECLINED;
    }

    for (i = 0; i < cursor.len; i++) {
        if (cursor.data[i] < '0' || cursor.data[i] > '9') {
            return NGX_DECLINED;
        }
    }

    while (ngx_http_dsem_text_line(text, &line) == NGX_OK) {
        word = ngx_http_dsem_text_word(&line);

        if (ngx_http_dsem_text_is(&word, "node")) {
            rc = ngx_http_dsem_roster_count(shard, &line);

        } else if (ngx_http_dsem_text_is(&word, "name")) {
            rc = ngx_http_dsem_roster_name(shard, &line);

        } else {
            rc = NGX_DECLINED;
        }

        if (rc != NGX_OK) {
            return rc;
        }
    }

    ngx_http_dsem_roster_advance(shard, &cursor);

    return NGX_OK;
}


/* what else an operator has written there is no name */

static ngx_int_t
ngx_http_dsem_roster_name(ngx_http_dsem_roster_shard_t *shard,
    ngx_str_t *name)
{
    if (!ngx_http_dsem_fleet_is_name(name)
        || ngx_http_dsem_roster_meet(&shard->names, name, shard->pass))
    {
        return NGX_OK;
    }

    if (shard->names.n < shard->names.max) {
        return NGX_ERROR;
    }

    shard->full = 1;

    return NGX_OK;
}


/* NULL: there are too many, or no memory */

static ngx_http_dsem_roster_entry_t *
ngx_http_dsem_roster_meet(ngx_http_dsem_roster_list_t *list, ngx_str_t *name,
    ngx_uint_t pass)
{
    uint32_t                       hash;
    ngx_http_dsem_roster_entry_t  *entry;

    hash = ngx_crc32_short(name->data, name->len);

    entry = (ngx_http_dsem_roster_entry_t *)
            ngx_str_rbtree_lookup(&list->tree, name, hash);

    if (entry == NULL) {

        if (list->n == list->max) {
            return NULL;
        }

        entry = ngx_calloc(sizeof(ngx_http_dsem_roster_entry_t) + name->len,
                           ngx_cycle->log);
        if (entry == NULL) {
            return NULL;
        }

        entry->node.node.key = hash;
        entry->node.str.len = name->len;
        entry->node.str.data = (u_char *) entry
                               + sizeof(ngx_http_dsem_roster_entry_t);
        ngx_memcpy(entry->node.str.data, name->data, name->len);

        ngx_rbtree_insert(&list->tree, &entry->node.node);
        ngx_queue_insert_tail(&list->entries, &entry->queue);
        list->n++;
    }

    if (entry->pass != pass) {
        entry->pass = pass;
        entry->met = 0;
    }

    return entry;
}


/* "<node> <sessions> <ms since the last heartbeat>" */

static ngx_int_t
ngx_http_dsem_roster_count(ngx_http_dsem_roster_shard_t *shard,
    ngx_str_t *line)
{
    int64_t                        sessions, quiet;
    uint64_t                       now;
    ngx_str_t                      name;
    ngx_http_dsem_roster_entry_t  *node;

    name = ngx_http_dsem_text_word(line);

    if (!ngx_http_dsem_fleet_is_node(&name)
        || ngx_http_dsem_text_number(line, &sessions) != NGX_OK
        || ngx_http_dsem_text_number(line, &quiet) != NGX_OK
        || sessions < 0
        || quiet < 0
        || line->len)
    {
        return NGX_DECLINED;
    }

    node = ngx_http_dsem_roster_meet(&shard->nodes, &name, shard->pass);

    if (node == NULL) {
        return (shard->nodes.n < shard->nodes.max) ? NGX_ERROR : NGX_OK;
    }

    now = ngx_http_dsem_monotonic();

    node->met += sessions;

    if ((uint64_t) quiet < now) {
        node->heard = ngx_max(node->heard, now - quiet);
    }

    return NGX_OK;
}


/* the end of a step; at the end of a pass names that were not met go */

static void
ngx_http_dsem_roster_advance(ngx_http_dsem_roster_shard_t *shard,
    ngx_str_t *cursor)
{
    ngx_memcpy(shard->buf, cursor->data, cursor->len);
    shard->cursor.len = cursor->len;

    if (cursor->len != 1 || cursor->data[0] != '0') {
        return;
    }

    if (shard->names.n < shard->names.max) {
        shard->full = 0;
    }

    ngx_http_dsem_roster_forget(&shard->names, shard->pass);
    ngx_http_dsem_roster_forget(&shard->nodes, shard->pass);

    shard->pass++;
}


/* entries that this pass has not met go; it has counted sessions of nodes */

static void
ngx_http_dsem_roster_forget(ngx_http_dsem_roster_list_t *list,
    ngx_uint_t pass)
{
    ngx_queue_t                   *q, *next;
    ngx_http_dsem_roster_entry_t  *entry;

    /* a worker that limits nothing exits without a list */

    if (list->n == 0) {
        return;
    }

    for (q = ngx_queue_head(&list->entries);
         q != ngx_queue_sentinel(&list->entries);
         q = next)
    {
        next = ngx_queue_next(q);
        entry = ngx_queue_data(q, ngx_http_dsem_roster_entry_t, queue);

        if (entry->pass == pass) {
            entry->sessions = entry->met;
            continue;
        }

        ngx_rbtree_delete(&list->tree, &entry->node.node);
        ngx_queue_remove(q);
        list->n--;

        ngx_free(entry);
    }
}


/* adds the names of a survey; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_roster_add(ngx_http_dsem_fleet_t *fleet, ngx_uint_t nshards)
{
    ngx_int_t     rc;
    ngx_pool_t   *pool;
    ngx_array_t   found;

    pool = ngx_create_pool(NGX_HTTP_DSEM_ROSTER_POOL, ngx_cycle->log);
    if (pool == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_array_init(&found, pool, 64,
                        sizeof(ngx_http_dsem_roster_found_t));

    if (rc == NGX_OK) {
        rc = ngx_http_dsem_roster_listed(&found, fleet, nshards);
    }

    if (rc == NGX_OK) {
        rc = ngx_http_dsem_roster_counted(&found, pool);
    }

    if (rc == NGX_OK) {
        ngx_http_dsem_roster_merge(&found);
        rc = ngx_http_dsem_roster_select(&found, fleet, nshards);
    }

    ngx_destroy_pool(pool);

    return (rc == NGX_OK) ? ngx_http_dsem_roster_nodes(fleet, nshards) : rc;
}


/* those that a whole pass has counted */

static ngx_int_t
ngx_http_dsem_roster_nodes(ngx_http_dsem_fleet_t *fleet, ngx_uint_t nshards)
{
    ngx_uint_t                     i;
    ngx_queue_t                   *q;
    ngx_http_dsem_roster_entry_t  *entry;
    ngx_http_dsem_survey_node_t   *node;
    ngx_http_dsem_roster_shard_t  *shard;

    for (i = 0; i < nshards; i++) {
        shard = &ngx_http_dsem_roster[i];

        for (q = ngx_queue_head(&shard->nodes.entries);
             q != ngx_queue_sentinel(&shard->nodes.entries);
             q = ngx_queue_next(q))
        {
            entry = ngx_queue_data(q, ngx_http_dsem_roster_entry_t, queue);

            if (entry->sessions == 0) {
                continue;
            }

            node = ngx_http_dsem_fleet_push(fleet, &fleet->survey.nodes,
                                          sizeof(ngx_http_dsem_survey_node_t),
                                          &entry->node.str);
            if (node == NULL) {
                return NGX_ERROR;
            }

            node->sessions = entry->sessions;
            node->heard = entry->heard;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_roster_listed(ngx_array_t *found, ngx_http_dsem_fleet_t *fleet,
    ngx_uint_t nshards)
{
    ngx_uint_t                     i;
    ngx_queue_t                   *q;
    ngx_http_dsem_roster_entry_t  *name;
    ngx_http_dsem_roster_shard_t  *shard;
    ngx_http_dsem_roster_found_t  *f;

    for (i = 0; i < nshards; i++) {
        shard = &ngx_http_dsem_roster[i];

        if (shard->full) {
            fleet->survey.partial = 1;
        }

        for (q = ngx_queue_head(&shard->names.entries);
             q != ngx_queue_sentinel(&shard->names.entries);
             q = ngx_queue_next(q))
        {
            name = ngx_queue_data(q, ngx_http_dsem_roster_entry_t, queue);

            f = ngx_array_push(found);
            if (f == NULL) {
                return NGX_ERROR;
            }

            f->name = name->node.str;
            f->rank = NGX_HTTP_DSEM_ROSTER_LISTED;
            f->counted = 0;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_roster_counted(ngx_array_t *found, ngx_pool_t *pool)
{
    ngx_uint_t                      i;
    ngx_array_t                     names;
    ngx_http_dsem_roster_found_t   *f;
    ngx_http_dsem_counters_name_t  *name;

    /* one more: where there are too many, the survey is partial */

    if (ngx_http_dsem_figures_names(pool, NGX_HTTP_DSEM_ROSTER_MAX_NAMES + 1,
                                    &names)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    name = names.elts;

    for (i = 0; i < names.nelts; i++) {

        if (!ngx_http_dsem_fleet_is_name(&name[i].name)) {
            continue;
        }

        f = ngx_array_push(found);
        if (f == NULL) {
            return NGX_ERROR;
        }

        f->name = name[i].name;
        f->rank = name[i].busy ? NGX_HTTP_DSEM_ROSTER_BUSY
                               : NGX_HTTP_DSEM_ROSTER_COUNTED;
        f->counted = 1;
    }

    return NGX_OK;
}


/* one entry for each name, with the best rank */

static void
ngx_http_dsem_roster_merge(ngx_array_t *found)
{
    ngx_uint_t                     i, n;
    ngx_http_dsem_roster_found_t  *f;

    f = found->elts;

    ngx_qsort(f, found->nelts, sizeof(ngx_http_dsem_roster_found_t),
              ngx_http_dsem_text_order);

    n = 0;

    for (i = 0; i < found->nelts; i++) {

        if (n && ngx_http_dsem_text_order(&f[n - 1], &f[i]) == 0) {
            f[n - 1].rank = ngx_min(f[n - 1].rank, f[i].rank);
            f[n - 1].counted |= f[i].counted;
            continue;
        }

        f[n++] = f[i];
    }

    found->nelts = n;
}


static ngx_int_t
ngx_http_dsem_roster_select(ngx_array_t *found, ngx_http_dsem_fleet_t *fleet,
    ngx_uint_t nshards)
{
    ngx_uint_t                         i, n, rank, shard;
    ngx_http_dsem_roster_found_t      *f;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    n = 0;
    f = found->elts;

    for (rank = 0; rank < NGX_HTTP_DSEM_ROSTER_NRANKS; rank++) {

        for (i = 0; i < found->nelts; i++) {

            if (f[i].rank != rank) {
                continue;
            }

            if (n++ == NGX_HTTP_DSEM_ROSTER_MAX_NAMES) {
                fleet->survey.partial = 1;
                return NGX_OK;
            }

            shard = (nshards > 1) ? ngx_http_dsem_key_shard(&f[i].name) : 0;

            semaphore = ngx_http_dsem_fleet_add(fleet, &f[i].name, shard);
            if (semaphore == NULL) {
                return NGX_ERROR;
            }

            semaphore->counted = f[i].counted;
        }
    }

    return NGX_OK;
}
