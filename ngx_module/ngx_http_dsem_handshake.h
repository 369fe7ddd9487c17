
/*
 * Talk: what a session says to Redis about itself.  For session only.
 */


#ifndef _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_
#define _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_session.h"


typedef enum {
    NGX_HTTP_DSEM_SESSION_DOWN = 0,
    NGX_HTTP_DSEM_SESSION_HELLO,        /* hello is under way */
    NGX_HTTP_DSEM_SESSION_DECLARING,
    NGX_HTTP_DSEM_SESSION_DECLARED,     /* declared is under way */
    NGX_HTTP_DSEM_SESSION_READY
} ngx_http_dsem_session_state_e;


typedef struct {
    ngx_http_dsem_redis_t             *redis;
    ngx_http_dsem_session_handlers_t  *handlers;
    void                              *data;

    ngx_http_dsem_session_state_e      state;

    ngx_str_t                          node;
    ngx_str_t                          key;        /* "<prefix>:{0}" */
    ngx_str_t                          name;
    uint64_t                           epoch;
    int64_t                            generation; /* 0: none known */
    ngx_msec_t                         recovery;   /* ms, at the last hello */

    ngx_shm_zone_t                    *zone;
    ngx_uint_t                         workers;
    ngx_uint_t                         configuration;
    ngx_uint_t                         fleet;      /* live sessions, or 0 */

    ngx_event_t                        beat;
    ngx_uint_t                         declaring;  /* unanswered declares */
    ngx_uint_t                         resyncs;    /* without success */

    unsigned                           declared_all:1;
    unsigned                           entered:1;  /* has been ready */
    unsigned                           verify:1;    /* keys may be lost */
    unsigned                           lease_expired:1;   /* its lease had ended */
    unsigned                           keys_lost:1; /* its keys were lost */
} ngx_http_dsem_session_t;


void ngx_http_dsem_handshake_set_state(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_state_e state);
void ngx_http_dsem_handshake_hello(ngx_http_dsem_session_t *session);
void ngx_http_dsem_handshake_declare(ngx_http_dsem_session_t *session);
void ngx_http_dsem_handshake_beat_handler(ngx_event_t *ev);


#endif /* _NGX_HTTP_DSEM_HANDSHAKE_H_INCLUDED_ */
