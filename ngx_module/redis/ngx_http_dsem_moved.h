
/*
 * MOVED and ASK: where a node of a Cluster says that keys are.
 */


#ifndef _NGX_HTTP_DSEM_MOVED_H_INCLUDED_
#define _NGX_HTTP_DSEM_MOVED_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* host points into the text; empty: that of the node itself */
typedef struct {
    ngx_str_t    host;
    in_port_t    port;
    ngx_uint_t   slot;
    unsigned     ask:1;      /* ASK: the slot has not moved yet */
} ngx_http_dsem_moved_t;


ngx_int_t ngx_http_dsem_moved_parse(ngx_http_dsem_moved_t *moved,
    const char *text);


#endif /* _NGX_HTTP_DSEM_MOVED_H_INCLUDED_ */
