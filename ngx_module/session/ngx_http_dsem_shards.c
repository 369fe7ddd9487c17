
/*
 * The shards: the sessions of this worker, one for each.
 *
 * Owns the sessions.  A semaphore is in one shard, by its name; what happens
 * to the session of one shard changes nothing for the others.
 *
 * Called by: dispatch (start, each of them), semaphore and acquire (by name).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_handshake.h"
#include "ngx_http_dsem_shards.h"


typedef struct {
    ngx_uint_t               n;
    ngx_http_dsem_session_t  sessions[NGX_HTTP_DSEM_SHARDS];
} ngx_http_dsem_shards_t;


static ngx_http_dsem_shards_t  ngx_http_dsem_shards;


/* the sessions of a worker; NGX_ERROR: no memory or no random numbers */

ngx_int_t
ngx_http_dsem_shards_start(ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers)
{
    ngx_uint_t               i;
    ngx_http_dsem_shards_t  *shards;

    shards = &ngx_http_dsem_shards;

    ngx_memzero(shards, sizeof(ngx_http_dsem_shards_t));

    shards->n = 1;

    for (i = 0; i < shards->n; i++) {
        shards->sessions[i].shard = i;

        if (ngx_http_dsem_handshake_start(&shards->sessions[i], settings,
                                          handlers)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* of the semaphore with this encoded name */

ngx_http_dsem_session_t *
ngx_http_dsem_shards_session(ngx_str_t *name)
{
    return &ngx_http_dsem_shards.sessions[0];
}


/* the one after this, or the first for NULL; NULL: no more */

ngx_http_dsem_session_t *
ngx_http_dsem_shards_next(ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_shards_t  *shards;

    shards = &ngx_http_dsem_shards;

    session = session ? session + 1 : shards->sessions;

    return (session < shards->sessions + shards->n) ? session : NULL;
}
