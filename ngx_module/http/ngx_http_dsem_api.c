
/*
 * The API: the content handler of locations with "dsem_api".
 *
 * Finds what is asked for, by the path below the name of the location and the
 * method, and waits where an answer needs figures from Redis: a survey, which
 * all requests of a second share.  While Redis is unavailable the last survey
 * is answered at once.  The page for people is answered here.  GET and HEAD
 * change nothing.
 *
 * Called by: nginx, as the directive in conf has set.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <sys/random.h>
#include "ngx_http_dsem_api.h"
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_survey.h"


#define NGX_HTTP_DSEM_NONCE_LEN  16


typedef ngx_int_t (*ngx_http_dsem_api_pt)(ngx_http_request_t *r,
    ngx_str_t *name);


/* what can be asked for; a path with a slash at its end has a name below */
typedef struct {
    ngx_str_t               path;
    ngx_uint_t              server;     /* unsigned:1, a server follows */
    ngx_http_dsem_api_pt    get;        /* and HEAD; or NULL */
    ngx_uint_t              survey;     /* unsigned:1, it shows the fleet */
    ngx_uint_t              method;     /* another one; or 0 */
    ngx_http_dsem_api_pt    change;     /* for that */
    ngx_int_t             (*read_name)(ngx_http_request_t *r,
                                       ngx_str_t *name);
    ngx_str_t               allow;
} ngx_http_dsem_api_route_t;


/* a request that waits for a survey */
typedef struct {
    ngx_http_request_t           *request;
    ngx_http_dsem_api_pt          get;
    ngx_str_t                     name;     /* empty: all */
    ngx_http_dsem_survey_wait_t   wait;
} ngx_http_dsem_api_wait_t;


static ngx_int_t ngx_http_dsem_api_rest(ngx_http_request_t *r,
    ngx_str_t *rest);
static ngx_int_t ngx_http_dsem_api_redirect(ngx_http_request_t *r);
static ngx_http_dsem_api_route_t *ngx_http_dsem_api_route(ngx_str_t *rest,
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_api_not_allowed(ngx_http_request_t *r,
    ngx_http_dsem_api_route_t *route, ngx_str_t *name);
static ngx_int_t ngx_http_dsem_api_as_sent(ngx_http_request_t *r);
static ngx_int_t ngx_http_dsem_api_read_semaphore(ngx_http_request_t *r,
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_api_read_session(ngx_http_request_t *r,
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_api_page(ngx_http_request_t *r,
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_api_page_headers(ngx_http_request_t *r,
    ngx_str_t *nonce);
static ngx_int_t ngx_http_dsem_api_survey(ngx_http_request_t *r,
    ngx_http_dsem_api_route_t *route, ngx_str_t *name);
static ngx_int_t ngx_http_dsem_api_update(ngx_http_dsem_api_wait_t *w);
static void ngx_http_dsem_api_surveyed(void *data);


/* R18: paths of answers */

static ngx_http_dsem_api_route_t  ngx_http_dsem_api_routes[] = {

    { ngx_string(""), 0, ngx_http_dsem_api_page, 0,
      0, NULL,
      NULL, ngx_string("GET, HEAD") },

    { ngx_string("semaphores"), 0, ngx_http_dsem_api_semaphores, 1,
      0, NULL,
      NULL, ngx_string("GET, HEAD") },

    { ngx_string("semaphores/"), 1, NULL, 0,
      NGX_HTTP_PATCH, ngx_http_dsem_api_change_server,
      NULL, ngx_string("PATCH") },

    { ngx_string("semaphores/"), 0, ngx_http_dsem_api_semaphores_one, 1,
      NGX_HTTP_PATCH, ngx_http_dsem_api_change_patch,
      ngx_http_dsem_api_read_semaphore, ngx_string("GET, HEAD, PATCH") },

    { ngx_string("metrics"), 0, ngx_http_dsem_api_metrics, 1,
      0, NULL,
      NULL, ngx_string("GET, HEAD") },

    { ngx_string("health"), 0, ngx_http_dsem_api_semaphores_health, 0,
      0, NULL,
      NULL, ngx_string("GET, HEAD") },

    { ngx_string("sessions/"), 0, NULL, 0,
      NGX_HTTP_DELETE, ngx_http_dsem_api_change_delete,
      ngx_http_dsem_api_read_session, ngx_string("DELETE") }
};


#define NGX_HTTP_DSEM_API_NROUTES                                             \
    (sizeof(ngx_http_dsem_api_routes) / sizeof(ngx_http_dsem_api_routes[0]))


ngx_int_t
ngx_http_dsem_api_handler(ngx_http_request_t *r)
{
    ngx_int_t                   rc;
    ngx_str_t                   rest, name;
    ngx_http_dsem_api_route_t  *route;

    rc = ngx_http_dsem_api_rest(r, &rest);

    if (rc == NGX_DONE) {
        return ngx_http_dsem_api_redirect(r);
    }

    route = (rc == NGX_OK) ? ngx_http_dsem_api_route(&rest, &name) : NULL;

    if (route == NULL) {
        return ngx_http_dsem_answer_error(r, NGX_HTTP_NOT_FOUND,
                                          "there is nothing here; semaphores, "
                                          "semaphores/<name>, metrics and "
                                          "health are");
    }

    if (!((r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)) && route->get)
        && r->method != route->method)
    {
        return ngx_http_dsem_api_not_allowed(r, route, &name);
    }

    if (name.len) {
        rc = ngx_http_dsem_api_as_sent(r);

        if (rc != NGX_DECLINED) {
            return rc;
        }
    }

    if (route->read_name) {
        rc = route->read_name(r, &name);

        if (rc != NGX_OK) {
            return (rc == NGX_ERROR)
                   ? NGX_HTTP_INTERNAL_SERVER_ERROR
                   : ngx_http_dsem_answer_error(r, NGX_HTTP_BAD_REQUEST,
                                                "this is the name of no "
                                                "session");
        }
    }

    if (r->method == route->method) {
        return route->change(r, &name);
    }

    if (route->survey) {
        return ngx_http_dsem_api_survey(r, route, &name);
    }

    return route->get(r, &name);
}


/*
 * The path below the name of the location; of an exact location, whose name
 * is all of the path, what follows its last slash.
 *
 * Returns NGX_OK, NGX_DONE when there is not even a slash, or NGX_DECLINED
 * when the path is another one.
 */

static ngx_int_t
ngx_http_dsem_api_rest(ngx_http_request_t *r, ngx_str_t *rest)
{
    u_char                    *last;
    ngx_str_t                  prefix;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_dsem_loc_conf_t  *dlcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    prefix = clcf->name;

    if (dlcf->exact) {
        while (prefix.len && prefix.data[prefix.len - 1] != '/') {
            prefix.len--;
        }
    }

    /* a rewrite may have changed it */

    if (r->uri.len < prefix.len
        || ngx_filename_cmp(r->uri.data, prefix.data, prefix.len) != 0)
    {
        return NGX_DECLINED;
    }

    last = r->uri.data + r->uri.len;
    rest->data = r->uri.data + prefix.len;

    if (prefix.len == 0 || prefix.data[prefix.len - 1] != '/') {

        if (rest->data == last) {
            return NGX_DONE;
        }

        if (*rest->data++ != '/') {
            return NGX_DECLINED;
        }
    }

    rest->len = last - rest->data;

    return NGX_OK;
}


/* the addresses in the page are below a slash */

static ngx_int_t
ngx_http_dsem_api_redirect(ngx_http_request_t *r)
{
    u_char     *p;
    size_t      len;
    uintptr_t   escape;

    ngx_http_clear_location(r);

    r->headers_out.location = ngx_list_push(&r->headers_out.headers);
    if (r->headers_out.location == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memzero(r->headers_out.location, sizeof(ngx_table_elt_t));

    escape = 2 * ngx_escape_uri(NULL, r->uri.data, r->uri.len,
                                NGX_ESCAPE_URI);
    len = r->uri.len + escape + 1;

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        ngx_http_clear_location(r);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.location->hash = 1;
    ngx_str_set(&r->headers_out.location->key, "Location");
    r->headers_out.location->value.len = len;
    r->headers_out.location->value.data = p;

    if (escape) {
        p = (u_char *) ngx_escape_uri(p, r->uri.data, r->uri.len,
                                      NGX_ESCAPE_URI);

    } else {
        p = ngx_cpymem(p, r->uri.data, r->uri.len);
    }

    *p = '/';

    return NGX_HTTP_MOVED_PERMANENTLY;
}


/* NULL: there is nothing of that path */

static ngx_http_dsem_api_route_t *
ngx_http_dsem_api_route(ngx_str_t *rest, ngx_str_t *name)
{
    ngx_str_t                   semaphore, server;
    ngx_uint_t                  i;
    ngx_http_dsem_api_route_t  *route;

    ngx_str_null(name);

    for (i = 0; i < NGX_HTTP_DSEM_API_NROUTES; i++) {
        route = &ngx_http_dsem_api_routes[i];

        if (rest->len < route->path.len
            || ngx_memcmp(rest->data, route->path.data, route->path.len) != 0)
        {
            continue;
        }

        name->data = rest->data + route->path.len;
        name->len = rest->len - route->path.len;

        semaphore = *name;

        if (route->server
            && ngx_http_dsem_api_change_split(&semaphore, &server) != NGX_OK)
        {
            continue;
        }

        /* nothing follows, or a name does */

        if ((name->len != 0) == (route->server || route->read_name)) {
            return route;
        }
    }

    return NULL;
}


static ngx_int_t
ngx_http_dsem_api_not_allowed(ngx_http_request_t *r,
    ngx_http_dsem_api_route_t *route, ngx_str_t *name)
{
    ngx_int_t  rc;

    rc = route->server ? ngx_http_dsem_api_change_no_pool(r, name)
                       : NGX_DECLINED;

    if (rc != NGX_DECLINED) {
        return rc;
    }

    if (ngx_http_dsem_answer_header(r, "Allow", &route->allow) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_dsem_answer_error(r, NGX_HTTP_NOT_ALLOWED,
                                      "the method must be one of %V",
                                      &route->allow);
}


/*
 * nginx decodes a path before it merges slashes and resolves dots: of a plain
 * name with "//", "/./" or "/../" it leaves the name of another semaphore.
 * Such a request is refused; NGX_DECLINED: it is another one.
 */

static ngx_int_t
ngx_http_dsem_api_as_sent(ngx_http_request_t *r)
{
    u_char     *p, *src, *dst;
    size_t      len;
    ngx_str_t  *uri;

    if (!r->valid_unparsed_uri) {
        /* a rewrite says what the path is */
        return NGX_DECLINED;
    }

    uri = &r->unparsed_uri;

    p = ngx_pnalloc(r->pool, uri->len);
    if (p == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    for (len = 0; len < uri->len; len++) {
        if (uri->data[len] == '?' || uri->data[len] == '#') {
            break;
        }
    }

    src = uri->data;
    dst = p;

    ngx_unescape_uri(&dst, &src, len, 0);

    if ((size_t) (dst - p) == r->uri.len
        && ngx_memcmp(p, r->uri.data, r->uri.len) == 0)
    {
        return NGX_DECLINED;
    }

    return ngx_http_dsem_answer_error(r, NGX_HTTP_BAD_REQUEST,
                                      "this path is not the one that was "
                                      "sent: nginx merges slashes and "
                                      "resolves dots; send the name as it "
                                      "is in keys, percent-encoded again");
}


/* as it is in keys, or plain */

static ngx_int_t
ngx_http_dsem_api_read_semaphore(ngx_http_request_t *r, ngx_str_t *name)
{
    return ngx_http_dsem_key_read(r->pool, name);
}


/* NGX_DECLINED: no session has such a name */

static ngx_int_t
ngx_http_dsem_api_read_session(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_http_dsem_holder_t  session;

    return ngx_http_dsem_fleet_session(name, &session);
}


/*
 * GET /: the page for people, page.html, which is embedded when the module is
 * built.  Its style and script run because of a nonce, new in each answer, and
 * nothing else does: a name that got into the page as HTML would not run
 * either.
 */

static ngx_int_t
ngx_http_dsem_api_page(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_str_t                 nonce, *piece;
    ngx_http_dsem_api_text_t  text;

    if (ngx_http_dsem_api_page_headers(r, &nonce) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_dsem_api_text_init(&text, r->pool);

    for (piece = ngx_http_dsem_page; piece->len; piece++) {

        if (piece != ngx_http_dsem_page) {
            ngx_http_dsem_api_text_write(&text, nonce.data, nonce.len);
        }

        ngx_http_dsem_api_text_static(&text, piece);
    }

    return ngx_http_dsem_answer_send(r, NGX_HTTP_OK, "text/html; charset=utf-8",
                                     &text);
}


/* a new nonce, and the headers that let run what has it */

static ngx_int_t
ngx_http_dsem_api_page_headers(ngx_http_request_t *r, ngx_str_t *nonce)
{
    u_char     *p, bytes[NGX_HTTP_DSEM_NONCE_LEN];
    ngx_str_t   policy;

    static ngx_str_t  referrer = ngx_string("no-referrer");

    static char  format[] =
        "default-src 'none'; script-src 'nonce-%V'; style-src 'nonce-%V'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'";

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
        ngx_log_error(NGX_LOG_ALERT, r->connection->log, ngx_errno,
                      "dsem: getrandom() failed");
        return NGX_ERROR;
    }

    nonce->len = 2 * sizeof(bytes);

    nonce->data = ngx_pnalloc(r->pool, nonce->len);
    if (nonce->data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_hex_dump(nonce->data, bytes, sizeof(bytes));

    p = ngx_pnalloc(r->pool, sizeof(format) + 2 * nonce->len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    policy.data = p;
    policy.len = ngx_sprintf(p, format, nonce, nonce) - p;

    if (ngx_http_dsem_answer_header(r, "Content-Security-Policy", &policy)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_dsem_answer_header(r, "Referrer-Policy", &referrer);
}


static ngx_int_t
ngx_http_dsem_api_survey(ngx_http_request_t *r,
    ngx_http_dsem_api_route_t *route, ngx_str_t *name)
{
    ngx_http_dsem_api_wait_t  *w;

    w = ngx_pcalloc(r->pool, sizeof(ngx_http_dsem_api_wait_t));

    if (w == NULL
        || ngx_http_dsem_answer_cleanup(r, ngx_http_dsem_survey_cancel,
                                        &w->wait)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    w->request = r;
    w->get = route->get;
    w->name = *name;
    w->wait.handler = ngx_http_dsem_api_surveyed;
    w->wait.data = w;

    if (ngx_http_dsem_api_update(w) != NGX_AGAIN) {
        return route->get(r, name);
    }

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "dsem api waits for a survey");

    return ngx_http_dsem_answer_later(r);
}


/*
 * First the fleet, then the semaphore with all of its holders, if it is only
 * one that is asked for.  NGX_AGAIN: the handler of the survey goes on.
 */

static ngx_int_t
ngx_http_dsem_api_update(ngx_http_dsem_api_wait_t *w)
{
    for ( ;; ) {

        if (ngx_http_dsem_survey_update(&w->wait) == NGX_AGAIN) {
            return NGX_AGAIN;
        }

        if (w->wait.name.len == w->name.len) {
            return NGX_OK;
        }

        w->wait.name = w->name;
    }
}


/* from an event that is not the request's own */

static void
ngx_http_dsem_api_surveyed(void *data)
{
    ngx_http_dsem_api_wait_t *w = data;

    ngx_connection_t    *c;
    ngx_http_request_t  *r;

    if (w->wait.name.len != w->name.len) {
        w->wait.name = w->name;

        if (ngx_http_dsem_api_update(w) == NGX_AGAIN) {
            return;
        }
    }

    r = w->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug0(NGX_LOG_DEBUG_HTTP, c->log, 0, "dsem api goes on");

    ngx_http_finalize_request(r, w->get(r, &w->wait.name));

    ngx_http_run_posted_requests(c);
}
