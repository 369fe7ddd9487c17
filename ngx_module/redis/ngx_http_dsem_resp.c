
/*
 * RESP: one command, written as an array of strings into a buffer.
 *
 * hiredis would format it with a printf() for each string: that was a third
 * of all instructions of a request that waits.  The number of arguments is
 * given first and checked at the end, as Redis would take the next command
 * for the rest of a short one.
 *
 * Called by: script, connection; all that compose calls (handshake, declare,
 * sync).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_resp.h"


#define NGX_HTTP_DSEM_RESP_SIZE        4096

/* a type, a number and CRLF */
#define NGX_HTTP_DSEM_RESP_LENGTH_LEN  (1 + NGX_INT64_LEN + 2)

#define NGX_HTTP_DSEM_RESP_NUMBERS_LEN                                        \
    (NGX_HTTP_DSEM_RESP_NUMBERS * (NGX_INT64_LEN + 1))


static ngx_int_t ngx_http_dsem_resp_reserve(ngx_http_dsem_resp_t *resp,
    size_t len);
static u_char *ngx_http_dsem_resp_length(u_char *p, u_char type, size_t len);
static u_char *ngx_http_dsem_resp_list(u_char *last, int64_t *values,
    ngx_uint_t n);
static u_char *ngx_http_dsem_resp_signed(u_char *last, int64_t value);
static u_char *ngx_http_dsem_resp_digits(u_char *last, uint64_t value);


/* begins a command of argc strings, its name included */

void
ngx_http_dsem_resp_begin(ngx_http_dsem_resp_t *resp, ngx_uint_t argc)
{
    u_char  *p;

    resp->len = 0;
    resp->missing = argc;
    resp->failed = 0;

    if (ngx_http_dsem_resp_reserve(resp, NGX_HTTP_DSEM_RESP_LENGTH_LEN)
        == NGX_OK)
    {
        p = ngx_http_dsem_resp_length(resp->data, '*', argc);
        resp->len = p - resp->data;
    }
}


/* the next argument; a lack of memory shows at the end */

void
ngx_http_dsem_resp_bytes(ngx_http_dsem_resp_t *resp, const void *data,
    size_t len)
{
    u_char  *p;

    resp->missing--;

    if (ngx_http_dsem_resp_reserve(resp,
                                   NGX_HTTP_DSEM_RESP_LENGTH_LEN + len + 2)
        != NGX_OK)
    {
        return;
    }

    p = ngx_http_dsem_resp_length(resp->data + resp->len, '$', len);
    p = ngx_cpymem(p, data, len);
    *p++ = CR; *p++ = LF;

    resp->len = p - resp->data;
}


void
ngx_http_dsem_resp_string(ngx_http_dsem_resp_t *resp, ngx_str_t *value)
{
    ngx_http_dsem_resp_bytes(resp, value->data, value->len);
}


void
ngx_http_dsem_resp_number(ngx_http_dsem_resp_t *resp, int64_t value)
{
    ngx_http_dsem_resp_numbers(resp, &value, 1);
}


/*
 * At most NGX_HTTP_DSEM_RESP_NUMBERS numbers as one argument, with blanks in
 * between: a script reads them faster than as many arguments.
 */

void
ngx_http_dsem_resp_numbers(ngx_http_dsem_resp_t *resp, int64_t *values,
    ngx_uint_t n)
{
    u_char  *p, *last, text[NGX_HTTP_DSEM_RESP_NUMBERS_LEN];

    last = text + sizeof(text);
    p = ngx_http_dsem_resp_list(last, values, n);

    ngx_http_dsem_resp_bytes(resp, p, last - p);
}


/* numbers as one argument, and behind them an encoded name */

void
ngx_http_dsem_resp_numbers_name(ngx_http_dsem_resp_t *resp, int64_t *values,
    ngx_uint_t n, ngx_str_t *name)
{
    u_char  *p, *last, text[NGX_HTTP_DSEM_RESP_NUMBERS_LEN + 1
                            + NGX_HTTP_DSEM_MAX_NAME];

    last = text + NGX_HTTP_DSEM_RESP_NUMBERS_LEN;
    p = ngx_http_dsem_resp_list(last, values, n);

    *last++ = ' ';
    last = ngx_cpymem(last, name->data,
                      ngx_min(name->len, NGX_HTTP_DSEM_MAX_NAME));

    ngx_http_dsem_resp_bytes(resp, p, last - p);
}


/* numbers that end at last; returns the begin */

static u_char *
ngx_http_dsem_resp_list(u_char *last, int64_t *values, ngx_uint_t n)
{
    u_char  *p;

    p = last;

    while (n--) {
        p = ngx_http_dsem_resp_signed(p, values[n]);

        if (n) {
            *--p = ' ';
        }
    }

    return p;
}


/* CLIENT SETNAME, a whole command */

void
ngx_http_dsem_resp_client_name(ngx_http_dsem_resp_t *resp,
    ngx_http_dsem_identity_t *identity, const char *suffix)
{
    u_char  *last, name[2 * NGX_HTTP_DSEM_SESSION_LEN];

    last = ngx_snprintf(name, sizeof(name), "%V%s", &identity->client,
                        suffix);

    ngx_http_dsem_resp_begin(resp, 3);
    ngx_http_dsem_resp_bytes(resp, "CLIENT", sizeof("CLIENT") - 1);
    ngx_http_dsem_resp_bytes(resp, "SETNAME", sizeof("SETNAME") - 1);
    ngx_http_dsem_resp_bytes(resp, name, last - name);
}


/*
 * The command is complete.  NGX_ERROR: no memory, or not as many arguments
 * as were announced; it must not be sent.
 */

ngx_int_t
ngx_http_dsem_resp_end(ngx_http_dsem_resp_t *resp)
{
    if (resp->missing) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "dsem: command with a wrong number of arguments");
        return NGX_ERROR;
    }

    if (ngx_http_dsem_resp_reserve(resp, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    /* hiredis searches for the end of the arguments of SUBSCRIBE by strchr() */
    resp->data[resp->len] = '\0';

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_resp_reserve(ngx_http_dsem_resp_t *resp, size_t len)
{
    u_char  *data;
    size_t   size;

    if (resp->failed) {
        return NGX_ERROR;
    }

    if (resp->size - resp->len >= len) {
        return NGX_OK;
    }

    size = ngx_max(2 * resp->size, resp->len + len);
    size = ngx_max(size, NGX_HTTP_DSEM_RESP_SIZE);

    data = ngx_alloc(size, ngx_cycle->log);
    if (data == NULL) {
        resp->failed = 1;
        return NGX_ERROR;
    }

    if (resp->data) {
        ngx_memcpy(data, resp->data, resp->len);
        ngx_free(resp->data);
    }

    resp->data = data;
    resp->size = size;

    return NGX_OK;
}


static u_char *
ngx_http_dsem_resp_length(u_char *p, u_char type, size_t len)
{
    u_char  *digit, *last, digits[NGX_INT64_LEN];

    last = digits + sizeof(digits);
    digit = ngx_http_dsem_resp_digits(last, len);

    *p++ = type;
    p = ngx_cpymem(p, digit, last - digit);
    *p++ = CR; *p++ = LF;

    return p;
}


/* writes a number in front of last, returns its first character */

static u_char *
ngx_http_dsem_resp_signed(u_char *last, int64_t value)
{
    if (value >= 0) {
        return ngx_http_dsem_resp_digits(last, value);
    }

    last = ngx_http_dsem_resp_digits(last, -(uint64_t) value);
    *--last = '-';

    return last;
}


static u_char *
ngx_http_dsem_resp_digits(u_char *last, uint64_t value)
{
    do {
        *--last = (u_char) (value % 10 + '0');
        value /= 10;
    } while (value);

    return last;
}


void
ngx_http_dsem_resp_free(ngx_http_dsem_resp_t *resp)
{
    if (resp->data) {
        ngx_free(resp->data);
    }

    ngx_memzero(resp, sizeof(ngx_http_dsem_resp_t));
}


/*
 * Of a reply with the status "broken": the key that is of another type.  Its
 * first value is the number in KEYS; "other" is the one that not all scripts
 * have.
 */

ngx_str_t *
ngx_http_dsem_resp_broken_key(ngx_http_dsem_reply_t *reply,
    ngx_str_t *semaphore, ngx_str_t *queue, ngx_str_t *other)
{
    switch (reply->nvalues ? reply->values[0] : 0) {

    case 2:
        return semaphore;

    case 3:
        return queue;

    default:
        return other;
    }
}
