
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


/* bytes of a number that cannot overflow */
#define NGX_HTTP_DSEM_API_DIGITS  18


typedef struct {
    u_char                      *pos;
    u_char                      *last;
    ngx_http_dsem_api_member_t  *members;
    ngx_str_t                   *error;
} ngx_http_dsem_api_reader_t;


static ngx_int_t ngx_http_dsem_api_body_member(
    ngx_http_dsem_api_reader_t *reader);
static ngx_int_t ngx_http_dsem_api_body_name(
    ngx_http_dsem_api_reader_t *reader, ngx_str_t *name);
static ngx_int_t ngx_http_dsem_api_body_value(
    ngx_http_dsem_api_reader_t *reader, ngx_http_dsem_api_member_t *member);
static ngx_int_t ngx_http_dsem_api_body_number(
    ngx_http_dsem_api_reader_t *reader, ngx_http_dsem_api_member_t *member);
static ngx_uint_t ngx_http_dsem_api_body_word(
    ngx_http_dsem_api_reader_t *reader, const char *word);
static u_char ngx_http_dsem_api_body_next(
    ngx_http_dsem_api_reader_t *reader);
static ngx_int_t ngx_http_dsem_api_body_error(
    ngx_http_dsem_api_reader_t *reader, const char *fmt, ...);


/*
 * Reads a whole body.
 *
 * members   the expected ones, up to one without a name; kind and value are
 *           the result
 * error     result, a sentence of at most NGX_HTTP_DSEM_API_FAULT bytes; the
 *           caller has the memory
 *
 * Returns NGX_OK, or NGX_ERROR when the body is wrong.
 */

ngx_int_t
ngx_http_dsem_api_body_parse(u_char *p, u_char *last,
    ngx_http_dsem_api_member_t *members, ngx_str_t *error)
{
    u_char                       ch;
    ngx_http_dsem_api_reader_t   reader;

    reader.pos = p;
    reader.last = last;
    reader.members = members;
    reader.error = error;

    for ( /* void */ ; members->name.len; members++) {
        members->kind = 0;
        members->value = 0;
    }

    if (ngx_http_dsem_api_body_next(&reader) != '{') {
        return ngx_http_dsem_api_body_error(&reader,
                                            "the body must be one JSON "
                                            "object");
    }

    reader.pos++;

    if (ngx_http_dsem_api_body_next(&reader) == '}') {
        reader.pos++;

    } else {

        do {
            if (ngx_http_dsem_api_body_member(&reader) != NGX_OK) {
                return NGX_ERROR;
            }

            ch = ngx_http_dsem_api_body_next(&reader);
            reader.pos += (ch != '\0');

        } while (ch == ',');

        if (ch != '}') {
            return ngx_http_dsem_api_body_error(&reader,
                                                "the body is no valid JSON: "
                                                "\",\" or \"}\" is missing");
        }
    }

    (void) ngx_http_dsem_api_body_next(&reader);

    if (reader.pos != reader.last) {
        return ngx_http_dsem_api_body_error(&reader,
                                            "the body must end with its "
                                            "JSON object");
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_api_body_member(ngx_http_dsem_api_reader_t *reader)
{
    ngx_str_t                    name;
    ngx_http_dsem_api_member_t  *member;

    if (ngx_http_dsem_api_body_name(reader, &name) != NGX_OK) {
        return NGX_ERROR;
    }

    for (member = reader->members; member->name.len; member++) {
        if (member->name.len == name.len
            && ngx_strncmp(member->name.data, name.data, name.len) == 0)
        {
            break;
        }
    }

    if (member->name.len == 0) {
        name.len = ngx_min(name.len, 64);

        return ngx_http_dsem_api_body_error(reader, "unknown member \"%V\"",
                                            &name);
    }

    if (member->kind) {
        return ngx_http_dsem_api_body_error(reader, "duplicate member "
                                            "\"%V\"", &member->name);
    }

    if (ngx_http_dsem_api_body_next(reader) != ':') {
        return ngx_http_dsem_api_body_error(reader, "the body is no valid "
                                            "JSON: \":\" is missing");
    }

    reader->pos++;

    return ngx_http_dsem_api_body_value(reader, member);
}


static ngx_int_t
ngx_http_dsem_api_body_name(ngx_http_dsem_api_reader_t *reader,
    ngx_str_t *name)
{
    u_char  *p;

    if (ngx_http_dsem_api_body_next(reader) != '"') {
        return ngx_http_dsem_api_body_error(reader, "the body is no valid "
                                            "JSON: the name of a member is "
                                            "missing");
    }

    p = ++reader->pos;

    while (p < reader->last && *p != '"') {

        if (*p == '\\' || *p < 0x20) {
            return ngx_http_dsem_api_body_error(reader, "the name of a "
                                                "member has an escape or a "
                                                "control character");
        }

        p++;
    }

    if (p == reader->last) {
        return ngx_http_dsem_api_body_error(reader, "the body is no valid "
                                            "JSON: a string does not end");
    }

    name->data = reader->pos;
    name->len = p - reader->pos;

    reader->pos = p + 1;

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_api_body_value(ngx_http_dsem_api_reader_t *reader,
    ngx_http_dsem_api_member_t *member)
{
    u_char  ch;

    ch = ngx_http_dsem_api_body_next(reader);

    if ((member->kinds & NGX_HTTP_DSEM_API_NUMBER) && ch >= '0' && ch <= '9')
    {
        return ngx_http_dsem_api_body_number(reader, member);
    }

    if ((member->kinds & NGX_HTTP_DSEM_API_NULL)
        && ngx_http_dsem_api_body_word(reader, "null"))
    {
        member->kind = NGX_HTTP_DSEM_API_NULL;
        return NGX_OK;
    }

    if (member->kinds & NGX_HTTP_DSEM_API_FLAG) {

        member->value = ngx_http_dsem_api_body_word(reader, "true");

        if (member->value || ngx_http_dsem_api_body_word(reader, "false")) {
            member->kind = NGX_HTTP_DSEM_API_FLAG;
            return NGX_OK;
        }
    }

    return ngx_http_dsem_api_body_error(reader, "\"%V\" must be %s",
                                        &member->name, member->must);
}


static ngx_int_t
ngx_http_dsem_api_body_number(ngx_http_dsem_api_reader_t *reader,
    ngx_http_dsem_api_member_t *member)
{
    u_char  *p;
    size_t   len;

    p = reader->pos;

    while (p < reader->last && *p >= '0' && *p <= '9') {
        p++;
    }

    len = p - reader->pos;

    /* no zero may lead, and a fraction or an exponent is no whole number */

    if (len <= NGX_HTTP_DSEM_API_DIGITS
        && (len == 1 || *reader->pos != '0')
        && (p == reader->last || (*p != '.' && *p != 'e' && *p != 'E')))
    {
        member->value = ngx_atoi(reader->pos, len);

        if (member->value >= 0 && member->value <= member->max) {
            member->kind = NGX_HTTP_DSEM_API_NUMBER;
            reader->pos = p;
            return NGX_OK;
        }
    }

    return ngx_http_dsem_api_body_error(reader, "\"%V\" must be %s",
                                        &member->name, member->must);
}


/* whether it is this word that comes next; then it is skipped */

static ngx_uint_t
ngx_http_dsem_api_body_word(ngx_http_dsem_api_reader_t *reader,
    const char *word)
{
    size_t  len;

    len = ngx_strlen(word);

    if ((size_t) (reader->last - reader->pos) < len
        || ngx_memcmp(reader->pos, word, len) != 0)
    {
        return 0;
    }

    reader->pos += len;

    return 1;
}


/* the next byte that is no blank; 0: the end, or a byte of zero */

static u_char
ngx_http_dsem_api_body_next(ngx_http_dsem_api_reader_t *reader)
{
    while (reader->pos < reader->last
           && (*reader->pos == ' ' || *reader->pos == '\t'
               || *reader->pos == CR || *reader->pos == LF))
    {
        reader->pos++;
    }

    return (reader->pos < reader->last) ? *reader->pos : '\0';
}


static ngx_int_t
ngx_http_dsem_api_body_error(ngx_http_dsem_api_reader_t *reader,
    const char *fmt, ...)
{
    u_char     *p;
    va_list     args;
    ngx_str_t  *error;

    error = reader->error;

    va_start(args, fmt);
    p = ngx_vslprintf(error->data, error->data + NGX_HTTP_DSEM_API_FAULT, fmt,
                      args);
    va_end(args);

    error->len = p - error->data;

    return NGX_ERROR;
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
