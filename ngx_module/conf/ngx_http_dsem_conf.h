
/*
 * The configuration: directives, their defaults, inheritance and checks.
 */


#ifndef _NGX_HTTP_DSEM_CONF_H_INCLUDED_
#define _NGX_HTTP_DSEM_CONF_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_limits.h"
#include "ngx_http_dsem_servers.h"
#include "ngx_http_dsem_settings.h"


#define NGX_HTTP_DSEM_MIN_PRIORITY   -8
#define NGX_HTTP_DSEM_MAX_PRIORITY   7

/* as large as a limit may be */
#define NGX_HTTP_DSEM_MAX_QUEUE      1000000000

/* of "limit=auto": bounds that are not given, and where it begins */
#define NGX_HTTP_DSEM_AUTO_MIN       1
#define NGX_HTTP_DSEM_AUTO_MAX       1000
#define NGX_HTTP_DSEM_AUTO_START     10

/* the largest of these, as in lua/include/limits_auto.lua */
#define NGX_HTTP_DSEM_AUTO_MOST      1000000


typedef enum {
    NGX_HTTP_DSEM_ON_ERROR_LOCAL = 0,
    NGX_HTTP_DSEM_ON_ERROR_PASS,
    NGX_HTTP_DSEM_ON_ERROR_REJECT
} ngx_http_dsem_on_error_e;


typedef enum {
    NGX_HTTP_DSEM_RELEASE_RESPONSE = 0,
    NGX_HTTP_DSEM_RELEASE_LOG
} ngx_http_dsem_release_e;


/* of "dsem_wait_body" */
typedef enum {
    NGX_HTTP_DSEM_WAIT_BODY_OFF = 0,
    NGX_HTTP_DSEM_WAIT_BODY_ON,
    NGX_HTTP_DSEM_WAIT_BODY_FIRST
} ngx_http_dsem_wait_body_e;


/* of "dsem_retry_after"; otherwise a number of seconds */
#define NGX_HTTP_DSEM_RETRY_AUTO     0
#define NGX_HTTP_DSEM_RETRY_OFF      -2


/* $request_body and $request_body_file */
#define NGX_HTTP_DSEM_NBODIES        2


/* of "share" */
#define NGX_HTTP_DSEM_MAX_SHARE      1000


/* the literal names seen so far, while the configuration is read */
typedef struct ngx_http_dsem_check_s  ngx_http_dsem_check_t;


/*
 * Parameters of "dsem"; those before "fair" are numbers that may have
 * variables, in the order in which requests evaluate them.
 */
typedef enum {
    NGX_HTTP_DSEM_PARAM_LIMIT = 0,
    NGX_HTTP_DSEM_PARAM_WEIGHT,
    NGX_HTTP_DSEM_PARAM_PRIORITY,
    NGX_HTTP_DSEM_PARAM_QUEUE,
    NGX_HTTP_DSEM_PARAM_TIMEOUT,
    NGX_HTTP_DSEM_PARAM_SHARE,
    NGX_HTTP_DSEM_PARAM_FAIR,
    NGX_HTTP_DSEM_PARAM_MIN,
    NGX_HTTP_DSEM_PARAM_MAX,
    NGX_HTTP_DSEM_NPARAMS
} ngx_http_dsem_param_e;


/* a number with variables */
typedef struct {
    ngx_http_complex_value_t   text;
    ngx_http_dsem_param_e      index;
    ngx_http_dsem_param_t     *param;       /* its name, its lower bound */
    ngx_int_t                  high;        /* its upper bound */
} ngx_http_dsem_value_t;


/* one "dsem name limit=n ..." directive */
typedef struct {
    ngx_http_complex_value_t   name;
    ngx_str_t                  encoded;     /* a literal name's; or null */
    uint32_t                   hash;        /* CRC32 of the same */

    /* literal numbers, or the defaults; in the order of those of an ask */
    ngx_int_t                  number;      /* the limit, of "auto" that of
                                               the start; or NGX_CONF_UNSET */
    ngx_int_t                  weight;
    ngx_int_t                  priority;
    ngx_int_t                  queue;       /* NGX_CONF_UNSET: "auto" */
    ngx_int_t                  share;       /* of a key of "fair" */
    ngx_int_t                  timeout;     /* ms */
    ngx_int_t                  min;         /* of "limit=auto" */
    ngx_int_t                  max;         /* of "auto"; 0: another one */

    ngx_http_dsem_value_t     *values;      /* numbers with variables, by
                                               index */
    ngx_uint_t                 nvalues;
    ngx_http_complex_value_t  *fair;        /* NULL: in order of arrival */

    ngx_uint_t                 body;        /* unsigned:1, a value is written
                                               with $request_body */
    ngx_uint_t                 max_conns;   /* unsigned:1, of an upstream: the
                                               limit of each server is its own,
                                               number is the largest one */
    ngx_http_dsem_pool_t      *pool;        /* of an upstream; or NULL */
    ngx_uint_t                 upstream;    /* unsigned:1, the line is that of
                                               the upstream with this name */
    ngx_flag_t                *strict;      /* "queue" is 0 for every request,
                                               or "dsem_hold" answers, in any
                                               limit of this literal name */
} ngx_http_dsem_limit_t;


/* a content handler that reads bodies whole, unless its flag is off */
typedef struct {
    ngx_http_handler_pt        handler;
    ngx_uint_t                 ctx_index;
    ngx_uint_t                 offset;      /* of the flag, which is that of an
                                               ngx_http_upstream_conf_t */
    ngx_str_t                  name;        /* of the flag's directive */
} ngx_http_dsem_reader_t;


/* servers of an upstream may come and go by DNS, since 1.27.3 */
#if (NGX_HTTP_UPSTREAM_ZONE && defined ngx_http_upstream_rr_peer_ref          \
     && !NGX_HTTP_DSEM_NO_POOLS)
#define NGX_HTTP_DSEM_RESOLVE  1
#endif


/* of an upstream */
typedef struct {
    ngx_http_dsem_limit_t         *limit;   /* NULL: it is no pool */
    ngx_http_upstream_srv_conf_t  *upstream;
    ngx_http_dsem_pool_t           pool;    /* its servers */

    ngx_http_upstream_init_pt      init_upstream;   /* of the balancer */
    ngx_http_upstream_init_peer_pt init_peer;
    ngx_uint_t                     initialized;     /* unsigned:1 */
} ngx_http_dsem_srv_conf_t;


typedef struct ngx_http_dsem_loc_conf_s  ngx_http_dsem_loc_conf_t;


/* "dsem upstream=name" */
typedef struct {
    ngx_str_t                  text;
    ngx_http_dsem_limit_t      limit;       /* its name is that of an upstream,
                                               all else is in its line */
    ngx_http_dsem_loc_conf_t  *level;       /* where it is written */
    ngx_str_t                  file;
    ngx_uint_t                 line;
} ngx_http_dsem_named_t;


struct ngx_http_dsem_loc_conf_s {
    ngx_http_dsem_loc_conf_t  *above;       /* of the level above this one */
    void                     **loc_conf;    /* of this level, by module; NULL:
                                               that of "http" */

    ngx_array_t               *limits;      /* ngx_http_dsem_limit_t;
                                               NULL: not limited */
    ngx_array_t               *below;       /* limits of the levels below one
                                               with "dsem_api" */
    ngx_http_dsem_named_t     *named;       /* the pool, where a target has
                                               variables; or NULL */

    ngx_flag_t                 api;         /* "dsem_api" answers here */
    ngx_flag_t                 write;       /* and it may change the fleet */
    ngx_array_t               *names;       /* ngx_http_server_name_t; NULL:
                                               it changes nothing */
    ngx_flag_t                 full;        /* with histograms of all names */
    ngx_uint_t                 exact;       /* unsigned:1, the path is that of
                                               the location */
    ngx_uint_t                 regex;       /* unsigned:1, the location has
                                               none */

    ngx_flag_t                 hold;        /* "dsem_hold" answers here */
    ngx_msec_t                 hold_max;    /* 0: for ever */
    ngx_msec_t                 hold_interval;
    ngx_msec_t                 hold_warn;   /* 0: off */

    ngx_uint_t                 status;
    ngx_uint_t                 status_full;
    ngx_uint_t                 status_timeout;
    ngx_uint_t                 status_error;

    ngx_uint_t                 log_level;
    ngx_uint_t                 on_error;
    ngx_uint_t                 release;
    ngx_msec_t                 reuse;       /* 0: off */
    ngx_int_t                  retry_after;
    ngx_uint_t                 wait_body;
    ngx_flag_t                 dry_run;

    /* what this worker has learned while it serves */
    unsigned                   body_asked:1;    /* a value needs the body */
    unsigned                   body_missed:1;   /* and that it has none has
                                                   been logged */
};


typedef struct {
    ngx_http_dsem_redis_settings_t  *redis;
    ngx_str_t                  redis_file;  /* where the directive ends */
    ngx_uint_t                 redis_line;
    ngx_resolver_t            *resolver;    /* NULL: none at http level */
    ngx_msec_t                 resolver_timeout;
    ngx_msec_t                 connect_timeout;
    ngx_msec_t                 timeout;
    ngx_msec_t                 lease;
    ngx_str_t                  prefix;
    uint64_t                   space;       /* digest, see conf_digest */
    ngx_str_t                  node;
    ngx_int_t                  max_waiting; /* NGX_CONF_UNSET: a part of
                                               worker_connections */

    size_t                     zone_size;
    ngx_shm_zone_t            *zone;        /* NULL: nothing is limited */

    ngx_uint_t                 enabled;     /* unsigned:1, any limit or API */
    ngx_http_handler_pt        api;         /* of "dsem_api", see http/ */
    ngx_http_handler_pt        hold;        /* of "dsem_hold", see http/ */
    ngx_array_t               *readers;     /* ngx_http_dsem_reader_t */
    ngx_http_upstream_init_pt  init_upstream;   /* of pools, see http/ */
    ngx_array_t               *pools;       /* ngx_http_dsem_srv_conf_t *;
                                               NULL: no upstream is one */
    ngx_array_t               *locations;   /* of all levels, while all is
                                               read;
                                               ngx_http_dsem_loc_conf_t * */
    ngx_uint_t                 bodies[NGX_HTTP_DSEM_NBODIES];
                                            /* indices of the variables;
                                               NGX_CONF_UNSET_UINT: unused */

    ngx_int_t                  longest;     /* queue, of longest_name */
    ngx_str_t                  longest_name;

    ngx_http_dsem_limits_settings_t  limits;
    ngx_array_t                literals;    /* all literal names, sorted;
                                               ngx_http_dsem_limits_pair_t;
                                               limit: NGX_CONF_UNSET where
                                               it has variables */

    ngx_http_dsem_check_t     *check;       /* NULL: all is read */
} ngx_http_dsem_main_conf_t;


extern ngx_command_t  ngx_http_dsem_commands[];


void *ngx_http_dsem_create_main_conf(ngx_conf_t *cf);
char *ngx_http_dsem_init_main_conf(ngx_conf_t *cf, void *conf);
void *ngx_http_dsem_create_loc_conf(ngx_conf_t *cf);
char *ngx_http_dsem_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child);

ngx_int_t ngx_http_dsem_conf_zone(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
void ngx_http_dsem_conf_validate_queues(ngx_cycle_t *cycle);

/* conf_limit */
char *ngx_http_dsem_limit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_dsem_limit_pool(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_limit_t *limit);

/* conf_upstream */
void *ngx_http_dsem_create_srv_conf(ngx_conf_t *cf);
char *ngx_http_dsem_upstream(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_dsem_upstream_table(ngx_pool_t *pool,
    ngx_http_upstream_srv_conf_t *us, ngx_http_dsem_pool_t *table);
ngx_int_t ngx_http_dsem_upstream_limit(ngx_http_upstream_rr_peer_t *peer);
ngx_int_t ngx_http_dsem_upstream_servers(ngx_conf_t *cf,
    ngx_http_dsem_srv_conf_t *dscf);
ngx_int_t ngx_http_dsem_upstream_check(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
ngx_http_dsem_srv_conf_t *ngx_http_dsem_upstream_find(
    ngx_http_dsem_main_conf_t *dmcf, ngx_str_t *name);

/* conf_target */
ngx_int_t ngx_http_dsem_targets(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
ngx_command_t *ngx_http_dsem_target_command(ngx_module_t *module,
    ngx_str_t *suffix,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf));

/* conf_redis */
char *ngx_http_dsem_conf_redis(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_dsem_conf_redis_default(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);

/* conf_secret */
ngx_int_t ngx_http_dsem_conf_secret_login(ngx_conf_t *cf,
    ngx_http_dsem_login_t *login, ngx_str_t *names, ngx_str_t *value);
void ngx_http_dsem_conf_secret_wipe(ngx_conf_t *cf, ngx_uint_t all);

/* conf_tls */
ngx_int_t ngx_http_dsem_conf_tls(ngx_conf_t *cf,
    ngx_http_dsem_redis_settings_t *settings, ngx_uint_t ssl,
    ngx_http_dsem_param_t *params, ngx_http_dsem_arg_t *args);

/* conf_names */
ngx_int_t ngx_http_dsem_conf_names(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);

/* conf_api */
char *ngx_http_dsem_conf_api(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
ngx_int_t ngx_http_dsem_conf_api_merge(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *prev, ngx_http_dsem_loc_conf_t *conf,
    ngx_uint_t own);
ngx_uint_t ngx_http_dsem_conf_api_answers(ngx_conf_t *cf,
    ngx_flag_t above, ngx_flag_t *here, ngx_http_handler_pt handler,
    const char *name);
ngx_uint_t ngx_http_dsem_conf_api_loopback(struct sockaddr *sa);

/* conf_check */
ngx_http_dsem_check_t *ngx_http_dsem_check_create(ngx_conf_t *cf);
ngx_int_t ngx_http_dsem_check_literal(ngx_conf_t *cf, ngx_array_t *limits,
    ngx_http_dsem_limit_t *limit);
ngx_int_t ngx_http_dsem_check_pool(ngx_conf_t *cf,
    ngx_http_dsem_limit_t *limit);
ngx_int_t ngx_http_dsem_check_literals(ngx_http_dsem_check_t *check,
    ngx_array_t *pairs);
void ngx_http_dsem_check_warn(ngx_conf_t *cf, ngx_http_dsem_check_t *check);

/* conf_digest */
ngx_int_t ngx_http_dsem_conf_digest(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf);
void ngx_http_dsem_conf_digest_space(ngx_http_dsem_main_conf_t *dmcf);


#endif /* _NGX_HTTP_DSEM_CONF_H_INCLUDED_ */
