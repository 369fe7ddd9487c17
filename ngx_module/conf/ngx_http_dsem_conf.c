
/*
 * The configuration: directives, their defaults, inheritance and bounds.
 *
 * Owns the table of directives.  "dsem" itself is in conf_limit, the reading
 * of single values in conf_param.  Whatever is wrong is refused when the
 * configuration is read, and never at run time.
 *
 * After a merge dlcf->limits is NULL where nothing is limited.  The limits of
 * a level are one array, shared by the levels that inherit it, and do not
 * change after that.
 *
 * Called by: nginx, through the tables of the module.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_zone.h"


static char *ngx_http_dsem_status(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_dsem_retry_after(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_dsem_time_off(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_http_dsem_conf_hold(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_http_dsem_conf_hold_merge(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *prev, ngx_http_dsem_loc_conf_t *conf);
static ngx_int_t ngx_http_dsem_conf_location(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *prev, ngx_http_dsem_loc_conf_t *conf);
static ngx_int_t ngx_http_dsem_parse_code(ngx_str_t *text, ngx_int_t *number);
static ngx_int_t ngx_http_dsem_conf_node(ngx_conf_t *cf, ngx_str_t *node);


/* indices of the parameters of "dsem_status" */
enum {
    NGX_HTTP_DSEM_REASON_FULL = 0,
    NGX_HTTP_DSEM_REASON_TIMED_OUT,
    NGX_HTTP_DSEM_REASON_ERROR,
    NGX_HTTP_DSEM_NREASONS
};


#define ngx_http_dsem_status_code(name)                                       \
    { ngx_string(name), ngx_http_dsem_parse_code, 400, 599, 0,                \
      "a number other than 408, 444 and 499, with which nginx closes the "    \
      "connection, and 494 to 497, for which it sends 400", "" }

static ngx_http_dsem_param_t  ngx_http_dsem_reasons[] = {
    ngx_http_dsem_status_code("full"),
    ngx_http_dsem_status_code("timeout"),
    ngx_http_dsem_status_code("error"),
    ngx_http_dsem_null_param
};


/* indices of the parameters of "dsem_hold" */
enum {
    NGX_HTTP_DSEM_HOLD_MAX = 0,
    NGX_HTTP_DSEM_HOLD_INTERVAL,
    NGX_HTTP_DSEM_NHOLDS
};


static ngx_http_dsem_param_t  ngx_http_dsem_holds[] = {
    ngx_http_dsem_time("max", 1, NGX_HTTP_DSEM_MAX_TIME, 0),
    ngx_http_dsem_time("interval", 100, 3600000, 0),
    ngx_http_dsem_null_param
};


static ngx_http_dsem_param_t  ngx_http_dsem_code =
    ngx_http_dsem_status_code("");

static ngx_http_dsem_param_t  ngx_http_dsem_redis_timeouts =
    ngx_http_dsem_time("", 1, NGX_HTTP_DSEM_MAX_TIME, 0);

static ngx_http_dsem_param_t  ngx_http_dsem_retry =
    ngx_http_dsem_time_or("", 1000, NGX_HTTP_DSEM_MAX_TIME,
                          ", \"auto\" or \"off\"");

static ngx_http_dsem_param_t  ngx_http_dsem_reuse_time =
    ngx_http_dsem_time_or("", 1, 60000, " or \"off\"");

static ngx_http_dsem_param_t  ngx_http_dsem_warn_time =
    ngx_http_dsem_time_or("", 1, NGX_HTTP_DSEM_MAX_TIME, " or \"off\"");

static ngx_http_dsem_param_t  ngx_http_dsem_lease =
    ngx_http_dsem_time("", 1000, 3600000, 0);

/* some pages for the slab allocator, then an entry per worker */
static ngx_http_dsem_param_t  ngx_http_dsem_zone_size =
    ngx_http_dsem_size("", 65536, 1073741824);

static ngx_http_dsem_param_t  ngx_http_dsem_max_waiting =
    ngx_http_dsem_number("", 1, NGX_HTTP_DSEM_MAX_QUEUE, 0);


static ngx_http_dsem_string_t  ngx_http_dsem_prefix = {
    '\0', "1 to 64 characters of A-Z, a-z, 0-9, \".\", \"_\", \":\", \"-\""
};

/* sessions are written as node:worker:number */
static ngx_http_dsem_string_t  ngx_http_dsem_node = {
    ':', "1 to 64 characters of A-Z, a-z, 0-9, \".\", \"_\", \"-\""
};


static ngx_conf_enum_t  ngx_http_dsem_flag[] = {
    { ngx_string("on"), 1 },
    { ngx_string("off"), 0 },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_dsem_wait_bodies[] = {
    { ngx_string("on"), NGX_HTTP_DSEM_WAIT_BODY_ON },
    { ngx_string("off"), NGX_HTTP_DSEM_WAIT_BODY_OFF },
    { ngx_string("first"), NGX_HTTP_DSEM_WAIT_BODY_FIRST },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_dsem_on_error[] = {
    { ngx_string("local"), NGX_HTTP_DSEM_ON_ERROR_LOCAL },
    { ngx_string("pass"), NGX_HTTP_DSEM_ON_ERROR_PASS },
    { ngx_string("reject"), NGX_HTTP_DSEM_ON_ERROR_REJECT },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_dsem_releases[] = {
    { ngx_string("response"), NGX_HTTP_DSEM_RELEASE_RESPONSE },
    { ngx_string("log"), NGX_HTTP_DSEM_RELEASE_LOG },
    { ngx_null_string, 0 }
};


static ngx_conf_enum_t  ngx_http_dsem_log_levels[] = {
    { ngx_string("info"), NGX_LOG_INFO },
    { ngx_string("notice"), NGX_LOG_NOTICE },
    { ngx_string("warn"), NGX_LOG_WARN },
    { ngx_string("error"), NGX_LOG_ERR },
    { ngx_null_string, 0 }
};


ngx_command_t  ngx_http_dsem_commands[] = {

    { ngx_string("dsem"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_dsem_limit,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("dsem"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_http_dsem_upstream,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("dsem_status"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_1MORE,
      ngx_http_dsem_status,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("dsem_log_level"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_enum,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_dsem_loc_conf_t, log_level),
      &ngx_http_dsem_log_levels },

    { ngx_string("dsem_on_error"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_enum,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_dsem_loc_conf_t, on_error),
      &ngx_http_dsem_on_error },

    { ngx_string("dsem_retry_after"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_retry_after,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("dsem_release"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_enum,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_dsem_loc_conf_t, release),
      &ngx_http_dsem_releases },

    { ngx_string("dsem_reuse"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_time_off,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_dsem_loc_conf_t, reuse),
      &ngx_http_dsem_reuse_time },

    { ngx_string("dsem_wait_body"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_enum,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_dsem_loc_conf_t, wait_body),
      &ngx_http_dsem_wait_bodies },

    { ngx_string("dsem_dry_run"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_enum,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_dsem_loc_conf_t, dry_run),
      &ngx_http_dsem_flag },

    { ngx_string("dsem_hold"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE12,
      ngx_http_dsem_conf_hold,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("dsem_hold_warn"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_time_off,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_dsem_loc_conf_t, hold_warn),
      &ngx_http_dsem_warn_time },

    { ngx_string("dsem_redis"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_1MORE,
      ngx_http_dsem_conf_redis,
      NGX_HTTP_MAIN_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("dsem_redis_connect_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_number,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_dsem_main_conf_t, connect_timeout),
      &ngx_http_dsem_redis_timeouts },

    { ngx_string("dsem_redis_timeout"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_number,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_dsem_main_conf_t, timeout),
      &ngx_http_dsem_redis_timeouts },

    { ngx_string("dsem_lease"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_number,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_dsem_main_conf_t, lease),
      &ngx_http_dsem_lease },

    { ngx_string("dsem_max_waiting"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_number,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_dsem_main_conf_t, max_waiting),
      &ngx_http_dsem_max_waiting },

    { ngx_string("dsem_zone_size"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_number,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_dsem_main_conf_t, zone_size),
      &ngx_http_dsem_zone_size },

    { ngx_string("dsem_prefix"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_string,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_dsem_main_conf_t, prefix),
      &ngx_http_dsem_prefix },

    { ngx_string("dsem_node"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_http_dsem_param_string,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_http_dsem_main_conf_t, node),
      &ngx_http_dsem_node },

    { ngx_string("dsem_api"),
      NGX_HTTP_LOC_CONF|NGX_HTTP_LIF_CONF|NGX_CONF_ANY,
      ngx_http_dsem_conf_api,
      NGX_HTTP_LOC_CONF_OFFSET,
      0,
      NULL },

      ngx_null_command
};


/* the http level's configuration, nothing set; NULL: no memory */

void *
ngx_http_dsem_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_dsem_main_conf_t));
    if (dmcf == NULL) {
        return NULL;
    }

    dmcf->connect_timeout = NGX_CONF_UNSET_MSEC;
    dmcf->timeout = NGX_CONF_UNSET_MSEC;
    dmcf->lease = NGX_CONF_UNSET_MSEC;
    dmcf->max_waiting = NGX_CONF_UNSET;
    dmcf->zone_size = NGX_CONF_UNSET_SIZE;

    dmcf->check = ngx_http_dsem_check_create(cf);
    if (dmcf->check == NULL) {
        return NULL;
    }

    return dmcf;
}


/*
 * Sets the defaults, once the http level is read.  max_waiting stays
 * NGX_CONF_UNSET: its default is a part of worker_connections, which may be
 * set further down, so that a worker sets it when it starts.
 *
 * Returns NGX_CONF_OK, or NGX_CONF_ERROR when there is no memory.
 */

char *
ngx_http_dsem_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_http_dsem_main_conf_t *dmcf = conf;

    if (ngx_http_dsem_upstream_check(cf, dmcf) != NGX_OK
        || ngx_http_dsem_conf_digest(cf, dmcf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_dsem_check_warn(cf, dmcf->check);

    /* its memory goes when the configuration is read */

    dmcf->check = NULL;

    ngx_conf_init_msec_value(dmcf->connect_timeout, 500);
    ngx_conf_init_msec_value(dmcf->timeout, 1000);
    ngx_conf_init_msec_value(dmcf->lease, 5000);
    ngx_conf_init_size_value(dmcf->zone_size, 1024 * 1024);

    if (dmcf->timeout > dmcf->lease) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"dsem_redis_timeout\" is longer than "
                           "\"dsem_lease\", a worker may lose its permits "
                           "before Redis is unavailable to it");
    }

    if (dmcf->prefix.data == NULL) {
        ngx_str_set(&dmcf->prefix, "dsem");
    }

    if (dmcf->node.data == NULL
        && ngx_http_dsem_conf_node(cf, &dmcf->node) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (dmcf->redis == NULL
        && ngx_http_dsem_conf_redis_default(cf, dmcf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_dsem_conf_names(cf, dmcf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    ngx_http_dsem_conf_digest_space(dmcf);

    return NGX_CONF_OK;
}


/*
 * Adds the zone, once something is limited.  NGX_ERROR:
 * no memory.
 */

ngx_int_t
ngx_http_dsem_conf_zone(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf)
{
    /* a zone of limit_req may well be called "dsem" */
    static ngx_str_t  name = ngx_string("ngx_http_dsem_module");

    dmcf->zone = ngx_shared_memory_add(cf, &name,
                                       dmcf->zone_size
                                       + NGX_HTTP_DSEM_ZONE_MORE,
                                       &ngx_http_dsem_module);
    if (dmcf->zone == NULL) {
        return NGX_ERROR;
    }

    dmcf->zone->init = ngx_http_dsem_zone_init;

    return NGX_OK;
}


/*
 * A waiting request has a connection to its client: a queue beyond all
 * connections of the node cannot be filled by this node.  Known only when all
 * blocks are read: the log is that of messages about them, which is not the one
 * of "error_log", with a level of its own.
 */

void
ngx_http_dsem_conf_validate_queues(ngx_cycle_t *cycle)
{
    ngx_int_t                   connections;
    ngx_core_conf_t            *ccf;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_dsem_module);

    if (dmcf == NULL) {
        return;
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    connections = cycle->connection_n;

    if (ccf->master) {
        connections *= ccf->worker_processes;
    }

    if (dmcf->longest > connections) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "\"queue=%i\" in \"dsem\" directive of semaphore "
                      "\"%V\" is longer than the %i connections of this "
                      "node, requests beyond \"worker_connections\" or "
                      "\"dsem_max_waiting\" cannot wait",
                      dmcf->longest, &dmcf->longest_name, connections);
    }
}


/* a level's configuration, nothing set; NULL: no memory */

void *
ngx_http_dsem_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_dsem_loc_conf_t  *dlcf;

    dlcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_dsem_loc_conf_t));
    if (dlcf == NULL) {
        return NULL;
    }

    dlcf->limits = NGX_CONF_UNSET_PTR;

    dlcf->api = NGX_CONF_UNSET;
    dlcf->write = NGX_CONF_UNSET;
    dlcf->full = NGX_CONF_UNSET;

    dlcf->hold = NGX_CONF_UNSET;
    dlcf->hold_max = NGX_CONF_UNSET_MSEC;
    dlcf->hold_interval = NGX_CONF_UNSET_MSEC;
    dlcf->hold_warn = NGX_CONF_UNSET_MSEC;

    dlcf->status = NGX_CONF_UNSET_UINT;
    dlcf->status_full = NGX_CONF_UNSET_UINT;
    dlcf->status_timeout = NGX_CONF_UNSET_UINT;
    dlcf->status_error = NGX_CONF_UNSET_UINT;

    dlcf->log_level = NGX_CONF_UNSET_UINT;
    dlcf->on_error = NGX_CONF_UNSET_UINT;
    dlcf->release = NGX_CONF_UNSET_UINT;
    dlcf->reuse = NGX_CONF_UNSET_MSEC;
    dlcf->retry_after = NGX_CONF_UNSET;
    dlcf->wait_body = NGX_CONF_UNSET_UINT;
    dlcf->dry_run = NGX_CONF_UNSET;

    return dlcf;
}


/* inherits all that the level has not set; NGX_CONF_ERROR: no memory */

char *
ngx_http_dsem_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_dsem_loc_conf_t *prev = parent;
    ngx_http_dsem_loc_conf_t *conf = child;

    ngx_uint_t    own;
    ngx_array_t  *inherited;

    own = (conf->limits && conf->limits != NGX_CONF_UNSET_PTR);
    inherited = (prev->api == 1) ? prev->below : prev->limits;

    ngx_conf_merge_ptr_value(conf->limits, inherited, NULL);

    if (conf->named == NULL) {
        conf->named = prev->named;
    }

    if (ngx_http_dsem_conf_api_merge(cf, prev, conf, own) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    /* the four are set together or not at all */

    ngx_conf_merge_uint_value(conf->status, prev->status,
                              NGX_HTTP_SERVICE_UNAVAILABLE);
    ngx_conf_merge_uint_value(conf->status_full, prev->status_full,
                              NGX_HTTP_SERVICE_UNAVAILABLE);
    ngx_conf_merge_uint_value(conf->status_timeout, prev->status_timeout,
                              NGX_HTTP_SERVICE_UNAVAILABLE);
    ngx_conf_merge_uint_value(conf->status_error, prev->status_error,
                              NGX_HTTP_SERVICE_UNAVAILABLE);

    ngx_conf_merge_uint_value(conf->log_level, prev->log_level, NGX_LOG_ERR);
    ngx_conf_merge_uint_value(conf->on_error, prev->on_error,
                              NGX_HTTP_DSEM_ON_ERROR_LOCAL);
    ngx_conf_merge_uint_value(conf->release, prev->release,
                              NGX_HTTP_DSEM_RELEASE_RESPONSE);
    ngx_conf_merge_msec_value(conf->reuse, prev->reuse, 5000);
    ngx_conf_merge_msec_value(conf->hold_warn, prev->hold_warn, 0);
    ngx_conf_merge_value(conf->retry_after, prev->retry_after,
                         NGX_HTTP_DSEM_RETRY_AUTO);
    ngx_conf_merge_uint_value(conf->wait_body, prev->wait_body,
                              NGX_HTTP_DSEM_WAIT_BODY_ON);
    ngx_conf_merge_value(conf->dry_run, prev->dry_run, 0);

    if (ngx_http_dsem_conf_hold_merge(cf, prev, conf) != NGX_OK
        || ngx_http_dsem_conf_location(cf, prev, conf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_dsem_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_loc_conf_t *dlcf = conf;

    ngx_str_t            *value;
    ngx_uint_t            i;
    ngx_http_dsem_arg_t   code, args[NGX_HTTP_DSEM_NREASONS];

    if (dlcf->status != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;
    code.text = value[1];

    if (ngx_http_dsem_param_value(cf, cmd, &ngx_http_dsem_code, &code) != NGX_OK
        || ngx_http_dsem_param_args(cf, cmd, 2, ngx_http_dsem_reasons, args)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < NGX_HTTP_DSEM_NREASONS; i++) {
        if (args[i].text.data == NULL) {
            args[i].number = code.number;
        }
    }

    dlcf->status = code.number;
    dlcf->status_full = args[NGX_HTTP_DSEM_REASON_FULL].number;
    dlcf->status_timeout = args[NGX_HTTP_DSEM_REASON_TIMED_OUT].number;
    dlcf->status_error = args[NGX_HTTP_DSEM_REASON_ERROR].number;

    return NGX_CONF_OK;
}


/* a number, or NGX_ERROR: nginx would send nothing, or another one */

static ngx_int_t
ngx_http_dsem_parse_code(ngx_str_t *text, ngx_int_t *number)
{
    ngx_int_t  rc;

    rc = ngx_http_dsem_parse_number(text, number);

    if (rc == NGX_OK
        && (*number == NGX_HTTP_REQUEST_TIME_OUT
            || *number == NGX_HTTP_CLOSE
            || *number == NGX_HTTP_CLIENT_CLOSED_REQUEST
            || (*number >= NGX_HTTP_REQUEST_HEADER_TOO_LARGE
                && *number <= NGX_HTTP_TO_HTTPS)))
    {
        return NGX_ERROR;
    }

    return rc;
}


static char *
ngx_http_dsem_retry_after(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_loc_conf_t *dlcf = conf;

    ngx_str_t            *value;
    ngx_http_dsem_arg_t   arg;

    if (dlcf->retry_after != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "auto") == 0) {
        dlcf->retry_after = NGX_HTTP_DSEM_RETRY_AUTO;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        dlcf->retry_after = NGX_HTTP_DSEM_RETRY_OFF;
        return NGX_CONF_OK;
    }

    arg.text = value[1];

    if (ngx_http_dsem_param_value(cf, cmd, &ngx_http_dsem_retry, &arg)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    /* the header has whole seconds */

    dlcf->retry_after = arg.number / 1000 + (arg.number % 1000 != 0);

    return NGX_CONF_OK;
}


/* "off" is 0 */

static char *
ngx_http_dsem_time_off(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t   *value;
    ngx_msec_t  *time;

    value = cf->args->elts;
    time = (ngx_msec_t *) ((u_char *) conf + cmd->offset);

    if (*time == NGX_CONF_UNSET_MSEC
        && ngx_strcmp(value[1].data, "off") == 0)
    {
        *time = 0;
        return NGX_CONF_OK;
    }

    return ngx_http_dsem_param_number(cf, cmd, conf);
}


static char *
ngx_http_dsem_conf_hold(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_loc_conf_t *dlcf = conf;

    ngx_http_dsem_arg_t         args[NGX_HTTP_DSEM_NHOLDS];
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_dsem_main_conf_t  *dmcf;

    if (dlcf->hold != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    if (ngx_http_dsem_param_args(cf, cmd, 1, ngx_http_dsem_holds, args)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);

    dlcf->hold = 1;
    dlcf->hold_max = args[NGX_HTTP_DSEM_HOLD_MAX].number;
    dlcf->hold_interval = args[NGX_HTTP_DSEM_HOLD_INTERVAL].number;

    ngx_conf_init_msec_value(dlcf->hold_max, 0);
    ngx_conf_init_msec_value(dlcf->hold_interval, 15000);

    clcf->handler = dmcf->hold;

    return NGX_CONF_OK;
}


/* the limits are merged already; NGX_ERROR: there is no permit to hold */

static ngx_int_t
ngx_http_dsem_conf_hold_merge(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *prev,
    ngx_http_dsem_loc_conf_t *conf)
{
    ngx_uint_t                  i, inherited;
    ngx_http_dsem_limit_t      *limit;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_dsem_main_conf_t  *dmcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);

    inherited = ngx_http_dsem_conf_api_answers(cf, prev->hold, &conf->hold,
                                               dmcf->hold, "dsem_hold");
    if (inherited) {
        conf->hold_max = prev->hold_max;
        conf->hold_interval = prev->hold_interval;
    }

    if (!conf->hold) {
        return NGX_OK;
    }

    if (conf->limits == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"dsem_hold\" directive in location \"%V\" holds "
                           "no permit, it needs a \"dsem\" directive",
                           &clcf->name);
        return NGX_ERROR;
    }

    if (conf->dry_run && !inherited) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"dsem_hold\" directive in location \"%V\" grants "
                           "every program at once, as \"dsem_dry_run\" is on "
                           "there", &clcf->name);
    }

    /*
     * "Prefer: wait=0" asks for an answer at once: as with "queue=0", a worker
     * that must first be asked for an idle permit would make it wait
     */

    limit = conf->limits->elts;

    for (i = 0; i < conf->limits->nelts; i++) {
        *limit[i].strict = 1;
    }

    return NGX_OK;
}


/* all modules have merged: the handlers of a location are final */

static ngx_int_t
ngx_http_dsem_conf_location(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *prev,
    ngx_http_dsem_loc_conf_t *conf)
{
    ngx_http_conf_ctx_t         *ctx;
    ngx_http_dsem_loc_conf_t   **level;
    ngx_http_dsem_main_conf_t   *dmcf;

    ctx = cf->ctx;

    conf->above = prev;
    conf->loc_conf = ctx->loc_conf;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);

    if (dmcf->locations == NULL) {
        dmcf->locations = ngx_array_create(cf->temp_pool, 16,
                                           sizeof(ngx_http_dsem_loc_conf_t *));
        if (dmcf->locations == NULL) {
            return NGX_ERROR;
        }
    }

    level = ngx_array_push(dmcf->locations);
    if (level == NULL) {
        return NGX_ERROR;
    }

    *level = conf;

    return NGX_OK;
}


/* the hostname, with "-" for characters that a node must not have */

static ngx_int_t
ngx_http_dsem_conf_node(ngx_conf_t *cf, ngx_str_t *node)
{
    size_t      i;
    ngx_str_t  *hostname;

    hostname = &cf->cycle->hostname;

    if (hostname->len == 0) {
        ngx_str_set(node, "-");
        return NGX_OK;
    }

    node->data = ngx_pstrdup(cf->pool, hostname);
    if (node->data == NULL) {
        return NGX_ERROR;
    }

    node->len = ngx_min(hostname->len, NGX_HTTP_DSEM_MAX_STRING);

    for (i = 0; i < node->len; i++) {
        if (!ngx_http_dsem_key_plain(node->data[i])
            || node->data[i] == ngx_http_dsem_node.refused)
        {
            node->data[i] = '-';
        }
    }

    return NGX_OK;
}
