
/*
 * Redis Cluster: which node has the keys.
 *
 * No map of the Cluster is read.  A node is asked for a key of the shard,
 * one that never exists, with a command that the scripts need anyway.  Only
 * the master of the slot replies to it.  Others name the master (MOVED), and
 * are not believed until that one has replied itself.  While the slot is
 * migrated scripts may lack some of their keys: the old master replies ASK,
 * as the key is missing, and the new one MOVED, until the slot has moved.
 *
 * Two nodes are asked at a time, so that one that is silent hides nothing.
 * A node that has replied is asked again on the same connection: that costs
 * little, and shows a new master soon after its promotion.  New connections
 * are made at a slow pace once all nodes have been tried.
 *
 * Called by: redis, as its peer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_cluster.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_moved.h"
#include "ngx_http_dsem_nodes.h"
#include "ngx_http_dsem_reason.h"


/* connections at a time */
#define NGX_HTTP_DSEM_CLUSTER_QUERIES   2

/* ms until a node is asked again on its connection */
#define NGX_HTTP_DSEM_CLUSTER_TICK      100

/* ms between new connections when all nodes have been tried */
#define NGX_HTTP_DSEM_CLUSTER_TURN      500

/*
 * Nodes that are asked at once because others have named them.  More are
 * named only where nodes disagree or lie; they have their turn.
 */
#define NGX_HTTP_DSEM_CLUSTER_HOPS      8

/* searches without an accepted session, and ms until the next one then */
#define NGX_HTTP_DSEM_CLUSTER_FAILURES  3
#define NGX_HTTP_DSEM_CLUSTER_PAUSE     1000


typedef struct ngx_http_dsem_cluster_s  ngx_http_dsem_cluster_t;


/* a connection that asks one node */
typedef struct {
    ngx_http_dsem_cluster_t         *cluster;
    ngx_http_dsem_node_t            *node;      /* NULL: not in use */
    ngx_http_dsem_connection_t      *conn;
    ngx_msec_t                       since;     /* of the last question */
    unsigned                         connected:1;
    unsigned                         pending:1; /* no reply yet */
} ngx_http_dsem_cluster_query_t;


struct ngx_http_dsem_cluster_s {
    ngx_http_dsem_peer_t             peer;
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_keys_t            *keys;

    ngx_http_dsem_nodes_t            nodes;
    ngx_http_dsem_node_t            *current;   /* the last one found */
    ngx_http_dsem_node_t            *named;     /* the likely one; or NULL */

    ngx_http_dsem_cluster_query_t    queries[NGX_HTTP_DSEM_CLUSTER_QUERIES];
    ngx_http_dsem_resp_t             question;
    ngx_event_t                      tick;

    ngx_uint_t                       search;    /* number of searches */
    ngx_uint_t                       failures;  /* of them in a row */
    ngx_uint_t                       tries;     /* that need no turn, left */
    ngx_msec_t                       turn;      /* time of the last one */
    char                             reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                         unnamed:1;   /* logged */
    unsigned                         odd:1;       /* turn */
};


static ngx_int_t ngx_http_dsem_cluster_compose(
    ngx_http_dsem_cluster_t *cluster);
static void ngx_http_dsem_cluster_destroy(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_cluster_find(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_cluster_stop(ngx_http_dsem_cluster_t *cluster);
static void ngx_http_dsem_cluster_good(ngx_http_dsem_peer_t *peer);
static ngx_uint_t ngx_http_dsem_cluster_stopped(ngx_http_dsem_peer_t *peer);
static ngx_uint_t ngx_http_dsem_cluster_moved(ngx_http_dsem_peer_t *peer,
    const char *error);
static void ngx_http_dsem_cluster_set_named(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node);
static void ngx_http_dsem_cluster_ask(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node);
static ngx_http_dsem_cluster_query_t *ngx_http_dsem_cluster_free_query(
    ngx_http_dsem_cluster_t *cluster);
static void ngx_http_dsem_cluster_send(ngx_http_dsem_cluster_query_t *query);
static void ngx_http_dsem_cluster_connected(void *data);
static void ngx_http_dsem_cluster_reply(void *data, redisReply *reply);
static void ngx_http_dsem_cluster_found(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node);
static ngx_http_dsem_node_t *ngx_http_dsem_cluster_learn(
    ngx_http_dsem_cluster_t *cluster, ngx_http_dsem_moved_t *moved,
    ngx_http_dsem_node_t *from);
static void ngx_http_dsem_cluster_follow(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node);
static void ngx_http_dsem_cluster_failed(void *data, const char *reason,
    ngx_uint_t protocol_error);
static void ngx_http_dsem_cluster_set_reason(
    ngx_http_dsem_cluster_query_t *query, const char *reason);
static void ngx_http_dsem_cluster_close(ngx_http_dsem_cluster_query_t *query);
static void ngx_http_dsem_cluster_next(ngx_http_dsem_cluster_t *cluster);
static void ngx_http_dsem_cluster_tick_handler(ngx_event_t *ev);
static void ngx_http_dsem_cluster_tick(ngx_http_dsem_cluster_query_t *query);


static ngx_http_dsem_peer_row_t  ngx_http_dsem_cluster_row = {
    ngx_http_dsem_cluster_find,
    ngx_http_dsem_cluster_good,
    ngx_http_dsem_cluster_stopped,
    ngx_http_dsem_cluster_moved,
    ngx_http_dsem_cluster_destroy,
    "no node replies"
};


static ngx_http_dsem_connection_handlers_t  ngx_http_dsem_cluster_handlers = {
    ngx_http_dsem_cluster_connected,
    ngx_http_dsem_cluster_reply,
    ngx_http_dsem_cluster_failed,
    NULL
};


/* settings and keys must stay; NULL: no memory */

ngx_http_dsem_peer_t *
ngx_http_dsem_cluster_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_keys_t *keys, ngx_http_dsem_peer_handlers_t *handlers,
    void *data)
{
    ngx_uint_t                i;
    ngx_http_dsem_cluster_t  *cluster;

    cluster = ngx_calloc(sizeof(ngx_http_dsem_cluster_t), ngx_cycle->log);
    if (cluster == NULL) {
        return NULL;
    }

    cluster->settings = settings;
    cluster->keys = keys;

    cluster->peer.row = &ngx_http_dsem_cluster_row;
    cluster->peer.settings = settings;
    cluster->peer.handlers = handlers;
    cluster->peer.data = data;
    cluster->peer.unnamed = &settings->servers[0].name;
    cluster->peer.burst = 1;

    ngx_http_dsem_deadline_timer(&cluster->tick,
                                 ngx_http_dsem_cluster_tick_handler, cluster);

    for (i = 0; i < NGX_HTTP_DSEM_CLUSTER_QUERIES; i++) {
        cluster->queries[i].cluster = cluster;
    }

    if (ngx_http_dsem_nodes_create(&cluster->nodes, settings) != NGX_OK
        || ngx_http_dsem_cluster_compose(cluster) != NGX_OK)
    {
        ngx_http_dsem_cluster_destroy(&cluster->peer);
        return NULL;
    }

    /* until one is found any: all accept subscriptions */

    if (cluster->nodes.n) {
        cluster->peer.addr = &cluster->nodes.elts[0].at.addr;
    }

    return &cluster->peer;
}


/* no semaphore has an empty name: its key never exists */

static ngx_int_t
ngx_http_dsem_cluster_compose(ngx_http_dsem_cluster_t *cluster)
{
    u_char                *p;
    ngx_str_t              key, none;
    ngx_http_dsem_resp_t  *question;

    ngx_str_null(&none);

    p = ngx_alloc(ngx_http_dsem_key_len(cluster->keys, &none),
                  ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_http_dsem_key_parts(cluster->keys, "s", &none, &key, p);

    question = &cluster->question;

    ngx_http_dsem_resp_begin(question, 2);
    ngx_http_dsem_resp_bytes(question, "HGETALL", sizeof("HGETALL") - 1);
    ngx_http_dsem_resp_string(question, &key);

    ngx_free(p);

    return ngx_http_dsem_resp_end(question);
}


/* no connection has an address of it any more */

static void
ngx_http_dsem_cluster_destroy(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_cluster_t  *cluster;

    cluster = (ngx_http_dsem_cluster_t *) peer;

    ngx_http_dsem_cluster_stop(cluster);

    ngx_http_dsem_resp_free(&cluster->question);
    ngx_http_dsem_nodes_free(&cluster->nodes);
    ngx_free(cluster);
}


/*
 * Begins to search, until the handler is called or ngx_http_dsem_cluster_stop()
 * is.  A node may reply to the question, and reject sessions all the same:
 * then the pauses of the caller are not enough, as a search connects too.
 */

static void
ngx_http_dsem_cluster_find(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_cluster_t  *cluster;

    cluster = (ngx_http_dsem_cluster_t *) peer;

    peer->followed = 0;
    cluster->search++;
    cluster->reason[0] = '\0';

    if (cluster->failures++ < NGX_HTTP_DSEM_CLUSTER_FAILURES) {
        cluster->tries = cluster->nodes.nconfigured
                         + NGX_HTTP_DSEM_CLUSTER_HOPS;

        ngx_add_timer(&cluster->tick, NGX_HTTP_DSEM_CLUSTER_TICK);
        ngx_http_dsem_cluster_next(cluster);

    } else {
        cluster->tries = 1;
        ngx_add_timer(&cluster->tick, NGX_HTTP_DSEM_CLUSTER_PAUSE);
    }
}


/* the handler is not called any more */

static void
ngx_http_dsem_cluster_stop(ngx_http_dsem_cluster_t *cluster)
{
    ngx_uint_t  i;

    cluster->peer.reason = NULL;

    for (i = 0; i < NGX_HTTP_DSEM_CLUSTER_QUERIES; i++) {
        ngx_http_dsem_cluster_close(&cluster->queries[i]);
    }

    if (cluster->tick.timer_set) {
        ngx_del_timer(&cluster->tick);
    }
}


static ngx_uint_t
ngx_http_dsem_cluster_stopped(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_cluster_stop((ngx_http_dsem_cluster_t *) peer);

    return 1;
}


/* the node that was found has accepted a session */

static void
ngx_http_dsem_cluster_good(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_cluster_t  *cluster;

    cluster = (ngx_http_dsem_cluster_t *) peer;

    cluster->failures = 0;
    cluster->unnamed = 0;
}


/*
 * An error reply of the node that was found.  True: its slot has moved, or is
 * about to, which passes; the next search begins with the node it names.
 */

static ngx_uint_t
ngx_http_dsem_cluster_moved(ngx_http_dsem_peer_t *peer, const char *error)
{
    ngx_http_dsem_node_t     *node;
    ngx_http_dsem_moved_t     moved;
    ngx_http_dsem_cluster_t  *cluster;

    cluster = (ngx_http_dsem_cluster_t *) peer;

    if (ngx_strncmp(error, "TRYAGAIN ", sizeof("TRYAGAIN ") - 1) == 0) {
        return 1;
    }

    if (cluster->current == NULL
        || ngx_http_dsem_moved_parse(&moved, error) != NGX_OK
        || moved.slot != cluster->keys->slot)
    {
        return 0;
    }

    node = ngx_http_dsem_cluster_learn(cluster, &moved, cluster->current);

    if (node) {
        ngx_http_dsem_cluster_set_named(cluster, node);
    }

    return 1;
}


static void
ngx_http_dsem_cluster_set_named(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node)
{
    node->kept++;

    if (cluster->named) {
        cluster->named->kept--;
    }

    cluster->named = node;
}


/* not while it is being asked */

static void
ngx_http_dsem_cluster_ask(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node)
{
    char                            reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_http_dsem_cluster_query_t  *query;

    query = ngx_http_dsem_cluster_free_query(cluster);

    if (query == NULL) {
        return;
    }

    query->node = node;
    query->since = ngx_current_msec;
    query->connected = 0;
    query->pending = 1;

    node->asking = 1;
    node->search = cluster->search;
    node->asked = ngx_current_msec;

    cluster->turn = ngx_current_msec;

    query->conn = ngx_http_dsem_connection_create(&node->at.addr,
                                           cluster->settings->connect_timeout,
                                           &cluster->settings->login,
                                           &ngx_http_dsem_cluster_handlers,
                                           query, reason);

    if (query->conn == NULL) {
        ngx_http_dsem_cluster_failed(query, reason, 0);
    }
}


/* one that has had its reply longest ago gives way; NULL: both are waiting */

static ngx_http_dsem_cluster_query_t *
ngx_http_dsem_cluster_free_query(ngx_http_dsem_cluster_t *cluster)
{
    ngx_uint_t                      i;
    ngx_http_dsem_cluster_query_t  *query, *oldest;

    oldest = NULL;

    for (i = 0; i < NGX_HTTP_DSEM_CLUSTER_QUERIES; i++) {
        query = &cluster->queries[i];

        if (query->node == NULL) {
            return query;
        }

        if (!query->pending
            && (oldest == NULL
                || (ngx_msec_int_t) (query->node->asked - oldest->node->asked)
                   < 0))
        {
            oldest = query;
        }
    }

    if (oldest) {
        ngx_http_dsem_cluster_close(oldest);
    }

    return oldest;
}


static void
ngx_http_dsem_cluster_connected(void *data)
{
    ngx_http_dsem_cluster_query_t *query = data;

    query->connected = 1;

    ngx_http_dsem_cluster_send(query);
}


static void
ngx_http_dsem_cluster_send(ngx_http_dsem_cluster_query_t *query)
{
    ngx_http_dsem_resp_t  question;

    query->pending = 1;
    query->since = ngx_current_msec;

    question = query->cluster->question;

    if (ngx_http_dsem_connection_send(query->conn, &question) != NGX_OK) {
        ngx_http_dsem_cluster_failed(query, "no memory", 0);
    }
}


/* no error: this is the master of the slot */

static void
ngx_http_dsem_cluster_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_cluster_query_t *query = data;

    ngx_http_dsem_node_t     *node;
    ngx_http_dsem_moved_t     moved;
    ngx_http_dsem_cluster_t  *cluster;

    cluster = query->cluster;
    query->pending = 0;

    if (reply->type == REDIS_REPLY_ARRAY) {
        ngx_http_dsem_cluster_found(cluster, query->node);
        return;
    }

    if (reply->type != REDIS_REPLY_ERROR) {
        ngx_http_dsem_cluster_failed(query, "unexpected reply", 1);
        return;
    }

    if (ngx_http_dsem_moved_parse(&moved, reply->str) != NGX_OK
        || moved.slot != cluster->keys->slot)
    {
        ngx_http_dsem_cluster_set_reason(query, reply->str);
        return;
    }

    node = ngx_http_dsem_cluster_learn(cluster, &moved, query->node);

    if (node == NULL || moved.ask || cluster->reason[0] == '\0') {
        ngx_http_dsem_cluster_set_reason(query, reply->str);
    }

    if (node) {
        ngx_http_dsem_cluster_follow(cluster, node);
    }
}


static void
ngx_http_dsem_cluster_found(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node)
{
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem cluster: found %V", &node->at.addr.name);

    ngx_http_dsem_cluster_stop(cluster);
    ngx_http_dsem_cluster_set_named(cluster, node);

    node->kept++;

    if (cluster->current) {
        cluster->current->kept--;
    }

    cluster->current = node;

    cluster->peer.addr = &node->at.addr;

    cluster->peer.handlers->found(cluster->peer.data, &node->at.addr, NULL);
}


/* NULL: a name that was not resolved, or no place for another node */

static ngx_http_dsem_node_t *
ngx_http_dsem_cluster_learn(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_moved_t *moved, ngx_http_dsem_node_t *from)
{
    ngx_http_dsem_node_t  *node;

    node = ngx_http_dsem_nodes_get(&cluster->nodes, &moved->host, moved->port,
                                   from);

    if (node == NULL && !cluster->unnamed) {
        cluster->unnamed = 1;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V names another node \"%V:%ui\", which is "
                      "no address, set \"cluster-preferred-endpoint-type ip\" "
                      "in Redis, or write that name in \"dsem_redis\"",
                      &from->at.addr.name, &moved->host,
                      (ngx_uint_t) moved->port);
    }

    return node;
}


/*
 * At once, if it is news; a node that was named before, and had no reply or
 * named another one, has its turn.
 */

static void
ngx_http_dsem_cluster_follow(ngx_http_dsem_cluster_t *cluster,
    ngx_http_dsem_node_t *node)
{
    ngx_uint_t  known;

    known = (node == cluster->named && node->search == cluster->search);

    ngx_http_dsem_cluster_set_named(cluster, node);

    if (known || node->asking || cluster->tries == 0) {
        return;
    }

    cluster->tries--;

    /* of the first search only: the node that is found may reject sessions */

    if (cluster->peer.followed == 0 && cluster->failures == 1) {
        cluster->peer.followed = ngx_current_msec;
    }

    ngx_http_dsem_cluster_ask(cluster, node);
}


static void
ngx_http_dsem_cluster_failed(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_cluster_query_t *query = data;

    ngx_http_dsem_cluster_t  *cluster;

    cluster = query->cluster;

    ngx_http_dsem_cluster_set_reason(query, reason);
    ngx_http_dsem_cluster_close(query);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem cluster: %s", cluster->reason);

    ngx_http_dsem_cluster_next(cluster);
}


/* log lines name the current node themselves */

static void
ngx_http_dsem_cluster_set_reason(ngx_http_dsem_cluster_query_t *query,
    const char *reason)
{
    ngx_addr_t               *addr;
    ngx_http_dsem_cluster_t  *cluster;

    cluster = query->cluster;
    addr = &query->node->at.addr;

    cluster->peer.reason = cluster->reason;

    if (addr == cluster->peer.addr) {
        ngx_http_dsem_reason(cluster->reason, "%s", reason);

    } else {
        ngx_http_dsem_reason(cluster->reason, "%V: %s", &addr->name, reason);
    }
}


static void
ngx_http_dsem_cluster_close(ngx_http_dsem_cluster_query_t *query)
{
    query->connected = 0;

    if (query->node) {
        query->node->asking = 0;
        query->node = NULL;
    }

    if (query->conn) {
        ngx_http_dsem_connection_close(query->conn);
        query->conn = NULL;
    }
}


/* a node that this search has not asked yet, the likely one first */

static void
ngx_http_dsem_cluster_next(ngx_http_dsem_cluster_t *cluster)
{
    ngx_http_dsem_node_t  *node;

    if (cluster->tries == 0) {
        return;
    }

    node = cluster->named;

    if (node == NULL || node->search == cluster->search) {
        node = ngx_http_dsem_nodes_oldest(&cluster->nodes, cluster->search);
    }

    if (node && node->search != cluster->search) {
        cluster->tries--;
        ngx_http_dsem_cluster_ask(cluster, node);
    }
}


static void
ngx_http_dsem_cluster_tick_handler(ngx_event_t *ev)
{
    ngx_http_dsem_cluster_t *cluster = ev->data;

    ngx_uint_t             i, unused;
    ngx_http_dsem_node_t  *node;

    unused = 0;

    ngx_add_timer(ev, NGX_HTTP_DSEM_CLUSTER_TICK);

    /*
     * A new connection, to the likely node or, in turns, to see what another
     * one replies.  Before the questions: a query that waits for a reply gives
     * no way.
     */

    if (ngx_current_msec - cluster->turn >= NGX_HTTP_DSEM_CLUSTER_TURN) {
        cluster->odd = !cluster->odd;
        node = cluster->named;

        if (!cluster->odd || node == NULL || node->asking) {
            node = ngx_http_dsem_nodes_oldest(&cluster->nodes,
                                              cluster->search);
        }

        if (node) {
            ngx_http_dsem_cluster_ask(cluster, node);
        }
    }

    for (i = 0; i < NGX_HTTP_DSEM_CLUSTER_QUERIES; i++) {

        if (cluster->queries[i].connected) {
            ngx_http_dsem_cluster_tick(&cluster->queries[i]);
        }

        unused += (cluster->queries[i].node == NULL);
    }

    if (unused) {
        ngx_http_dsem_cluster_next(cluster);
    }
}


static void
ngx_http_dsem_cluster_tick(ngx_http_dsem_cluster_query_t *query)
{
    if (!query->pending) {
        ngx_http_dsem_cluster_send(query);

    } else if (ngx_current_msec - query->since
               >= query->cluster->settings->connect_timeout)
    {
        ngx_http_dsem_cluster_failed(query, "no reply in time", 0);
    }
}
