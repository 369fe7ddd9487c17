
/*
 * Claims: what the limits of a location ask for, for one request.
 */


#ifndef _NGX_HTTP_DSEM_CLAIM_H_INCLUDED_
#define _NGX_HTTP_DSEM_CLAIM_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_semaphore.h"


typedef struct {
    ngx_http_dsem_ask_t        ask;
    ngx_int_t                  timeout;    /* ms */
    ngx_http_dsem_ticket_t    *ticket;     /* NULL: none */
    ngx_msec_t                 waits;      /* ms, since when */
    ngx_int_t                  position;   /* in the queue, before its server
                                              had failed; 0: none */
    ngx_uint_t                 states;     /* of upstreams, before a redirect;
                                              of "limit=auto" only */
    ngx_http_upstream_t       *busy;       /* that is at the server of a pool's
                                              permit now; NULL: none */
    unsigned                   counted:1;  /* it has its result */
    unsigned                   unusable:1; /* of a pool: no server is */
    unsigned                   again:1;    /* its server had failed */
    unsigned                   came:1;     /* one has been there */
    unsigned                   ends:1;     /* goes back when none is there */
    unsigned                   spent:1;    /* its server failed the request */
} ngx_http_dsem_claim_t;


#define ngx_http_dsem_claim_granted(claim)                                    \
    ((claim)->ticket                                                          \
     && (claim)->ticket->answer.verdict == NGX_HTTP_DSEM_VERDICT_GRANTED)


/* a value that is not valid; text may come from a client */
typedef struct {
    ngx_http_dsem_value_t     *value;      /* NULL: it names no pool */
    ngx_str_t                  text;
} ngx_http_dsem_fault_t;


ngx_int_t ngx_http_dsem_claims_evaluate(ngx_http_request_t *r,
    ngx_array_t *limits, ngx_http_dsem_claim_t *claims, ngx_uint_t *nclaims,
    ngx_http_dsem_fault_t *fault);
void ngx_http_dsem_claim_log(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claim, ngx_http_dsem_fault_t *fault);
ngx_uint_t ngx_http_dsem_claim_same(ngx_http_dsem_claim_t *one,
    ngx_http_dsem_claim_t *other);


#endif /* _NGX_HTTP_DSEM_CLAIM_H_INCLUDED_ */
