
/*
 * Declare: what an account has, told to Redis at the beginning of an epoch.
 *
 * The figures are absolute and stand in the place of all that older epochs
 * have said, so nothing that was lost or executed late matters any more.  A
 * ticket keeps its place; one that Redis has never seen is asked for again.
 *
 * Called by: semaphore, when the session begins a new epoch.  The order of
 * arguments and values is that of lua/declare.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_declare.h"
#include "ngx_http_dsem_sync_reply.h"


/* tickets in one call: Redis is not kept busy for long */
#define NGX_HTTP_DSEM_MAX_DECLARED  128


/* a command that is under way; freed when it is answered or given up */
typedef struct {
    ngx_http_dsem_account_t  *account;     /* valid while epoch is */
    uint64_t                  epoch;
    ngx_uint_t                more;        /* unsigned:1, not the first */
    ngx_uint_t                n;
    uint64_t                  tickets[1];
} ngx_http_dsem_declare_t;


static ngx_int_t ngx_http_dsem_declare_send(
    ngx_http_dsem_declare_t *declare, ngx_queue_t **q);
static void ngx_http_dsem_declare_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_int_t ngx_http_dsem_declare_read(ngx_http_dsem_declare_t *declare,
    ngx_http_dsem_reply_t *reply);


/*
 * Declares what the account has, if it has anything; to be called once per
 * account and epoch.  "calls" is raised by the calls that are under way,
 * each of which is answered to ngx_http_dsem_session_answered().
 * NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_declare(ngx_http_dsem_account_t *account, ngx_uint_t *calls)
{
    ngx_uint_t                n, left;
    ngx_queue_t              *q;
    ngx_http_dsem_declare_t  *declare;

    ngx_http_dsem_account_synced(account);

    if (account->held == 0 && account->ntickets == 0) {
        return NGX_OK;
    }

    q = ngx_queue_head(&account->tickets);
    left = account->ntickets;

    do {
        n = ngx_min(left, NGX_HTTP_DSEM_MAX_DECLARED);

        declare = ngx_alloc(sizeof(ngx_http_dsem_declare_t)
                            + n * sizeof(uint64_t), ngx_cycle->log);
        if (declare == NULL) {
            return NGX_ERROR;
        }

        declare->account = account;
        declare->epoch = ngx_http_dsem_session_epoch();
        declare->more = (left < account->ntickets);
        declare->n = n;

        if (ngx_http_dsem_declare_send(declare, &q) != NGX_OK) {
            ngx_free(declare);
            return NGX_ERROR;
        }

        account->inflight++;
        (*calls)++;

        left -= n;

    } while (left);

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_declare_send(ngx_http_dsem_declare_t *declare, ngx_queue_t **q)
{
    ngx_str_t                 keys[2];
    ngx_uint_t                i;
    ngx_http_dsem_redis_t    *redis;
    ngx_http_dsem_ticket_t   *ticket;
    ngx_http_dsem_account_t  *account;

    account = declare->account;
    redis = ngx_http_dsem_session_redis();

    keys[0] = account->key;
    keys[1] = account->queue_key;

    if (ngx_http_dsem_redis_begin(redis, NGX_HTTP_DSEM_SCRIPT_DECLARE, keys, 2,
                                  4 + 4 * declare->n)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_redis_number(redis, account->limit);
    ngx_http_dsem_redis_number(redis, account->held);
    ngx_http_dsem_redis_number(redis, declare->more);
    ngx_http_dsem_redis_number(redis, declare->n);

    for (i = 0; i < declare->n; i++) {
        ticket = ngx_queue_data(*q, ngx_http_dsem_ticket_t, queue);
        *q = ngx_queue_next(*q);

        declare->tickets[i] = ticket->number;

        ngx_http_dsem_redis_number(redis, ticket->number);
        ngx_http_dsem_redis_number(redis, ticket->weight);
        ngx_http_dsem_redis_number(redis, ticket->place);
        ngx_http_dsem_redis_number(redis, ticket->epoch);
    }

    return ngx_http_dsem_redis_call(redis, ngx_http_dsem_declare_handler,
                                    declare);
}


static void
ngx_http_dsem_declare_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_declare_t *declare = data;

    ngx_int_t  rc;

    if (reply == NULL || declare->epoch != ngx_http_dsem_session_epoch()) {
        ngx_free(declare);
        return;
    }

    declare->account->inflight--;

    rc = ngx_http_dsem_declare_read(declare, reply);

    ngx_free(declare);

    if (rc == NGX_OK) {
        ngx_http_dsem_session_answered(reply);
    }
}


static ngx_int_t
ngx_http_dsem_declare_read(ngx_http_dsem_declare_t *declare,
    ngx_http_dsem_reply_t *reply)
{
    int64_t                 *value;
    ngx_uint_t               i;
    ngx_http_dsem_ticket_t  *ticket;

    if (reply->status == NGX_HTTP_DSEM_REPLY_BROKEN) {
        ngx_http_dsem_sync_broken(declare->account);
        return NGX_OK;
    }

    if (reply->status != NGX_HTTP_DSEM_REPLY_OK) {
        /* the session sees to it */
        return NGX_OK;
    }

    if (reply->nvalues < 1 + declare->n) {
        ngx_http_dsem_redis_drop(ngx_http_dsem_session_redis(),
                                 "reply too short");
        return NGX_ERROR;
    }

    if (!declare->more) {
        ngx_http_dsem_session_overage(&declare->account->node.str,
                                      ngx_min(reply->values[0],
                                              declare->account->held));
    }

    value = reply->values + 1;

    for (i = 0; i < declare->n; i++) {
        ticket = ngx_http_dsem_ticket_find(declare->tickets[i]);

        if (ticket == NULL) {
            continue;
        }

        if (value[i]) {
            ngx_http_dsem_ticket_placed(ticket, value[i],
                                        declare->epoch);

        } else {
            ngx_http_dsem_ticket_again(ticket);
        }
    }

    return NGX_OK;
}
