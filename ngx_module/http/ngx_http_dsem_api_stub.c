
/*
 * Stub.
 *
 * Called by: nothing that stays.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_survey.h"
#include "ngx_http_dsem_order.h"

const ngx_msec_t ngx_http_dsem_counters_bounds[NGX_HTTP_DSEM_NBUCKETS - 1] = {
    1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000 };

ngx_array_t *ngx_http_dsem_counters_read(ngx_pool_t *pool)
{
    ngx_array_t *a = ngx_array_create(pool, 2, sizeof(ngx_http_dsem_figures_t));
    ngx_http_dsem_figures_t *f = ngx_array_push_n(a, 2);
    ngx_memzero(f, 2 * sizeof(*f));
    ngx_str_set(&f[0].name, "reports");
    f[0].counts[0] = 7;
    f[0].wait.buckets[3] = 2; f[0].wait.sum = 1234;
    f[0].nperiods = 2; f[0].periods[1].rejected = 3;
    return a;
}

ngx_int_t ngx_http_dsem_counters_read_one(ngx_str_t *name,
    ngx_http_dsem_figures_t *f)
{
    ngx_memzero(f, sizeof(*f));
    if (name->len != 7 || ngx_memcmp(name->data, "reports", 7)) return NGX_DECLINED;
    f->name = *name;
    return NGX_OK;
}
ngx_int_t ngx_http_dsem_survey_update(ngx_http_dsem_survey_wait_t *wait)
{ return NGX_DECLINED; }
void ngx_http_dsem_survey_cancel(ngx_http_dsem_survey_wait_t *wait) { }
ngx_http_dsem_survey_t *ngx_http_dsem_survey(void) { return NULL; }
ngx_http_dsem_survey_semaphore_t *ngx_http_dsem_survey_find(ngx_str_t *name)
{ return NULL; }
void ngx_http_dsem_survey_redis(ngx_http_dsem_survey_redis_t *redis)
{ ngx_memzero(redis, sizeof(*redis)); }
ngx_int_t ngx_http_dsem_order_set(ngx_http_dsem_order_t *order)
{ return NGX_DECLINED; }
ngx_int_t ngx_http_dsem_order_remove_session(ngx_http_dsem_order_t *order)
{ return NGX_DECLINED; }
void ngx_http_dsem_order_cancel(ngx_http_dsem_order_t *order) { }
