
/*
 * Messages of Redis to this session.
 */


#ifndef _NGX_HTTP_DSEM_MESSAGE_H_INCLUDED_
#define _NGX_HTTP_DSEM_MESSAGE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


void ngx_http_dsem_message(void *data, ngx_str_t *text);


#endif /* _NGX_HTTP_DSEM_MESSAGE_H_INCLUDED_ */
