
/*
 * The breaker: when requests stop waiting for Redis.
 */


#ifndef _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_
#define _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


#define NGX_HTTP_DSEM_BREAKER_REASON_LEN  128


/* nothing may point into a configuration cycle: the worker outlives it */
typedef struct {
    ngx_addr_t                addr;
    ngx_msec_t                connect_timeout;
    ngx_msec_t                timeout;
    ngx_msec_t                backoff;     /* longest pause, ms */
    ngx_msec_t                heartbeat;
} ngx_http_dsem_redis_settings_t;


typedef struct {
    ngx_http_dsem_redis_settings_t  *settings;
    void                           (*handler)(void *data);
    void                            *data;

    ngx_event_t                      event;     /* opens it */
    ngx_msec_t                       due;

    ngx_uint_t                       failures;  /* since the last accept */
    ngx_uint_t                       faults;    /* wrong replies */
    ngx_uint_t                       reloads;   /* of the scripts */
    ngx_msec_t                       reloads_since;
    ngx_msec_t                       last_reload;
    ngx_msec_t                       connected_since;
    ngx_msec_t                       lost_since;

    u_char                           reason[NGX_HTTP_DSEM_BREAKER_REASON_LEN];

    unsigned                         open:1;
    unsigned                         accepted:1;  /* on this connection */
    unsigned                         reported:1;  /* the loss was logged */
} ngx_http_dsem_breaker_t;


void ngx_http_dsem_breaker_init(ngx_http_dsem_breaker_t *breaker,
    ngx_http_dsem_redis_settings_t *settings, void (*handler)(void *data),
    void *data);
void ngx_http_dsem_breaker_start(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_stop(ngx_http_dsem_breaker_t *breaker);

void ngx_http_dsem_breaker_connected(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_accepted(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_replied(ngx_http_dsem_breaker_t *breaker);
ngx_int_t ngx_http_dsem_breaker_reload(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_lost(ngx_http_dsem_breaker_t *breaker,
    const char *reason, ngx_uint_t was_up);
ngx_msec_t ngx_http_dsem_breaker_pause(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t protocol_error);
void ngx_http_dsem_breaker_open(ngx_http_dsem_breaker_t *breaker);

ngx_msec_t ngx_http_dsem_breaker_backoff(
    ngx_http_dsem_redis_settings_t *settings, ngx_uint_t failures);


#endif /* _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_ */
