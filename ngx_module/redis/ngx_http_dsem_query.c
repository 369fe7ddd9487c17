
/*
 * Query: one connection that asks a candidate which server to connect to.
 *
 * Owns the connection, the command that is sent, the deadline for its reply,
 * and the form of the replies; its handler is called once for each question.
 * It knows nothing of other candidates.  The connection stays open after a
 * reply, until the query is closed: the next question costs no connection.
 *
 * A sentinel is asked for the address of the master.  A node of a Cluster is
 * asked for a key that never exists, with a command that the scripts need
 * anyway: only the master of the slot replies without an error.
 *
 * Called by: locate.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_locate.h"


static void ngx_http_dsem_query_silence_handler(ngx_event_t *ev);
static void ngx_http_dsem_query_reply(void *data, redisReply *reply);
static void ngx_http_dsem_query_sentinel_parse(ngx_http_dsem_query_t *query,
    redisReply *reply);
static void ngx_http_dsem_query_cluster_parse(ngx_http_dsem_query_t *query,
    redisReply *reply);
static void ngx_http_dsem_query_failed(void *data, const char *reason,
    ngx_uint_t protocol_error);


static ngx_http_dsem_connection_handlers_t  ngx_http_dsem_query_handlers = {
    ngx_http_dsem_query_send,
    ngx_http_dsem_query_reply,
    ngx_http_dsem_query_failed,
    NULL
};


/* no semaphore has an empty name: its key never exists */

ngx_int_t
ngx_http_dsem_query_compose(ngx_http_dsem_question_t *question,
    ngx_http_dsem_keys_t *keys)
{
    u_char                *p;
    ngx_str_t              key, none;
    ngx_http_dsem_resp_t  *command;

    static ngx_str_t  sentinel = ngx_string("SENTINEL");
    static ngx_str_t  master = ngx_string("GET-MASTER-ADDR-BY-NAME");
    static ngx_str_t  hgetall = ngx_string("HGETALL");

    command = &question->command;

    if (question->settings->mode == NGX_HTTP_DSEM_MODE_SENTINEL) {
        ngx_http_dsem_resp_begin(command, 3);
        ngx_http_dsem_resp_string(command, &sentinel);
        ngx_http_dsem_resp_string(command, &master);
        ngx_http_dsem_resp_string(command, &question->settings->master);

        return ngx_http_dsem_resp_end(command);
    }

    ngx_str_null(&none);

    p = ngx_alloc(ngx_http_dsem_key_len(keys, &none), ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_http_dsem_key_parts(keys, "s", &none, &key, p);

    ngx_http_dsem_resp_begin(command, 2);
    ngx_http_dsem_resp_string(command, &hgetall);
    ngx_http_dsem_resp_string(command, &key);

    ngx_free(p);

    return ngx_http_dsem_resp_end(command);
}


void
ngx_http_dsem_query_init(ngx_http_dsem_query_t *query,
    ngx_http_dsem_question_t *question)
{
    query->question = question;

    ngx_http_dsem_deadline_timer(&query->silence,
                                 ngx_http_dsem_query_silence_handler, query);
}


/* not while the candidate is being asked; the handler may be called at once */

void
ngx_http_dsem_query_begin(ngx_http_dsem_query_t *query,
    ngx_http_dsem_candidate_t *candidate)
{
    char                       reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_http_dsem_question_t  *question;

    question = query->question;

    query->candidate = candidate;
    query->pending = 1;

    candidate->asking = 1;
    candidate->search = question->search;
    candidate->asked = ngx_current_msec;

    query->conn = ngx_http_dsem_connection_create(&candidate->at.addr,
                                                question->timeout,
                                                question->login,
                                                &ngx_http_dsem_query_handlers,
                                                query, reason);

    if (query->conn == NULL) {
        question->handler(query, NGX_HTTP_DSEM_QUERY_LOST, reason);
    }
}


/* the connection is established; or has been, and is used again */

void
ngx_http_dsem_query_send(void *data)
{
    ngx_http_dsem_query_t *query = data;

    ngx_http_dsem_resp_t       command;
    ngx_http_dsem_question_t  *question;

    question = query->question;

    query->pending = 1;
    query->candidate->search = question->search;

    command = question->command;

    if (ngx_http_dsem_connection_send(query->conn, &command) != NGX_OK) {
        question->handler(query, NGX_HTTP_DSEM_QUERY_LOST, "no memory");
        return;
    }

    ngx_http_dsem_deadline_set(&query->deadline, &query->silence,
                               question->timeout);
}


static void
ngx_http_dsem_query_silence_handler(ngx_event_t *ev)
{
    ngx_http_dsem_query_t *query = ev->data;

    if (!ngx_http_dsem_deadline_extend(&query->deadline, ev)) {
        query->question->handler(query, NGX_HTTP_DSEM_QUERY_LOST,
                                 "no reply in time");
    }
}


static void
ngx_http_dsem_query_reply(void *data, redisReply *reply)
{
    ngx_http_dsem_query_t *query = data;

    query->pending = 0;

    if (query->silence.timer_set) {
        ngx_del_timer(&query->silence);
    }

    if (query->question->settings->mode == NGX_HTTP_DSEM_MODE_SENTINEL) {
        ngx_http_dsem_query_sentinel_parse(query, reply);

    } else {
        ngx_http_dsem_query_cluster_parse(query, reply);
    }
}


/* the guard lets in a pair of strings, nil, a string or an error */

static void
ngx_http_dsem_query_sentinel_parse(ngx_http_dsem_query_t *query,
    redisReply *reply)
{
    char                       reason[NGX_HTTP_DSEM_REASON_LEN];
    ngx_str_t                  host;
    in_port_t                  port;
    ngx_http_dsem_question_t  *question;

    question = query->question;

    switch (reply->type) {

    case REDIS_REPLY_ARRAY:
        host.data = (u_char *) reply->element[0]->str;
        host.len = reply->element[0]->len;

        port = ngx_http_dsem_addr_port((u_char *) reply->element[1]->str,
                                       reply->element[1]->len);

        if (port
            && ngx_http_dsem_addr_parse(&query->named, &host, port) == NGX_OK)
        {
            question->handler(query, NGX_HTTP_DSEM_QUERY_NAMED, NULL);
            return;
        }

        ngx_http_dsem_reason(reason, "master \"%s\" is no address, "
                             "set \"announce-hostnames no\"", host.data);
        break;

    case REDIS_REPLY_NIL:
        ngx_http_dsem_reason(reason, "master \"%V\" is unknown",
                             &question->settings->master);
        break;

    case REDIS_REPLY_ERROR:
        ngx_http_dsem_reason(reason, "%s", reply->str);
        break;

    default:
        ngx_http_dsem_reason(reason, "unexpected reply");
        break;
    }

    question->handler(query, NGX_HTTP_DSEM_QUERY_USELESS, reason);
}


/* no error: this is the master of the slot */

static void
ngx_http_dsem_query_cluster_parse(ngx_http_dsem_query_t *query,
    redisReply *reply)
{
    ngx_addr_t                *addr;
    ngx_http_dsem_question_t  *question;

    question = query->question;

    switch (reply->type) {

    case REDIS_REPLY_ARRAY:
        addr = &query->candidate->at.addr;
        ngx_http_dsem_addr_set(&query->named, addr->sockaddr, addr->socklen);

        question->handler(query, NGX_HTTP_DSEM_QUERY_NAMED, NULL);
        break;

    case REDIS_REPLY_ERROR:
        question->handler(query, NGX_HTTP_DSEM_QUERY_ERROR, reply->str);
        break;

    default:
        question->handler(query, NGX_HTTP_DSEM_QUERY_USELESS,
                          "unexpected reply");
        break;
    }
}


static void
ngx_http_dsem_query_failed(void *data, const char *reason,
    ngx_uint_t protocol_error)
{
    ngx_http_dsem_query_t *query = data;

    query->question->handler(query, protocol_error
                                    ? NGX_HTTP_DSEM_QUERY_USELESS
                                    : NGX_HTTP_DSEM_QUERY_LOST,
                             reason);
}


void
ngx_http_dsem_query_close(ngx_http_dsem_query_t *query)
{
    if (query->candidate) {
        query->candidate->asking = 0;
        query->candidate = NULL;
    }

    if (query->conn) {
        ngx_http_dsem_connection_close(query->conn);
        query->conn = NULL;
    }

    if (query->silence.timer_set) {
        ngx_del_timer(&query->silence);
    }
}
