
/*
 * The session: this worker process as Redis knows it.
 */


#ifndef _NGX_HTTP_DSEM_SESSION_H_INCLUDED_
#define _NGX_HTTP_DSEM_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_redis.h"


typedef struct {
    /* all that Redis knew of this session is void: forget what is open */
    void                    (*reset)(void *data);
    /*
     * declare what there is, "room" calls now, or the few more that one
     * account takes.  NGX_AGAIN: there is more; NGX_OK: that was all;
     * NGX_ERROR: a call failed
     */
    ngx_int_t               (*declare)(void *data, ngx_uint_t room,
                                       ngx_uint_t *calls);
    /* Redis knows all; syncs may be sent */
    void                    (*ready)(void *data);
    /* nobody should wait for Redis any more */
    void                    (*away)(void *data);
    /* true while any permit is held */
    ngx_uint_t              (*holding)(void *data);
    /* true while there is something that Redis has to be told */
    ngx_uint_t              (*busy)(void *data);
    /* a message to this session */
    void                    (*message)(void *data, ngx_str_t *text);
} ngx_http_dsem_session_handlers_t;


/* "<prefix>:{0}" */
#define NGX_HTTP_DSEM_KEY_LEN  (64 + sizeof(":{0}"))


typedef struct {
    ngx_addr_t               *addr;
    ngx_msec_t                connect_timeout;
    ngx_msec_t                timeout;
    ngx_msec_t                lease;
    ngx_str_t                 node;
    ngx_str_t                 prefix;
    ngx_shm_zone_t           *zone;        /* NULL: a single process */
    ngx_uint_t                workers;     /* of this node */
    ngx_uint_t                configuration;  /* counted by the master */
} ngx_http_dsem_session_settings_t;


ngx_int_t ngx_http_dsem_session_start(
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers, void *data);
void ngx_http_dsem_session_stop(void);

ngx_uint_t ngx_http_dsem_session_begun(void);
ngx_uint_t ngx_http_dsem_session_ready(void);
ngx_uint_t ngx_http_dsem_session_away(void);
ngx_uint_t ngx_http_dsem_session_fleet(void);
ngx_uint_t ngx_http_dsem_session_current(void);
ngx_msec_t ngx_http_dsem_session_recovery(void);
uint64_t ngx_http_dsem_session_epoch(void);
int64_t ngx_http_dsem_session_generation(void);
ngx_str_t *ngx_http_dsem_session_key(void);
ngx_http_dsem_redis_t *ngx_http_dsem_session_redis(void);

void ngx_http_dsem_session_answered(ngx_http_dsem_reply_t *reply);
void ngx_http_dsem_session_resync(const char *reason, ngx_uint_t lost);
void ngx_http_dsem_session_overage(ngx_str_t *name, ngx_int_t excess);


#endif /* _NGX_HTTP_DSEM_SESSION_H_INCLUDED_ */
