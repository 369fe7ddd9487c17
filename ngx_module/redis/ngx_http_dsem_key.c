
/*
 * Names of semaphores, and every key and channel in Redis.
 *
 * A name may hold anything that a client sends.  Its encoded form holds only
 * [A-Za-z0-9._:-], "%" and, where a digest replaces the rest, one "~": no
 * brace, no blank, no control character.  Two names never have one encoded
 * form (but for a collision of SHA-1): "%" and "~" of a name are themselves
 * encoded.  The hash tag comes first in every key, so no name can touch it.
 * It is the number of the shard: all keys of a shard are in one slot.
 *
 * Called by: claim, conf_limit, api and api_change (the name of a semaphore),
 * conf (bytes that need no encoding), shards and limits (the shard of a name),
 * redis, account, fair and subscription (keys and channels).  The keys of
 * "fair" are encoded as names are.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include "ngx_http_dsem_key.h"


#define NGX_HTTP_DSEM_SHA1_LEN   20


static ngx_uint_t ngx_http_dsem_key_crc16(u_char *p, size_t len);
static u_char *ngx_http_dsem_key_write(ngx_str_t *key, u_char *p,
    ngx_str_t *shard, const char *part, ngx_str_t *name);
static ngx_int_t ngx_http_dsem_key_digest(ngx_pool_t *pool, ngx_str_t *name,
    ngx_str_t *encoded);
static ngx_uint_t ngx_http_dsem_key_is_digest(ngx_str_t *name);


static uint32_t  ngx_http_dsem_key_plain_chars[] = {
    0x00000000, /* 0000 0000 0000 0000  0000 0000 0000 0000 */

                /* ?>=< ;:98 7654 3210  /.-, +*)( '&%$ #"!  */
    0x07ff6000, /* 0000 0111 1111 1111  0110 0000 0000 0000 */

                /* _^]\ [ZYX WVUT SRQP  ONML KJIH GFED CBA@ */
    0x87fffffe, /* 1000 0111 1111 1111  1111 1111 1111 1110 */

                /*  ~}| {zyx wvut srqp  onml kjih gfed cba` */
    0x07fffffe, /* 0000 0111 1111 1111  1111 1111 1111 1110 */

    0x00000000, /* 0000 0000 0000 0000  0000 0000 0000 0000 */
    0x00000000, /* 0000 0000 0000 0000  0000 0000 0000 0000 */
    0x00000000, /* 0000 0000 0000 0000  0000 0000 0000 0000 */
    0x00000000  /* 0000 0000 0000 0000  0000 0000 0000 0000 */
};


/* of the only shard on a single server; others have other digits */
static char  ngx_http_dsem_key_tag[] = ":{0}";


/*
 * The keys that all scripts share.
 *
 * keys     result; ngx_http_dsem_keys_free() frees it
 * prefix   "dsem_prefix"
 * shard    number below NGX_HTTP_DSEM_SHARDS
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_keys_create(ngx_http_dsem_keys_t *keys, ngx_str_t *prefix,
    ngx_uint_t shard)
{
    u_char     *p;
    u_char      tag[sizeof(ngx_http_dsem_key_tag)];
    ngx_str_t   none;

    ngx_str_set(&none, "");

    keys->shard.len = prefix->len + sizeof(ngx_http_dsem_key_tag) - 1;

    p = ngx_alloc(4 * keys->shard.len + sizeof(":sessions:census:idle") - 1,
                  ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    keys->shard.data = p;

    ngx_memcpy(tag, ngx_http_dsem_key_tag, sizeof(ngx_http_dsem_key_tag));
    tag[2] += (u_char) shard;

    /* a slot is that of what is between the braces */
    keys->slot = ngx_http_dsem_key_crc16(&tag[2], 1) % NGX_HTTP_DSEM_SLOTS;

    p = ngx_cpymem(p, prefix->data, prefix->len);
    p = ngx_cpymem(p, tag, sizeof(ngx_http_dsem_key_tag) - 1);

    p = ngx_http_dsem_key_write(&keys->registry[NGX_HTTP_DSEM_KEY_SESSIONS], p,
                                &keys->shard, ":sessions", &none);
    p = ngx_http_dsem_key_write(&keys->registry[NGX_HTTP_DSEM_KEY_CENSUS], p,
                                &keys->shard, ":census", &none);
    (void) ngx_http_dsem_key_write(&keys->registry[NGX_HTTP_DSEM_KEY_IDLE], p,
                                   &keys->shard, ":idle", &none);

    return NGX_OK;
}


/* that of this encoded name, where there are several */

ngx_uint_t
ngx_http_dsem_key_shard(ngx_str_t *name)
{
    return ngx_http_dsem_key_crc16(name->data, name->len)
           % NGX_HTTP_DSEM_SHARDS;
}


/* as Redis computes it: XMODEM, polynomial 0x1021 */

static ngx_uint_t
ngx_http_dsem_key_crc16(u_char *p, size_t len)
{
    ngx_uint_t  i, crc;

    crc = 0;

    while (len--) {
        crc ^= (ngx_uint_t) *p++ << 8;

        for (i = 0; i < 8; i++) {
            crc = ((crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
        }
    }

    return crc;
}


void
ngx_http_dsem_keys_free(ngx_http_dsem_keys_t *keys)
{
    ngx_free(keys->shard.data);
}


/* bytes of the key of a semaphore, of its queue or tags, or of a channel */

size_t
ngx_http_dsem_key_len(ngx_http_dsem_keys_t *keys, ngx_str_t *name)
{
    return keys->shard.len + sizeof(":s:") - 1 + name->len;
}


/*
 * Writes the keys of a name, one behind the other.
 *
 * parts   a letter for each: "s" the hash of a semaphore, "q" its queue, "f"
 *         the tags of its fair queue, "n" the dropped tickets that replies have
 *         named, "a" what "limit=auto" has seen, "c" the channel of a session
 * name    of the semaphore or session
 * key     result, as many as parts
 * p       where they are written, ngx_http_dsem_key_len() bytes for each
 *
 * Returns the end.
 */

u_char *
ngx_http_dsem_key_parts(ngx_http_dsem_keys_t *keys, const char *parts,
    ngx_str_t *name, ngx_str_t *key, u_char *p)
{
    /* R13: keys and channels: these, and key_tag */
    char  part[] = ":?:";

    for ( /* void */ ; *parts; parts++) {
        part[1] = *parts;
        p = ngx_http_dsem_key_write(key++, p, &keys->shard, part, name);
    }

    return p;
}


static u_char *
ngx_http_dsem_key_write(ngx_str_t *key, u_char *p, ngx_str_t *shard,
    const char *part, ngx_str_t *name)
{
    key->data = p;

    p = ngx_cpymem(p, shard->data, shard->len);
    p = ngx_cpymem(p, part, ngx_strlen(part));
    p = ngx_cpymem(p, name->data, name->len);

    key->len = p - key->data;

    return p;
}


/*
 * Gives the encoded form of a name.
 *
 * pool      where a form that differs from the name is allocated
 * name      any bytes, any length
 * encoded   result, at most NGX_HTTP_DSEM_MAX_NAME bytes, not terminated by
 *           a zero; the name's own bytes where nothing needs encoding
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_key_encode(ngx_pool_t *pool, ngx_str_t *name,
    ngx_str_t *encoded)
{
    size_t   len;
    u_char  *p, *last;

    len = name->len;
    last = name->data + name->len;

    for (p = name->data; p < last; p++) {
        if (!ngx_http_dsem_key_plain(*p)) {
            len += 2;
        }
    }

    if (len > NGX_HTTP_DSEM_MAX_NAME) {
        return ngx_http_dsem_key_digest(pool, name, encoded);
    }

    if (len == name->len) {
        *encoded = *name;
        return NGX_OK;
    }

    encoded->data = ngx_pnalloc(pool, len);
    if (encoded->data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_http_dsem_key_escape(encoded->data, name->data, name->len);

    encoded->len = len;

    return NGX_OK;
}


/*
 * Whether a byte of a name stands for itself in the encoded form, that
 * is, whether it is one of [A-Za-z0-9._:-].  Returns zero or not zero.
 */

ngx_uint_t
ngx_http_dsem_key_plain(u_char ch)
{
    return ngx_http_dsem_key_plain_chars[ch >> 5] & (1U << (ch & 0x1f));
}


static ngx_int_t
ngx_http_dsem_key_digest(ngx_pool_t *pool, ngx_str_t *name,
    ngx_str_t *encoded)
{
    u_char      *p;
    u_char       head[NGX_HTTP_DSEM_KEY_HEAD * 3];
    u_char       sha1[NGX_HTTP_DSEM_SHA1_LEN];
    ngx_sha1_t   ctx;

    encoded->len = NGX_HTTP_DSEM_KEY_DIGEST;

    encoded->data = ngx_pnalloc(pool, encoded->len);
    if (encoded->data == NULL) {
        return NGX_ERROR;
    }

    /* no name this long has less than the head: a third of it is longer */

    (void) ngx_http_dsem_key_escape(head, name->data,
                                     NGX_HTTP_DSEM_KEY_HEAD);

    ngx_sha1_init(&ctx);
    ngx_sha1_update(&ctx, name->data, name->len);
    ngx_sha1_final(sha1, &ctx);

    p = ngx_cpymem(encoded->data, head, NGX_HTTP_DSEM_KEY_HEAD);
    *p++ = '~';
    (void) ngx_hex_dump(p, sha1, NGX_HTTP_DSEM_SHA1_LEN);

    return NGX_OK;
}


/* writes up to three bytes for each one, returns the end */

u_char *
ngx_http_dsem_key_escape(u_char *dst, u_char *src, size_t len)
{
    static const u_char  hex[] = "0123456789ABCDEF";

    while (len--) {

        if (ngx_http_dsem_key_plain(*src)) {
            *dst++ = *src++;
            continue;
        }

        *dst++ = '%';
        *dst++ = hex[*src >> 4];
        *dst++ = hex[*src++ & 0xf];
    }

    return dst;
}


/*
 * Reads a name as people write it: as it is in keys, or plain.  "%" with two
 * hexadecimal digits is one byte, all other bytes stand for themselves.
 *
 * pool   where the encoded form is allocated
 * name   what was written, then its encoded form, which is the same name when
 *        it is read again
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_key_read(ngx_pool_t *pool, ngx_str_t *name)
{
    u_char     *p, *last;
    ngx_int_t   byte;
    ngx_str_t   plain;

    if (ngx_http_dsem_key_is_digest(name)) {
        return NGX_OK;
    }

    plain.data = ngx_pnalloc(pool, name->len);
    if (plain.data == NULL) {
        return NGX_ERROR;
    }

    plain.len = 0;
    last = name->data + name->len;

    for (p = name->data; p < last; p++) {

        byte = *p;

        if (*p == '%' && last - p > 2) {
            byte = ngx_hextoi(p + 1, 2);

            if (byte == NGX_ERROR) {
                byte = '%';

            } else {
                p += 2;
            }
        }

        plain.data[plain.len++] = (u_char) byte;
    }

    return ngx_http_dsem_key_encode(pool, &plain, name);
}


/* of a long name: no plain name has "~" in its encoded form */

static ngx_uint_t
ngx_http_dsem_key_is_digest(ngx_str_t *name)
{
    size_t  i;

    if (name->len != NGX_HTTP_DSEM_KEY_DIGEST
        || name->data[NGX_HTTP_DSEM_KEY_HEAD] != '~')
    {
        return 0;
    }

    for (i = 0; i < NGX_HTTP_DSEM_KEY_HEAD; i++) {
        if (name->data[i] != '%' && !ngx_http_dsem_key_plain(name->data[i])) {
            return 0;
        }
    }

    for (i = NGX_HTTP_DSEM_KEY_HEAD + 1; i < name->len; i++) {
        if (!((name->data[i] >= '0' && name->data[i] <= '9')
              || (name->data[i] >= 'a' && name->data[i] <= 'f')))
        {
            return 0;
        }
    }

    return 1;
}
