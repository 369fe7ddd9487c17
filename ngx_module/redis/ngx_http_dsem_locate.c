
/*
 * Locate: the server to connect to, where other servers have to be asked.
 *
 * A search asks the candidates, until one of them replies with the server.  A
 * connection on which a candidate has replied stays open: another question
 * costs no attempt to connect there, and shows a new master soon after its
 * promotion.  A table has what differs:
 *
 * Sentinels name the master, and are asked one at a time.  One that does not
 * reply, or does not have the master, leaves its turn to the next one; so does
 * one whose master is not usable for a second, as it may be cut off from the
 * others.  They are asked also while a master is in use: one that was
 * replaced still replies for seconds, and grants permits of which the new one
 * has no record.  There is no subscription to "+switch-master": it would be one
 * connection more for each worker, its messages may be lost, and a sentinel
 * names the new master before it publishes the message.  If none replies, the
 * last master is used: Redis and not this file decides whether it still is one.
 *
 * No map of a Cluster is read.  A node is asked for a key of the shard, one
 * that never exists, with a command that the scripts need anyway.  Only the
 * master of the slot replies to it.  Others name the master (MOVED), which
 * counts only when that one has replied itself.  While the slot is migrated
 * scripts may lack some of their keys: the old master replies ASK, as the key
 * is missing, and the new one MOVED, until the slot has moved.  Two nodes are
 * asked at a time, so that one that is silent hides nothing; new connections
 * are made at a slow pace once all nodes have been tried.
 *
 * Called by: redis, as its peer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_backoff.h"
#include "ngx_http_dsem_candidates.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_peer.h"


/* ms between two questions on a connection, while no server is in use */
#define NGX_HTTP_DSEM_LOCATE_TICK      100

/* connections at a time, at most */
#define NGX_HTTP_DSEM_LOCATE_QUERIES   2

/*
 * Candidates that are asked at once because others have named them.  More are
 * named only where nodes disagree or lie; they have their turn.
 */
#define NGX_HTTP_DSEM_LOCATE_HOPS      8

/* searches without an accepted session, and ms until the next one then */
#define NGX_HTTP_DSEM_LOCATE_FAILURES  3
#define NGX_HTTP_DSEM_LOCATE_PAUSE     1000

/* ms between two reports of another master, at least */
#define NGX_HTTP_DSEM_LOCATE_MOVES     500


typedef struct ngx_http_dsem_locate_s  ngx_http_dsem_locate_t;


/* a connection that asks one candidate */
typedef struct {
    ngx_http_dsem_locate_t          *locate;
    ngx_http_dsem_candidate_t       *candidate;  /* NULL: not in use */
    ngx_http_dsem_connection_t      *conn;
    ngx_event_t                      silence;
    ngx_http_dsem_deadline_t         deadline;   /* of the silence */
    unsigned                         pending:1;  /* no reply yet */
} ngx_http_dsem_locate_query_t;


/* what differs by mode */
typedef struct {
    ngx_str_t     question[2];  /* two words and the master; one and a key */
    void        (*parse)(ngx_http_dsem_locate_query_t *query,
                         redisReply *reply);
    ngx_uint_t    stays;        /* goes on asking while the server is good */
    ngx_uint_t    nqueries;     /* connections at a time */
    ngx_uint_t    part;         /* of the time to connect: 1 / part */
    ngx_msec_t    turn;         /* ms until another one is asked, too */
    const char   *pending;      /* as in peer */
} ngx_http_dsem_locate_mode_t;


/*
 * flag      set by            cleared by          while it is set
 *
 * asking    begin             located, next,      a search goes on
 *                             stop
 * finding   find              found, failed       "found" is due
 * pausing   next              tick_handler        no sentinel has named a
 *                                                 master: a find has the last
 * replied   lost              begin               a sentinel has, with an error
 * good      good              failed              the server is in use
 * reported  next              located             the log has: none replies
 * odd       tick_handler      tick_handler        the likely one has the turn
 */

struct ngx_http_dsem_locate_s {
    ngx_http_dsem_peer_t             peer;
    ngx_http_dsem_locate_mode_t     *mode;
    ngx_http_dsem_keys_t            *keys;
    ngx_http_dsem_login_t           *login;

    ngx_http_dsem_candidates_t       candidates;
    ngx_http_dsem_locate_query_t     queries[NGX_HTTP_DSEM_LOCATE_QUERIES];
    ngx_http_dsem_resp_t             question;
    ngx_msec_t                       timeout;   /* ms, for one candidate */
    ngx_event_t                      tick;

    ngx_uint_t                       search;    /* number of searches */
    ngx_uint_t                       failures;  /* of them in a row */
    ngx_uint_t                       tries;     /* that need no turn, left */
    ngx_msec_t                       turn;      /* time of the last one */
    ngx_http_dsem_backoff_t          backoff;   /* searches with no reply */

    ngx_http_dsem_addr_t             named;     /* by the last reply */
    ngx_http_dsem_addr_t             used;      /* by the last find */
    ngx_msec_t                       moved;     /* time of the last report */

    char                             reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                         asking:1;
    unsigned                         finding:1;
    unsigned                         pausing:1;
    unsigned                         replied:1;
    unsigned                         good:1;
    unsigned                         reported:1;
    unsigned                         odd:1;
};


static ngx_int_t ngx_http_dsem_locate_compose(
    ngx_http_dsem_locate_t *locate);
static void ngx_http_dsem_locate_destroy(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_locate_find(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_locate_good(ngx_http_dsem_peer_t *peer);
static ngx_uint_t ngx_http_dsem_locate_failed(ngx_http_dsem_peer_t *peer);
static ngx_uint_t ngx_http_dsem_locate_redirected(ngx_http_dsem_peer_t *peer,
    const char *error);
static void ngx_http_dsem_locate_stop(ngx_http_dsem_locate_t *locate);
static void ngx_http_dsem_locate_begin(ngx_http_dsem_locate_t *locate);
static void ngx_http_dsem_locate_tick_handler(ngx_event_t *ev);
static void ngx_http_dsem_locate_step(ngx_http_dsem_locate_t *locate);
static void ngx_http_dsem_locate_next(ngx_http_dsem_locate_t *locate);
static void ngx_http_dsem_locate_ask(ngx_http_dsem_locate_t *locate,
    ngx_http_dsem_candidate_t *candidate);
static ngx_http_dsem_locate_query_t *ngx_http_dsem_locate_free_query(
    ngx_http_dsem_locate_t *locate);
static void ngx_http_dsem_locate_send(void *data);
static void ngx_http_dsem_locate_silence_handler(ngx_event_t *ev);
static void ngx_http_dsem_locate_reply(void *data, redisReply *reply);
static void ngx_http_dsem_locate_sentinel_parse(
    ngx_http_dsem_locate_query_t *query, redisReply *reply);
static void ngx_http_dsem_locate_cluster_parse(
    ngx_http_dsem_locate_query_t *query, redisReply *reply);
static void ngx_http_dsem_locate_located(ngx_http_dsem_locate_query_t *query);
static void ngx_http_dsem_locate_lost(void *data, const char *reason,
    ngx_uint_t protocol_error);
static void ngx_http_dsem_locate_set_reason(
    ngx_http_dsem_locate_query_t *query, const char *reason);
static void ngx_http_dsem_locate_close(ngx_http_dsem_locate_query_t *query);
static void ngx_http_dsem_locate_found(ngx_http_dsem_locate_t *locate);


static ngx_http_dsem_locate_mode_t  ngx_http_dsem_locate_sentinel = {
    { ngx_string("SENTINEL"), ngx_string("GET-MASTER-ADDR-BY-NAME") },
    ngx_http_dsem_locate_sentinel_parse,
    1,        /* stays */
    1,        /* at a time */
    2,        /* half the time: one lost sentinel must not open the breaker */
    1000,     /* ms for a turn */
    "no sentinel replies"
};


static ngx_http_dsem_locate_mode_t  ngx_http_dsem_locate_cluster = {
    { ngx_string("HGETALL"), ngx_null_string },
    ngx_http_dsem_locate_cluster_parse,
    0,        /* a search has an end */
    2,        /* at a time */
    1,        /* all of the time */
    500,      /* ms for a turn */
    "no node replies"
};


static ngx_http_dsem_peer_row_t  ngx_http_dsem_locate_row = {
    ngx_http_dsem_locate_find,
    ngx_http_dsem_locate_good,
    ngx_http_dsem_locate_failed,
    ngx_http_dsem_locate_redirected,
    ngx_http_dsem_locate_destroy
};


static ngx_http_dsem_connection_handlers_t  ngx_http_dsem_locate_handlers = {
    ngx_http_dsem_locate_send,
    ngx_http_dsem_locate_reply,
    ngx_http_dsem_locate_lost,
    NULL
};


/* settings and keys must stay; nothing happens before the first find */

ngx_http_dsem_peer_t *
ngx_http_dsem_locate_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_keys_t *keys, ngx_http_dsem_peer_handlers_t *handlers,
    void *data)
{
    ngx_uint_t               i;
    ngx_http_dsem_locate_t  *locate;

    locate = ngx_calloc(sizeof(ngx_http_dsem_locate_t), ngx_cycle->log);
    if (locate == NULL) {
        return NULL;
    }

    if (settings->mode == NGX_HTTP_DSEM_MODE_SENTINEL) {
        locate->mode = &ngx_http_dsem_locate_sentinel;
        locate->login = &settings->sentinel_login;

    } else {
        locate->mode = &ngx_http_dsem_locate_cluster;
        locate->login = &settings->login;
    }

    locate->peer.row = &ngx_http_dsem_locate_row;
    locate->peer.settings = settings;
    locate->peer.handlers = handlers;
    locate->peer.data = data;
    locate->peer.unnamed = &settings->master;
    locate->peer.pending = locate->mode->pending;
    locate->peer.burst = 1;

    locate->keys = keys;
    locate->timeout = settings->connect_timeout / locate->mode->part;

    ngx_http_dsem_deadline_timer(&locate->tick,
                                 ngx_http_dsem_locate_tick_handler, locate);

    for (i = 0; i < NGX_HTTP_DSEM_LOCATE_QUERIES; i++) {
        locate->queries[i].locate = locate;
        ngx_http_dsem_deadline_timer(&locate->queries[i].silence,
                                     ngx_http_dsem_locate_silence_handler,
                                     &locate->queries[i]);
    }

    if (ngx_http_dsem_candidates_create(&locate->candidates, settings)
        != NGX_OK
        || ngx_http_dsem_locate_compose(locate) != NGX_OK)
    {
        ngx_http_dsem_locate_destroy(&locate->peer);
        return NULL;
    }

    if (!locate->mode->stays) {
        /* until one is found any will do: all accept subscriptions */
        locate->peer.addr = &locate->candidates.elts[0].at.addr;
    }

    return &locate->peer;
}


/* no semaphore has an empty name: its key never exists */

static ngx_int_t
ngx_http_dsem_locate_compose(ngx_http_dsem_locate_t *locate)
{
    u_char                *p;
    ngx_str_t              key, none, *words;
    ngx_http_dsem_resp_t  *question;

    ngx_str_null(&none);

    p = ngx_alloc(ngx_http_dsem_key_len(locate->keys, &none), ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_http_dsem_key_parts(locate->keys, "s", &none, &key, p);

    words = locate->mode->question;
    question = &locate->question;

    ngx_http_dsem_resp_begin(question, words[1].len ? 3 : 2);
    ngx_http_dsem_resp_string(question, &words[0]);

    if (words[1].len) {
        ngx_http_dsem_resp_string(question, &words[1]);
        ngx_http_dsem_resp_string(question, &locate->peer.settings->master);

    } else {
        ngx_http_dsem_resp_string(question, &key);
    }

    ngx_free(p);

    return ngx_http_dsem_resp_end(question);
}


static void
ngx_http_dsem_locate_destroy(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_locate_t *locate = (ngx_http_dsem_locate_t *) peer;

    ngx_http_dsem_locate_stop(locate);

    ngx_http_dsem_resp_free(&locate->question);
    ngx_free(locate->candidates.elts);
    ngx_free(locate);
}


/*
 * A node of a Cluster may reply to the question, and reject sessions all the
 * same: then the pauses of the caller are not enough, as a search connects,
 * too.  Where no sentinel has just replied, none is asked again so soon.
 */

static void
ngx_http_dsem_locate_find(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_locate_t *locate = (ngx_http_dsem_locate_t *) peer;

    locate->finding = 1;

    if (locate->pausing) {
        ngx_http_dsem_locate_found(locate);
        return;
    }

    if (locate->asking) {
        return;
    }

    peer->followed = 0;
    locate->reason[0] = '\0';

    ngx_http_dsem_locate_begin(locate);

    if (!locate->mode->stays
        && locate->failures++ >= NGX_HTTP_DSEM_LOCATE_FAILURES)
    {
        locate->tries = 1;
        ngx_http_dsem_deadline_restart(&locate->tick,
                                       NGX_HTTP_DSEM_LOCATE_PAUSE);
        return;
    }

    ngx_http_dsem_deadline_restart(&locate->tick, NGX_HTTP_DSEM_LOCATE_TICK);
    ngx_http_dsem_locate_step(locate);
}


static void
ngx_http_dsem_locate_good(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_locate_t *locate = (ngx_http_dsem_locate_t *) peer;

    locate->good = 1;
    locate->failures = 0;
    locate->candidates.unnamed = 0;
}


/* sentinels are asked on */

static ngx_uint_t
ngx_http_dsem_locate_failed(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_locate_t *locate = (ngx_http_dsem_locate_t *) peer;

    if (locate->good) {
        locate->turn = ngx_current_msec;
    }

    locate->good = 0;
    locate->finding = 0;

    if (!locate->mode->stays) {
        ngx_http_dsem_locate_stop(locate);

    } else if (!locate->asking && !locate->pausing) {
        ngx_http_dsem_deadline_restart(&locate->tick,
                                       NGX_HTTP_DSEM_LOCATE_TICK);
    }

    return 1;
}


/* the next search begins with the node that is named */

static ngx_uint_t
ngx_http_dsem_locate_redirected(ngx_http_dsem_peer_t *peer, const char *error)
{
    ngx_http_dsem_locate_t *locate = (ngx_http_dsem_locate_t *) peer;

    ngx_int_t                   rc;
    ngx_http_dsem_candidate_t  *candidate;

    if (locate->mode->stays) {
        return 0;
    }

    if (ngx_strncmp(error, "TRYAGAIN ", sizeof("TRYAGAIN ") - 1) == 0) {
        return 1;
    }

    rc = ngx_http_dsem_candidates_learn(&locate->candidates,
                                        locate->keys->slot, error, peer->addr,
                                        &candidate);

    if (candidate) {
        locate->candidates.likely = candidate;
    }

    return rc != NGX_DECLINED;
}


static void
ngx_http_dsem_locate_stop(ngx_http_dsem_locate_t *locate)
{
    ngx_uint_t  i;

    locate->asking = 0;
    locate->peer.reason = NULL;

    for (i = 0; i < NGX_HTTP_DSEM_LOCATE_QUERIES; i++) {
        ngx_http_dsem_locate_close(&locate->queries[i]);
    }

    if (locate->tick.timer_set) {
        ngx_del_timer(&locate->tick);
    }
}


static void
ngx_http_dsem_locate_begin(ngx_http_dsem_locate_t *locate)
{
    locate->asking = 1;
    locate->replied = 0;
    locate->search++;
    locate->tries = locate->candidates.nconfigured
                    + NGX_HTTP_DSEM_LOCATE_HOPS;
}


static void
ngx_http_dsem_locate_tick_handler(ngx_event_t *ev)
{
    ngx_http_dsem_locate_t *locate = ev->data;

    ngx_http_dsem_candidate_t  *candidate;

    locate->pausing = 0;

    ngx_add_timer(ev, locate->good ? locate->peer.settings->heartbeat / 2
                                   : NGX_HTTP_DSEM_LOCATE_TICK);

    if (!locate->asking) {
        ngx_http_dsem_locate_begin(locate);
    }

    /*
     * A new connection, to the likely candidate or, in turns, to see what
     * another one replies.  Before the questions: a query that waits for a
     * reply gives no way.
     */

    if (!locate->good
        && ngx_current_msec - locate->turn >= locate->mode->turn)
    {
        locate->odd = !locate->odd;
        candidate = locate->candidates.likely;

        if (!locate->odd || candidate == NULL || candidate->asking) {
            candidate = ngx_http_dsem_candidates_oldest(&locate->candidates,
                                                        locate->search);
        }

        if (candidate == NULL && locate->mode->nqueries == 1) {
            /* alone: its address may lead to another sentinel now */
            candidate = locate->candidates.likely;
        }

        if (candidate) {
            ngx_http_dsem_locate_ask(locate, candidate);
        }
    }

    ngx_http_dsem_locate_step(locate);
}


/* asks again what has replied, and one more */

static void
ngx_http_dsem_locate_step(ngx_http_dsem_locate_t *locate)
{
    ngx_uint_t                     i, unused;
    ngx_http_dsem_locate_query_t  *query;

    unused = 0;

    for (i = 0; i < locate->mode->nqueries; i++) {
        query = &locate->queries[i];

        if (query->candidate && !query->pending) {
            ngx_http_dsem_locate_send(query);
        }

        unused += (query->candidate == NULL);
    }

    if (unused && locate->asking) {
        ngx_http_dsem_locate_next(locate);
    }
}


/*
 * A candidate that this search has not asked yet, the likely one first.  If no
 * sentinel has named a master, the search has ended.
 */

static void
ngx_http_dsem_locate_next(ngx_http_dsem_locate_t *locate)
{
    ngx_http_dsem_candidate_t       *candidate;
    ngx_http_dsem_redis_settings_t  *settings;

    candidate = locate->candidates.likely;

    if (candidate == NULL || candidate->search == locate->search) {
        candidate = ngx_http_dsem_candidates_oldest(&locate->candidates,
                                                    locate->search);
    }

    if (locate->tries && candidate && candidate->search != locate->search) {
        locate->tries--;
        ngx_http_dsem_locate_ask(locate, candidate);
        return;
    }

    if (!locate->mode->stays) {
        return;
    }

    settings = locate->peer.settings;

    locate->asking = 0;
    locate->pausing = 1;

    ngx_http_dsem_backoff_lost(&locate->backoff, settings->heartbeat);

    ngx_http_dsem_deadline_restart(&locate->tick,
                       ngx_http_dsem_backoff_pause(&locate->backoff,
                                                   settings->backoff, 1));

    if (locate->good && !locate->reported) {
        locate->reported = 1;

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: no sentinel names the master \"%V\" (%s), "
                      "failovers are not followed", &settings->master,
                      locate->reason);
    }

    if (locate->finding) {
        ngx_http_dsem_locate_found(locate);
    }
}


/* not while it is being asked */

static void
ngx_http_dsem_locate_ask(ngx_http_dsem_locate_t *locate,
    ngx_http_dsem_candidate_t *candidate)
{
    char                           reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_http_dsem_locate_query_t  *query;

    query = ngx_http_dsem_locate_free_query(locate);

    if (query == NULL) {
        return;
    }

    query->candidate = candidate;
    query->pending = 1;

    candidate->asking = 1;
    candidate->search = locate->search;
    candidate->asked = ngx_current_msec;

    locate->turn = ngx_current_msec;

    query->conn = ngx_http_dsem_connection_create(&candidate->at.addr,
                                           locate->timeout, locate->login,
                                           &ngx_http_dsem_locate_handlers,
                                           query, reason);

    if (query->conn == NULL) {
        ngx_http_dsem_locate_lost(query, reason, 0);
    }
}


/* one that has had its reply longest ago gives way; NULL: all are waiting */

static ngx_http_dsem_locate_query_t *
ngx_http_dsem_locate_free_query(ngx_http_dsem_locate_t *locate)
{
    ngx_uint_t                     i;
    ngx_http_dsem_locate_query_t  *query, *oldest;

    oldest = NULL;

    for (i = 0; i < locate->mode->nqueries; i++) {
        query = &locate->queries[i];

        if (query->candidate == NULL) {
            return query;
        }

        if (!query->pending
            && (oldest == NULL
                || (ngx_msec_int_t) (query->candidate->asked
                                     - oldest->candidate->asked) < 0))
        {
            oldest = query;
        }
    }

    if (oldest) {
        ngx_http_dsem_locate_close(oldest);
    }

    return oldest;
}


/* the connection is established; or has been, and is used again */

static void
ngx_http_dsem_locate_send(void *data)
{
    ngx_http_dsem_locate_query_t *query = data;

    ngx_http_dsem_resp_t     question;
    ngx_http_dsem_locate_t  *locate;

    locate = query->locate;

    query->pending = 1;
    query->candidate->search = locate->search;

    question = locate->question;

    if (ngx_http_dsem_connection_send(query->conn, &question) != NGX_OK) {
        ngx_http_dsem_locate_lost(query, "no memory", 0);
        return;
    }

    ngx_http_dsem_deadline_set(&query->deadline, &query->silence,
                               locate->timeout);
}


static void
ngx_http_dsem_locate_silence_handler(ngx_event_t *ev)
{
    ngx_http_dsem_locate_query_t *query = ev->data;

    if (!ngx_http_dsem_deadline_extend(&query->deadline, ev)) {
        ngx_http_dsem_locate_lost(query, "no reply in time", 0);
    }
}


static void
ngx_http_dsem_locate_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_locate_query_t *query = data;

    query->pending = 0;

    if (query->silence.timer_set) {
        ngx_del_timer(&query->silence);
    }

    query->locate->mode->parse(query, reply);
}


/* the guard lets in a pair of strings, nil, a string or an error */

static void
ngx_http_dsem_locate_sentinel_parse(ngx_http_dsem_locate_query_t *query,
    redisReply *reply)
{
    char                     reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_str_t                host;
    in_port_t                port;
    ngx_http_dsem_locate_t  *locate;

    locate = query->locate;

    switch (reply->type) {

    case REDIS_REPLY_ARRAY:
        host.data = (u_char *) reply->element[0]->str;
        host.len = reply->element[0]->len;

        port = ngx_http_dsem_addr_port((u_char *) reply->element[1]->str,
                                       reply->element[1]->len);

        if (port
            && ngx_http_dsem_addr_parse(&locate->named, &host, port) == NGX_OK)
        {
            ngx_http_dsem_locate_located(query);
            return;
        }

        ngx_http_dsem_reason(reason, "master \"%s\" is no address, "
                             "set \"announce-hostnames no\"", host.data);
        break;

    case REDIS_REPLY_NIL:
        ngx_http_dsem_reason(reason, "master \"%V\" is unknown",
                             &locate->peer.settings->master);
        break;

    case REDIS_REPLY_ERROR:
        ngx_http_dsem_reason(reason, "%s", reply->str);
        break;

    default:
        ngx_http_dsem_reason(reason, "unexpected reply");
        break;
    }

    ngx_http_dsem_locate_lost(query, reason, 1);
}


/*
 * No error: this is the master of the slot.  A node that is named is asked at
 * once; but one that was named before, and had no reply or named another one,
 * has its turn.
 */

static void
ngx_http_dsem_locate_cluster_parse(ngx_http_dsem_locate_query_t *query,
    redisReply *reply)
{
    ngx_int_t                   rc;
    ngx_addr_t                 *addr;
    ngx_uint_t                  again;
    ngx_http_dsem_locate_t     *locate;
    ngx_http_dsem_candidate_t  *candidate;

    locate = query->locate;
    addr = &query->candidate->at.addr;

    if (reply->type == REDIS_REPLY_ARRAY) {
        ngx_http_dsem_addr_set(&locate->named, addr->sockaddr, addr->socklen);
        ngx_http_dsem_locate_located(query);
        return;
    }

    if (reply->type != REDIS_REPLY_ERROR) {
        ngx_http_dsem_locate_lost(query, "unexpected reply", 1);
        return;
    }

    rc = ngx_http_dsem_candidates_learn(&locate->candidates,
                                        locate->keys->slot, reply->str, addr,
                                        &candidate);

    if (rc != NGX_OK || candidate == NULL || locate->reason[0] == '\0') {
        ngx_http_dsem_locate_set_reason(query, reply->str);
    }

    if (candidate == NULL) {
        return;
    }

    again = (candidate == locate->candidates.likely
             && candidate->search == locate->search);

    locate->candidates.likely = candidate;

    if (again || candidate->asking || locate->tries == 0) {
        return;
    }

    locate->tries--;

    /* of the first search only: the node that is found may reject sessions */

    if (locate->peer.followed == 0 && locate->failures == 1) {
        locate->peer.followed = ngx_current_msec;
    }

    ngx_http_dsem_locate_ask(locate, candidate);
}


/* the reply names the server, maybe the candidate itself: the search ends */

static void
ngx_http_dsem_locate_located(ngx_http_dsem_locate_query_t *query)
{
    char                     reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_http_dsem_peer_t    *peer;
    ngx_http_dsem_locate_t  *locate;

    locate = query->locate;
    peer = &locate->peer;

    locate->asking = 0;
    locate->candidates.likely = query->candidate;

    ngx_http_dsem_backoff_usable(&locate->backoff);

    if (locate->reported) {
        locate->reported = 0;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: sentinel %V replies, failovers of \"%V\" are "
                      "followed again", &query->candidate->server->name,
                      &peer->settings->master);
    }

    if (locate->finding) {

        if (!locate->mode->stays) {
            ngx_http_dsem_locate_stop(locate);
        }

        ngx_http_dsem_locate_found(locate);
        return;
    }

    /* sentinels that contradict each other must not cause many connects */

    if ((peer->addr
         && ngx_http_dsem_addr_equal(&locate->named.addr, peer->addr))
        || (locate->moved
            && ngx_current_msec - locate->moved < NGX_HTTP_DSEM_LOCATE_MOVES))
    {
        return;
    }

    locate->moved = ngx_current_msec;

    ngx_http_dsem_reason(reason, "%V is the master now",
                         &locate->named.addr.name);

    peer->handlers->moved(peer->data, reason);
}


/* the connection is lost or useless; the next candidate is asked */

static void
ngx_http_dsem_locate_lost(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_locate_query_t *query = data;

    ngx_http_dsem_locate_t  *locate;

    locate = query->locate;

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem %s %V lost: %s",
                   locate->mode->stays ? "sentinel" : "node",
                   &query->candidate->at.addr.name, reason);

    /* what a sentinel has replied says more than that another is down */

    if (locate->asking && (protocol_error || !locate->replied)) {
        locate->replied |= (protocol_error && locate->mode->stays);
        ngx_http_dsem_locate_set_reason(query, reason);
    }

    ngx_http_dsem_locate_close(query);

    if (locate->asking) {
        ngx_http_dsem_locate_next(locate);
    }
}


/* log lines name the node in use themselves */

static void
ngx_http_dsem_locate_set_reason(ngx_http_dsem_locate_query_t *query,
    const char *reason)
{
    ngx_addr_t              *addr;
    ngx_http_dsem_locate_t  *locate;

    locate = query->locate;
    addr = &query->candidate->at.addr;

    if (locate->mode->stays) {
        ngx_http_dsem_reason(locate->reason, "sentinel %V: %s",
                             &query->candidate->server->name, reason);
        return;
    }

    locate->peer.reason = locate->reason;

    if (ngx_http_dsem_addr_equal(addr, locate->peer.addr)) {
        ngx_http_dsem_reason(locate->reason, "%s", reason);

    } else {
        ngx_http_dsem_reason(locate->reason, "%V: %s", &addr->name, reason);
    }
}


static void
ngx_http_dsem_locate_close(ngx_http_dsem_locate_query_t *query)
{
    if (query->candidate) {
        query->candidate->asking = 0;
        query->candidate = NULL;
    }

    if (query->conn) {
        ngx_http_dsem_connection_close(query->conn);
        query->conn = NULL;
    }

    if (query->silence.timer_set) {
        ngx_del_timer(&query->silence);
    }
}


/* the handler may come back with another find, or with a failure */

static void
ngx_http_dsem_locate_found(ngx_http_dsem_locate_t *locate)
{
    ngx_addr_t            *named;
    ngx_http_dsem_peer_t  *peer;

    peer = &locate->peer;
    named = &locate->named.addr;

    locate->finding = 0;

    if (named->name.len) {
        ngx_http_dsem_addr_set(&locate->used, named->sockaddr,
                               named->socklen);
        peer->addr = &locate->used.addr;
    }

    peer->handlers->found(peer->data, peer->addr, locate->reason);
}
