
/*
 * Good-byes: sessions that leave the registry at once.
 *
 * A worker says good-bye for itself when it exits, and for those of its
 * node whose process has died, so that nobody waits for a lease to end.
 *
 * Called by: session (its own), handshake (those of the dead).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_bye.h"
#include "ngx_http_dsem_lease.h"
#include "ngx_http_dsem_zone.h"


/* a good-bye for a dead worker that is under way */
typedef struct {
    ngx_shm_zone_t  *shm_zone;
    ngx_str_t        session;
    u_char           name[NGX_HTTP_DSEM_SESSION_LEN];
} ngx_http_dsem_bye_t;


static void ngx_http_dsem_bye_handler(void *data,
    ngx_http_dsem_reply_t *reply);


/* handler may be NULL; NGX_ERROR: no memory, or Redis is not there */

ngx_int_t
ngx_http_dsem_bye(ngx_http_dsem_redis_t *redis, ngx_str_t *session,
    ngx_http_dsem_reply_pt handler, void *data)
{
    if (ngx_http_dsem_redis_begin(redis, NGX_HTTP_DSEM_SCRIPT_BYE, NULL, 0, 2)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_redis_string(redis, session);
    ngx_http_dsem_redis_number(redis, ngx_http_dsem_lease_length());

    return ngx_http_dsem_redis_call(redis, handler, data);
}


/*
 * For all workers of this node that have died.  Two workers may say so of
 * the same one, which does no harm; what could not be said is said at the
 * next heartbeat.
 */

void
ngx_http_dsem_bye_dead(ngx_http_dsem_redis_t *redis,
    ngx_shm_zone_t *shm_zone)
{
    uint64_t                  after;
    ngx_http_dsem_bye_t  *bye;

    after = 0;

    for ( ;; ) {
        bye = ngx_alloc(sizeof(ngx_http_dsem_bye_t), ngx_cycle->log);
        if (bye == NULL) {
            return;
        }

        bye->shm_zone = shm_zone;
        bye->session.data = bye->name;

        if (ngx_http_dsem_zone_dead(shm_zone, &after, &bye->session)
               != NGX_OK
            || ngx_http_dsem_bye(redis, &bye->session,
                                     ngx_http_dsem_bye_handler, bye)
               != NGX_OK)
        {
            ngx_free(bye);
            return;
        }
    }
}


static void
ngx_http_dsem_bye_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_bye_t *bye = data;

    if (reply) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: removed session %V of a dead worker, its permits "
                      "are released", &bye->session);

        ngx_http_dsem_zone_leave(bye->shm_zone, &bye->session);
    }

    ngx_free(bye);
}
