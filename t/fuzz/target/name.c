
/*
 * Target: names of semaphores, and keys.
 *
 * The first line is one name, the rest another.  An encoded name has only
 * bytes that are safe everywhere and a bounded length, a short one can be
 * decoded, and two names never have one form.  Keys begin with the hash tag
 * of their shard and have no other brace.
 */


#include "target.h"
#include <ctype.h>
#include <stdio.h>
#include "ngx_http_dsem_key.h"


static void name_one(ngx_pool_t *pool, ngx_str_t *name, ngx_str_t *encoded);
static void name_keys(ngx_str_t *encoded, ngx_uint_t shard);
static void name_key(ngx_str_t *key, u_char *end, size_t len,
    const char *head, ngx_str_t *encoded);


FUZZ_TARGET(name)(const uint8_t *data, size_t size)
{
    ngx_str_t    line, one, two, encoded[2];
    ngx_uint_t   i, same;
    ngx_pool_t  *pool;

    pool = ngx_create_pool(1024, ngx_cycle->log);

    fuzz_line(&line, &data, &size);
    fuzz_copy(&one, line.data, line.len);
    fuzz_copy(&two, data, size);

    name_one(pool, &one, &encoded[0]);
    name_one(pool, &two, &encoded[1]);

    same = (one.len == two.len && memcmp(one.data, two.data, one.len) == 0);

    fuzz_check(same == (encoded[0].len == encoded[1].len
                        && memcmp(encoded[0].data, encoded[1].data,
                                  encoded[0].len) == 0));

    for (i = 0; i < NGX_HTTP_DSEM_SHARDS; i++) {
        name_keys(&encoded[0], i);
    }

    fuzz_check(ngx_http_dsem_key_shard(&encoded[0]) < NGX_HTTP_DSEM_SHARDS);

    ngx_destroy_pool(pool);

    free(one.data);
    free(two.data);

    return 0;
}


/* a form that can be decoded gives the name back */

static void
name_one(ngx_pool_t *pool, ngx_str_t *name, ngx_str_t *encoded)
{
    char     hex[3];
    u_char   ch;
    size_t   i, n;

    fuzz_check(ngx_http_dsem_key_encode(pool, name, encoded) == NGX_OK);
    fuzz_check(encoded->len <= NGX_HTTP_DSEM_MAX_NAME);

    for (i = 0; i < encoded->len; i++) {
        ch = encoded->data[i];

        fuzz_check(isalnum(ch) || (ch && strchr("._:-%~", ch)));
        fuzz_check(ch != '~' || i == NGX_HTTP_DSEM_KEY_HEAD);
    }

    if (encoded->len > NGX_HTTP_DSEM_KEY_HEAD
        && encoded->data[NGX_HTTP_DSEM_KEY_HEAD] == '~')
    {
        fuzz_check(encoded->len == NGX_HTTP_DSEM_KEY_DIGEST);
        fuzz_check(3 * name->len > NGX_HTTP_DSEM_MAX_NAME);
        return;
    }

    for (i = 0, n = 0; i < encoded->len; i++, n++) {
        ch = encoded->data[i];

        if (ch == '%') {
            fuzz_check(encoded->len - i > 2);

            hex[0] = encoded->data[i + 1];
            hex[1] = encoded->data[i + 2];
            hex[2] = '\0';

            ch = (u_char) strtoul(hex, NULL, 16);
            i += 2;
        }

        fuzz_check(n < name->len && ch == name->data[n]);
    }

    fuzz_check(n == name->len);
}


static void
name_keys(ngx_str_t *encoded, ngx_uint_t shard)
{
    char                  head[32];
    u_char               *p, *buf;
    size_t                len;
    ngx_str_t             key, prefix = ngx_string("dsem");
    ngx_http_dsem_keys_t  keys;

    fuzz_check(ngx_http_dsem_keys_create(&keys, &prefix, shard) == NGX_OK);
    fuzz_check(keys.slot < NGX_HTTP_DSEM_SLOTS);

    len = ngx_http_dsem_key_len(&keys, encoded);
    buf = malloc(len);

    sprintf(head, "dsem:{%lu}:s:", (unsigned long) shard);
    p = ngx_http_dsem_key_parts(&keys, "s", encoded, &key, buf);
    name_key(&key, p, len, head, encoded);

    sprintf(head, "dsem:{%lu}:q:", (unsigned long) shard);
    p = ngx_http_dsem_key_parts(&keys, "q", encoded, &key, buf);
    name_key(&key, p, len, head, encoded);

    sprintf(head, "dsem:{%lu}:c:", (unsigned long) shard);
    p = ngx_http_dsem_key_parts(&keys, "c", encoded, &key, buf);
    name_key(&key, p, len, head, encoded);

    free(buf);

    ngx_http_dsem_keys_free(&keys);
}


static void
name_key(ngx_str_t *key, u_char *end, size_t len, const char *head,
    ngx_str_t *encoded)
{
    fuzz_check(key->len == len && end == key->data + len);
    fuzz_check(len == strlen(head) + encoded->len);
    fuzz_check(memcmp(key->data, head, strlen(head)) == 0);
    fuzz_check(memcmp(key->data + strlen(head), encoded->data, encoded->len)
               == 0);
}
