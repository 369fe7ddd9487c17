
/*
 * What may become a reply.  For the hiredis adapter only.
 */


#ifndef _NGX_HTTP_DSEM_GUARD_H_INCLUDED_
#define _NGX_HTTP_DSEM_GUARD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <hiredis/hiredis.h>
#include <hiredis/async.h>


#define NGX_HTTP_DSEM_NAME_LEN  128


/*
 * What a script answers: a name, and nothing but integers.  For hiredis it is
 * an array without elements
 */
typedef struct {
    redisReply          reply;
    size_t              len;
    u_char              name[NGX_HTTP_DSEM_NAME_LEN];
    int64_t            *values;    /* values[0] is unused */
    size_t              nvalues;   /* room for so many */
} ngx_http_dsem_values_t;


/* of one connection; as long as its context */
typedef struct {
    redisAsyncContext       *ac;
    ngx_str_t                channel;   /* that was subscribed to */
    ngx_http_dsem_values_t   values;
} ngx_http_dsem_guard_t;


void ngx_http_dsem_guard_set(ngx_http_dsem_guard_t *guard,
    redisAsyncContext *ac);
void ngx_http_dsem_guard_free(ngx_http_dsem_guard_t *guard);


#endif /* _NGX_HTTP_DSEM_GUARD_H_INCLUDED_ */
