
/*
 * The breaker: pauses between attempts, and when nobody should wait for
 * Redis any more.  For redis and subscription only.
 */


#ifndef _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_
#define _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_redis.h"


#define NGX_HTTP_DSEM_REASON_LEN  128


typedef struct {
    ngx_http_dsem_redis_settings_t  *settings;
    void                           (*handler)(void *data);
    void                            *data;

    ngx_event_t                      event;     /* opens it */
    ngx_msec_t                       due;

    ngx_uint_t                       failures;  /* since it was ready */
    ngx_uint_t                       faults;    /* wrong replies */
    ngx_uint_t                       loads;     /* of the same script */
    ngx_uint_t                       flushes;   /* since flushes_since */
    ngx_msec_t                       flushes_since;
    ngx_msec_t                       up_since;
    ngx_msec_t                       down_since;

    u_char                           reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                         away:1;    /* it is open */
    unsigned                         accepted:1;  /* on this connection */
    unsigned                         lost:1;    /* said, until it is back */
} ngx_http_dsem_breaker_t;


void ngx_http_dsem_breaker_init(ngx_http_dsem_breaker_t *breaker,
    ngx_http_dsem_redis_settings_t *settings, void (*away)(void *data),
    void *data);
void ngx_http_dsem_breaker_start(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_stop(ngx_http_dsem_breaker_t *breaker);

void ngx_http_dsem_breaker_connected(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_close(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_answered(ngx_http_dsem_breaker_t *breaker);
ngx_int_t ngx_http_dsem_breaker_flushed(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_loaded(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_lost(ngx_http_dsem_breaker_t *breaker,
    const char *reason, ngx_uint_t was_up);
ngx_msec_t ngx_http_dsem_breaker_pause(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t protocol_error);
void ngx_http_dsem_breaker_open(ngx_http_dsem_breaker_t *breaker);

ngx_msec_t ngx_http_dsem_breaker_backoff(
    ngx_http_dsem_redis_settings_t *settings, ngx_uint_t failures);


#endif /* _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_ */
