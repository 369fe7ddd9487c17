
/*
 * The adapter: hiredis's async API on nginx's events.  For the connection only.
 */


#ifndef _NGX_HTTP_DSEM_ADAPTER_H_INCLUDED_
#define _NGX_HTTP_DSEM_ADAPTER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_guard.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_tls.h"


/* a function of hiredis */
typedef void (*ngx_http_dsem_adapter_event_pt)(redisAsyncContext *ac);


/* of one connection, which sets what hiredis has no part in */
typedef struct {
    redisAsyncContext          *ac;       /* NULL: freed */
    ngx_connection_t           *c;
    ngx_http_dsem_tls_conn_t   *ssl;      /* NULL: not begun, none */
    ngx_log_t                   log;

    ngx_http_dsem_addr_t        at;       /* the peer's may change */
    ngx_http_dsem_guard_t       guard;
    char                        reason[NGX_HTTP_DSEM_REASON_LEN];

    unsigned                    tls:1;        /* wanted */
    unsigned                    connected:1;  /* with TLS where wanted */
    unsigned                    replied:1;    /* or an earlier connection */
    unsigned                    protocol_error:1;
    unsigned                    writing:1;
    unsigned                    draining:1;
} ngx_http_dsem_adapter_t;


ngx_int_t ngx_http_dsem_adapter_open(ngx_http_dsem_adapter_t *adapter,
    ngx_addr_t *addr, void *data, ngx_event_handler_pt read,
    ngx_event_handler_pt write);
ngx_int_t ngx_http_dsem_adapter_send(ngx_http_dsem_adapter_t *adapter,
    ngx_http_dsem_resp_t *command, redisCallbackFn *reply);
void ngx_http_dsem_adapter_call(ngx_http_dsem_adapter_t *adapter,
    ngx_http_dsem_adapter_event_pt handle);
ngx_int_t ngx_http_dsem_adapter_drain(ngx_http_dsem_adapter_t *adapter,
    ngx_msec_t end);
void ngx_http_dsem_adapter_reason(ngx_http_dsem_adapter_t *adapter,
    const char *reason);


#endif /* _NGX_HTTP_DSEM_ADAPTER_H_INCLUDED_ */
