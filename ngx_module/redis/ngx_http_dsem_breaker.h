
/*
 * The breaker: when requests stop waiting for Redis; and the pulse: whether
 * Redis has replied just now.
 */


#ifndef _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_
#define _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_backoff.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_peer.h"
#include "ngx_http_dsem_reason.h"


typedef struct {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_peer_t            *peer;
    void                           (*handler)(void *data);
    void                            *data;

    ngx_event_t                      event;     /* opens it, then reminds */
    ngx_http_dsem_deadline_t         deadline;

    ngx_http_dsem_backoff_t          backoff;
    ngx_uint_t                       reloads;   /* of the scripts */
    ngx_msec_t                       reloads_since;
    ngx_msec_t                       last_reload;
    ngx_msec_t                       lost_since;
    ngx_msec_t                       accepted;    /* the last session */
    ngx_msec_t                       line;        /* the last one in the log */

    /* requests handled by "dsem_on_error" since the last log line */
    ngx_uint_t                       passed;
    ngx_uint_t                       refused;

    char                             reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_str_t                       *server;    /* with this reason; or NULL */
    ngx_http_dsem_addr_t             at;        /* its address */
    const char                      *pending;   /* what is waited for */
    ngx_msec_t                       pending_since;

    unsigned                         open:1;
    unsigned                         lost:1;      /* no session since then */
    unsigned                         named:1;     /* by Redis: the reason */
    unsigned                         failed:1;    /* the reason is that of an
                                                     attempt */
    unsigned                         reported:1;  /* the loss was logged */
    unsigned                         was_accepted:1;  /* a session, once */
    unsigned                         flapping:1;  /* none lasts a heartbeat */
} ngx_http_dsem_breaker_t;


typedef struct {
    ngx_msec_t     since;         /* last reply, or beginning of a wait */
    ngx_msec_t     replied;       /* time of the last reply */
    ngx_msec_t     rtt;           /* usual round trip, in eighths of ms */
    ngx_event_t    timer;         /* the next reply is late then */

    void         (*handler)(void *data);
    void          *data;

    unsigned       timed:1;       /* a round trip has ended */
    unsigned       timing:1;      /* the next reply ends a round trip */
    unsigned       awaited:1;     /* handler is to be called */
} ngx_http_dsem_pulse_t;


void ngx_http_dsem_breaker_init(ngx_http_dsem_breaker_t *breaker,
    ngx_http_dsem_redis_settings_t *settings, ngx_http_dsem_peer_t *peer,
    void (*handler)(void *data), void *data);
void ngx_http_dsem_breaker_start(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_paused(ngx_http_dsem_breaker_t *breaker,
    ngx_msec_t pause);
void ngx_http_dsem_breaker_stop(ngx_http_dsem_breaker_t *breaker);

void ngx_http_dsem_breaker_connecting(ngx_http_dsem_breaker_t *breaker,
    const char *pending);
void ngx_http_dsem_breaker_connected(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_accepted(ngx_http_dsem_breaker_t *breaker,
    ngx_str_t *server);
ngx_int_t ngx_http_dsem_breaker_reload(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_lost(ngx_http_dsem_breaker_t *breaker,
    const char *reason, ngx_uint_t was_up);
ngx_msec_t ngx_http_dsem_breaker_pause(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t attempts);
void ngx_http_dsem_breaker_open(ngx_http_dsem_breaker_t *breaker);
void ngx_http_dsem_breaker_handled(ngx_http_dsem_breaker_t *breaker,
    ngx_uint_t passed);
const char *ngx_http_dsem_breaker_reason(ngx_http_dsem_breaker_t *breaker);
ngx_str_t *ngx_http_dsem_breaker_address(ngx_http_dsem_breaker_t *breaker);

void ngx_http_dsem_pulse_init(ngx_http_dsem_pulse_t *pulse,
    void (*handler)(void *data), void *data);
void ngx_http_dsem_pulse_asked(ngx_http_dsem_pulse_t *pulse);
void ngx_http_dsem_pulse_replied(ngx_http_dsem_pulse_t *pulse);
void ngx_http_dsem_pulse_stop(ngx_http_dsem_pulse_t *pulse);

ngx_uint_t ngx_http_dsem_pulse_fresh(ngx_http_dsem_pulse_t *pulse,
    ngx_msec_t worth);
ngx_uint_t ngx_http_dsem_pulse_late(ngx_http_dsem_pulse_t *pulse);
void ngx_http_dsem_pulse_wait(ngx_http_dsem_pulse_t *pulse);


#endif /* _NGX_HTTP_DSEM_BREAKER_H_INCLUDED_ */
