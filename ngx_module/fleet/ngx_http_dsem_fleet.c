
/*
 * The fleet: figures of semaphores and sessions, of one survey.
 *
 * Owns the memory of a survey: names are added first, in the order in which
 * they are asked for, then replies fill in their figures, and at the end both
 * names and sessions are sorted.  The number of sessions is bounded.  Knows the
 * form of names, too.
 *
 * Called by: survey, run, inspect (figures), roster (names), order (the form
 * of a session's name).
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


/* a session that was met, with the sums of all its accounts */
typedef struct {
    ngx_str_node_t            node;      /* str: its name */
    ngx_http_dsem_holder_t    total;
} ngx_http_dsem_fleet_session_t;


static ngx_http_dsem_fleet_session_t *ngx_http_dsem_fleet_meet(
    ngx_http_dsem_fleet_t *fleet, ngx_http_dsem_holder_t *holder);
static void ngx_http_dsem_fleet_merge(ngx_array_t *nodes);
static ngx_int_t ngx_http_dsem_fleet_list(ngx_http_dsem_fleet_t *fleet);
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

    return fleet;
}


void
ngx_http_dsem_fleet_destroy(ngx_http_dsem_fleet_t *fleet)
{
    if (--fleet->users == 0) {
        ngx_destroy_pool(fleet->pool);
    }
}


/* nothing is known of it yet; the name is copied.  NULL: no memory */

ngx_http_dsem_survey_semaphore_t *
ngx_http_dsem_fleet_add(ngx_http_dsem_fleet_t *fleet, ngx_str_t *name,
    ngx_uint_t shard)
{
    u_char                            *p;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    p = ngx_pstrdup(fleet->pool, name);
    if (p == NULL) {
        return NULL;
    }

    semaphore = ngx_array_push(&fleet->survey.semaphores);
    if (semaphore == NULL) {
        return NULL;
    }

    ngx_memzero(semaphore, sizeof(ngx_http_dsem_survey_semaphore_t));

    semaphore->name.data = p;
    semaphore->name.len = name->len;
    semaphore->shard = shard;
    semaphore->limit = -1;
    semaphore->configured = -1;
    semaphore->ordered = -1;

    return semaphore;
}


/*
 * Sessions of a node in a shard, and its last heartbeat.  In a
 * Cluster it comes once for each shard.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_fleet_node(ngx_http_dsem_fleet_t *fleet, ngx_str_t *name,
    ngx_uint_t sessions, uint64_t heard)
{
    ngx_http_dsem_survey_node_t  *node;

    node = ngx_array_push(&fleet->survey.nodes);
    if (node == NULL) {
        return NGX_ERROR;
    }

    node->sessions = sessions;
    node->heard = heard;
    node->node.len = name->len;
    node->node.data = ngx_pstrdup(fleet->pool, name);

    return node->node.data ? NGX_OK : NGX_ERROR;
}


/* by shard, and by name in each of them, for the calls */

void
ngx_http_dsem_fleet_sort(ngx_http_dsem_fleet_t *fleet)
{
    ngx_qsort(fleet->survey.semaphores.elts, fleet->survey.semaphores.nelts,
              sizeof(ngx_http_dsem_survey_semaphore_t),
              ngx_http_dsem_fleet_by_shard);
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
    ngx_http_dsem_holder_t         *h;
    ngx_http_dsem_fleet_session_t  *met;

    if (fleet->nsessions == NGX_HTTP_DSEM_FLEET_MAX_SESSIONS) {
        semaphore->partial = 1;
        return NGX_OK;
    }

    met = ngx_http_dsem_fleet_meet(fleet, holder);

    if (met == NULL
        || (semaphore->holders.elts == NULL
            && ngx_array_init(&semaphore->holders, fleet->pool, 4,
                              sizeof(ngx_http_dsem_holder_t)) != NGX_OK))
    {
        return NGX_ERROR;
    }

    h = ngx_array_push(&semaphore->holders);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = *holder;

    h->session = met->total.session;
    h->node = met->total.node;

    return NGX_OK;
}


/* adds to the sums of a session; NULL: no memory */

static ngx_http_dsem_fleet_session_t *
ngx_http_dsem_fleet_meet(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_holder_t *holder)
{
    u_char                         *p;
    uint32_t                        hash;
    ngx_http_dsem_holder_t         *total;
    ngx_http_dsem_fleet_session_t  *met;

    hash = ngx_crc32_short(holder->session.data, holder->session.len);

    met = (ngx_http_dsem_fleet_session_t *)
          ngx_str_rbtree_lookup(&fleet->sessions, &holder->session, hash);

    if (met) {
        total = &met->total;

        total->held += holder->held;
        total->idle += holder->idle;
        total->waiting += holder->waiting;
        total->lease = ngx_min(total->lease, holder->lease);
        total->heard &= holder->heard;

        return met;
    }

    met = ngx_palloc(fleet->pool, sizeof(ngx_http_dsem_fleet_session_t)
                                  + holder->session.len);
    if (met == NULL) {
        return NULL;
    }

    p = (u_char *) met + sizeof(ngx_http_dsem_fleet_session_t);
    ngx_memcpy(p, holder->session.data, holder->session.len);

    met->total = *holder;
    met->total.session.data = p;
    met->total.node.data = p;

    met->node.str = met->total.session;
    met->node.node.key = hash;

    ngx_rbtree_insert(&fleet->sessions, &met->node.node);
    fleet->nsessions++;

    return met;
}


/* a node has another limit; its name is copied.  NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_fleet_disagree(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_int_t limit,
    ngx_str_t *node)
{
    ngx_http_dsem_disagreement_t  *disagreement;

    if (semaphore->disagreements.elts == NULL
        && ngx_array_init(&semaphore->disagreements, fleet->pool, 2,
                          sizeof(ngx_http_dsem_disagreement_t)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    disagreement = ngx_array_push(&semaphore->disagreements);
    if (disagreement == NULL) {
        return NGX_ERROR;
    }

    disagreement->limit = limit;
    disagreement->node.len = node->len;
    disagreement->node.data = ngx_pstrdup(fleet->pool, node);

    return disagreement->node.data ? NGX_OK : NGX_ERROR;
}


/* a pool has a server; its name is copied.  NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_fleet_server(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore,
    ngx_http_dsem_survey_server_t *server)
{
    ngx_http_dsem_survey_server_t  *s;

    if (semaphore->servers.elts == NULL
        && ngx_array_init(&semaphore->servers, fleet->pool, 8,
                          sizeof(ngx_http_dsem_survey_server_t)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    s = ngx_array_push(&semaphore->servers);
    if (s == NULL) {
        return NGX_ERROR;
    }

    *s = *server;
    s->name.data = ngx_pstrdup(fleet->pool, &server->name);

    return s->name.data ? NGX_OK : NGX_ERROR;
}


/* the limit of a semaphore is found; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_fleet_find_limit(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_http_dsem_found_t *found)
{
    semaphore->found = ngx_palloc(fleet->pool, sizeof(ngx_http_dsem_found_t));

    if (semaphore->found == NULL) {
        return NGX_ERROR;
    }

    *semaphore->found = *found;

    return ngx_array_init(&semaphore->found->moves, fleet->pool, 8,
                          sizeof(ngx_http_dsem_move_t));
}


/* it was moved; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_fleet_move(ngx_http_dsem_survey_semaphore_t *semaphore,
    ngx_http_dsem_move_t *move)
{
    ngx_http_dsem_move_t  *m;

    m = ngx_array_push(&semaphore->found->moves);
    if (m == NULL) {
        return NGX_ERROR;
    }

    *m = *move;

    return NGX_OK;
}


/*
 * All replies have been read: what is neither in Redis nor in the counters of
 * this node is left out, and what is in a shard that could not be asked.
 * NGX_ERROR: no memory.
 */

ngx_int_t
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
            && (semaphore[i].known || semaphore[i].counted))
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

    ngx_http_dsem_fleet_merge(&survey->nodes);

    return ngx_http_dsem_fleet_list(fleet);
}


/* each node once, by name */

static void
ngx_http_dsem_fleet_merge(ngx_array_t *nodes)
{
    ngx_uint_t                    i, n;
    ngx_http_dsem_survey_node_t  *node;

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


/* the sessions that were met, by name */

static ngx_int_t
ngx_http_dsem_fleet_list(ngx_http_dsem_fleet_t *fleet)
{
    ngx_array_t             *sessions;
    ngx_rbtree_node_t       *node, *root, *sentinel;
    ngx_http_dsem_holder_t  *holder;

    sessions = &fleet->survey.sessions;

    if (ngx_array_init(sessions, fleet->pool, ngx_max(fleet->nsessions, 1),
                       sizeof(ngx_http_dsem_holder_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    root = fleet->sessions.root;
    sentinel = fleet->sessions.sentinel;

    if (root == sentinel) {
        return NGX_OK;
    }

    for (node = ngx_rbtree_min(root, sentinel);
         node;
         node = ngx_rbtree_next(&fleet->sessions, node))
    {
        holder = ngx_array_push(sessions);
        if (holder == NULL) {
            return NGX_ERROR;
        }

        *holder = ((ngx_http_dsem_fleet_session_t *) node)->total;
    }

    ngx_qsort(sessions->elts, sessions->nelts, sizeof(ngx_http_dsem_holder_t),
              ngx_http_dsem_text_order);

    return NGX_OK;
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
