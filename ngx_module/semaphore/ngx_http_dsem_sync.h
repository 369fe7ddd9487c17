
/*
 * What travels between an account and Redis: syncs and their replies,
 * declarations, messages.
 */


#ifndef _NGX_HTTP_DSEM_SYNC_H_INCLUDED_
#define _NGX_HTTP_DSEM_SYNC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_account.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_ticket.h"


/* the last part of a recovery, of a lease: all workers have declared */
#define NGX_HTTP_DSEM_SYNC_DECLARED(session)                                  \
    ((session)->lease.length / 32)


typedef struct {
    uint64_t                  number;
    ngx_int_t                 weight;
    ngx_int_t                 server;      /* of a pool: that of a grant whose
                                              message came before the reply */
} ngx_http_dsem_sync_ticket_t;


/* a command that is sent; freed when its reply has come or never will */
typedef struct {
    ngx_http_dsem_session_t      *session;
    ngx_http_dsem_account_t      *account;  /* valid as long as the epoch */
    ngx_int_t                     limit;    /* as sent */
    ngx_int_t                     held;     /* ledger's sum after it */
    ngx_int_t                     released;
    ngx_uint_t                    ncancels;
    ngx_uint_t                    nasks;     /* the first ones are charges */
    ngx_uint_t                    ncharges;
    ngx_uint_t                    nchecks;
    ngx_uint_t                    check;    /* unsigned:1, compare counts */
    ngx_int_t                     unchecked;  /* waiting, not compared */
    ngx_int_t                     granted;    /* of these, by messages since */
    ngx_uint_t                    keep;     /* unsigned:1, account's keep_sent
                                                with it */
    uint64_t                      list;     /* of a pool: servers as sent */
    uint64_t                      stated;   /* number by which it states it */
    ngx_int_t                    *sums;     /* of a check of a pool: the
                                               ledger's sums by server */

    ngx_http_dsem_sync_ticket_t   tickets[1];
} ngx_http_dsem_sync_t;


ngx_int_t ngx_http_dsem_sync_check(ngx_http_dsem_account_t *account);
ngx_int_t ngx_http_dsem_sync_changes(ngx_http_dsem_account_t *account,
    ngx_uint_t nasks);

void ngx_http_dsem_sync_reply_handler(void *data, ngx_http_dsem_reply_t *reply);
void ngx_http_dsem_sync_reply_granted(ngx_http_dsem_ticket_t *ticket,
    ngx_int_t server);
void ngx_http_dsem_declare_refused(ngx_http_dsem_account_t *account,
    ngx_http_dsem_reply_t *reply, ngx_http_dsem_sync_t *sync);

ngx_int_t ngx_http_dsem_declare(ngx_http_dsem_account_t *account,
    ngx_uint_t *calls);
void ngx_http_dsem_message(void *data, ngx_str_t *text);


#endif /* _NGX_HTTP_DSEM_SYNC_H_INCLUDED_ */
