
/*
 * The subscription: messages to this worker's session.
 */


#ifndef _NGX_HTTP_DSEM_SUBSCRIPTION_H_INCLUDED_
#define _NGX_HTTP_DSEM_SUBSCRIPTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_peer.h"
#include "ngx_http_dsem_resp.h"


typedef struct ngx_http_dsem_subscription_s  ngx_http_dsem_subscription_t;

/* a message; the first one on each connection is "subscribed" */
typedef void (*ngx_http_dsem_message_pt)(void *data, ngx_str_t *text);


ngx_http_dsem_subscription_t *ngx_http_dsem_subscription_create(
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_peer_t *peer,
    ngx_http_dsem_message_pt handler, void *data);
ngx_int_t ngx_http_dsem_subscription_start(
    ngx_http_dsem_subscription_t *subscription, ngx_http_dsem_keys_t *keys,
    ngx_http_dsem_identity_t *identity);
void ngx_http_dsem_subscription_follow(
    ngx_http_dsem_subscription_t *subscription);
void ngx_http_dsem_subscription_published(
    ngx_http_dsem_subscription_t *subscription, ngx_uint_t published);
void ngx_http_dsem_subscription_destroy(
    ngx_http_dsem_subscription_t *subscription);


#endif /* _NGX_HTTP_DSEM_SUBSCRIPTION_H_INCLUDED_ */
