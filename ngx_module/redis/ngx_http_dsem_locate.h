
/*
 * What locate is made of: candidates, servers that may be asked for the one to
 * connect to, and queries, connections that ask one of them.
 */


#ifndef _NGX_HTTP_DSEM_LOCATE_H_INCLUDED_
#define _NGX_HTTP_DSEM_LOCATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_addr.h"
#include "ngx_http_dsem_connection.h"
#include "ngx_http_dsem_deadline.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_reason.h"
#include "ngx_http_dsem_settings.h"


typedef struct {
    ngx_http_dsem_addr_t             at;
    ngx_http_dsem_server_t          *server;  /* NULL: not configured */

    ngx_uint_t                       search;  /* it was last asked in */
    ngx_msec_t                       asked;   /* the last connection */
    unsigned                         asking:1;
} ngx_http_dsem_candidate_t;


typedef struct {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_candidate_t       *elts;    /* those configured are first */
    ngx_uint_t                       n;
    ngx_uint_t                       nconfigured;
    ngx_uint_t                       size;
    ngx_http_dsem_candidate_t       *likely;  /* to be asked first; or NULL */
    unsigned                         unnamed:1;  /* a name that is no address
                                                    is in the log */
} ngx_http_dsem_candidates_t;


/* of MOVED and ASK; host points into the text, empty: that of the sender */
typedef struct {
    ngx_str_t                        host;
    in_port_t                        port;
    ngx_uint_t                       slot;
    unsigned                         ask:1;   /* it has not moved yet */
} ngx_http_dsem_moved_t;


/* what has become of a query */
typedef enum {
    NGX_HTTP_DSEM_QUERY_NAMED = 0,  /* the reply names the server: "named" */
    NGX_HTTP_DSEM_QUERY_ERROR,      /* a node of a Cluster has replied with
                                       this error; it may name another one */
    NGX_HTTP_DSEM_QUERY_USELESS,    /* it has replied with something else */
    NGX_HTTP_DSEM_QUERY_LOST        /* no connection, or no reply in time */
} ngx_http_dsem_query_result_e;


typedef struct ngx_http_dsem_query_s  ngx_http_dsem_query_t;

/* text: the error, or the reason; after the last two close the query */
typedef void (*ngx_http_dsem_query_handler_pt)(ngx_http_dsem_query_t *query,
    ngx_http_dsem_query_result_e result, const char *text);


/* what all queries of a locator ask */
typedef struct {
    ngx_http_dsem_redis_settings_t  *settings;
    ngx_http_dsem_login_t           *login;
    ngx_msec_t                       timeout;   /* ms, for one candidate */
    ngx_uint_t                       search;    /* number of searches */
    ngx_http_dsem_resp_t             command;
    ngx_http_dsem_query_handler_pt   handler;
    void                            *data;
} ngx_http_dsem_question_t;


struct ngx_http_dsem_query_s {
    ngx_http_dsem_question_t        *question;
    ngx_http_dsem_candidate_t       *candidate;  /* NULL: not in use */
    ngx_http_dsem_connection_t      *conn;
    ngx_event_t                      silence;
    ngx_http_dsem_deadline_t         deadline;   /* of the silence */
    ngx_http_dsem_addr_t             named;      /* by the last reply */
    unsigned                         pending:1;  /* no reply yet */
};


ngx_int_t ngx_http_dsem_candidates_create(
    ngx_http_dsem_candidates_t *candidates,
    ngx_http_dsem_redis_settings_t *settings);

ngx_http_dsem_candidate_t *ngx_http_dsem_candidates_oldest(
    ngx_http_dsem_candidates_t *candidates, ngx_uint_t search);
ngx_int_t ngx_http_dsem_candidates_learn(
    ngx_http_dsem_candidates_t *candidates, ngx_uint_t slot,
    const char *error, ngx_addr_t *from,
    ngx_http_dsem_candidate_t **candidate);
ngx_int_t ngx_http_dsem_candidates_parse(ngx_http_dsem_moved_t *moved,
    const char *error);

ngx_int_t ngx_http_dsem_query_compose(ngx_http_dsem_question_t *question,
    ngx_http_dsem_keys_t *keys);
void ngx_http_dsem_query_init(ngx_http_dsem_query_t *query,
    ngx_http_dsem_question_t *question);
void ngx_http_dsem_query_begin(ngx_http_dsem_query_t *query,
    ngx_http_dsem_candidate_t *candidate);
void ngx_http_dsem_query_send(void *data);
void ngx_http_dsem_query_close(ngx_http_dsem_query_t *query);


#endif /* _NGX_HTTP_DSEM_LOCATE_H_INCLUDED_ */
