
/*
 * Notices: owners of tickets that are to learn their verdict.
 */


#ifndef _NGX_HTTP_DSEM_NOTICE_H_INCLUDED_
#define _NGX_HTTP_DSEM_NOTICE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_waiting.h"


void ngx_http_dsem_notice_init(void);

/* its owner is notified at the end of a turn of the event loop, soon */
void ngx_http_dsem_notice_give(ngx_http_dsem_ticket_t *ticket);

/* its owner leaves: it is not notified any more */
void ngx_http_dsem_notice_withdraw(ngx_http_dsem_ticket_t *ticket);


#endif /* _NGX_HTTP_DSEM_NOTICE_H_INCLUDED_ */
