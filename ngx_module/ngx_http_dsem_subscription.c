
/*
 * The subscription: a connection of its own on which messages to this
 * worker's session arrive.
 *
 * Messages are hints; what they say is also in Redis, and a waiting worker
 * asks once a second.  So a broken subscription costs time, never a permit:
 * it is opened again quietly.  A silent one is taken for broken: every
 * heartbeat sends the session a message of its own.
 *
 * Called by: redis, which owns it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_breaker.h"
#include "ngx_http_dsem_hiredis.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_subscription.h"


struct ngx_http_dsem_subscription_s {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_hiredis_t         *hiredis;   /* NULL: not connected */

    ngx_event_t                      retry;
    ngx_event_t                      silence;
    ngx_msec_t                       due;       /* of the silence's end */
    ngx_uint_t                       failures;
    ngx_uint_t                       refused;   /* unsigned:1, said */

    ngx_str_t                        channel;

    ngx_http_dsem_message_pt         handler;
    void                            *data;
};


static void ngx_http_dsem_subscription_connect(
    ngx_http_dsem_subscription_t *subscription);
static void ngx_http_dsem_subscription_connected(void *data);
static void ngx_http_dsem_subscription_reply(void *data, redisReply *reply);
static void ngx_http_dsem_subscription_refused(
    ngx_http_dsem_subscription_t *subscription, const char *reason);
static void ngx_http_dsem_subscription_failed(void *data,
    const char *reason, ngx_uint_t protocol_error);
static void ngx_http_dsem_subscription_close(
    ngx_http_dsem_subscription_t *subscription);
static void ngx_http_dsem_subscription_retry_handler(ngx_event_t *ev);
static void ngx_http_dsem_subscription_silence_handler(ngx_event_t *ev);


static ngx_http_dsem_hiredis_handlers_t  ngx_http_dsem_subscription_handlers =
{
    ngx_http_dsem_subscription_connected,
    ngx_http_dsem_subscription_reply,
    ngx_http_dsem_subscription_failed
};


/*
 * settings must outlive the subscription.  handler is told each message;
 * it may not destroy the subscription.  Returns NULL without memory.
 */

ngx_http_dsem_subscription_t *
ngx_http_dsem_subscription_create(ngx_http_dsem_redis_settings_t *settings,
    ngx_http_dsem_message_pt handler, void *data)
{
    ngx_http_dsem_subscription_t  *subscription;

    subscription = ngx_calloc(sizeof(ngx_http_dsem_subscription_t),
                              ngx_cycle->log);
    if (subscription == NULL) {
        return NULL;
    }

    subscription->settings = settings;
    subscription->handler = handler;
    subscription->data = data;

    subscription->retry.handler = ngx_http_dsem_subscription_retry_handler;
    subscription->retry.data = subscription;
    subscription->retry.log = ngx_cycle->log;
    subscription->retry.cancelable = 1;

    subscription->silence.handler =
                                  ngx_http_dsem_subscription_silence_handler;
    subscription->silence.data = subscription;
    subscription->silence.log = ngx_cycle->log;
    subscription->silence.cancelable = 1;

    return subscription;
}


/*
 * Subscribes to the channel of this session and to no other.  NGX_ERROR:
 * no memory, nothing has changed.
 */

ngx_int_t
ngx_http_dsem_subscription_start(ngx_http_dsem_subscription_t *subscription,
    ngx_str_t *session)
{
    u_char     *p;
    ngx_str_t  *key;

    key = &subscription->settings->key;

    p = ngx_alloc(key->len + sizeof(":c:") - 1 + session->len,
                  ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_subscription_close(subscription);

    if (subscription->channel.data) {
        ngx_free(subscription->channel.data);
    }

    subscription->channel.data = p;

    p = ngx_cpymem(p, key->data, key->len);
    p = ngx_cpymem(p, ":c:", sizeof(":c:") - 1);
    p = ngx_cpymem(p, session->data, session->len);

    subscription->channel.len = p - subscription->channel.data;

    ngx_http_dsem_subscription_connect(subscription);

    return NGX_OK;
}


static void
ngx_http_dsem_subscription_connect(ngx_http_dsem_subscription_t *subscription)
{
    ngx_http_dsem_redis_settings_t  *settings;

    settings = subscription->settings;

    subscription->hiredis = ngx_http_dsem_hiredis_connect(&settings->addr,
                                   settings->connect_timeout,
                                   &ngx_http_dsem_subscription_handlers,
                                   subscription);

    if (subscription->hiredis == NULL) {
        ngx_http_dsem_subscription_failed(subscription, "connect failed", 0);
    }
}


static void
ngx_http_dsem_subscription_connected(void *data)
{
    ngx_http_dsem_subscription_t  *subscription = data;

    if (ngx_http_dsem_hiredis_subscribe(subscription->hiredis,
                                        &subscription->channel)
        != NGX_OK)
    {
        ngx_http_dsem_subscription_failed(subscription, "no memory", 0);
        return;
    }

    ngx_http_dsem_deadline_set(&subscription->silence, &subscription->due,
                           subscription->settings->timeout);
}


static void
ngx_http_dsem_subscription_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_subscription_t  *subscription = data;

    ngx_str_t    text;
    redisReply **element;

    element = reply->element;

    subscription->failures = 0;
    subscription->refused = 0;

    ngx_http_dsem_deadline_set(&subscription->silence, &subscription->due,
                           subscription->settings->heartbeat
                           + subscription->settings->timeout);

    if (element[2]->type == REDIS_REPLY_STRING) {
        text.data = (u_char *) element[2]->str;
        text.len = element[2]->len;

    } else {
        /* the answer to SUBSCRIBE: what came before it has been missed */
        ngx_str_set(&text, "subscribed");
    }

    subscription->handler(subscription->data, &text);
}


/* an operator should know why waiting requests are served late */

static void
ngx_http_dsem_subscription_refused(
    ngx_http_dsem_subscription_t *subscription, const char *reason)
{
    static char  prefix[] = "NOPERM ";

    if (!subscription->refused
        && ngx_strncmp(reason, prefix, sizeof(prefix) - 1) == 0)
    {
        subscription->refused = 1;

        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V rejects commands (SUBSCRIBE to \"%V\")",
                      &subscription->settings->addr.name,
                      &subscription->channel);
    }
}


static void
ngx_http_dsem_subscription_failed(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_subscription_t  *subscription = data;

    ngx_msec_t  pause;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem subscription lost: %s", reason);

    if (protocol_error) {
        ngx_http_dsem_subscription_refused(subscription, reason);
    }

    ngx_http_dsem_subscription_close(subscription);

    pause = ngx_http_dsem_breaker_backoff(subscription->settings,
                                        subscription->failures++);
    ngx_add_timer(&subscription->retry, pause);
}


static void
ngx_http_dsem_subscription_close(ngx_http_dsem_subscription_t *subscription)
{
    if (subscription->hiredis) {
        ngx_http_dsem_hiredis_close(subscription->hiredis);
        subscription->hiredis = NULL;
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
    ngx_http_dsem_subscription_t  *subscription = ev->data;

    if (!ngx_http_dsem_deadline_late(ev, &subscription->due)) {
        ngx_http_dsem_subscription_failed(subscription, "silent", 0);
    }
}


void
ngx_http_dsem_subscription_destroy(ngx_http_dsem_subscription_t *subscription)
{
    ngx_http_dsem_subscription_close(subscription);

    if (subscription->channel.data) {
        ngx_free(subscription->channel.data);
    }

    ngx_free(subscription);
}
