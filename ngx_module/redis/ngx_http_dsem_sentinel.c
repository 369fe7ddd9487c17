
/*
 * Sentinel: which server is the master now.
 *
 * Owns one connection to one of the sentinels, which stays open: a question
 * costs no attempt to connect.  It asks often while no master is in use, so
 * that a new one is found soon after its promotion, and goes on asking while
 * one is: a master that was replaced still replies for seconds, and grants
 * permits of which the new one does not know.  There is no subscription to
 * "+switch-master": it would be one connection more for each worker, its
 * messages may be lost, and a sentinel names the new master before it
 * publishes the message.
 *
 * A sentinel that does not reply, or does not know the master, leaves its turn
 * to the next one; so does one whose master is not usable for a second, as
 * it may be cut off from the others.  If none replies, the last master that
 * is known is used: Redis and not this file tells whether it still is one.
 *
 * Called by: redis, as its peer.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_backoff.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_sentinel.h"


/* ms between two questions while no master is in use */
#define NGX_HTTP_DSEM_SENTINEL_PAUSE  100

/* ms without a usable master, then the next sentinel is asked */
#define NGX_HTTP_DSEM_SENTINEL_TURN   1000

/* ms between two reports of another master, at least */
#define NGX_HTTP_DSEM_SENTINEL_MOVES  500


typedef struct {
    ngx_http_dsem_peer_t                peer;
    ngx_http_dsem_redis_settings_t     *settings;

    ngx_http_dsem_connection_t         *conn;     /* NULL: not connected */
    ngx_uint_t                          server;   /* whose turn it is */
    ngx_uint_t                          current;  /* address of the server */
    ngx_uint_t                          left;     /* turns of this round */
    ngx_msec_t                          since;    /* its turn; last good */
    ngx_http_dsem_resp_t                command;

    ngx_event_t                         ask;
    ngx_event_t                         silence;
    ngx_http_dsem_deadline_t            deadline; /* of the silence */
    ngx_http_dsem_backoff_t             backoff;  /* rounds with no reply */

    ngx_http_dsem_addr_t                named;    /* by the last reply */
    ngx_http_dsem_addr_t                used;     /* by the last find */
    ngx_msec_t                          moved;    /* last report */

    char                                reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                            asking:1;   /* a round goes on */
    unsigned                            finding:1;  /* "found" is due */
    unsigned                            pausing:1;  /* after a lost round */
    unsigned                            replied:1;  /* in this round */
    unsigned                            good:1;     /* "used" is in use */
    unsigned                            reported:1; /* no reply: logged */
} ngx_http_dsem_sentinel_t;


static void ngx_http_dsem_sentinel_destroy(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_sentinel_find(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_sentinel_good(ngx_http_dsem_peer_t *peer);
static ngx_uint_t ngx_http_dsem_sentinel_failed(ngx_http_dsem_peer_t *peer);
static void ngx_http_dsem_sentinel_wait(ngx_http_dsem_sentinel_t *sentinel,
    ngx_msec_t time);
static void ngx_http_dsem_sentinel_ask_handler(ngx_event_t *ev);
static void ngx_http_dsem_sentinel_begin(ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_connect(
    ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_connected(void *data);
static void ngx_http_dsem_sentinel_send(ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_silence_handler(ngx_event_t *ev);
static void ngx_http_dsem_sentinel_reply(void *data, redisReply *reply);
static ngx_int_t ngx_http_dsem_sentinel_parse(
    ngx_http_dsem_sentinel_t *sentinel, redisReply *reply);
static void ngx_http_dsem_sentinel_named(ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_moved(ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_lost(void *data, const char *reason,
    ngx_uint_t protocol_error);
static void ngx_http_dsem_sentinel_next(ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_unanswered(
    ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_found(ngx_http_dsem_sentinel_t *sentinel);
static void ngx_http_dsem_sentinel_close(ngx_http_dsem_sentinel_t *sentinel);
static ngx_str_t *ngx_http_dsem_sentinel_name(
    ngx_http_dsem_sentinel_t *sentinel);


static ngx_http_dsem_peer_row_t  ngx_http_dsem_sentinel_row = {
    ngx_http_dsem_sentinel_find,
    ngx_http_dsem_sentinel_good,
    ngx_http_dsem_sentinel_failed,
    NULL,
    ngx_http_dsem_sentinel_destroy,
    "no sentinel replies"
};


static ngx_http_dsem_connection_handlers_t
    ngx_http_dsem_sentinel_handlers =
{
    ngx_http_dsem_sentinel_connected,
    ngx_http_dsem_sentinel_reply,
    ngx_http_dsem_sentinel_lost,
    NULL
};


/* settings must outlive it; nothing happens before the first find */

ngx_http_dsem_peer_t *
ngx_http_dsem_sentinel_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_peer_handlers_t *handlers, void *data)
{
    ngx_http_dsem_sentinel_t  *sentinel;

    sentinel = ngx_calloc(sizeof(ngx_http_dsem_sentinel_t), ngx_cycle->log);
    if (sentinel == NULL) {
        return NULL;
    }

    sentinel->settings = settings;

    sentinel->peer.row = &ngx_http_dsem_sentinel_row;
    sentinel->peer.settings = settings;
    sentinel->peer.handlers = handlers;
    sentinel->peer.data = data;
    sentinel->peer.unnamed = &settings->master;
    sentinel->peer.burst = 1;

    ngx_http_dsem_deadline_timer(&sentinel->ask,
                                 ngx_http_dsem_sentinel_ask_handler, sentinel);
    ngx_http_dsem_deadline_timer(&sentinel->silence,
                                 ngx_http_dsem_sentinel_silence_handler,
                                 sentinel);

    return &sentinel->peer;
}


/* no handler is called any more */

static void
ngx_http_dsem_sentinel_destroy(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_sentinel_t  *sentinel;

    sentinel = (ngx_http_dsem_sentinel_t *) peer;

    ngx_http_dsem_sentinel_close(sentinel);

    if (sentinel->ask.timer_set) {
        ngx_del_timer(&sentinel->ask);
    }

    ngx_http_dsem_resp_free(&sentinel->command);
    ngx_free(sentinel);
}


/*
 * The master to connect to now; "found" is called once, maybe before this
 * returns.  Where no sentinel has just replied, none is asked again so soon.
 */

static void
ngx_http_dsem_sentinel_find(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_sentinel_t  *sentinel;

    sentinel = (ngx_http_dsem_sentinel_t *) peer;

    sentinel->finding = 1;

    if (sentinel->pausing) {
        ngx_http_dsem_sentinel_found(sentinel);
        return;
    }

    if (!sentinel->asking) {
        ngx_http_dsem_sentinel_begin(sentinel);
    }
}


/* the one found last is in use */

static void
ngx_http_dsem_sentinel_good(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_sentinel_t  *sentinel;

    sentinel = (ngx_http_dsem_sentinel_t *) peer;

    sentinel->good = 1;
}


/* it is not usable, or not any more; a find that has not ended is given up */

static ngx_uint_t
ngx_http_dsem_sentinel_failed(ngx_http_dsem_peer_t *peer)
{
    ngx_http_dsem_sentinel_t  *sentinel;

    sentinel = (ngx_http_dsem_sentinel_t *) peer;

    if (sentinel->good) {
        sentinel->since = ngx_current_msec;
    }

    sentinel->good = 0;
    sentinel->finding = 0;

    if (!sentinel->asking && !sentinel->pausing) {
        ngx_http_dsem_sentinel_wait(sentinel, NGX_HTTP_DSEM_SENTINEL_PAUSE);
    }

    return 1;
}


/* nginx does not move a timer by less than 300 ms */

static void
ngx_http_dsem_sentinel_wait(ngx_http_dsem_sentinel_t *sentinel,
    ngx_msec_t time)
{
    if (sentinel->ask.timer_set) {
        ngx_del_timer(&sentinel->ask);
    }

    ngx_add_timer(&sentinel->ask, time);
}


static void
ngx_http_dsem_sentinel_ask_handler(ngx_event_t *ev)
{
    ngx_http_dsem_sentinel_t  *sentinel = ev->data;

    sentinel->pausing = 0;

    if (!sentinel->good
        && sentinel->conn
        && ngx_current_msec - sentinel->since >= NGX_HTTP_DSEM_SENTINEL_TURN)
    {
        ngx_http_dsem_sentinel_next(sentinel);
    }

    ngx_http_dsem_sentinel_begin(sentinel);
}


/* a round: each address of each sentinel in turn, until one names a master */

static void
ngx_http_dsem_sentinel_begin(ngx_http_dsem_sentinel_t *sentinel)
{
    ngx_uint_t  i;

    if (sentinel->ask.timer_set) {
        ngx_del_timer(&sentinel->ask);
    }

    sentinel->asking = 1;
    sentinel->replied = 0;
    sentinel->left = 0;

    for (i = 0; i < sentinel->settings->nservers; i++) {
        sentinel->left += ngx_max(sentinel->settings->servers[i].naddrs, 1);
    }

    if (sentinel->conn) {
        ngx_http_dsem_sentinel_send(sentinel);

    } else {
        ngx_http_dsem_sentinel_connect(sentinel);
    }
}


/* half the time to connect: one lost sentinel must not open the breaker */

static void
ngx_http_dsem_sentinel_connect(ngx_http_dsem_sentinel_t *sentinel)
{
    char                             reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_http_dsem_server_t          *server;
    ngx_http_dsem_redis_settings_t  *settings;

    settings = sentinel->settings;
    server = &settings->servers[sentinel->server];

    if (server->naddrs == 0) {
        ngx_http_dsem_sentinel_lost(sentinel, "no address", 0);
        return;
    }

    sentinel->conn = ngx_http_dsem_connection_create(
                                         &server->addrs[sentinel->current],
                                         settings->connect_timeout / 2,
                                         &settings->sentinel_login,
                                         &ngx_http_dsem_sentinel_handlers,
                                         sentinel, reason);

    if (sentinel->conn == NULL) {
        ngx_http_dsem_sentinel_lost(sentinel, reason, 0);
        return;
    }

    ngx_http_dsem_connection_pairs(sentinel->conn);
}


static void
ngx_http_dsem_sentinel_connected(void *data)
{
    ngx_http_dsem_sentinel_t *sentinel = data;

    sentinel->since = ngx_current_msec;

    ngx_http_dsem_sentinel_send(sentinel);
}


static void
ngx_http_dsem_sentinel_send(ngx_http_dsem_sentinel_t *sentinel)
{
    ngx_http_dsem_resp_t  *command;

    static ngx_str_t  question = ngx_string("GET-MASTER-ADDR-BY-NAME");

    command = &sentinel->command;

    ngx_http_dsem_resp_begin(command, 3);
    ngx_http_dsem_resp_bytes(command, "SENTINEL", sizeof("SENTINEL") - 1);
    ngx_http_dsem_resp_string(command, &question);
    ngx_http_dsem_resp_string(command, &sentinel->settings->master);

    if (ngx_http_dsem_connection_send(sentinel->conn, command) != NGX_OK) {
        ngx_http_dsem_sentinel_lost(sentinel, "no memory", 0);
        return;
    }

    ngx_http_dsem_deadline_set(&sentinel->deadline, &sentinel->silence,
                               sentinel->settings->connect_timeout / 2);
}


static void
ngx_http_dsem_sentinel_silence_handler(ngx_event_t *ev)
{
    ngx_http_dsem_sentinel_t  *sentinel = ev->data;

    if (!ngx_http_dsem_deadline_extend(&sentinel->deadline, ev)) {
        ngx_http_dsem_sentinel_lost(sentinel, "no reply in time", 0);
    }
}


/* the guard lets in a pair of strings, nil, a string or an error */

static void
ngx_http_dsem_sentinel_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_sentinel_t *sentinel = data;

    char  reason[NGX_HTTP_DSEM_REASON_LEN];

    switch (reply->type) {

    case REDIS_REPLY_ARRAY:

        if (ngx_http_dsem_sentinel_parse(sentinel, reply) == NGX_OK) {
            ngx_http_dsem_sentinel_named(sentinel);
            return;
        }

        ngx_http_dsem_reason(reason, "master \"%s\" is no address, "
                             "set \"announce-hostnames no\"",
                             reply->element[0]->str);
        break;

    case REDIS_REPLY_NIL:
        ngx_http_dsem_reason(reason, "master \"%V\" is unknown",
                             &sentinel->settings->master);
        break;

    case REDIS_REPLY_ERROR:
        ngx_http_dsem_reason(reason, "%s", reply->str);
        break;

    default:
        ngx_http_dsem_reason(reason, "unexpected reply");
        break;
    }

    ngx_http_dsem_sentinel_lost(sentinel, reason, 1);
}


/* host and port; NGX_DECLINED: they are no address */

static ngx_int_t
ngx_http_dsem_sentinel_parse(ngx_http_dsem_sentinel_t *sentinel,
    redisReply *reply)
{
    ngx_int_t  port;
    ngx_str_t  host;

    host.data = (u_char *) reply->element[0]->str;
    host.len = reply->element[0]->len;

    port = ngx_atoi((u_char *) reply->element[1]->str,
                    reply->element[1]->len);

    if (port < 1 || port > 65535) {
        return NGX_DECLINED;
    }

    return ngx_http_dsem_addr_parse(&sentinel->named, &host, port);
}


/* a sentinel has named the master: the round ends */

static void
ngx_http_dsem_sentinel_named(ngx_http_dsem_sentinel_t *sentinel)
{
    ngx_msec_t  pause;

    if (sentinel->silence.timer_set) {
        ngx_del_timer(&sentinel->silence);
    }

    sentinel->asking = 0;
    ngx_http_dsem_backoff_usable(&sentinel->backoff);

    if (sentinel->reported) {
        sentinel->reported = 0;

        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: sentinel %V replies, failovers of \"%V\" are "
                      "followed again", ngx_http_dsem_sentinel_name(sentinel),
                      &sentinel->settings->master);
    }

    pause = sentinel->good ? sentinel->settings->heartbeat / 2
                           : NGX_HTTP_DSEM_SENTINEL_PAUSE;

    ngx_http_dsem_sentinel_wait(sentinel, pause);

    if (sentinel->finding) {
        ngx_http_dsem_sentinel_found(sentinel);
        return;
    }

    if (sentinel->peer.addr == NULL
        || !ngx_http_dsem_addr_equal(&sentinel->named.addr,
                                     sentinel->peer.addr))
    {
        ngx_http_dsem_sentinel_moved(sentinel);
    }
}


/* sentinels that contradict each other must not cause a flood of connects */

static void
ngx_http_dsem_sentinel_moved(ngx_http_dsem_sentinel_t *sentinel)
{
    char  reason[NGX_HTTP_DSEM_REASON_LEN];

    if (sentinel->moved
        && ngx_current_msec - sentinel->moved < NGX_HTTP_DSEM_SENTINEL_MOVES)
    {
        return;
    }

    sentinel->moved = ngx_current_msec;

    ngx_http_dsem_reason(reason, "%V is the master now",
                         &sentinel->named.addr.name);

    sentinel->peer.handlers->moved(sentinel->peer.data, reason);
}


/* the connection to a sentinel is lost or useless; the next one is asked */

static void
ngx_http_dsem_sentinel_lost(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_sentinel_t *sentinel = data;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem sentinel %V lost: %s",
                   ngx_http_dsem_sentinel_name(sentinel), reason);

    if (!sentinel->asking) {
        ngx_http_dsem_sentinel_close(sentinel);
        return;
    }

    /* what a sentinel has replied says more than that another is down */

    if (protocol_error || !sentinel->replied) {
        sentinel->replied |= (protocol_error != 0);

        ngx_http_dsem_reason(sentinel->reason, "sentinel %V: %s",
                             ngx_http_dsem_sentinel_name(sentinel), reason);
    }

    ngx_http_dsem_sentinel_next(sentinel);

    if (--sentinel->left == 0) {
        ngx_http_dsem_sentinel_unanswered(sentinel);

    } else {
        ngx_http_dsem_sentinel_connect(sentinel);
    }
}


static void
ngx_http_dsem_sentinel_next(ngx_http_dsem_sentinel_t *sentinel)
{
    ngx_http_dsem_redis_settings_t  *settings;

    settings = sentinel->settings;

    ngx_http_dsem_sentinel_close(sentinel);

    if (++sentinel->current >= settings->servers[sentinel->server].naddrs) {
        sentinel->current = 0;
        sentinel->server = (sentinel->server + 1) % settings->nservers;
    }
}


/* the round has ended without a master */

static void
ngx_http_dsem_sentinel_unanswered(ngx_http_dsem_sentinel_t *sentinel)
{
    ngx_http_dsem_redis_settings_t  *settings;

    settings = sentinel->settings;

    sentinel->asking = 0;
    sentinel->pausing = 1;

    ngx_http_dsem_backoff_lost(&sentinel->backoff, settings->heartbeat);

    ngx_http_dsem_sentinel_wait(sentinel,
                       ngx_http_dsem_backoff_pause(&sentinel->backoff,
                                                   settings->backoff, 1));

    if (sentinel->good && !sentinel->reported) {
        sentinel->reported = 1;

        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: no sentinel names the master \"%V\" (%s), "
                      "failovers are not followed", &settings->master,
                      sentinel->reason);
    }

    if (sentinel->finding) {
        ngx_http_dsem_sentinel_found(sentinel);
    }
}


/* the handler may come back with another find, or with a failure */

static void
ngx_http_dsem_sentinel_found(ngx_http_dsem_sentinel_t *sentinel)
{
    ngx_addr_t            *addr;
    ngx_http_dsem_peer_t  *peer;

    peer = &sentinel->peer;
    sentinel->finding = 0;
    addr = &sentinel->named.addr;

    if (addr->name.len) {
        ngx_http_dsem_addr_set(&sentinel->used, addr->sockaddr,
                               addr->socklen);
        peer->addr = &sentinel->used.addr;
    }

    peer->handlers->found(peer->data, peer->addr, sentinel->reason);
}


static void
ngx_http_dsem_sentinel_close(ngx_http_dsem_sentinel_t *sentinel)
{
    if (sentinel->conn) {
        ngx_http_dsem_connection_close(sentinel->conn);
        sentinel->conn = NULL;
    }

    if (sentinel->silence.timer_set) {
        ngx_del_timer(&sentinel->silence);
    }
}


/* whose turn it is, for the log */

static ngx_str_t *
ngx_http_dsem_sentinel_name(ngx_http_dsem_sentinel_t *sentinel)
{
    return &sentinel->settings->servers[sentinel->server].name;
}
