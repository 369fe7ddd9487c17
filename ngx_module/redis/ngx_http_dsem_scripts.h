
/*
 * The table of scripts that run in Redis.  The table itself is generated
 * from lua/ at configure time, one entry per script, includes inlined.
 */


#ifndef _NGX_HTTP_DSEM_SCRIPTS_H_INCLUDED_
#define _NGX_HTTP_DSEM_SCRIPTS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef enum {
    NGX_HTTP_DSEM_SCRIPT_HELLO = 0,
    NGX_HTTP_DSEM_SCRIPT_DECLARE,
    NGX_HTTP_DSEM_SCRIPT_DECLARED,
    NGX_HTTP_DSEM_SCRIPT_BEAT,
    NGX_HTTP_DSEM_SCRIPT_SYNC,
    NGX_HTTP_DSEM_SCRIPT_BYE,
    NGX_HTTP_DSEM_SCRIPT_CONFIGURE,
    NGX_HTTP_DSEM_SCRIPT_INSPECT,
    NGX_HTTP_DSEM_SCRIPT_NAMES,
    NGX_HTTP_DSEM_SCRIPT_ORDER,
    NGX_HTTP_DSEM_SCRIPT_ADJUST,
    NGX_HTTP_DSEM_NSCRIPTS
} ngx_http_dsem_script_e;


extern ngx_str_t  ngx_http_dsem_scripts[];


#endif /* _NGX_HTTP_DSEM_SCRIPTS_H_INCLUDED_ */
