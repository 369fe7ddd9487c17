
/*
 * Memo: what the workers of a node share about limits.
 */


#ifndef _NGX_HTTP_DSEM_MEMO_H_INCLUDED_
#define _NGX_HTTP_DSEM_MEMO_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* a limit of "limit=auto"; changed by limits of all workers */
typedef struct {
    ngx_atomic_t         hash;        /* of the name; 0: free */
    ngx_atomic_t         found;       /* last; 0: none was found yet */
    ngx_atomic_t         probed;      /* in force for a moment; 0: no probe */
    ngx_atomic_t         sampled;     /* monotonic ms, the command of the reply
                                         with these two */
    ngx_atomic_t         in_force;    /* without a probe, plus 1; 0: unknown */
    ngx_atomic_t         sent;        /* monotonic ms, the command of the reply
                                         with that */
} ngx_http_dsem_memo_limit_t;


typedef struct ngx_http_dsem_memo_s  ngx_http_dsem_memo_t;


size_t ngx_http_dsem_memo_size(void);

ngx_http_dsem_memo_limit_t *ngx_http_dsem_memo_limit(
    ngx_http_dsem_memo_t *memo, uint32_t hash);

ngx_uint_t ngx_http_dsem_memo_claim(ngx_http_dsem_memo_t *memo, uint32_t hash,
    ngx_int_t limit, ngx_int_t own);
void ngx_http_dsem_memo_unclaim(ngx_http_dsem_memo_t *memo, uint32_t hash);
ngx_uint_t ngx_http_dsem_memo_claim_order(ngx_http_dsem_memo_t *memo,
    uint32_t hash, uint32_t line);

void ngx_http_dsem_memo_set_lower(ngx_http_dsem_memo_t *memo, ngx_str_t *name,
    uint32_t hash, ngx_int_t own, ngx_int_t limit, ngx_uint_t paused,
    uint64_t sent);
ngx_int_t ngx_http_dsem_memo_lower(ngx_http_dsem_memo_t *memo,
    ngx_str_t *name, uint32_t hash, ngx_int_t own, ngx_int_t seen);
ngx_uint_t ngx_http_dsem_memo_paused(ngx_http_dsem_memo_t *memo,
    ngx_str_t *name, uint32_t hash);

ngx_uint_t ngx_http_dsem_memo_foreign(ngx_http_dsem_memo_t *memo);
ngx_uint_t ngx_http_dsem_memo_foreigners(ngx_http_dsem_memo_t *memo);


#endif /* _NGX_HTTP_DSEM_MEMO_H_INCLUDED_ */
