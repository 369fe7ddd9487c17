
/*
 * Results: each claim of a request is counted once, and may be a sample.
 */


#ifndef _NGX_HTTP_DSEM_RESULT_H_INCLUDED_
#define _NGX_HTTP_DSEM_RESULT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_claim.h"


void ngx_http_dsem_result_verdict(ngx_http_dsem_claim_t *claim,
    ngx_http_dsem_answer_t *answer);
void ngx_http_dsem_result_timeout(ngx_http_dsem_claim_t *claim);
void ngx_http_dsem_result_invalid(ngx_http_dsem_claim_t *claim);
void ngx_http_dsem_result_left(ngx_http_dsem_claim_t *claim);
void ngx_http_dsem_result_sample(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claim, ngx_uint_t failed);


#endif /* _NGX_HTTP_DSEM_RESULT_H_INCLUDED_ */
