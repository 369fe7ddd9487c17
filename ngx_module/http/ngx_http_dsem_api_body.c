
/*
 * The bodies that the API reads: one small JSON object.
 *
 * A reader of its own, stricter than JSON: members that are not expected, a
 * member twice, escapes in names, fractions, exponents and nested values are
 * errors.  What is read is exactly what was meant, or nothing changes.
 *
 * Called by: api_change; t/fuzz.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_body.h"


/* bytes of a number that cannot overflow; of a name that is unknown, shown */
#define NGX_HTTP_DSEM_API_DIGITS  18
#define NGX_HTTP_DSEM_API_NAME    64


static const char *ngx_http_dsem_api_body_member(ngx_str_t *rest,
    ngx_http_dsem_api_member_t *members, ngx_http_dsem_api_fault_t *fault);
static void ngx_http_dsem_api_body_value(ngx_str_t *rest,
    ngx_http_dsem_api_member_t *member);
static ngx_uint_t ngx_http_dsem_api_body_is(ngx_str_t *rest,
    const char *word);


/*
 * Reads a whole body, which is used up.
 *
 * members   the expected ones, up to one without a name; kind and value are
 *           the result
 * fault     result, where the body is wrong
 *
 * Returns NULL, or a sentence: the format of one whose arguments are the name
 * of the member and what it must be.
 */

const char *
ngx_http_dsem_api_body_parse(ngx_str_t *body,
    ngx_http_dsem_api_member_t *members, ngx_http_dsem_api_fault_t *fault)
{
    const char                  *error;
    ngx_http_dsem_api_member_t  *member;

    ngx_memzero(fault, sizeof(ngx_http_dsem_api_fault_t));

    for (member = members; member->name.len; member++) {
        member->kind = 0;
        member->value = 0;
    }

    if (!ngx_http_dsem_api_body_is(body, "{")) {
        return "the body must be one JSON object";
    }

    if (!ngx_http_dsem_api_body_is(body, "}")) {

        do {
            error = ngx_http_dsem_api_body_member(body, members, fault);

            if (error) {
                return error;
            }

        } while (ngx_http_dsem_api_body_is(body, ","));

        if (!ngx_http_dsem_api_body_is(body, "}")) {
            return "the body is no valid JSON: \",\" or \"}\" is missing";
        }
    }

    (void) ngx_http_dsem_api_body_is(body, "");

    return body->len ? "the body must end with its JSON object" : NULL;
}


static const char *
ngx_http_dsem_api_body_member(ngx_str_t *rest,
    ngx_http_dsem_api_member_t *members, ngx_http_dsem_api_fault_t *fault)
{
    u_char                      *p, *last;
    size_t                       len;
    ngx_http_dsem_api_member_t  *member;

    if (!ngx_http_dsem_api_body_is(rest, "\"")) {
        return "the body is no valid JSON: the name of a member is missing";
    }

    last = rest->data + rest->len;

    for (p = rest->data; p < last && *p != '"'; p++) {
        if (*p == '\\' || *p < 0x20) {
            return "the name of a member has an escape or a control character";
        }
    }

    if (p == last) {
        return "the body is no valid JSON: a string does not end";
    }

    len = p - rest->data;

    for (member = members; member->name.len; member++) {
        if (member->name.len == len
            && ngx_memcmp(member->name.data, rest->data, len) == 0)
        {
            break;
        }
    }

    fault->name.data = rest->data;
    fault->name.len = ngx_min(len, NGX_HTTP_DSEM_API_NAME);
    fault->must = member->must;

    rest->data = p + 1;
    rest->len -= len + 1;

    if (member->name.len == 0) {
        return "unknown member \"%V\"";
    }

    if (member->kind) {
        return "duplicate member \"%V\"";
    }

    if (!ngx_http_dsem_api_body_is(rest, ":")) {
        return "the body is no valid JSON: \":\" is missing";
    }

    ngx_http_dsem_api_body_value(rest, member);

    return member->kind ? NULL : "\"%V\" must be %s";
}


/* of a number no zero may lead, and no fraction or exponent may follow */

static void
ngx_http_dsem_api_body_value(ngx_str_t *rest,
    ngx_http_dsem_api_member_t *member)
{
    u_char     *p, *last;
    size_t      len;
    ngx_int_t   value;

    if ((member->kinds & NGX_HTTP_DSEM_API_NULL)
        && ngx_http_dsem_api_body_is(rest, "null"))
    {
        member->kind = NGX_HTTP_DSEM_API_NULL;
        return;
    }

    if (member->kinds & NGX_HTTP_DSEM_API_FLAG) {
        member->value = ngx_http_dsem_api_body_is(rest, "true");

        if (member->value || ngx_http_dsem_api_body_is(rest, "false")) {
            member->kind = NGX_HTTP_DSEM_API_FLAG;
        }

        return;
    }

    (void) ngx_http_dsem_api_body_is(rest, "");

    last = rest->data + rest->len;

    for (p = rest->data; p < last && *p >= '0' && *p <= '9'; p++) {
        /* void */
    }

    len = p - rest->data;

    if (len == 0
        || len > NGX_HTTP_DSEM_API_DIGITS
        || (len > 1 && *rest->data == '0')
        || (p < last && (*p == '.' || *p == 'e' || *p == 'E')))
    {
        return;
    }

    value = ngx_atoi(rest->data, len);

    if (value == NGX_ERROR || value > member->max) {
        return;
    }

    member->kind = NGX_HTTP_DSEM_API_NUMBER;
    member->value = value;

    rest->data = p;
    rest->len -= len;
}


/* whether it is this word that comes after blanks; both are skipped then */

static ngx_uint_t
ngx_http_dsem_api_body_is(ngx_str_t *rest, const char *word)
{
    size_t  len;

    while (rest->len && *rest->data && ngx_strchr(" \t\r\n", *rest->data))
    {
        rest->data++;
        rest->len--;
    }

    len = ngx_strlen(word);

    if (rest->len < len || ngx_memcmp(rest->data, word, len) != 0) {
        return 0;
    }

    rest->data += len;
    rest->len -= len;

    return 1;
}


/*
 * The body that nginx has read, in one piece.
 *
 * body   result; data has room for NGX_HTTP_DSEM_API_MAX_BODY bytes
 *
 * Returns NGX_OK, or NGX_ERROR when it cannot be read.
 */

ngx_int_t
ngx_http_dsem_api_body(ngx_http_request_t *r, ngx_str_t *body)
{
    off_t         size;
    ssize_t       n;
    ngx_buf_t    *b;
    ngx_chain_t  *cl;

    body->len = 0;

    if (r->request_body == NULL) {
        return NGX_ERROR;
    }

    for (cl = r->request_body->bufs; cl; cl = cl->next) {

        b = cl->buf;
        size = ngx_buf_size(b);

        if (size > (off_t) (NGX_HTTP_DSEM_API_MAX_BODY - body->len)) {
            return NGX_ERROR;
        }

        if (ngx_buf_in_memory(b)) {
            ngx_memcpy(body->data + body->len, b->pos, size);

        } else if (size) {

            /* "client_body_in_file_only": it was written a moment ago */

            n = ngx_read_file(b->file, body->data + body->len, size,
                              b->file_pos);
            if (n != (ssize_t) size) {
                return NGX_ERROR;
            }
        }

        body->len += size;
    }

    return NGX_OK;
}
