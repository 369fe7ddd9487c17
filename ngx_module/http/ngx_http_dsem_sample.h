
/*
 * Samples: how a request ended at the upstream, for "limit=auto".
 */


#ifndef _NGX_HTTP_DSEM_SAMPLE_H_INCLUDED_
#define _NGX_HTTP_DSEM_SAMPLE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_claim.h"


void ngx_http_dsem_sample(ngx_http_request_t *r,
    ngx_http_dsem_claim_t *claim, ngx_uint_t failed);


#endif /* _NGX_HTTP_DSEM_SAMPLE_H_INCLUDED_ */
