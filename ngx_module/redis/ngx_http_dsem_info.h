
/*
 * What a server reports about itself, and whether it suits.
 */


#ifndef _NGX_HTTP_DSEM_INFO_H_INCLUDED_
#define _NGX_HTTP_DSEM_INFO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_HTTP_DSEM_SERVER_LEN  64


/* of the last reply to INFO */
typedef struct {
    ngx_str_t                 server;      /* name and version */
    u_char                    server_buf[NGX_HTTP_DSEM_SERVER_LEN];
    ngx_str_t                 policy;      /* of eviction; or null */
    u_char                    policy_buf[NGX_HTTP_DSEM_SERVER_LEN];
    ngx_uint_t                version;     /* of Redis; 0: unknown, Valkey */
    unsigned                  replica:1;
} ngx_http_dsem_info_t;


void ngx_http_dsem_info_read(ngx_http_dsem_info_t *info, char *text);
void ngx_http_dsem_info_log(ngx_http_dsem_info_t *info, ngx_str_t *name,
    ngx_uint_t replicated);


#endif /* _NGX_HTTP_DSEM_INFO_H_INCLUDED_ */
