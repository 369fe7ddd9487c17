
/*
 * Good-byes: sessions that leave the registry at once.
 */


#ifndef _NGX_HTTP_DSEM_BYE_H_INCLUDED_
#define _NGX_HTTP_DSEM_BYE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_redis.h"


ngx_int_t ngx_http_dsem_bye(ngx_http_dsem_redis_t *redis,
    ngx_str_t *session, ngx_http_dsem_reply_pt handler, void *data);
void ngx_http_dsem_bye_dead(ngx_http_dsem_redis_t *redis,
    ngx_shm_zone_t *shm_zone);


#endif /* _NGX_HTTP_DSEM_BYE_H_INCLUDED_ */
