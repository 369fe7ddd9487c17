
/*
 * The subscription: a connection of its own for messages to this worker's
 * session.
 *
 * Messages are hints: their content is in Redis as well, and a waiting
 * worker asks once a second.  A broken subscription therefore costs time,
 * never a permit, and is opened again without a log line.  A silent one
 * counts as broken: every heartbeat sends the session a message of its own.
 * Where the user may not subscribe or publish, or no message comes for some
 * heartbeats while the session is accepted, that is logged once.
 *
 * Called by: redis, which owns it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_backoff.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_subscription.h"


/* answered heartbeats, and attempts, without a message: it is logged */
#define NGX_HTTP_DSEM_SUBSCRIPTION_BEATS     5
#define NGX_HTTP_DSEM_SUBSCRIPTION_ATTEMPTS  3


struct ngx_http_dsem_subscription_s {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_peer_t            *peer;
    ngx_http_dsem_connection_t      *conn;      /* NULL: not connected */
    ngx_http_dsem_addr_t             at;        /* of the last attempt */

    ngx_event_t                      retry;
    ngx_event_t                      silence;
    ngx_http_dsem_deadline_t         deadline;  /* of the silence */
    ngx_http_dsem_backoff_t          backoff;

    ngx_str_t                        channel;
    ngx_http_dsem_identity_t        *identity;

    ngx_http_dsem_message_pt         handler;
    void                            *data;

    /* since the last message, or since the session was accepted */
    ngx_uint_t                       beats;       /* answered */
    ngx_uint_t                       failures;

    char                             reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                         named:1;     /* SUBSCRIBE is sent */
    unsigned                         denied:1;    /* the name; see reason */
    unsigned                         reported:1;  /* no message since */
    unsigned                         mute:1;      /* logged */
};


static void ngx_http_dsem_subscription_connect(
    ngx_http_dsem_subscription_t *subscription);
static void ngx_http_dsem_subscription_connected(void *data);
static void ngx_http_dsem_subscription_reply(void *data, redisReply *reply);
static void ngx_http_dsem_subscription_failed(void *data,
    const char *reason, ngx_uint_t protocol_error);
static void ngx_http_dsem_subscription_retry(
    ngx_http_dsem_subscription_t *subscription);
static void ngx_http_dsem_subscription_retry_handler(ngx_event_t *ev);
static void ngx_http_dsem_subscription_silence_handler(ngx_event_t *ev);


static ngx_http_dsem_connection_handlers_t
    ngx_http_dsem_subscription_handlers =
{
    ngx_http_dsem_subscription_connected,
    ngx_http_dsem_subscription_reply,
    ngx_http_dsem_subscription_failed,
    NULL
};


/*
 * settings and peer must outlive the subscription.  handler is called for each
 * message, and with NULL after each SUBSCRIBE; it may not destroy the
 * subscription.  NULL: no memory.
 */

ngx_http_dsem_subscription_t *
ngx_http_dsem_subscription_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_peer_t *peer, ngx_http_dsem_message_pt handler, void *data)
{
    ngx_http_dsem_subscription_t  *subscription;

    subscription = ngx_calloc(sizeof(ngx_http_dsem_subscription_t),
                              ngx_cycle->log);
    if (subscription == NULL) {
        return NULL;
    }

    subscription->settings = settings;
    subscription->peer = peer;
    subscription->handler = handler;
    subscription->data = data;

    ngx_http_dsem_deadline_timer(&subscription->retry,
                                 ngx_http_dsem_subscription_retry_handler,
                                 subscription);
    ngx_http_dsem_deadline_timer(&subscription->silence,
                                 ngx_http_dsem_subscription_silence_handler,
                                 subscription);

    return subscription;
}


/*
 * Subscribes to the channel of this session and to no other; identity must
 * stay.  NGX_ERROR: no memory, nothing has changed.
 */

ngx_int_t
ngx_http_dsem_subscription_start(ngx_http_dsem_subscription_t *subscription,
    ngx_http_dsem_keys_t *keys, ngx_http_dsem_identity_t *identity)
{
    u_char  *p;

    p = ngx_alloc(ngx_http_dsem_key_len(keys, &identity->name),
                  ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    /* the connection has the old channel until it is closed */
    ngx_http_dsem_subscription_stop(subscription);

    ngx_free(subscription->channel.data);

    (void) ngx_http_dsem_key_parts(keys, "c", &identity->name,
                                   &subscription->channel, p);
    subscription->identity = identity;

    /* a session that is removed again and again must not connect as often */

    ngx_http_dsem_subscription_retry(subscription);

    return NGX_OK;
}


static void
ngx_http_dsem_subscription_connect(ngx_http_dsem_subscription_t *subscription)
{
    char                             reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_addr_t                      *addr;
    ngx_http_dsem_redis_settings_t  *settings;

    addr = subscription->peer->addr;

    if (addr == NULL) {
        /* until there is one to follow */
        return;
    }

    settings = subscription->settings;
    subscription->named = 0;
    subscription->denied = 0;

    ngx_http_dsem_addr_set(&subscription->at, addr->sockaddr, addr->socklen);

    subscription->conn = ngx_http_dsem_connection_create(addr,
                                   settings->connect_timeout,
                                   &settings->login,
                                   &ngx_http_dsem_subscription_handlers,
                                   subscription, reason);

    if (subscription->conn == NULL) {
        ngx_http_dsem_subscription_failed(subscription, reason, 0);
    }
}


/*
 * The session is accepted: a server listens at the address that the peer has
 * found.  If it is another one than before, messages come from there: the old
 * server may go on replying.
 */

void
ngx_http_dsem_subscription_follow(ngx_http_dsem_subscription_t *subscription)
{
    ngx_addr_t  *last;

    last = &subscription->at.addr;

    subscription->beats = 0;
    subscription->failures = 0;

    if (subscription->channel.len
        && (last->name.len == 0
            || !ngx_http_dsem_addr_equal(last, subscription->peer->addr)))
    {
        ngx_http_dsem_subscription_stop(subscription);
        ngx_http_dsem_subscription_connect(subscription);
    }
}


/* replies and messages must not be mixed: the name has its reply first */

static void
ngx_http_dsem_subscription_connected(void *data)
{
    ngx_http_dsem_subscription_t *subscription = data;

    ngx_int_t             rc;
    ngx_http_dsem_resp_t  command;

    ngx_memzero(&command, sizeof(ngx_http_dsem_resp_t));

    ngx_http_dsem_resp_client_name(&command, subscription->identity,
                                   "-messages");
    rc = ngx_http_dsem_connection_send(subscription->conn, &command);

    ngx_http_dsem_resp_free(&command);

    if (rc != NGX_OK) {
        ngx_http_dsem_subscription_failed(subscription, "no memory", 0);
        return;
    }

    ngx_http_dsem_deadline_set(&subscription->deadline,
                               &subscription->silence,
                               subscription->settings->timeout);
}


/*
 * The connection has its name, or is denied one, which may be the last word of
 * a server that closes it; after SUBSCRIBE it is a message, as the guard lets
 * in nothing else.
 */

static void
ngx_http_dsem_subscription_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_subscription_t *subscription = data;

    ngx_str_t    text, *message;
    redisReply  *content;

    if (!subscription->named) {
        subscription->named = 1;

        if (reply->type == REDIS_REPLY_ERROR) {
            subscription->denied = 1;
            ngx_http_dsem_reason(subscription->reason, "%s", reply->str);
        }

        if (ngx_http_dsem_connection_subscribe(subscription->conn,
                                               &subscription->channel)
            != NGX_OK)
        {
            ngx_http_dsem_subscription_failed(subscription, "no memory", 0);
            return;
        }

        ngx_http_dsem_deadline_set(&subscription->deadline,
                                   &subscription->silence,
                                   subscription->settings->timeout);
        return;
    }

    subscription->denied = 0;

    ngx_http_dsem_backoff_usable(&subscription->backoff);
    ngx_http_dsem_deadline_set(&subscription->deadline,
                               &subscription->silence,
                               subscription->settings->heartbeat
                               + subscription->settings->timeout);

    /* NULL: the reply to SUBSCRIBE, earlier messages have been missed */
    message = NULL;

    content = reply->element[2];

    if (content->type == REDIS_REPLY_STRING) {
        text.data = (u_char *) content->str;
        text.len = content->len;
        message = &text;

        subscription->beats = 0;
        subscription->failures = 0;
        subscription->reported = 0;
    }

    subscription->handler(subscription->data, message);
}


static void
ngx_http_dsem_subscription_failed(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_subscription_t *subscription = data;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem subscription lost: %s", reason);

    subscription->failures++;

    if (protocol_error || !subscription->denied) {
        ngx_http_dsem_reason(subscription->reason, "%s", reason);
    }

    /* an operator should know why waiting requests are served late */

    if (protocol_error
        && subscription->named
        && !subscription->reported
        && ngx_strncmp(reason, "NOPERM ", sizeof("NOPERM ") - 1) == 0)
    {
        subscription->reported = 1;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V rejects commands (SUBSCRIBE to \"%V\")",
                      ngx_http_dsem_peer_name(subscription->peer),
                      &subscription->channel);
    }

    ngx_http_dsem_subscription_stop(subscription);

    ngx_http_dsem_backoff_lost(&subscription->backoff,
                               subscription->settings->heartbeat);
    ngx_http_dsem_subscription_retry(subscription);
}


static void
ngx_http_dsem_subscription_retry(ngx_http_dsem_subscription_t *subscription)
{
    ngx_add_timer(&subscription->retry,
                  ngx_http_dsem_backoff_pause(&subscription->backoff,
                                   subscription->settings->backoff));
}


/*
 * Whether the last heartbeat could publish its message.  If it could, but none
 * comes, that has another cause, which may pass; the failures are those of
 * several attempts, as one that is silent takes longer than a heartbeat.
 */

void
ngx_http_dsem_subscription_published(
    ngx_http_dsem_subscription_t *subscription, ngx_uint_t published)
{
    if (!published && !subscription->mute) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V rejects commands (PUBLISH to \"%V\"), "
                      "waiting requests are served late",
                      ngx_http_dsem_peer_name(subscription->peer),
                      &subscription->channel);
    }

    subscription->mute = !published;

    if (published
        && ++subscription->beats >= NGX_HTTP_DSEM_SUBSCRIPTION_BEATS
        && subscription->failures >= NGX_HTTP_DSEM_SUBSCRIPTION_ATTEMPTS
        && !subscription->reported)
    {
        subscription->reported = 1;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V sends no messages (%s), waiting "
                      "requests are served late",
                      ngx_http_dsem_peer_name(subscription->peer),
                      subscription->reason);
    }
}


/* no message comes any more, until it is started again */

void
ngx_http_dsem_subscription_stop(ngx_http_dsem_subscription_t *subscription)
{
    if (subscription->conn) {
        ngx_http_dsem_connection_close(subscription->conn);
        subscription->conn = NULL;
    }

    if (subscription->silence.timer_set) {
        ngx_del_timer(&subscription->silence);
    }

    if (subscription->retry.timer_set) {
        ngx_del_timer(&subscription->retry);
    }
}


static void
ngx_http_dsem_subscription_retry_handler(ngx_event_t *ev)
{
    ngx_http_dsem_subscription_connect(ev->data);
}


static void
ngx_http_dsem_subscription_silence_handler(ngx_event_t *ev)
{
    ngx_http_dsem_subscription_t *subscription = ev->data;

    if (!ngx_http_dsem_deadline_extend(&subscription->deadline, ev)) {
        subscription->denied = 0;
        ngx_http_dsem_subscription_failed(subscription, "no reply in time", 0);
    }
}


void
ngx_http_dsem_subscription_destroy(ngx_http_dsem_subscription_t *subscription)
{
    ngx_http_dsem_subscription_stop(subscription);

    ngx_free(subscription->channel.data);
    ngx_free(subscription);
}
