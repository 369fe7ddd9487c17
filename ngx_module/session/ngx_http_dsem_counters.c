
/*
 * Counters: none yet.
 *
 * To be replaced.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"


ngx_array_t *
ngx_http_dsem_counters_read(ngx_pool_t *pool)
{
    return ngx_array_create(pool, 1, sizeof(ngx_http_dsem_figures_t));
}
