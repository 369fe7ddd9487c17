
/*
 * PATCH /semaphores/<name> and /semaphores/<name>/servers/<server>, DELETE
 * /sessions/<session>: what an operator changes in the whole fleet.
 *
 * A change needs a JSON body that is right in every byte.  Each change is
 * logged with its author.  The request does not watch for its client while
 * Redis executes the change, so that the result is logged.
 *
 * Called by: api.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api.h"
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_api_body.h"
#include "ngx_http_dsem_api_json.h"
#include "ngx_http_dsem_api_pool.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_order.h"
#include "ngx_http_dsem_pool.h"
#include "ngx_http_dsem_survey.h"
#include "ngx_http_dsem_text.h"


/* indices of the members of a body */
enum {
    NGX_HTTP_DSEM_API_LIMIT = 0,
    NGX_HTTP_DSEM_API_PAUSED,
    NGX_HTTP_DSEM_API_FORCE = 0
};


typedef struct {
    ngx_http_request_t    *request;
    ngx_str_t              user;        /* encoded; or "-" */
    unsigned               session:1;   /* to be removed */
    unsigned               asked:1;     /* Redis, and no reply yet */
    ngx_http_dsem_order_t  order;
} ngx_http_dsem_api_change_t;


static ngx_int_t ngx_http_dsem_api_change(ngx_http_request_t *r,
    ngx_str_t *name, ngx_str_t *server, ngx_uint_t session);
static ngx_int_t ngx_http_dsem_api_change_user(ngx_http_request_t *r,
    ngx_str_t *user);
static void ngx_http_dsem_api_change_read(ngx_http_request_t *r);
static const char *ngx_http_dsem_api_change_parse(
    ngx_http_dsem_api_change_t *change, ngx_str_t *body,
    ngx_http_dsem_api_fault_t *fault);
static ngx_uint_t ngx_http_dsem_api_change_plain(
    ngx_http_dsem_order_t *order);
static ngx_int_t ngx_http_dsem_api_change_ask(
    ngx_http_dsem_api_change_t *change);
static ngx_int_t ngx_http_dsem_api_change_declined(ngx_http_request_t *r);
static void ngx_http_dsem_api_change_done(ngx_http_dsem_order_t *order);
static ngx_int_t ngx_http_dsem_api_change_answer(
    ngx_http_dsem_api_change_t *change);
static void ngx_http_dsem_api_change_configured(
    ngx_http_dsem_api_change_t *change);
static ngx_int_t ngx_http_dsem_api_change_answer_order(
    ngx_http_dsem_api_change_t *change);
static ngx_int_t ngx_http_dsem_api_change_answer_session(
    ngx_http_dsem_api_change_t *change);
static void ngx_http_dsem_api_change_log(ngx_http_dsem_api_change_t *change);
static void ngx_http_dsem_api_change_log_server(
    ngx_http_dsem_api_change_t *change);
static char *ngx_http_dsem_api_change_limit_text(u_char *buf, ngx_int_t limit);
static void ngx_http_dsem_api_change_cleanup(void *data);


static ngx_http_dsem_api_member_t  ngx_http_dsem_api_order_members[] = {

    { ngx_string("limit"), NGX_HTTP_DSEM_API_NUMBER|NGX_HTTP_DSEM_API_NULL,
      NGX_HTTP_DSEM_MAX_LIMIT, "a whole number from 0 to 1000000000, or null",
      0, 0 },

    { ngx_string("paused"), NGX_HTTP_DSEM_API_FLAG, 0, "true or false",
      0, 0 },

    { ngx_null_string, 0, 0, NULL, 0, 0 }
};


/* of a server: it is not paused */
static ngx_http_dsem_api_member_t  ngx_http_dsem_api_server_members[] = {

    { ngx_string("limit"), NGX_HTTP_DSEM_API_NUMBER|NGX_HTTP_DSEM_API_NULL,
      NGX_HTTP_DSEM_MAX_LIMIT, "a whole number from 0 to 1000000000, or null",
      0, 0 },

    { ngx_null_string, 0, 0, NULL, 0, 0 }
};


static ngx_http_dsem_api_member_t  ngx_http_dsem_api_session_members[] = {
    { ngx_string("force"), NGX_HTTP_DSEM_API_FLAG, 0, "true or false", 0, 0 },
    { ngx_null_string, 0, 0, NULL, 0, 0 }
};


ngx_int_t
ngx_http_dsem_api_change_patch(ngx_http_request_t *r, ngx_str_t *name)
{
    return ngx_http_dsem_api_change(r, name, NULL, 0);
}


ngx_int_t
ngx_http_dsem_api_change_server(ngx_http_request_t *r, ngx_str_t *path)
{
    ngx_str_t  name, server;

    name = *path;

    if (ngx_http_dsem_api_change_split(&name, &server) != NGX_OK
        || ngx_http_dsem_key_read(r->pool, &name) != NGX_OK
        || ngx_http_dsem_key_read(r->pool, &server) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_http_dsem_api_change(r, &name, &server, 0);
}


/*
 * "<name>/servers/<server>": path is the name then.  NGX_DECLINED: it is not
 * of this form.
 */

ngx_int_t
ngx_http_dsem_api_change_split(ngx_str_t *path, ngx_str_t *server)
{
    u_char  *p;

    static ngx_str_t  word = ngx_string("/servers/");

    p = ngx_strnstr(path->data, (char *) word.data, path->len);

    if (p == NULL || p == path->data
        || p + word.len == path->data + path->len)
    {
        return NGX_DECLINED;
    }

    server->data = p + word.len;
    server->len = path->data + path->len - server->data;
    path->len = p - path->data;

    return NGX_OK;
}


/*
 * Another method for a server: NGX_DECLINED, but for a semaphore that is no
 * pool, as far as this node knows.  A plain name may have "/servers/" in it.
 */

ngx_int_t
ngx_http_dsem_api_change_no_pool(ngx_http_request_t *r, ngx_str_t *path)
{
    ngx_str_t                          name, server;
    ngx_http_dsem_survey_semaphore_t  *fleet;

    name = *path;

    if (ngx_http_dsem_api_change_split(&name, &server) != NGX_OK
        || ngx_http_dsem_key_read(r->pool, &name) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    fleet = ngx_http_dsem_survey_find(&name);

    if (ngx_http_dsem_pool_conf(&name) || (fleet && fleet->servers.nelts)) {
        return NGX_DECLINED;
    }

    return ngx_http_dsem_answer_error(r, NGX_HTTP_NOT_FOUND,
                                      "\"%V\" is no pool that this node knows; "
                                      "\"/servers/\" in the name of a "
                                      "semaphore is to be encoded", &name);
}


ngx_int_t
ngx_http_dsem_api_change_delete(ngx_http_request_t *r, ngx_str_t *session)
{
    return ngx_http_dsem_api_change(r, session, NULL, 1);
}


/* server: of a pool, or NULL; session: whether it is one that the name is of */

static ngx_int_t
ngx_http_dsem_api_change(ngx_http_request_t *r, ngx_str_t *name,
    ngx_str_t *server, ngx_uint_t session)
{
    ngx_int_t                    rc;
    ngx_http_cleanup_t          *cln;
    ngx_http_dsem_api_change_t  *change;

    rc = ngx_http_dsem_api_origin_refused(r, !session);
    if (rc != NGX_DECLINED) {
        return rc;
    }

    change = ngx_pcalloc(r->pool, sizeof(ngx_http_dsem_api_change_t));
    if (change == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    change->request = r;
    change->session = session;
    change->order.name = *name;

    if (server) {
        change->order.server = *server;
    }

    change->order.limit = NGX_HTTP_DSEM_ORDER_KEEP;
    change->order.paused = -1;
    change->order.handler = ngx_http_dsem_api_change_done;
    change->order.data = change;

    if (ngx_http_dsem_api_change_user(r, &change->user) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln = ngx_http_cleanup_add(r, 0);
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    cln->handler = ngx_http_dsem_api_change_cleanup;
    cln->data = change;

    rc = ngx_http_read_client_request_body(r, ngx_http_dsem_api_change_read);

    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    return NGX_DONE;
}


/* nothing that a client sends can forge a line of the log */

static ngx_int_t
ngx_http_dsem_api_change_user(ngx_http_request_t *r, ngx_str_t *user)
{
    if (ngx_http_auth_basic_user(r) != NGX_OK
        || r->headers_in.user.len == 0)
    {
        ngx_str_set(user, "-");
        return NGX_OK;
    }

    return ngx_http_dsem_key_encode(r->pool, &r->headers_in.user, user);
}


/* the body is there */

static void
ngx_http_dsem_api_change_read(ngx_http_request_t *r)
{
    u_char                       data[NGX_HTTP_DSEM_API_MAX_BODY];
    ngx_int_t                    rc;
    ngx_str_t                    body;
    const char                  *error;
    ngx_http_cleanup_t          *cln;
    ngx_http_dsem_api_fault_t    fault;
    ngx_http_dsem_api_change_t  *change;

    change = NULL;

    for (cln = r->main->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_dsem_api_change_cleanup) {
            change = cln->data;
            break;
        }
    }

    body.data = data;

    if (change == NULL || ngx_http_dsem_api_body(r, &body) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    error = ngx_http_dsem_api_change_parse(change, &body, &fault);

    if (error) {
        rc = ngx_http_dsem_answer_error(r, NGX_HTTP_BAD_REQUEST, error,
                                        &fault.name, fault.must);

    } else if (ngx_http_dsem_api_change_plain(&change->order)) {
        change->order.rc = NGX_DECLINED;
        rc = ngx_http_dsem_api_change_answer(change);

    } else if (ngx_http_dsem_api_change_ask(change) == NGX_OK) {
        return;

    } else {
        rc = ngx_http_dsem_api_change_declined(r);
    }

    /* rc may be NGX_AGAIN: the client takes the answer slowly */

    ngx_http_finalize_request(r, rc);
}


/* returns a sentence if the body is wrong, as the reader of bodies does */

static const char *
ngx_http_dsem_api_change_parse(ngx_http_dsem_api_change_t *change,
    ngx_str_t *body, ngx_http_dsem_api_fault_t *fault)
{
    const char                  *error;
    ngx_http_dsem_order_t       *order;
    ngx_http_dsem_api_member_t  *members;

    order = &change->order;

    if (change->session && body->len == 0) {
        return NULL;
    }

    members = change->session ? ngx_http_dsem_api_session_members
              : order->server.len ? ngx_http_dsem_api_server_members
              : ngx_http_dsem_api_order_members;

    error = ngx_http_dsem_api_body_parse(body, members, fault);

    if (error) {
        return error;
    }

    if (change->session) {
        order->force = members[NGX_HTTP_DSEM_API_FORCE].value;
        return NULL;
    }

    if (members[NGX_HTTP_DSEM_API_LIMIT].kind) {
        order->limit = NGX_HTTP_DSEM_ORDER_NONE;

        if (members[NGX_HTTP_DSEM_API_LIMIT].kind == NGX_HTTP_DSEM_API_NUMBER)
        {
            order->limit = members[NGX_HTTP_DSEM_API_LIMIT].value;
        }
    }

    if (members[NGX_HTTP_DSEM_API_PAUSED].kind) {
        order->paused = members[NGX_HTTP_DSEM_API_PAUSED].value;
    }

    if (order->limit == NGX_HTTP_DSEM_ORDER_KEEP && order->paused < 0) {
        return order->server.len
               ? "nothing is to be changed: \"limit\" must be there"
               : "nothing is to be changed: \"limit\" or \"paused\" must be "
                 "there";
    }

    return NULL;
}


/*
 * A limit for a server of a plain semaphore, in the configuration of this node:
 * to Redis one at rest may be a pool.
 */

static ngx_uint_t
ngx_http_dsem_api_change_plain(ngx_http_dsem_order_t *order)
{
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                               ngx_http_dsem_module);

    return order->server.len
           && order->limit >= 0
           && ngx_http_dsem_pool_conf(&order->name) == NULL
           && ngx_http_dsem_text_find(&dmcf->literals, &order->name);
}


/* NGX_OK: the handler of the order goes on; NGX_DECLINED: not asked */

static ngx_int_t
ngx_http_dsem_api_change_ask(ngx_http_dsem_api_change_t *change)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    r = change->request;

    rc = change->session ? ngx_http_dsem_order_remove_session(&change->order)
                         : ngx_http_dsem_order_set(&change->order);

    if (rc != NGX_AGAIN) {
        return NGX_DECLINED;
    }

    change->asked = 1;

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_api_change_declined(ngx_http_request_t *r)
{
    ngx_http_dsem_survey_redis_t  redis;

    ngx_http_dsem_survey_redis(&redis);

    return ngx_http_dsem_answer_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                      "Redis cannot be asked%s%V, nothing has "
                                      "been changed",
                                      redis.reason.len ? ": " : "",
                                      &redis.reason);
}


/* from an event that is not the request's own */

static void
ngx_http_dsem_api_change_done(ngx_http_dsem_order_t *order)
{
    ngx_connection_t            *c;
    ngx_http_request_t          *r;
    ngx_http_dsem_api_change_t  *change;

    change = order->data;
    change->asked = 0;

    r = change->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    if (order->rc == NGX_OK && !change->session) {
        ngx_http_dsem_api_change_configured(change);
    }

    ngx_http_dsem_api_change_log(change);

    if (order->rc == NGX_OK || order->rc == NGX_ERROR) {
        ngx_http_dsem_survey_expire();
    }

    ngx_http_finalize_request(r, ngx_http_dsem_api_change_answer(change));

    ngx_http_run_posted_requests(c);
}


static ngx_int_t
ngx_http_dsem_api_change_answer(ngx_http_dsem_api_change_t *change)
{
    switch (change->order.rc) {

    case NGX_OK:
        return change->session
               ? ngx_http_dsem_api_change_answer_session(change)
               : ngx_http_dsem_api_change_answer_order(change);

    case NGX_DECLINED:

        if (change->order.server.len) {
            return ngx_http_dsem_answer_error(change->request,
                                              NGX_HTTP_NOT_FOUND,
                                              "semaphore \"%V\" has no servers",
                                              &change->order.name);
        }

        return ngx_http_dsem_answer_error(change->request, NGX_HTTP_NOT_FOUND,
                                          "session \"%V\" is not known to "
                                          "Redis",
                                          &change->order.name);

    case NGX_BUSY:

        if (change->order.server.len) {
            return ngx_http_dsem_answer_error(change->request,
                                              NGX_HTTP_CONFLICT,
                                              "64 servers of \"%V\" have "
                                              "ordered limits already, null "
                                              "ends one",
                                              &change->order.name);
        }

        return ngx_http_dsem_answer_error(change->request, NGX_HTTP_CONFLICT,
                                          "session \"%V\" was heard from "
                                          "within two heartbeats; with "
                                          "\"force\": true its permits would "
                                          "be granted again while its "
                                          "requests still run",
                                          &change->order.name);

    case NGX_ABORT:
        return ngx_http_dsem_answer_error(change->request, NGX_HTTP_CONFLICT,
                                          "a key of \"%V\" in Redis is of "
                                          "another type, nothing has been "
                                          "changed",
                                          &change->order.name);

    default: /* NGX_ERROR */

        if (!change->order.sent) {
            return ngx_http_dsem_api_change_declined(change->request);
        }

        return ngx_http_dsem_answer_error(change->request,
                                          NGX_HTTP_SERVICE_UNAVAILABLE,
                                          "Redis has not answered, the change "
                                          "may have been made all the same");
    }
}


/*
 * Of a server Redis has replied what sessions state, and the limit in force but
 * for an order for this server alone.  Of one that no session states this node
 * may have it in its own configuration.  With "limit=max_conns" it has replied
 * the largest limit there is, for all servers; an order for all may be above
 * what any of them has, in the lists of the fleet and here.  At rest there are
 * no lists, and other nodes may have more than this one.
 */

static void
ngx_http_dsem_api_change_configured(ngx_http_dsem_api_change_t *change)
{
    ngx_http_dsem_order_t     *order;
    ngx_http_dsem_srv_conf_t  *dscf;

    order = &change->order;
    dscf = ngx_http_dsem_pool_conf(&order->name);

    if (order->server.len == 0) {

        if (dscf == NULL && order->highest == -1) {
            return;
        }

    } else if (order->configured == -1) {
        order->configured = ngx_http_dsem_api_pool_configured(
                                             change->request->pool,
                                             &order->name, &order->server,
                                             &order->in_force);
    }

    order->in_force = ngx_http_dsem_api_pool_lower(order->in_force,
                                                   order->ordered);

    order->in_force = ngx_http_dsem_api_pool_each(order->in_force);
    order->configured = ngx_http_dsem_api_pool_each(order->configured);

    if (order->server.len == 0
        && order->highest != -1
        && order->ordered > order->highest
        && order->ordered > ngx_http_dsem_api_pool_own(change->request->pool,
                                                       dscf))
    {
        order->in_force = -1;
    }
}


static ngx_int_t
ngx_http_dsem_api_change_answer_order(ngx_http_dsem_api_change_t *change)
{
    ngx_http_dsem_order_t     *order;
    ngx_http_dsem_api_text_t   text;

    order = &change->order;

    ngx_http_dsem_api_text_init(&text, change->request->pool);

    ngx_http_dsem_json_open(&text, NULL, "{");
    ngx_http_dsem_json_string(&text, "name", &order->name);

    if (order->server.len) {
        ngx_http_dsem_api_pool_decode(&order->server);
        ngx_http_dsem_json_string(&text, "server", &order->server);
    }

    ngx_http_dsem_json_maybe(&text, "limit", order->in_force);
    ngx_http_dsem_json_maybe(&text, "configured", order->configured);

    if (order->server.len) {
        ngx_http_dsem_json_maybe(&text, "ordered", order->ordered);

    } else if (order->ordered >= 0 || order->is_paused) {
        ngx_http_dsem_json_open(&text, "order", "{");
        ngx_http_dsem_json_maybe(&text, "limit", order->ordered);
        ngx_http_dsem_json_flag(&text, "paused", order->is_paused);
        ngx_http_dsem_json_close(&text, "}");

    } else {
        ngx_http_dsem_json_literal(&text, "order", "null");
    }

    ngx_http_dsem_json_maybe(&text, "in_use", order->held);
    ngx_http_dsem_json_maybe(&text, "waiting", order->waiting);
    ngx_http_dsem_json_close(&text, "}");
    ngx_http_dsem_api_text_put(&text, "\n");

    return ngx_http_dsem_answer_send(change->request, NGX_HTTP_OK,
                                     NGX_HTTP_DSEM_API_JSON, &text);
}


static ngx_int_t
ngx_http_dsem_api_change_answer_session(ngx_http_dsem_api_change_t *change)
{
    ngx_http_dsem_api_text_t  text;

    ngx_http_dsem_api_text_init(&text, change->request->pool);

    ngx_http_dsem_json_open(&text, NULL, "{");
    ngx_http_dsem_json_string(&text, "session", &change->order.name);
    ngx_http_dsem_json_flag(&text, "removed", 1);
    ngx_http_dsem_json_close(&text, "}");
    ngx_http_dsem_api_text_put(&text, "\n");

    return ngx_http_dsem_answer_send(change->request, NGX_HTTP_OK,
                                     NGX_HTTP_DSEM_API_JSON, &text);
}


/* what, from, to, by whom */

static void
ngx_http_dsem_api_change_log(ngx_http_dsem_api_change_t *change)
{
    u_char                  was[NGX_INT_T_LEN + 1], is[NGX_INT_T_LEN + 1];
    u_char                  in_force[NGX_INT_T_LEN + 1];
    ngx_log_t              *log;
    const char             *limit;
    ngx_http_dsem_order_t  *order;

    order = &change->order;
    log = change->request->connection->log;

    if (order->rc == NGX_ERROR) {

        if (!order->sent) {
            return;
        }

        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "dsem: no reply to a change of \"%V\" by %V (user "
                      "\"%V\"), it may have been made all the same",
                      &order->name, &change->request->connection->addr_text,
                      &change->user);
        return;
    }

    if (order->rc != NGX_OK) {
        return;
    }

    if (order->server.len) {
        ngx_http_dsem_api_change_log_server(change);
        return;
    }

    if (change->session) {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "dsem: session %V removed%s by %V (user \"%V\"), its "
                      "permits are released",
                      &order->name, order->force ? " by force" : "",
                      &change->request->connection->addr_text, &change->user);
        return;
    }

    limit = (order->in_force == -1
             && (order->highest != -1 || ngx_http_dsem_pool_conf(&order->name)))
            ? "max_conns"
            : ngx_http_dsem_api_change_limit_text(in_force, order->in_force);

    ngx_log_error(NGX_LOG_NOTICE, log, 0,
                  "dsem: order for semaphore \"%V\": limit %s -> %s, paused "
                  "%s -> %s, by %V (user \"%V\"), limit in force %s",
                  &order->name,
                  ngx_http_dsem_api_change_limit_text(was, order->was_ordered),
                  ngx_http_dsem_api_change_limit_text(is, order->ordered),
                  order->was_paused ? "yes" : "no",
                  order->is_paused ? "yes" : "no",
                  &change->request->connection->addr_text, &change->user,
                  limit);
}


static void
ngx_http_dsem_api_change_log_server(ngx_http_dsem_api_change_t *change)
{
    u_char                  was[NGX_INT_T_LEN + 1], is[NGX_INT_T_LEN + 1];
    u_char                  in_force[NGX_INT_T_LEN + 1];
    ngx_http_dsem_order_t  *order;

    order = &change->order;

    ngx_log_error(NGX_LOG_NOTICE, change->request->connection->log, 0,
                  "dsem: order for server %V of semaphore \"%V\": limit %s -> "
                  "%s, by %V (user \"%V\"), limit in force %s",
                  &order->server, &order->name,
                  ngx_http_dsem_api_change_limit_text(was, order->was_ordered),
                  ngx_http_dsem_api_change_limit_text(is, order->ordered),
                  &change->request->connection->addr_text, &change->user,
                  ngx_http_dsem_api_change_limit_text(in_force,
                                                      order->in_force));
}


static char *
ngx_http_dsem_api_change_limit_text(u_char *buf, ngx_int_t limit)
{
    if (limit < 0) {
        return "none";
    }

    ngx_sprintf(buf, "%i%Z", limit);

    return (char *) buf;
}


/* a closed connection of HTTP/2, an exit: the answer reaches no client */

static void
ngx_http_dsem_api_change_cleanup(void *data)
{
    ngx_http_dsem_api_change_t *change = data;

    if (!change->asked) {
        return;
    }

    change->asked = 0;
    change->order.rc = NGX_ERROR;

    ngx_http_dsem_order_cancel(&change->order);
    ngx_http_dsem_api_change_log(change);
}
