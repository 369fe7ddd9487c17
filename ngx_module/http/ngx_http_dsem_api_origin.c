
/*
 * Where a request that changes something comes from, and whether it may.
 *
 * A change needs "write=on" and a body of JSON with a length, and must not be
 * sent by a page of another site: a browser of an operator would send it, with
 * the operator's rights.  Such a page may have a name that its owner has made
 * lead here, so the name must be one of this server.
 *
 * Called by: api_change, before the body is read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api.h"
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_api_body.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_module.h"


static ngx_uint_t ngx_http_dsem_api_origin_same(ngx_http_request_t *r);
static ngx_uint_t ngx_http_dsem_api_origin_own_host(ngx_http_request_t *r,
    ngx_array_t *names);
static ngx_uint_t ngx_http_dsem_api_origin_named(
    ngx_http_server_name_t *name, ngx_str_t *host);
static ngx_uint_t ngx_http_dsem_api_origin_own(ngx_str_t *origin,
    ngx_str_t *host);
static ngx_uint_t ngx_http_dsem_api_origin_json(ngx_http_request_t *r);


/*
 * Whether the request may change anything, as far as its header shows.
 *
 * needed   whether there must be a body
 *
 * Returns NGX_DECLINED if it may, or the result of the answer.
 */

ngx_int_t
ngx_http_dsem_api_origin_refused(ngx_http_request_t *r, ngx_uint_t needed)
{
    ngx_http_dsem_loc_conf_t  *dlcf;

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    if (!dlcf->write) {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_FORBIDDEN,
                                          "dsem_api has no write=on here");
    }

    if (r != r->main || !ngx_http_dsem_api_origin_same(r)) {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_FORBIDDEN,
                                          "a page of another site cannot "
                                          "change anything");
    }

    if (!ngx_http_dsem_api_origin_own_host(r, dlcf->names)) {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_FORBIDDEN,
                                          "Host is no server_name of this "
                                          "server, localhost or an address");
    }

    if (r->headers_in.if_match
        || r->headers_in.if_none_match
        || r->headers_in.if_unmodified_since)
    {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_PRECONDITION_FAILED,
                                          "a change cannot have a condition, "
                                          "there is no ETag or Last-Modified");
    }

    if (r->headers_in.chunked) {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_LENGTH_REQUIRED,
                                          "the body must have a "
                                          "Content-Length");
    }

    if (r->headers_in.content_length_n > NGX_HTTP_DSEM_API_MAX_BODY) {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE,
                                          "the body is longer than %d bytes",
                                          NGX_HTTP_DSEM_API_MAX_BODY);
    }

    if ((needed || r->headers_in.content_length_n > 0)
        && !ngx_http_dsem_api_origin_json(r))
    {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_UNSUPPORTED_MEDIA_TYPE,
                                          "Content-Type must be "
                                          "application/json");
    }

    return NGX_DECLINED;
}


/* browsers say where a request comes from; other clients say nothing */

static ngx_uint_t
ngx_http_dsem_api_origin_same(ngx_http_request_t *r)
{
    ngx_str_t                      *value, host;
    ngx_http_dsem_answer_cursor_t   cursor;

    ngx_memzero(&cursor, sizeof(ngx_http_dsem_answer_cursor_t));

    for ( ;; ) {
        value = ngx_http_dsem_answer_sent(&r->headers_in.headers,
                                          "Sec-Fetch-Site", &cursor);

        if (value == NULL) {
            break;
        }

        if (value->len != sizeof("same-origin") - 1
            || ngx_strncasecmp(value->data, (u_char *) "same-origin",
                               value->len)
               != 0)
        {
            return 0;
        }
    }

    /* where the request is sent to; in HTTP/3 there may be no "Host" */

    if (r->headers_in.host) {
        host = r->headers_in.host->value;

    } else {
        host.data = r->host_start;
        host.len = r->host_start ? r->host_end - r->host_start : 0;
    }

    ngx_memzero(&cursor, sizeof(ngx_http_dsem_answer_cursor_t));

    for ( ;; ) {
        value = ngx_http_dsem_answer_sent(&r->headers_in.headers, "Origin",
                                          &cursor);

        if (value == NULL) {
            return 1;
        }

        if (!ngx_http_dsem_api_origin_own(value, &host)) {
            return 0;
        }
    }
}


/* origin: "<scheme>://<host>[:<port>]", or "null" */

static ngx_uint_t
ngx_http_dsem_api_origin_own(ngx_str_t *origin, ngx_str_t *host)
{
    size_t   len;
    u_char  *p;

    p = ngx_strlchr(origin->data, origin->data + origin->len, ':');

    if (p == NULL || origin->data + origin->len - p < 3
        || ngx_strncmp(p, "://", 3) != 0)
    {
        return 0;
    }

    p += 3;
    len = origin->data + origin->len - p;

    return len && len == host->len && ngx_strncasecmp(p, host->data, len) == 0;
}


/* a browser always sends the name that its address bar has */

static ngx_uint_t
ngx_http_dsem_api_origin_own_host(ngx_http_request_t *r, ngx_array_t *names)
{
    ngx_str_t               *host;
    ngx_uint_t               i;
    ngx_http_server_name_t  *name;

    host = &r->headers_in.server;

    if (host->len == 0
        || host->data[0] == '['
        || ngx_inet_addr(host->data, host->len) != INADDR_NONE
        || (host->len == sizeof("localhost") - 1
            && ngx_strncmp(host->data, "localhost", host->len) == 0))
    {
        return 1;
    }

    name = names->elts;

    for (i = 0; i < names->nelts; i++) {
        if (ngx_http_dsem_api_origin_named(&name[i], host)) {
            return 1;
        }
    }

    return 0;
}


/* name: as in "server_name": "a.b", "*.b", ".b", "a.*" or "~regex" */

static ngx_uint_t
ngx_http_dsem_api_origin_named(ngx_http_server_name_t *name, ngx_str_t *host)
{
    size_t   len;
    u_char  *p;

#if (NGX_PCRE)

    if (name->regex) {
        /* without a change to the captures and variables of the request */
        return ngx_regex_exec(name->regex->regex, host, NULL, 0) >= 0;
    }

#endif

    p = name->name.data;
    len = name->name.len;

    if (len > 2 && p[len - 1] == '*') {
        return host->len >= len && ngx_memcmp(host->data, p, len - 1) == 0;
    }

    if (len > 1 && *p == '*') {
        p++;
        len--;
    }

    if (len > 1 && *p == '.') {

        if (host->len > len
            && ngx_memcmp(host->data + host->len - len, p, len) == 0)
        {
            return 1;
        }

        p++;
        len--;
    }

    return host->len == len && ngx_memcmp(host->data, p, len) == 0;
}


/* parameters may follow */

static ngx_uint_t
ngx_http_dsem_api_origin_json(ngx_http_request_t *r)
{
    size_t      len;
    ngx_str_t  *type;

    if (r->headers_in.content_type == NULL) {
        return 0;
    }

    type = &r->headers_in.content_type->value;
    len = sizeof(NGX_HTTP_DSEM_API_JSON) - 1;

    return type->len >= len
           && ngx_strncasecmp(type->data, (u_char *) NGX_HTTP_DSEM_API_JSON,
                              len)
              == 0
           && (type->len == len
               || type->data[len] == ';'
               || type->data[len] == ' ');
}
