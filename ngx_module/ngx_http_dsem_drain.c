
/*
 * Lingering: how long a worker that exits stays for what it has to tell.
 *
 * One timer, the only one of ours that is not cancelable: it keeps the
 * process until Redis has heard what is free, so that nobody waits for a
 * lease to end; but not for ever.
 *
 * Called by: account (something is to be told, something was told), session,
 * handshake (all is declared).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_drain.h"


#define NGX_HTTP_DSEM_DRAIN  2000


static void ngx_http_dsem_drain_handler(ngx_event_t *ev);


static ngx_event_t  ngx_http_dsem_drain;


void
ngx_http_dsem_drain_init(void)
{
    ngx_memzero(&ngx_http_dsem_drain, sizeof(ngx_event_t));

    ngx_http_dsem_drain.handler = ngx_http_dsem_drain_handler;
    ngx_http_dsem_drain.data = &ngx_http_dsem_drain;
    ngx_http_dsem_drain.log = ngx_cycle->log;
}


/* an exiting worker has something to tell */

void
ngx_http_dsem_drain_start(void)
{
    if (!ngx_http_dsem_drain.timer_set) {
        ngx_add_timer(&ngx_http_dsem_drain, NGX_HTTP_DSEM_DRAIN);
    }
}


/* "settled": all has been told, and acknowledged */

void
ngx_http_dsem_drain_settle(ngx_uint_t settled)
{
    if (settled) {
        ngx_http_dsem_drain_stop();
    }
}


void
ngx_http_dsem_drain_stop(void)
{
    if (ngx_http_dsem_drain.timer_set) {
        ngx_del_timer(&ngx_http_dsem_drain);
    }
}


static void
ngx_http_dsem_drain_handler(ngx_event_t *ev)
{
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: exiting without a session in redis, permits are "
                  "released when the lease expires");
}
