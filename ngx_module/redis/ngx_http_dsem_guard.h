
/*
 * The guard: which replies hiredis may see.  For the connection only.
 */


#ifndef _NGX_HTTP_DSEM_GUARD_H_INCLUDED_
#define _NGX_HTTP_DSEM_GUARD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <hiredis/hiredis.h>
#include <hiredis/async.h>
#include "ngx_http_dsem_resp.h"


/*
 * The reply of a script: a session and integers.  For hiredis it is an array
 * without elements; it is valid until the next reply is read
 */
typedef struct {
    redisReply               reply;
    size_t                   len;
    u_char                   session[NGX_HTTP_DSEM_SESSION_LEN];
    int64_t                 *values;      /* by index; values[0] is unused */
    size_t                   size;        /* allocated values */
} ngx_http_dsem_guard_values_t;


/* of one connection; lives as long as its context */
typedef struct {
    redisAsyncContext             *ac;
    ngx_str_t                      channel;   /* subscribed to */
    ngx_http_dsem_guard_values_t   values;
    unsigned                       subscribed:1;  /* it is a message */
    unsigned                       pairs:1;     /* of strings, or nil */
    unsigned                       rejected:1;  /* a reply of another shape */
} ngx_http_dsem_guard_t;


void ngx_http_dsem_guard_set(ngx_http_dsem_guard_t *guard,
    redisAsyncContext *ac);
void ngx_http_dsem_guard_free(ngx_http_dsem_guard_t *guard);


#endif /* _NGX_HTTP_DSEM_GUARD_H_INCLUDED_ */
