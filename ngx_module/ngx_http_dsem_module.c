
/*
 * The module: tables and life cycle.
 *
 * Registers the phase handlers, starts the sessions in every process that
 * serves requests, and ends connections to upstreams and sessions when the
 * process exits.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_body.h"
#include "ngx_http_dsem_cached.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_dispatch.h"
#include "ngx_http_dsem_hold.h"
#include "ngx_http_dsem_http.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_pool.h"
#include "ngx_http_dsem_process.h"
#include "ngx_http_dsem_semaphore.h"
#include "ngx_http_dsem_zone.h"


static ngx_int_t ngx_http_dsem_add(ngx_conf_t *cf);
static ngx_int_t ngx_http_dsem_init(ngx_conf_t *cf);
static ngx_int_t ngx_http_dsem_init_phase(ngx_http_core_main_conf_t *cmcf,
    ngx_uint_t phase, ngx_http_handler_pt handler);
static ngx_int_t ngx_http_dsem_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_dsem_init_process(ngx_cycle_t *cycle);
static ngx_resolver_t *ngx_http_dsem_resolver(ngx_msec_t *timeout);
static void ngx_http_dsem_exit_process(ngx_cycle_t *cycle);
static void ngx_http_dsem_hangup(ngx_cycle_t *cycle);


static ngx_uint_t  ngx_http_dsem_configuration;


static ngx_http_module_t  ngx_http_dsem_module_ctx = {
    ngx_http_dsem_add,                     /* preconfiguration */
    ngx_http_dsem_init,                    /* postconfiguration */

    ngx_http_dsem_create_main_conf,        /* create main configuration */
    ngx_http_dsem_init_main_conf,          /* init main configuration */

    ngx_http_dsem_create_srv_conf,         /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_http_dsem_create_loc_conf,         /* create location configuration */
    ngx_http_dsem_merge_loc_conf           /* merge location configuration */
};


ngx_module_t  ngx_http_dsem_module = {
    NGX_MODULE_V1,
    &ngx_http_dsem_module_ctx,             /* module context */
    ngx_http_dsem_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_dsem_init_module,             /* init module */
    ngx_http_dsem_init_process,            /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_dsem_exit_process,            /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_http_dsem_add(ngx_conf_t *cf)
{
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    dmcf->api = ngx_http_dsem_api_handler;
    dmcf->hold = ngx_http_dsem_hold_handler;
    dmcf->init_upstream = ngx_http_dsem_pool_init_upstream;

    return ngx_http_dsem_add_variables(cf);
}


static ngx_int_t
ngx_http_dsem_init(ngx_conf_t *cf)
{
    ngx_http_core_main_conf_t  *cmcf;
    ngx_http_dsem_main_conf_t  *dmcf;

    /*
     * always: the filters of a configuration that was refused remain those of
     * workers that start later
     */
    ngx_http_dsem_filter_init(cf);

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);

    if (!dmcf->enabled) {
        return NGX_OK;
    }

    if (ngx_http_dsem_conf_zone(cf, dmcf) != NGX_OK
        || ngx_http_dsem_body_init(cf, dmcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_targets(cf, dmcf) != NGX_OK) {
        return NGX_ERROR;
    }

    /* also of lines that are those of an upstream */
    ngx_http_dsem_body_warn(cf, dmcf);

    /* its memory goes when the configuration is read */
    dmcf->locations = NULL;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    ngx_http_dsem_cached_init(cmcf, dmcf);

    if (ngx_http_dsem_init_phase(cmcf, NGX_HTTP_REWRITE_PHASE,
                                 ngx_http_dsem_redirect_handler) != NGX_OK
        || ngx_http_dsem_init_phase(cmcf, NGX_HTTP_ACCESS_PHASE,
                                    ngx_http_dsem_access_handler) != NGX_OK
        || ngx_http_dsem_init_phase(cmcf, NGX_HTTP_PRECONTENT_PHASE,
                                    ngx_http_dsem_handler) != NGX_OK
        || ngx_http_dsem_init_phase(cmcf, NGX_HTTP_LOG_PHASE,
                                    ngx_http_dsem_log_handler) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Handlers of a phase run in the reverse order of their registration, and
 * third-party modules register last.  No permit may be acquired before access
 * control has decided, so our handler goes to the front there.
 */

static ngx_int_t
ngx_http_dsem_init_phase(ngx_http_core_main_conf_t *cmcf, ngx_uint_t phase,
    ngx_http_handler_pt handler)
{
    ngx_uint_t            i;
    ngx_array_t          *handlers;
    ngx_http_handler_pt  *h;

    handlers = &cmcf->phases[phase].handlers;

    if (ngx_array_push(handlers) == NULL) {
        return NGX_ERROR;
    }

    h = handlers->elts;
    i = handlers->nelts - 1;

    if (phase == NGX_HTTP_ACCESS_PHASE) {
        for ( /* void */ ; i > 0; i--) {
            h[i] = h[i - 1];
        }
    }

    h[i] = handler;

    return NGX_OK;
}


/*
 * A configuration is in force; its workers inherit the number.  A reload keeps
 * the module that the master has loaded, so its version is logged once.
 */

static ngx_int_t
ngx_http_dsem_init_module(ngx_cycle_t *cycle)
{
    if (ngx_http_dsem_configuration++ == 0 && !ngx_test_config) {
        ngx_log_error(NGX_LOG_NOTICE, cycle->log, 0, "dsem: version %s",
                      NGX_HTTP_DSEM_VERSION);
    }

    ngx_http_dsem_conf_validate_queues(cycle);

    return NGX_OK;
}


/* the cache manager and loader run this too, but serve no requests */

static ngx_int_t
ngx_http_dsem_init_process(ngx_cycle_t *cycle)
{
    ngx_uint_t                         max_waiting;
    ngx_core_conf_t                   *ccf;
    ngx_http_dsem_main_conf_t         *dmcf;
    ngx_http_dsem_session_settings_t   settings;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    dmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_dsem_module);

    if (dmcf == NULL || !dmcf->enabled) {
        return NGX_OK;
    }

    settings.redis = *dmcf->redis;
    settings.redis.connect_timeout = dmcf->connect_timeout;
    settings.redis.timeout = dmcf->timeout;
    settings.redis.resolver = ngx_http_dsem_resolver;
    settings.nshards = (dmcf->redis->mode == NGX_HTTP_DSEM_MODE_CLUSTER)
                       ? NGX_HTTP_DSEM_SHARDS : 1;
    settings.lease = dmcf->lease;
    settings.node = dmcf->node;
    settings.prefix = dmcf->prefix;
    settings.space = dmcf->space;
    settings.zone = NULL;
    settings.workers = 1;
    settings.configuration = ngx_http_dsem_configuration;
    settings.limits = dmcf->limits;

    if (ngx_process == NGX_PROCESS_WORKER) {
        ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx,
                                               ngx_core_module);

        /* a single process has no predecessor, and outlives its zone */
        settings.zone = dmcf->zone->data;
        settings.workers = ccf->worker_processes;
    }

    ngx_http_dsem_servers_init(ngx_http_dsem_pool_usable);

    max_waiting = (dmcf->max_waiting == NGX_CONF_UNSET)
                  ? ngx_max(cycle->connection_n / 2, 1)
                  : (ngx_uint_t) dmcf->max_waiting;

    if (ngx_http_dsem_zone_attach(settings.zone, dmcf->zone_size) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_hold_init(cycle) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_semaphore_init(&settings, max_waiting);
}


/* of the configuration in force: a single process may have read it anew */

static ngx_resolver_t *
ngx_http_dsem_resolver(ngx_msec_t *timeout)
{
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_cycle_get_module_main_conf(ngx_cycle,
                                               ngx_http_dsem_module);
    if (dmcf == NULL) {
        return NULL;
    }

    *timeout = dmcf->resolver_timeout;

    return dmcf->resolver;
}


static void
ngx_http_dsem_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_dsem_hangup(cycle);
    ngx_http_dsem_hold_exit();
    ngx_http_dsem_dispatch_exit();
    ngx_http_dsem_process_leave();
}


/*
 * A worker that has to stop at once exits with requests running, and the
 * system closes its sockets afterwards.  Permits go back before, with the bye,
 * which may take as long as Redis is waited for.  All connections to upstreams
 * are shut down first: the permit of a request is not granted to another one
 * while an upstream still serves it.
 *
 * Those are the connections that nginx has opened itself, idle ones too: they
 * have a type, which channels of processes have not, and have not been
 * accepted.  Errors say that there is no connection any more, or not yet.
 */

static void
ngx_http_dsem_hangup(ngx_cycle_t *cycle)
{
    ngx_uint_t         i;
    ngx_connection_t  *c;

    /* a single process that has read its configuration again */

    if (cycle->connections == NULL) {
        return;
    }

    for (i = 0; i < cycle->connection_n; i++) {
        c = &cycle->connections[i];

        if (c->fd == (ngx_socket_t) -1 || c->listening
            || c->type != SOCK_STREAM)
        {
            continue;
        }

        (void) ngx_shutdown_socket(c->fd, SHUT_RDWR);
    }
}
