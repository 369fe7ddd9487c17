
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
 * No map of a Cluster is read.  Only the master of the slot replies to the
 * question.  Others name the master (MOVED), which counts only when that one
 * has replied itself.  While the slot is migrated scripts may lack some of
 * their keys: the old master replies ASK, as the key is missing, and the new
 * one MOVED, until the slot has moved.  Two nodes are asked at a time, so that
 * one that is silent hides nothing; new connections are made at a slow pace
 * once all nodes have been tried.
 *
 * A question, its connection and the form of its reply belong to query.
 *
 * Called by: redis, as its peer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_backoff.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_locate.h"
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


/* what differs by mode */
typedef struct {
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

typedef struct {
    ngx_http_dsem_peer_t             peer;
    ngx_http_dsem_locate_mode_t     *mode;
    ngx_http_dsem_keys_t            *keys;

    ngx_http_dsem_candidates_t       candidates;
    ngx_http_dsem_question_t         question;
    ngx_http_dsem_query_t            queries[NGX_HTTP_DSEM_LOCATE_QUERIES];
    ngx_event_t                      tick;

    ngx_uint_t                       failures;  /* searches in a row */
    ngx_uint_t                       tries;     /* that need no turn, left */
    ngx_msec_t                       turn;      /* time of the last one */
    ngx_http_dsem_backoff_t          backoff;   /* searches with no reply */

    ngx_http_dsem_addr_t             named;     /* by a candidate, last */
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
} ngx_http_dsem_locate_t;


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
static void ngx_http_dsem_locate_query_handler(ngx_http_dsem_query_t *query,
    ngx_http_dsem_query_result_e result, const char *text);
static void ngx_http_dsem_locate_located(ngx_http_dsem_query_t *query);
static void ngx_http_dsem_locate_follow(ngx_http_dsem_query_t *query,
    const char *error);
static void ngx_http_dsem_locate_set_reason(ngx_http_dsem_query_t *query,
    const char *reason);
static void ngx_http_dsem_locate_found(ngx_http_dsem_locate_t *locate);


static ngx_http_dsem_locate_mode_t  ngx_http_dsem_locate_sentinel = {
    1,        /* stays */
    1,        /* at a time */
    2,        /* half the time: one lost sentinel must not open the breaker */
    1000,     /* ms for a turn */
    "no sentinel replies"
};


static ngx_http_dsem_locate_mode_t  ngx_http_dsem_locate_cluster = {
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
        locate->question.login = &settings->sentinel_login;

    } else {
        locate->mode = &ngx_http_dsem_locate_cluster;
        locate->question.login = &settings->login;
    }

    locate->peer.row = &ngx_http_dsem_locate_row;
    locate->peer.settings = settings;
    locate->peer.handlers = handlers;
    locate->peer.data = data;
    locate->peer.unnamed = &settings->master;
    locate->peer.pending = locate->mode->pending;
    locate->peer.burst = 1;

    locate->keys = keys;

    locate->question.settings = settings;
    locate->question.timeout = settings->connect_timeout / locate->mode->part;
    locate->question.handler = ngx_http_dsem_locate_query_handler;
    locate->question.data = locate;

    ngx_http_dsem_deadline_timer(&locate->tick,
                                 ngx_http_dsem_locate_tick_handler, locate);

    for (i = 0; i < NGX_HTTP_DSEM_LOCATE_QUERIES; i++) {
        ngx_http_dsem_query_init(&locate->queries[i], &locate->question);
    }

    if (ngx_http_dsem_candidates_create(&locate->candidates, settings)
        != NGX_OK
        || ngx_http_dsem_query_compose(&locate->question, keys) != NGX_OK)
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


static void
ngx_http_dsem_locate_destroy(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_locate_t *locate = (ngx_http_dsem_locate_t *) peer;

    ngx_http_dsem_locate_stop(locate);

    ngx_http_dsem_resp_free(&locate->question.command);
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
        ngx_http_dsem_query_close(&locate->queries[i]);
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
    locate->question.search++;
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
                                                     locate->question.search);
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
    ngx_uint_t              i, unused;
    ngx_http_dsem_query_t  *query;

    unused = 0;

    for (i = 0; i < locate->mode->nqueries; i++) {
        query = &locate->queries[i];

        if (query->candidate && !query->pending) {
            ngx_http_dsem_query_send(query);
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
    ngx_uint_t                       search;
    ngx_http_dsem_candidate_t       *candidate;
    ngx_http_dsem_redis_settings_t  *settings;

    search = locate->question.search;
    candidate = locate->candidates.likely;

    if (candidate == NULL || candidate->search == search) {
        candidate = ngx_http_dsem_candidates_oldest(&locate->candidates,
                                                    search);
    }

    if (locate->tries && candidate && candidate->search != search) {
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
                                                   settings->backoff));

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


/*
 * Not while the candidate is being asked.  Where no connection is left the one
 * that has had its reply longest ago gives way, unless all wait for replies.
 */

static void
ngx_http_dsem_locate_ask(ngx_http_dsem_locate_t *locate,
    ngx_http_dsem_candidate_t *candidate)
{
    ngx_uint_t              i;
    ngx_http_dsem_query_t  *query, *other;

    query = NULL;

    for (i = 0; i < locate->mode->nqueries; i++) {
        other = &locate->queries[i];

        if (other->candidate == NULL) {
            query = other;
            break;
        }

        if (!other->pending
            && (query == NULL
                || (ngx_msec_int_t) (other->candidate->asked
                                     - query->candidate->asked) < 0))
        {
            query = other;
        }
    }

    if (query == NULL) {
        return;
    }

    ngx_http_dsem_query_close(query);

    locate->turn = ngx_current_msec;

    ngx_http_dsem_query_begin(query, candidate);
}


static void
ngx_http_dsem_locate_query_handler(ngx_http_dsem_query_t *query,
    ngx_http_dsem_query_result_e result, const char *text)
{
    ngx_uint_t               useless;
    ngx_http_dsem_locate_t  *locate;

    if (result == NGX_HTTP_DSEM_QUERY_NAMED) {
        ngx_http_dsem_locate_located(query);
        return;
    }

    if (result == NGX_HTTP_DSEM_QUERY_ERROR) {
        ngx_http_dsem_locate_follow(query, text);
        return;
    }

    /* the connection is lost or useless; the next candidate is asked */

    locate = query->question->data;
    useless = (result == NGX_HTTP_DSEM_QUERY_USELESS);

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem %s %V lost: %s",
                   locate->mode->stays ? "sentinel" : "node",
                   &query->candidate->at.addr.name, text);

    /* what a sentinel has replied says more than that another is down */

    if (locate->asking && (useless || !locate->replied)) {
        locate->replied |= (useless && locate->mode->stays);
        ngx_http_dsem_locate_set_reason(query, text);
    }

    ngx_http_dsem_query_close(query);

    if (locate->asking) {
        ngx_http_dsem_locate_next(locate);
    }
}


/* the reply names the server, maybe the candidate itself: the search ends */

static void
ngx_http_dsem_locate_located(ngx_http_dsem_query_t *query)
{
    char                     reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_addr_t              *named;
    ngx_http_dsem_peer_t    *peer;
    ngx_http_dsem_locate_t  *locate;

    locate = query->question->data;
    peer = &locate->peer;
    named = &query->named.addr;

    locate->asking = 0;
    ngx_http_dsem_addr_set(&locate->named, named->sockaddr, named->socklen);
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
         && ngx_http_dsem_addr_equal(named, peer->addr))
        || (locate->moved
            && ngx_current_msec - locate->moved < NGX_HTTP_DSEM_LOCATE_MOVES))
    {
        return;
    }

    locate->moved = ngx_current_msec;

    ngx_http_dsem_reason(reason, "%V is the master now", &named->name);

    peer->handlers->moved(peer->data, reason);
}


/*
 * An error of a node of a Cluster.  Another node that it names is asked at
 * once; but one that was named before, and had no reply or named another one,
 * has its turn.
 */

static void
ngx_http_dsem_locate_follow(ngx_http_dsem_query_t *query, const char *error)
{
    ngx_int_t                   rc;
    ngx_uint_t                  again;
    ngx_http_dsem_locate_t     *locate;
    ngx_http_dsem_candidate_t  *candidate;

    locate = query->question->data;

    rc = ngx_http_dsem_candidates_learn(&locate->candidates,
                                        locate->keys->slot, error,
                                        &query->candidate->at.addr,
                                        &candidate);

    if (rc != NGX_OK || candidate == NULL || locate->reason[0] == '\0') {
        ngx_http_dsem_locate_set_reason(query, error);
    }

    if (candidate == NULL) {
        return;
    }

    again = (candidate == locate->candidates.likely
             && candidate->search == locate->question.search);

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


/* log lines name the node in use themselves */

static void
ngx_http_dsem_locate_set_reason(ngx_http_dsem_query_t *query,
    const char *reason)
{
    ngx_addr_t              *addr;
    ngx_http_dsem_locate_t  *locate;

    locate = query->question->data;
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
