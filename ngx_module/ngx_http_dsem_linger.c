
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
#include "ngx_http_dsem_linger.h"


#define NGX_HTTP_DSEM_LINGER  2000


static void ngx_http_dsem_linger_handler(ngx_event_t *ev);


static ngx_event_t  ngx_http_dsem_linger;


void
ngx_http_dsem_linger_init(void)
{
    ngx_memzero(&ngx_http_dsem_linger, sizeof(ngx_event_t));

    ngx_http_dsem_linger.handler = ngx_http_dsem_linger_handler;
    ngx_http_dsem_linger.data = &ngx_http_dsem_linger;
    ngx_http_dsem_linger.log = ngx_cycle->log;
}


/* an exiting worker has something to tell */

void
ngx_http_dsem_linger_start(void)
{
    if (!ngx_http_dsem_linger.timer_set) {
        ngx_add_timer(&ngx_http_dsem_linger, NGX_HTTP_DSEM_LINGER);
    }
}


/* "settled": all has been told, and acknowledged */

void
ngx_http_dsem_linger_settle(ngx_uint_t settled)
{
    if (settled) {
        ngx_http_dsem_linger_stop();
    }
}


void
ngx_http_dsem_linger_stop(void)
{
    if (ngx_http_dsem_linger.timer_set) {
        ngx_del_timer(&ngx_http_dsem_linger);
    }
}


static void
ngx_http_dsem_linger_handler(ngx_event_t *ev)
{
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: exiting without a session in redis, permits are "
                  "released when the lease expires");
}
