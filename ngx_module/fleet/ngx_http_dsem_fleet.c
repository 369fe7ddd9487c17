
/*
 * The fleet: figures of semaphores and sessions, of one survey.
 *
 * Owns the memory of a survey: names are added first, in the order in which
 * they are asked for, then replies fill in their figures, and at the end the
 * names are sorted.  The number of sessions is bounded.  Knows the
 * form of names, too.
 *
 * Called by: survey, run, inspect (figures), roster (names), order and message
 * (the form of names).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_text.h"


#define NGX_HTTP_DSEM_FLEET_POOL          (16 * 1024)

/* sessions of one survey; more are left out */
#define NGX_HTTP_DSEM_FLEET_MAX_SESSIONS  4096


/*
 * A worker has a session in each shard that it uses, and its predecessor, which
 * drains, has others: as many are counted as there are in the shard with most.
 */
typedef struct {
    ngx_str_node_t    name;         /* "<node>:<number>:" */
    ngx_uint_t        met[NGX_HTTP_DSEM_SHARDS];
    ngx_uint_t        most;
} ngx_http_dsem_fleet_worker_t;


static ngx_str_node_t *ngx_http_dsem_fleet_meet(
    ngx_http_dsem_fleet_t *fleet, ngx_http_dsem_holder_t *holder,
    ngx_uint_t shard);
static ngx_int_t ngx_http_dsem_fleet_count(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_holder_t *holder, ngx_uint_t shard);
static int ngx_libc_cdecl ngx_http_dsem_fleet_by_shard(const void *one,
    const void *two);


/* NULL: no memory */

ngx_http_dsem_fleet_t *
ngx_http_dsem_fleet_create(void)
{
    ngx_pool_t             *pool;
    ngx_http_dsem_fleet_t  *fleet;

    pool = ngx_create_pool(NGX_HTTP_DSEM_FLEET_POOL, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    fleet = ngx_pcalloc(pool, sizeof(ngx_http_dsem_fleet_t));

    if (fleet == NULL
        || ngx_array_init(&fleet->survey.semaphores, pool, 16,
                          sizeof(ngx_http_dsem_survey_semaphore_t)) != NGX_OK
        || ngx_array_init(&fleet->survey.nodes, pool, 4,
                          sizeof(ngx_http_dsem_survey_node_t)) != NGX_OK)
    {
        ngx_destroy_pool(pool);
        return NULL;
    }

    fleet->pool = pool;
    fleet->users = 1;

    ngx_rbtree_init(&fleet->sessions, &fleet->sentinel,
                    ngx_str_rbtree_insert_value);

    ngx_rbtree_init(&fleet->workers, &fleet->sentinel,
                    ngx_str_rbtree_insert_value);

    return fleet;
}


void
ngx_http_dsem_fleet_destroy(void *data)
{
    ngx_http_dsem_fleet_t *fleet = data;

    if (--fleet->users == 0) {
        ngx_destroy_pool(fleet->pool);
    }
}


/*
 * A further element of an array of the survey, all zero but for the name that
 * it begins with, which is copied.
 *
 * name   NULL: it begins with none
 *
 * Returns NULL when there is no memory.
 */

void *
ngx_http_dsem_fleet_push(ngx_http_dsem_fleet_t *fleet, ngx_array_t *array,
    size_t size, ngx_str_t *name)
{
    ngx_str_t  *element;

    if (array->elts == NULL
        && ngx_array_init(array, fleet->pool, 4, size) != NGX_OK)
    {
        return NULL;
    }

    element = ngx_array_push(array);
    if (element == NULL) {
        return NULL;
    }

    ngx_memzero(element, size);

    if (name) {
        element->len = name->len;
        element->data = ngx_pstrdup(fleet->pool, name);

        if (element->data == NULL) {
            return NULL;
        }
    }

    return element;
}


/* a semaphore without figures yet; NULL: no memory */

ngx_http_dsem_survey_semaphore_t *
ngx_http_dsem_fleet_add(ngx_http_dsem_fleet_t *fleet, ngx_str_t *name,
    ngx_uint_t shard)
{
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    semaphore = ngx_http_dsem_fleet_push(fleet, &fleet->survey.semaphores,
                                     sizeof(ngx_http_dsem_survey_semaphore_t),
                                     name);
    if (semaphore == NULL) {
        return NULL;
    }

    semaphore->shard = shard;
    semaphore->limit = -1;
    semaphore->configured = -1;
    semaphore->ordered = -1;

    return semaphore;
}


/*
 * All names and nodes are there: semaphores by shard, and by name in each of
 * them, for the calls.
 */

void
ngx_http_dsem_fleet_sort(ngx_http_dsem_fleet_t *fleet)
{
    ngx_uint_t                    i, n;
    ngx_array_t                  *nodes;
    ngx_http_dsem_survey_node_t  *node;

    ngx_qsort(fleet->survey.semaphores.elts, fleet->survey.semaphores.nelts,
              sizeof(ngx_http_dsem_survey_semaphore_t),
              ngx_http_dsem_fleet_by_shard);

    /* each node once, by name */

    nodes = &fleet->survey.nodes;
    node = nodes->elts;

    ngx_qsort(node, nodes->nelts, sizeof(ngx_http_dsem_survey_node_t),
              ngx_http_dsem_text_order);

    for (i = 0, n = 0; i < nodes->nelts; i++) {

        if (n && ngx_http_dsem_text_order(&node[n - 1], &node[i]) == 0) {
            node[n - 1].sessions = ngx_max(node[n - 1].sessions,
                                           node[i].sessions);
            node[n - 1].heard = ngx_max(node[n - 1].heard, node[i].heard);
            continue;
        }

        node[n++] = node[i];
    }

    nodes->nelts = n;
}


/*
 * Adds a session to those that have something of a semaphore; names are
 * copied.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_fleet_hold(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore,
    ngx_http_dsem_holder_t *holder)
{
    ngx_str_node_t          *met;
    ngx_http_dsem_holder_t  *h;

    if (fleet->nsessions == NGX_HTTP_DSEM_FLEET_MAX_SESSIONS) {
        semaphore->partial = 1;
        return NGX_OK;
    }

    met = ngx_http_dsem_fleet_meet(fleet, holder, semaphore->shard);

    h = met ? ngx_http_dsem_fleet_push(fleet, &semaphore->holders,
                                       sizeof(ngx_http_dsem_holder_t), NULL)
            : NULL;

    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = *holder;

    h->session = met->str;
    h->node.data = met->str.data;

    return NGX_OK;
}


/* the name of a session, which holds for all its accounts; NULL: no memory */

static ngx_str_node_t *
ngx_http_dsem_fleet_meet(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_holder_t *holder, ngx_uint_t shard)
{
    uint32_t         hash;
    ngx_str_node_t  *met;

    hash = ngx_crc32_short(holder->session.data, holder->session.len);

    met = ngx_str_rbtree_lookup(&fleet->sessions, &holder->session, hash);
    if (met) {
        return met;
    }

    met = ngx_palloc(fleet->pool, sizeof(ngx_str_node_t)
                                  + holder->session.len);
    if (met == NULL) {
        return NULL;
    }

    met->node.key = hash;
    met->str.len = holder->session.len;
    met->str.data = (u_char *) met + sizeof(ngx_str_node_t);
    ngx_memcpy(met->str.data, holder->session.data, holder->session.len);

    ngx_rbtree_insert(&fleet->sessions, &met->node);
    fleet->nsessions++;

    return ngx_http_dsem_fleet_count(fleet, holder, shard) == NGX_OK ? met
                                                                   : NULL;
}


/* a session that was met in a shard; NGX_ERROR: no memory */

static ngx_int_t
ngx_http_dsem_fleet_count(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_holder_t *holder, ngx_uint_t shard)
{
    uint32_t                       hash;
    ngx_str_t                      name;
    ngx_http_dsem_survey_node_t   *node;
    ngx_http_dsem_fleet_worker_t  *worker;

    node = ngx_http_dsem_text_find(&fleet->survey.nodes, &holder->node);

    if (node == NULL) {
        return NGX_OK;
    }

    name = holder->session;

    while (name.data[name.len - 1] != ':') {
        name.len--;
    }

    hash = ngx_crc32_short(name.data, name.len);

    worker = (ngx_http_dsem_fleet_worker_t *)
                 ngx_str_rbtree_lookup(&fleet->workers, &name, hash);

    if (worker == NULL) {
        worker = ngx_pcalloc(fleet->pool,
                             sizeof(ngx_http_dsem_fleet_worker_t));
        if (worker == NULL) {
            return NGX_ERROR;
        }

        worker->name.node.key = hash;
        worker->name.str.len = name.len;
        worker->name.str.data = ngx_pstrdup(fleet->pool, &name);

        if (worker->name.str.data == NULL) {
            return NGX_ERROR;
        }

        ngx_rbtree_insert(&fleet->workers, &worker->name.node);
    }

    if (++worker->met[shard] > worker->most) {
        worker->most++;
        node->holding++;
    }

    return NGX_OK;
}


/*
 * All replies have been read: what is neither in Redis nor in the counters of
 * this node is left out, and what is in a shard that could not be asked.
 */

void
ngx_http_dsem_fleet_complete(ngx_http_dsem_fleet_t *fleet)
{
    ngx_uint_t                         i, n;
    ngx_http_dsem_survey_t            *survey;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    survey = &fleet->survey;

    survey->read = ngx_http_dsem_monotonic();

    n = 0;
    semaphore = survey->semaphores.elts;

    for (i = 0; i < survey->semaphores.nelts; i++) {

        if (semaphore[i].replied
            && (semaphore[i].in_redis || semaphore[i].counted))
        {
            semaphore[n] = semaphore[i];
            semaphore[n++].read = survey->read;
        }
    }

    survey->semaphores.nelts = n;

    ngx_qsort(semaphore, n, sizeof(ngx_http_dsem_survey_semaphore_t),
              ngx_http_dsem_text_order);

    if (fleet->nsessions == NGX_HTTP_DSEM_FLEET_MAX_SESSIONS) {
        survey->partial = 1;
    }
}


/* true if it is the encoded form of a name: scripts reject all others */

ngx_uint_t
ngx_http_dsem_fleet_is_name(ngx_str_t *name)
{
    u_char      ch;
    ngx_uint_t  i;

    for (i = 0; i < name->len; i++) {
        ch = name->data[i];

        if (!ngx_http_dsem_key_plain(ch) && ch != '%' && ch != '~') {
            return 0;
        }
    }

    return name->len && name->len <= NGX_HTTP_DSEM_MAX_NAME;
}


/*
 * Takes the name of a session apart, "<node>:<worker>:<hex digits>", into
 * a holder, which is zeroed before.  NGX_DECLINED: it is none.
 */

ngx_int_t
ngx_http_dsem_fleet_session(ngx_str_t *session,
    ngx_http_dsem_holder_t *holder)
{
    u_char     *worker, *digit, *last;
    ngx_int_t   n;

    ngx_memzero(holder, sizeof(ngx_http_dsem_holder_t));

    last = session->data + session->len;

    worker = ngx_strlchr(session->data, last, ':');
    digit = worker ? ngx_strlchr(worker + 1, last, ':') : NULL;

    if (digit == NULL || session->len > NGX_HTTP_DSEM_SESSION_LEN) {
        return NGX_DECLINED;
    }

    n = ngx_atoi(worker + 1, digit - worker - 1);

    holder->session = *session;
    holder->node.data = session->data;
    holder->node.len = worker - session->data;
    holder->worker = n;

    if (n == NGX_ERROR
        || !ngx_http_dsem_fleet_is_node(&holder->node)
        || ++digit == last)
    {
        return NGX_DECLINED;
    }

    for ( /* void */ ; digit < last; digit++) {
        if (ngx_hextoi(digit, 1) == NGX_ERROR) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/* as "dsem_node" allows it */

ngx_uint_t
ngx_http_dsem_fleet_is_node(ngx_str_t *node)
{
    ngx_uint_t  i;

    for (i = 0; i < node->len; i++) {
        if (!ngx_http_dsem_key_plain(node->data[i]) || node->data[i] == ':') {
            return 0;
        }
    }

    return node->len != 0;
}


static int ngx_libc_cdecl
ngx_http_dsem_fleet_by_shard(const void *one, const void *two)
{
    const ngx_http_dsem_survey_semaphore_t  *first, *second;

    first = one;
    second = two;

    if (first->shard != second->shard) {
        return (first->shard < second->shard) ? -1 : 1;
    }

    return ngx_http_dsem_text_order(one, two);
}
