
/*
 * Telling: owners learn of their verdict.  For ticket only.
 */


#ifndef _NGX_HTTP_DSEM_NOTIFY_H_INCLUDED_
#define _NGX_HTTP_DSEM_NOTIFY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_ticket.h"


void ngx_http_dsem_notify_init(void);
void ngx_http_dsem_notify(ngx_http_dsem_ticket_t *ticket);
void ngx_http_dsem_notify_forget(ngx_http_dsem_ticket_t *ticket);


#endif /* _NGX_HTTP_DSEM_NOTIFY_H_INCLUDED_ */
