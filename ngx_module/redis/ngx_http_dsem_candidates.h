
/*
 * Candidates: servers that may be asked for the one to connect to.
 */


#ifndef _NGX_HTTP_DSEM_CANDIDATES_H_INCLUDED_
#define _NGX_HTTP_DSEM_CANDIDATES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_settings.h"


typedef struct {
    ngx_http_dsem_addr_t             at;
    ngx_http_dsem_server_t          *server;  /* NULL: not configured */

    ngx_uint_t                       search;  /* it was last asked in */
    ngx_msec_t                       asked;   /* the last connection */
    unsigned                         asking:1;
} ngx_http_dsem_candidate_t;


typedef struct {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_candidate_t       *elts;    /* those configured are first */
    ngx_uint_t                       n;
    ngx_uint_t                       nconfigured;
    ngx_uint_t                       size;
    ngx_http_dsem_candidate_t       *likely;  /* to be asked first; or NULL */
    unsigned                         unnamed:1;  /* a name that is no address
                                                    is in the log */
} ngx_http_dsem_candidates_t;


/* of MOVED and ASK; host points into the text, empty: that of the sender */
typedef struct {
    ngx_str_t                        host;
    in_port_t                        port;
    ngx_uint_t                       slot;
    unsigned                         ask:1;   /* it has not moved yet */
} ngx_http_dsem_moved_t;


ngx_int_t ngx_http_dsem_candidates_create(
    ngx_http_dsem_candidates_t *candidates,
    ngx_http_dsem_redis_settings_t *settings);

ngx_http_dsem_candidate_t *ngx_http_dsem_candidates_oldest(
    ngx_http_dsem_candidates_t *candidates, ngx_uint_t search);
ngx_int_t ngx_http_dsem_candidates_learn(
    ngx_http_dsem_candidates_t *candidates, ngx_uint_t slot,
    const char *error, ngx_addr_t *from,
    ngx_http_dsem_candidate_t **candidate);
ngx_int_t ngx_http_dsem_candidates_parse(ngx_http_dsem_moved_t *moved,
    const char *error);


#endif /* _NGX_HTTP_DSEM_CANDIDATES_H_INCLUDED_ */
