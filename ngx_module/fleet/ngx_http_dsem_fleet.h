
/*
 * The fleet: figures of semaphores and sessions, of one survey.
 */


#ifndef _NGX_HTTP_DSEM_FLEET_H_INCLUDED_
#define _NGX_HTTP_DSEM_FLEET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* one live session with something of a semaphore */
typedef struct {
    ngx_str_t         session;
    ngx_str_t         node;         /* part of session */
    ngx_uint_t        worker;
    ngx_int_t         held;         /* in use or idle */
    ngx_int_t         idle;
    ngx_int_t         waiting;
    ngx_int_t         lease;        /* ms left */
    unsigned          heard:1;      /* within two heartbeats */
} ngx_http_dsem_holder_t;


/* a configured limit that is not the one in force */
typedef struct {
    ngx_str_t         node;         /* one of those that have it */
    ngx_int_t         limit;
} ngx_http_dsem_disagreement_t;


/* one server of a pool */
typedef struct {
    ngx_str_t         name;         /* encoded */
    ngx_int_t         held;
    ngx_int_t         limit;        /* that sessions state; -1: none does */
    ngx_int_t         ordered;      /* -1: none */
} ngx_http_dsem_survey_server_t;


/* one change of a limit that is found */
typedef struct {
    ngx_int_t         age;          /* ms */
    ngx_int_t         limit;
    ngx_int_t         reason;
} ngx_http_dsem_move_t;


/* "limit=auto" */
typedef struct {
    ngx_int_t         min;
    ngx_int_t         max;
    ngx_int_t         limit;        /* found; another one may be in force */
    ngx_int_t         reason;       /* as in lua/include/auto_rule.lua */
    ngx_int_t         floor;        /* us, latency without queueing; or 0 */
    ngx_int_t         latency;      /* us; 0: unknown */
    ngx_array_t       moves;        /* ngx_http_dsem_move_t, oldest first */
} ngx_http_dsem_found_t;


typedef struct {
    ngx_str_t         name;         /* encoded */
    ngx_uint_t        shard;
    ngx_int_t         limit;        /* in force; -1: unknown, as below */
    ngx_int_t         configured;
    ngx_int_t         ordered;      /* -1: none */
    ngx_int_t         paused;       /* 1, 0 */
    ngx_int_t         held;
    ngx_int_t         waiting;
    ngx_array_t       holders;      /* ngx_http_dsem_holder_t */
    ngx_array_t       disagreements;
    ngx_array_t       servers;      /* ngx_http_dsem_survey_server_t; none:
                                       no pool, or one at rest */
    ngx_http_dsem_found_t  *found;  /* NULL: not "auto", or unknown */
    uint64_t          read;         /* monotonic ms, when it was complete */
    unsigned          order:1;      /* there is an order */
    unsigned          partial:1;    /* some holders are missing */
    unsigned          replied:1;    /* Redis was asked, and has replied */
    unsigned          in_redis:1;   /* Redis has something of it */
    unsigned          counted:1;    /* this node has counters of it */
} ngx_http_dsem_survey_semaphore_t;


/* a node of the fleet */
typedef struct {
    ngx_str_t         node;
    ngx_uint_t        sessions;     /* live ones, in the shard with most */
    ngx_uint_t        holding;      /* those with an account, as read */
    uint64_t          heard;        /* monotonic ms, its last heartbeat */
} ngx_http_dsem_survey_node_t;


typedef struct {
    ngx_array_t       semaphores;   /* ngx_http_dsem_survey_semaphore_t,
                                       by name */
    ngx_array_t       nodes;        /* ngx_http_dsem_survey_node_t, by name */
    ngx_uint_t        nsessions;    /* live ones, in the shard with most */
    uint64_t          read;         /* monotonic ms, when it was complete */
    unsigned          partial:1;    /* some names are missing */
} ngx_http_dsem_survey_t;


/* a survey that is being read, in memory of its own */
typedef struct {
    ngx_pool_t               *pool;
    ngx_uint_t                users;      /* it lives until the last of them
                                             has destroyed it */
    ngx_http_dsem_survey_t    survey;

    ngx_rbtree_t              sessions;   /* those met, by name */
    ngx_rbtree_t              workers;    /* theirs, by node and number */
    ngx_rbtree_node_t         sentinel;   /* of both */
    ngx_uint_t                nsessions;
} ngx_http_dsem_fleet_t;


ngx_http_dsem_fleet_t *ngx_http_dsem_fleet_create(void);
void ngx_http_dsem_fleet_destroy(void *data);

void *ngx_http_dsem_fleet_push(ngx_http_dsem_fleet_t *fleet,
    ngx_array_t *array, size_t size, ngx_str_t *name);
ngx_http_dsem_survey_semaphore_t *ngx_http_dsem_fleet_add(
    ngx_http_dsem_fleet_t *fleet, ngx_str_t *name, ngx_uint_t shard);
void ngx_http_dsem_fleet_sort(ngx_http_dsem_fleet_t *fleet);
ngx_int_t ngx_http_dsem_fleet_hold(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore,
    ngx_http_dsem_holder_t *holder);
void ngx_http_dsem_fleet_complete(ngx_http_dsem_fleet_t *fleet);

ngx_uint_t ngx_http_dsem_fleet_is_name(ngx_str_t *name);
ngx_uint_t ngx_http_dsem_fleet_is_node(ngx_str_t *node);
ngx_int_t ngx_http_dsem_fleet_session(ngx_str_t *session,
    ngx_http_dsem_holder_t *holder);

/* inspect: what lua/inspect.lua replies */
ngx_int_t ngx_http_dsem_inspect_read(ngx_http_dsem_fleet_t *fleet,
    ngx_uint_t first, ngx_uint_t n, ngx_uint_t count, ngx_str_t *text);


#endif /* _NGX_HTTP_DSEM_FLEET_H_INCLUDED_ */
