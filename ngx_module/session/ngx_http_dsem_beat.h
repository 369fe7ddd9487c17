
/*
 * The beat: renews the lease of a session that is ready.
 */


#ifndef _NGX_HTTP_DSEM_BEAT_H_INCLUDED_
#define _NGX_HTTP_DSEM_BEAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


void ngx_http_dsem_beat_timer(ngx_event_t *ev);


#endif /* _NGX_HTTP_DSEM_BEAT_H_INCLUDED_ */
