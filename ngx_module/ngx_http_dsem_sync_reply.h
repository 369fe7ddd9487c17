
/*
 * What Redis says to a sync, and what the sync was sent with.  For the
 * semaphore floor only.
 */


#ifndef _NGX_HTTP_DSEM_SYNC_REPLY_H_INCLUDED_
#define _NGX_HTTP_DSEM_SYNC_REPLY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"


typedef struct {
    uint64_t                  number;
    ngx_int_t                 weight;
} ngx_http_dsem_sync_ticket_t;


/* a command that is under way; freed when it is answered or given up */
typedef struct {
    ngx_http_dsem_account_t      *account;  /* valid while epoch is */
    uint64_t                      epoch;
    ngx_int_t                     held;     /* as believed after it */
    ngx_uint_t                    ncancels;
    ngx_uint_t                    nasks;
    ngx_uint_t                    nchecks;
    ngx_uint_t                    check;    /* unsigned:1, compare counts */
    ngx_int_t                     unchecked;  /* waiting, but not listed */
    ngx_http_dsem_sync_ticket_t   tickets[1];
} ngx_http_dsem_sync_t;


void ngx_http_dsem_sync_handler(void *data, ngx_http_dsem_reply_t *reply);
void ngx_http_dsem_sync_broken(ngx_http_dsem_account_t *account);


#endif /* _NGX_HTTP_DSEM_SYNC_REPLY_H_INCLUDED_ */
