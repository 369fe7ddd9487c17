
/*
 * Reasons: why a connection failed, for the log.
 */


#ifndef _NGX_HTTP_DSEM_REASON_H_INCLUDED_
#define _NGX_HTTP_DSEM_REASON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* of each of them, with a zero at the end: two names of 255, or an advice */
#define NGX_HTTP_DSEM_REASON_LEN   640


void ngx_http_dsem_reason(char *reason, const char *fmt, ...);
void ngx_http_dsem_reason_clean(char *text);
char *ngx_http_dsem_reason_error(char *error);


#endif /* _NGX_HTTP_DSEM_REASON_H_INCLUDED_ */
