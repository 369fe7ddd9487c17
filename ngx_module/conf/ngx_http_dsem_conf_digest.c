
/*
 * Digests: of the limits of a configuration, which is its id in Redis; and of
 * where its state is in Redis.
 *
 * Two configurations with the same literal limits have the same id, whatever
 * else differs and in whatever order the limits are written: a reload that
 * changes no limit changes nothing in Redis.
 *
 * Called by: conf, when all directives have been read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_sha1.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_text.h"


/* hexadecimal digits of the digest: 64 bits distinguish configurations */
#define NGX_HTTP_DSEM_DIGEST_LEN  16


static ngx_int_t ngx_http_dsem_conf_digest_id(ngx_conf_t *cf,
    ngx_http_dsem_limits_settings_t *limits);


/* sets dmcf->literals, and dmcf->limits; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_conf_digest(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    ngx_uint_t                        i;
    ngx_array_t                      *literals;
    ngx_http_dsem_limits_pair_t      *pair;
    ngx_http_dsem_limits_settings_t  *limits;

    limits = &dmcf->limits;
    literals = &dmcf->literals;

    if (ngx_array_init(literals, cf->pool, 4,
                       sizeof(ngx_http_dsem_limits_pair_t))
        != NGX_OK
        || ngx_http_dsem_check_literals(dmcf->check, literals) != NGX_OK)
    {
        return NGX_ERROR;
    }

    pair = literals->elts;

    ngx_qsort(pair, literals->nelts, sizeof(ngx_http_dsem_limits_pair_t),
              ngx_http_dsem_text_order);

    limits->pairs = ngx_palloc(cf->pool, literals->nelts
                                         * sizeof(ngx_http_dsem_limits_pair_t)
                                         + 1);
    if (limits->pairs == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < literals->nelts; i++) {
        if (pair[i].limit != NGX_CONF_UNSET) {
            limits->pairs[limits->npairs++] = pair[i];
        }
    }

    if (limits->npairs == 0) {
        ngx_str_set(&limits->id, "-");
        return NGX_OK;
    }

    return ngx_http_dsem_conf_digest_id(cf, limits);
}


static ngx_int_t
ngx_http_dsem_conf_digest_id(ngx_conf_t *cf,
    ngx_http_dsem_limits_settings_t *limits)
{
    u_char                       *last;
    u_char                        digest[20], number[3 * NGX_INT_T_LEN + 4];
    ngx_uint_t                    i;
    ngx_sha1_t                    sha1;
    ngx_http_dsem_limits_pair_t  *pair;

    limits->id.len = NGX_HTTP_DSEM_DIGEST_LEN;
    limits->id.data = ngx_pnalloc(cf->pool, NGX_HTTP_DSEM_DIGEST_LEN);
    if (limits->id.data == NULL) {
        return NGX_ERROR;
    }

    ngx_sha1_init(&sha1);

    /* an encoded name has no blank */

    for (i = 0; i < limits->npairs; i++) {
        pair = &limits->pairs[i];

        last = pair->max ? ngx_sprintf(number, " %i %i %i\n", pair->limit,
                                       pair->min, pair->max)
                         : ngx_sprintf(number, " %i\n", pair->limit);

        ngx_sha1_update(&sha1, pair->name.data, pair->name.len);
        ngx_sha1_update(&sha1, number, last - number);
    }

    ngx_sha1_final(digest, &sha1);

    (void) ngx_hex_dump(limits->id.data, digest,
                        NGX_HTTP_DSEM_DIGEST_LEN / 2);

    return NGX_OK;
}


/*
 * Sets dmcf->space, when all else is set: configurations that name other
 * servers, another database or prefix have another one.  What a version keeps
 * in Redis may differ, too.  Room is left for the number of a shard.
 */

void
ngx_http_dsem_conf_digest_space(ngx_http_dsem_main_conf_t *dmcf)
{
    u_char                           digest[20], number[2 * NGX_INT_T_LEN + 3];
    u_char                          *last;
    ngx_uint_t                       i;
    ngx_sha1_t                       sha1;
    ngx_http_dsem_redis_settings_t  *redis;

    redis = dmcf->redis;

    ngx_sha1_init(&sha1);

    for (i = 0; i < redis->nservers; i++) {
        ngx_sha1_update(&sha1, redis->servers[i].name.data,
                        redis->servers[i].name.len);
        ngx_sha1_update(&sha1, "\n", 1);
    }

    last = ngx_sprintf(number, "\n%ui %ui\n", (ngx_uint_t) redis->mode,
                       redis->login.db);

    ngx_sha1_update(&sha1, number, last - number);
    ngx_sha1_update(&sha1, redis->master.data, redis->master.len);
    ngx_sha1_update(&sha1, "\n" NGX_HTTP_DSEM_VERSION "\n",
                    sizeof("\n" NGX_HTTP_DSEM_VERSION "\n") - 1);
    ngx_sha1_update(&sha1, dmcf->prefix.data, dmcf->prefix.len);

    ngx_sha1_final(digest, &sha1);

    ngx_memcpy(&dmcf->space, digest, sizeof(dmcf->space));

    dmcf->space -= dmcf->space % (NGX_HTTP_DSEM_SHARDS + 1);
    dmcf->space += (dmcf->space == 0);
}
