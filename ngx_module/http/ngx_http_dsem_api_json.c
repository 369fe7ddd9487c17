
/*
 * JSON, as the answers of the API have it.
 *
 * Sets the commas.  A string may have any bytes: control characters, quotes
 * and what has a meaning in HTML are escaped, bytes that are not UTF-8 become
 * U+FFFD, so that each answer is valid JSON.
 *
 * Called by: all of the API that answers with JSON.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_json.h"


/* bytes of the longest key, with all that is around it */
#define NGX_HTTP_DSEM_JSON_KEY  32


static void ngx_http_dsem_json_key(ngx_http_dsem_api_text_t *text,
    const char *key);
static u_char *ngx_http_dsem_json_escape(ngx_http_dsem_api_text_t *text,
    u_char *p, u_char *last);
static size_t ngx_http_dsem_json_utf8(u_char *p, u_char *last);


/* bracket   "{" or "[" */

void
ngx_http_dsem_json_open(ngx_http_dsem_api_text_t *text, const char *key,
    const char *bracket)
{
    ngx_http_dsem_json_key(text, key);
    ngx_http_dsem_api_text_write(text, (u_char *) bracket, 1);

    text->comma = 0;
}


void
ngx_http_dsem_json_close(ngx_http_dsem_api_text_t *text, const char *bracket)
{
    ngx_http_dsem_api_text_write(text, (u_char *) bracket, 1);

    text->comma = 1;
}


/* in one piece, as most of what an answer has is its keys */

static void
ngx_http_dsem_json_key(ngx_http_dsem_api_text_t *text, const char *key)
{
    u_char      *p;
    const char  *k;

    p = ngx_http_dsem_api_text_reserve(text, NGX_HTTP_DSEM_JSON_KEY);
    if (p == NULL) {
        return;
    }

    if (text->comma) {
        *p++ = ',';
    }

    if (key) {
        *p++ = '"';

        for (k = key; *k; k++) {
            *p++ = *k;
        }

        *p++ = '"';
        *p++ = ':';
    }

    text->buf->last = p;
    text->comma = 1;
}


/* a value that needs no escape: a word of JSON, or a number */

void
ngx_http_dsem_json_literal(ngx_http_dsem_api_text_t *text, const char *key,
    const char *value)
{
    ngx_http_dsem_json_key(text, key);
    ngx_http_dsem_api_text_write(text, (u_char *) value, ngx_strlen(value));
}


void
ngx_http_dsem_json_flag(ngx_http_dsem_api_text_t *text, const char *key,
    ngx_uint_t flag)
{
    ngx_http_dsem_json_literal(text, key, flag ? "true" : "false");
}


void
ngx_http_dsem_json_number(ngx_http_dsem_api_text_t *text, const char *key,
    uint64_t n)
{
    ngx_http_dsem_json_key(text, key);
    ngx_http_dsem_api_text_number(text, n);
}


/* a number that is null where it is negative */

void
ngx_http_dsem_json_maybe(ngx_http_dsem_api_text_t *text, const char *key,
    ngx_int_t n)
{
    if (n < 0) {
        ngx_http_dsem_json_literal(text, key, "null");
        return;
    }

    ngx_http_dsem_json_number(text, key, n);
}


void
ngx_http_dsem_json_seconds(ngx_http_dsem_api_text_t *text, const char *key,
    uint64_t msec)
{
    ngx_http_dsem_json_key(text, key);
    ngx_http_dsem_api_text_seconds(text, msec);
}


/* the value may have any bytes */

void
ngx_http_dsem_json_string(ngx_http_dsem_api_text_t *text, const char *key,
    ngx_str_t *value)
{
    u_char  *p, *first, *last;

    ngx_http_dsem_json_key(text, key);
    ngx_http_dsem_api_text_put(text, "\"");

    p = value->data;
    last = p + value->len;

    while (p < last) {
        first = p;

        while (p < last
               && *p >= 0x20 && *p < 0x7f && !ngx_strchr("\"\\<>&'", *p))
        {
            p++;
        }

        ngx_http_dsem_api_text_write(text, first, p - first);

        if (p < last) {
            p = ngx_http_dsem_json_escape(text, p, last);
        }
    }

    ngx_http_dsem_api_text_put(text, "\"");
}


/* one character that does not, returns the next */

static u_char *
ngx_http_dsem_json_escape(ngx_http_dsem_api_text_t *text, u_char *p,
    u_char *last)
{
    size_t  len;
    u_char  hex[2];

    if (*p < 0x80) {
        (void) ngx_hex_dump(hex, p, 1);

        ngx_http_dsem_api_text_put(text, "\\u00");
        ngx_http_dsem_api_text_write(text, hex, 2);

        return p + 1;
    }

    len = ngx_http_dsem_json_utf8(p, last);

    if (len == 0) {
        ngx_http_dsem_api_text_put(text, "\\ufffd");
        return p + 1;
    }

    ngx_http_dsem_api_text_write(text, p, len);

    return p + len;
}


/* bytes of a character; 0: it is cut, too long, or none at all */

static size_t
ngx_http_dsem_json_utf8(u_char *p, u_char *last)
{
    u_char    *q, *next;
    uint32_t   code;

    /* older nginx takes a byte from 0xf8 on as the first of four */

    if (*p > 0xf4) {
        return 0;
    }

    next = p;
    code = ngx_utf8_decode(&next, last - p);

    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return 0;
    }

    /* the function of nginx takes any byte from 0x80 on as a later one */

    for (q = p + 1; q < next; q++) {
        if ((*q & 0xc0) != 0x80) {
            return 0;
        }
    }

    return next - p;
}
