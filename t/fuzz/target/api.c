
/*
 * Target: what the API reads.
 *
 * The first byte says what the rest is: "o" the body of an order, "s" that of
 * the removal of a session, "n" the name of a semaphore in the path.  A body
 * that is accepted has only values in their bounds, and means the same when it
 * is written again.  A rejected one has a sentence of bounded length.  A name
 * has the form that names have in keys, and this form is a name again.
 */


#include "target.h"
#include <ctype.h>
#include <stdio.h>
#include "ngx_http_dsem_api_body.h"
#include "ngx_http_dsem_api_json.h"
#include "ngx_http_dsem_key.h"


#define API_MAX_LIMIT  1000000000


static void api_body(ngx_http_dsem_api_member_t *members, ngx_str_t *body);
static ngx_int_t api_parse(ngx_http_dsem_api_member_t *members,
    ngx_str_t *body);
static void api_again(ngx_http_dsem_api_member_t *members);
static void api_name(ngx_str_t *name);
static void api_json(ngx_str_t *value);
static size_t api_character(u_char *p, u_char *last);


static ngx_http_dsem_api_member_t  api_order[] = {
    { ngx_string("limit"), NGX_HTTP_DSEM_API_NUMBER|NGX_HTTP_DSEM_API_NULL,
      API_MAX_LIMIT, "a whole number from 0 to 1000000000, or null", 0, 0 },
    { ngx_string("paused"), NGX_HTTP_DSEM_API_FLAG, 0, "true or false",
      0, 0 },
    { ngx_null_string, 0, 0, NULL, 0, 0 }
};


static ngx_http_dsem_api_member_t  api_session[] = {
    { ngx_string("force"), NGX_HTTP_DSEM_API_FLAG, 0, "true or false", 0, 0 },
    { ngx_null_string, 0, 0, NULL, 0, 0 }
};


FUZZ_TARGET(api)(const uint8_t *data, size_t size)
{
    ngx_str_t  text;

    if (size == 0) {
        return 0;
    }

    fuzz_copy(&text, data + 1, size - 1);

    switch (data[0]) {

    case 'o':
        api_body(api_order, &text);
        break;

    case 's':
        api_body(api_session, &text);
        break;

    case 'n':
        if (text.len) {
            api_name(&text);
        }
    }

    free(text.data);

    return 0;
}


static void
api_body(ngx_http_dsem_api_member_t *members, ngx_str_t *body)
{
    size_t                       i;
    ngx_uint_t                   braces;
    ngx_http_dsem_api_member_t  *member;

    if (api_parse(members, body) != NGX_OK) {
        return;
    }

    braces = 0;

    for (i = 0; i < body->len; i++) {
        fuzz_check(body->data[i]
                   && strchr("{}\":, \t\r\n0123456789acedflmnopirstu",
                             body->data[i]));
        braces += (body->data[i] == '{');
    }

    fuzz_check(braces == 1);

    for (member = members; member->name.len; member++) {
        fuzz_check(member->kind == 0 || (member->kind & member->kinds));

        switch (member->kind) {

        case NGX_HTTP_DSEM_API_NUMBER:
            fuzz_check(member->value >= 0 && member->value <= member->max);
            break;

        case NGX_HTTP_DSEM_API_FLAG:
            fuzz_check(member->value == 0 || member->value == 1);
            break;

        default:
            fuzz_check(member->value == 0);
        }
    }

    api_again(members);
}


static ngx_int_t
api_parse(ngx_http_dsem_api_member_t *members, ngx_str_t *body)
{
    u_char                      sentence[512];
    ngx_str_t                   rest, error;
    const char                 *fmt;
    ngx_http_dsem_api_fault_t   fault;

    rest = *body;
    fmt = ngx_http_dsem_api_body_parse(&rest, members, &fault);

    if (fmt == NULL) {
        return NGX_OK;
    }

    error.data = sentence;
    error.len = ngx_snprintf(sentence, sizeof(sentence), fmt, &fault.name,
                             fault.must)
                - sentence;

    fuzz_check(error.len && error.len < 256);
    api_json(&error);

    return NGX_ERROR;
}


static void
api_again(ngx_http_dsem_api_member_t *members)
{
    char                        *p, text[256];
    ngx_str_t                    body;
    ngx_uint_t                   i, kinds[4];
    ngx_int_t                    values[4];
    ngx_http_dsem_api_member_t  *member;

    p = text;
    *p++ = '{';

    for (i = 0; members[i].name.len; i++) {
        member = &members[i];

        kinds[i] = member->kind;
        values[i] = member->value;

        if (member->kind == 0) {
            continue;
        }

        p += sprintf(p, "%s\"%s\":", p == text + 1 ? "" : ",",
                     member->name.data);

        switch (member->kind) {

        case NGX_HTTP_DSEM_API_NUMBER:
            p += sprintf(p, "%ld", (long) member->value);
            break;

        case NGX_HTTP_DSEM_API_NULL:
            p += sprintf(p, "null");
            break;

        default:
            p += sprintf(p, "%s", member->value ? "true" : "false");
        }
    }

    *p++ = '}';

    fuzz_copy(&body, text, p - text);

    fuzz_check(api_parse(members, &body) == NGX_OK);

    for (i = 0; members[i].name.len; i++) {
        fuzz_check(members[i].kind == kinds[i]);
        fuzz_check(members[i].value == values[i]);
    }

    free(body.data);
}


static void
api_name(ngx_str_t *name)
{
    char         hex[3];
    u_char       ch;
    size_t       i;
    ngx_str_t    key, again, plain;
    ngx_pool_t  *pool;

    pool = ngx_create_pool(1024, ngx_cycle->log);

    api_json(name);

    key = *name;
    fuzz_check(ngx_http_dsem_key_read(pool, &key) == NGX_OK);
    fuzz_check(key.len && key.len <= NGX_HTTP_DSEM_MAX_NAME);

    for (i = 0; i < key.len; i++) {
        ch = key.data[i];

        fuzz_check(ngx_http_dsem_key_plain(ch) || ch == '%' || ch == '~');
        fuzz_check(ch != '~' || i == NGX_HTTP_DSEM_KEY_HEAD);
    }

    again = key;
    fuzz_check(ngx_http_dsem_key_read(pool, &again) == NGX_OK);
    fuzz_check(again.len == key.len
               && memcmp(again.data, key.data, key.len) == 0);

    /* the same by other means */

    plain.data = ngx_palloc(pool, name->len);
    plain.len = 0;

    for (i = 0; i < name->len; i++) {
        ch = name->data[i];

        if (ch == '%' && name->len - i > 2
            && isxdigit(name->data[i + 1]) && isxdigit(name->data[i + 2]))
        {
            hex[0] = name->data[++i];
            hex[1] = name->data[++i];
            hex[2] = '\0';

            ch = (u_char) strtoul(hex, NULL, 16);
        }

        plain.data[plain.len++] = ch;
    }

    if (memchr(name->data, '~', name->len) == NULL) {
        fuzz_check(ngx_http_dsem_key_encode(pool, &plain, &again) == NGX_OK);
        fuzz_check(again.len == key.len
                   && memcmp(again.data, key.data, key.len) == 0);
    }

    ngx_destroy_pool(pool);
}


/* any bytes become one string of JSON, in valid UTF-8 */

static void
api_json(ngx_str_t *value)
{
    off_t                      size;
    u_char                    *p, *last;
    ngx_pool_t                *pool;
    ngx_chain_t               *cl;
    ngx_http_dsem_api_text_t   text;

    pool = ngx_create_pool(1024, ngx_cycle->log);

    ngx_http_dsem_api_text_init(&text, pool);
    ngx_http_dsem_json_string(&text, NULL, value);

    cl = ngx_http_dsem_api_text_end(&text, &size);
    fuzz_check(cl && size >= 2);

    if (cl->next == NULL) {
        p = cl->buf->pos;
        last = cl->buf->last - 1;

        fuzz_check(*p == '"' && *last == '"');

        for (p++; p < last; p += api_character(p, last)) {
            /* void */
        }
    }

    ngx_destroy_pool(pool);
}


/* bytes of one character of a string of JSON */

static size_t
api_character(u_char *p, u_char *last)
{
    size_t    i, len;
    uint32_t  code;

    static uint32_t  least[] = { 0, 0, 0x80, 0x800, 0x10000 };

    if (*p == '\\') {
        fuzz_check(last - p >= 6 && p[1] == 'u');

        for (i = 2; i < 6; i++) {
            fuzz_check(strchr("0123456789abcdef", p[i]) && p[i]);
        }

        return 6;
    }

    fuzz_check(*p >= 0x20 && *p != 0x7f && *p != '"' && *p != '<');

    if (*p < 0x80) {
        return 1;
    }

    len = (*p >= 0xf0) ? 4 : (*p >= 0xe0) ? 3 : 2;

    fuzz_check(*p >= 0xc2 && *p <= 0xf4 && last - p >= (ssize_t) len);

    code = *p & (0xff >> (len + 1));

    for (i = 1; i < len; i++) {
        fuzz_check((p[i] & 0xc0) == 0x80);
        code = (code << 6) | (p[i] & 0x3f);
    }

    fuzz_check(code >= least[len] && code <= 0x10ffff
               && (code < 0xd800 || code > 0xdfff));

    return len;
}
