
/*
 * Orders: limits and pauses that an operator sets for the whole fleet, and
 * sessions that an operator removes.
 */


#ifndef _NGX_HTTP_DSEM_ORDER_H_INCLUDED_
#define _NGX_HTTP_DSEM_ORDER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_session.h"


#define NGX_HTTP_DSEM_ORDER_KEEP   -2    /* the limit stays as it is */
#define NGX_HTTP_DSEM_ORDER_NONE   -1    /* the configured one */


typedef struct ngx_http_dsem_order_s  ngx_http_dsem_order_t;

struct ngx_http_dsem_order_s {
    ngx_str_t         name;         /* encoded; of a session: its name */
    ngx_str_t         server;       /* of a pool, encoded; empty: none, the
                                       limit is that of the semaphore */
    ngx_int_t         limit;        /* or one of the above */
    ngx_int_t         paused;       /* 0, 1; -1: as it is */
    unsigned          force:1;      /* sessions: also a live one */

    void            (*handler)(ngx_http_dsem_order_t *order);
    void             *data;

    /*
     * the result, when the handler is called, from a posted event: NGX_OK;
     * NGX_ERROR: Redis did not answer, the order may be executed all the
     * same if it was sent; NGX_ABORT: a key is of another type, it was not
     * executed; sessions also NGX_DECLINED: unknown, NGX_BUSY:
     * alive; servers also NGX_DECLINED: the semaphore is no pool, NGX_BUSY:
     * too many of them have a limit
     */
    ngx_int_t         rc;
    ngx_int_t         in_force;     /* limit; -1: unknown, as below */
    ngx_int_t         configured;   /* with a server: its own, as are the */
    ngx_int_t         ordered;      /* next three; -1: none */
    ngx_int_t         was_ordered;
    ngx_int_t         held;
    ngx_int_t         waiting;
    ngx_int_t         highest;      /* of the limits that servers of the pool
                                       have in the fleet; -1: in no list */
    unsigned          sent:1;
    unsigned          is_paused:1;
    unsigned          was_paused:1;
};


void ngx_http_dsem_order_init(ngx_http_dsem_session_settings_t *settings);
void ngx_http_dsem_order_exit(void);

/*
 * NGX_AGAIN: the handler will be called once, at the latest after
 * "dsem_redis_timeout"; NGX_DECLINED: Redis cannot be asked.  The caller may
 * give up with _cancel, which undoes nothing.
 */
ngx_int_t ngx_http_dsem_order_set(ngx_http_dsem_order_t *order);
ngx_int_t ngx_http_dsem_order_remove_session(ngx_http_dsem_order_t *order);
void ngx_http_dsem_order_cancel(ngx_http_dsem_order_t *order);


#endif /* _NGX_HTTP_DSEM_ORDER_H_INCLUDED_ */
