
/*
 * The survey: the state of the whole fleet, read from Redis for people.
 */


#ifndef _NGX_HTTP_DSEM_SURVEY_H_INCLUDED_
#define _NGX_HTTP_DSEM_SURVEY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_session.h"


/* the caller's, until its handler is called or it is cancelled */
typedef struct {
    ngx_queue_t       queue;
    ngx_str_t         name;         /* a name to be read with all of its
                                       holders; empty: the usual ones */
    void            (*handler)(void *data);   /* from a posted event */
    void             *data;
    uint64_t          changed;      /* the last change when it was asked */
    unsigned          waiting:1;
} ngx_http_dsem_survey_wait_t;


void ngx_http_dsem_survey_init(ngx_http_dsem_session_settings_t *settings);
void ngx_http_dsem_survey_exit(void);

/*
 * NGX_OK: what there is, is not older than a second, nor than the last change
 * by the API of this node; NGX_AGAIN: the handler
 * will be called, at the latest after "dsem_redis_timeout", or twice that if a
 * reading had begun before that change; NGX_DECLINED:
 * Redis cannot be asked.  In each case the last survey is then there, if
 * there ever was one.
 */
ngx_int_t ngx_http_dsem_survey_update(ngx_http_dsem_survey_wait_t *wait);
void ngx_http_dsem_survey_expire(void);
void ngx_http_dsem_survey_cancel(void *data);

/* the last one, valid as long as the pool; or NULL.  NGX_ERROR: no memory */
ngx_int_t ngx_http_dsem_survey_hold(ngx_pool_t *pool,
    ngx_http_dsem_survey_t **survey);
ngx_uint_t ngx_http_dsem_survey_number(void);

/* one semaphore of it, or of the last that was read by name; or NULL */
ngx_http_dsem_survey_semaphore_t *ngx_http_dsem_survey_find(ngx_str_t *name);
ngx_uint_t ngx_http_dsem_survey_asked(ngx_str_t *name);


/* Redis as this worker sees it */
typedef struct {
    ngx_http_dsem_condition_e      state;     /* the worst of the shards */
    uint64_t                       since;     /* ms in this state */
    ngx_str_t                      reason;    /* empty: none */
    ngx_str_t                      address;   /* no secrets in it */
} ngx_http_dsem_survey_redis_t;

void ngx_http_dsem_survey_redis(ngx_http_dsem_survey_redis_t *redis);


#endif /* _NGX_HTTP_DSEM_SURVEY_H_INCLUDED_ */
