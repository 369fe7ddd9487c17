
/*
 * Bye: sessions that leave Redis at once, whatever they have there.
 *
 * The session of a worker that exits, those of dead workers of this node, and
 * one that a person removes.  Their permits are released, none waits for the
 * end of a lease.
 *
 * Called by: shards (exit), handshake (dead workers, a session that is not
 * used), order (a person) and redis (replies).  The order of arguments and
 * values is that of lua/bye.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_bye.h"


/* a bye for a dead worker that is sent */
typedef struct {
    ngx_http_dsem_zone_t     *zone;
    ngx_str_t                 name;
    u_char                    buf[NGX_HTTP_DSEM_SESSION_LEN];
} ngx_http_dsem_bye_t;


static ngx_http_dsem_resp_t *ngx_http_dsem_bye_begin(
    ngx_http_dsem_session_t *session, ngx_str_t *name, ngx_uint_t nargs);
static void ngx_http_dsem_bye_handler(void *data,
    ngx_http_dsem_reply_t *reply);


/*
 * The worker exits: the bye of the session voids all that it has in Redis.
 * NGX_OK: it is to be drained, as the worker has no event loop any more.
 *
 * A Redis that is slow reads these commands when the worker has gone, some KB
 * at a time, and closes the connection when it cannot send a reply: the bye
 * must not come behind a script.  If its own is missing, the second one counts.
 */

ngx_int_t
ngx_http_dsem_bye_exit(ngx_http_dsem_session_t *session)
{
    ngx_str_t  *name;

    name = &session->identity.name;

    if (!session->started
        || ngx_http_dsem_bye_send(session, name, NULL, NULL) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    if (ngx_http_dsem_redis_load(session->redis, NGX_HTTP_DSEM_SCRIPT_BYE)
        == NGX_OK)
    {
        (void) ngx_http_dsem_bye_send(session, name, NULL, NULL);
    }

    return NGX_OK;
}


/* NGX_OK: the bye has its reply; NGX_AGAIN: not until this time, in ms */

ngx_int_t
ngx_http_dsem_bye_drain(ngx_http_dsem_session_t *session, ngx_msec_t end)
{
    if (ngx_http_dsem_redis_drain(session->redis, end) != NGX_OK) {
        return NGX_AGAIN;
    }

    (void) ngx_http_dsem_zone_leave(session->zone, &session->identity.name);

    return NGX_OK;
}


/* removes a session; NGX_ERROR: no memory, or no connection */

ngx_int_t
ngx_http_dsem_bye_send(ngx_http_dsem_session_t *session, ngx_str_t *name,
    ngx_http_dsem_reply_pt handler, void *data)
{
    if (ngx_http_dsem_bye_begin(session, name, 2) == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_redis_call(session->redis, handler, data);
}


/*
 * Removes a session for a person; one that has just sent a heartbeat only
 * with "force".  The first value of the reply is one of
 * ngx_http_dsem_removed_e.
 */

ngx_int_t
ngx_http_dsem_bye_remove(ngx_http_dsem_session_t *session, ngx_str_t *name,
    ngx_uint_t force, ngx_http_dsem_reply_pt handler, void *data)
{
    ngx_http_dsem_resp_t  *command;

    command = ngx_http_dsem_bye_begin(session, name, 3);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_number(command, !force);

    return ngx_http_dsem_redis_call(session->redis, handler, data);
}


/* writes the first two arguments; NULL: not up */

static ngx_http_dsem_resp_t *
ngx_http_dsem_bye_begin(ngx_http_dsem_session_t *session, ngx_str_t *name,
    ngx_uint_t nargs)
{
    ngx_http_dsem_resp_t  *command;

    command = ngx_http_dsem_redis_begin(session->redis,
                         NGX_HTTP_DSEM_SCRIPT_BYE,
                         ngx_http_dsem_redis_keys(session->redis)->registry,
                         2, nargs);

    if (command) {
        ngx_http_dsem_resp_string(command, name);
        ngx_http_dsem_resp_number(command, session->lease.length);
    }

    return command;
}


/*
 * Says bye for all workers of this node that have died, so that no permit
 * waits for the end of a lease.  Two workers may do so for the same one,
 * which is harmless; a bye that has no reply is sent again in a later turn.
 */

void
ngx_http_dsem_bye_dead(ngx_http_dsem_session_t *session)
{
    ngx_uint_t            next;
    ngx_msec_t            heartbeat;
    ngx_http_dsem_bye_t  *bye;

    next = 0;
    heartbeat = ngx_http_dsem_lease_heartbeat(&session->lease);

    for ( ;; ) {
        bye = ngx_alloc(sizeof(ngx_http_dsem_bye_t), ngx_cycle->log);
        if (bye == NULL) {
            return;
        }

        bye->zone = session->zone;
        bye->name.data = bye->buf;

        if (ngx_http_dsem_zone_dead(session->zone, session->space, heartbeat,
                                    &next, &bye->name)
               != NGX_OK
            || ngx_http_dsem_bye_send(session, &bye->name,
                                      ngx_http_dsem_bye_handler, bye)
               != NGX_OK)
        {
            ngx_free(bye);
            return;
        }
    }
}


/*
 * Of two workers that have said bye for the same one, the first has removed it;
 * their replies come in any order, and one that is lost is followed by another
 * bye.
 */

static void
ngx_http_dsem_bye_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_bye_t *bye = data;

    ngx_int_t  rc;

    if (reply == NULL) {
        ngx_free(bye);
        return;
    }

    rc = ngx_http_dsem_zone_leave(bye->zone, &bye->name);

    if (reply->values[0] == NGX_HTTP_DSEM_REMOVED) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: removed session %V of a dead worker, its permits "
                      "are released", &bye->name);

    } else if (rc == NGX_OK) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: session %V of a dead worker was not registered "
                      "any more", &bye->name);
    }

    ngx_free(bye);
}
