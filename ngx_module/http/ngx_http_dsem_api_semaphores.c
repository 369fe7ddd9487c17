
/*
 * GET /semaphores and GET /semaphores/<name>: the figures as JSON, and GET
 * /health: whether requests can be decided.
 *
 * What is fleet-wide comes from Redis and is null where it is unknown; what
 * is in "local" is of this node.  The list is written in pieces.
 *
 * Called by: api, when a survey is there or cannot be had.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api.h"
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_api_figures.h"
#include "ngx_http_dsem_api_json.h"
#include "ngx_http_dsem_api_turns.h"
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_top.h"


/* of a semaphore, of the fleet; the rest is cut */
#define NGX_HTTP_DSEM_API_MAX_NODES  256


static ngx_int_t ngx_http_dsem_semaphores_list(ngx_http_dsem_api_list_t *list);
static void ngx_http_dsem_semaphores_head(ngx_http_request_t *r,
    ngx_http_dsem_api_text_t *text, ngx_http_dsem_api_figures_t *figures);
static void ngx_http_dsem_semaphores_fleet(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_api_figures_t *figures);
static ngx_int_t ngx_http_dsem_semaphores_row(ngx_http_request_t *r,
    ngx_http_dsem_api_text_t *text, const char *key,
    ngx_http_dsem_api_row_t *row);
static void ngx_http_dsem_semaphores_row_fleet(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_api_pool_t *pool);
static void ngx_http_dsem_semaphores_row_auto(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_found_t *found);
static void ngx_http_dsem_semaphores_auto_time(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_int_t us);
static void ngx_http_dsem_semaphores_auto_word(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_int_t reason);
static void ngx_http_dsem_semaphores_row_servers(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_api_pool_t *pool);
static ngx_int_t ngx_http_dsem_semaphores_row_nodes(ngx_http_request_t *r,
    ngx_http_dsem_api_text_t *text, ngx_http_dsem_survey_semaphore_t *fleet);
static void ngx_http_dsem_semaphores_row_disagreeing(
    ngx_http_dsem_api_text_t *text, ngx_http_dsem_survey_semaphore_t *fleet,
    ngx_http_dsem_api_pool_t *pool);
static void ngx_http_dsem_semaphores_row_sessions(
    ngx_http_dsem_api_text_t *text, ngx_http_dsem_survey_semaphore_t *fleet);
static void ngx_http_dsem_semaphores_local(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_http_dsem_figures_t *local,
    ngx_http_dsem_limits_pair_t *literal, ngx_array_t *keys);
static void ngx_http_dsem_semaphores_keys(ngx_http_dsem_api_text_t *text,
    ngx_array_t *keys);
static void ngx_http_dsem_semaphores_histogram(ngx_http_dsem_api_text_t *text,
    const char *key, uint64_t *buckets);
static void ngx_http_dsem_semaphores_history(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_figures_t *local);
static void ngx_http_dsem_semaphores_bounds(ngx_http_dsem_api_text_t *text);


static ngx_str_t  ngx_http_dsem_api_states[] = {
    [NGX_HTTP_DSEM_CONDITION_CONNECTING] = ngx_string("connecting"),
    [NGX_HTTP_DSEM_CONDITION_AVAILABLE] = ngx_string("available"),
    [NGX_HTTP_DSEM_CONDITION_RECOVERING] = ngx_string("recovering"),
    [NGX_HTTP_DSEM_CONDITION_UNAVAILABLE] = ngx_string("unavailable")
};


static ngx_str_t  ngx_http_dsem_api_version =
    ngx_string(NGX_HTTP_DSEM_VERSION);


/* for a state without a reason of its own, which a recovery always has */
static ngx_str_t  ngx_http_dsem_api_reasons[] = {
    [NGX_HTTP_DSEM_CONDITION_CONNECTING] =
        ngx_string("this worker has not reached Redis yet"),
    [NGX_HTTP_DSEM_CONDITION_UNAVAILABLE] = ngx_string("Redis cannot be asked")
};


ngx_int_t
ngx_http_dsem_api_semaphores(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_http_dsem_loc_conf_t  *dlcf;
    ngx_http_dsem_api_list_t  *list;

    list = ngx_pcalloc(r->pool, sizeof(ngx_http_dsem_api_list_t));
    if (list == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);

    list->piece = ngx_http_dsem_semaphores_list;
    list->type = NGX_HTTP_DSEM_API_JSON;
    list->which = NGX_HTTP_DSEM_API_CACHE_SEMAPHORES + dlcf->write;

    return ngx_http_dsem_api_turns(r, list);
}


/* the next piece */

static ngx_int_t
ngx_http_dsem_semaphores_list(ngx_http_dsem_api_list_t *list)
{
    off_t                     size;
    ngx_http_request_t       *r;
    ngx_http_dsem_api_row_t  *row;

    r = list->request;

    if (list->text.first == NULL) {
        ngx_http_dsem_semaphores_head(r, &list->text, &list->figures);
        ngx_http_dsem_semaphores_fleet(&list->text, &list->figures);
        ngx_http_dsem_json_open(&list->text, "semaphores", "[");
    }

    size = ngx_http_dsem_api_text_len(&list->text);
    row = list->figures.rows.elts;

    while (list->row < list->figures.rows.nelts) {

        if (ngx_http_dsem_api_text_len(&list->text) - size
            >= NGX_HTTP_DSEM_API_TEXT_PIECE)
        {
            return NGX_AGAIN;
        }

        if (ngx_http_dsem_semaphores_row(r, &list->text, NULL,
                                         &row[list->row++])
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    ngx_http_dsem_json_close(&list->text, "]");

    ngx_http_dsem_semaphores_local(&list->text, "other",
                                   &list->figures.reader.other, NULL, NULL);
    ngx_http_dsem_semaphores_bounds(&list->text);

    ngx_http_dsem_json_close(&list->text, "}");
    ngx_http_dsem_api_text_put(&list->text, "\n");

    return NGX_OK;
}


ngx_int_t
ngx_http_dsem_api_semaphores_one(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_int_t                     rc;
    ngx_http_dsem_api_text_t      text;
    ngx_http_dsem_main_conf_t    *dmcf;
    ngx_http_dsem_api_figures_t   figures;

    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);

    rc = ngx_http_dsem_api_figures_one(r->pool, &dmcf->literals, name,
                                       &figures);

    if (rc == NGX_DECLINED) {

        if (ngx_http_dsem_survey_asked(name)) {
            return ngx_http_dsem_answer_error(r, NGX_HTTP_NOT_FOUND,
                                              "semaphore \"%V\" is not known "
                                              "to this node nor to Redis",
                                              name);
        }

        /* Redis is down, or was asked for other names in this second */

        return ngx_http_dsem_answer_error(r, NGX_HTTP_SERVICE_UNAVAILABLE,
                                          "semaphore \"%V\" is not known to "
                                          "this node, and Redis cannot be "
                                          "asked now",
                                          name);
    }

    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_dsem_api_text_init(&text, r->pool);
    ngx_http_dsem_semaphores_head(r, &text, &figures);
    ngx_http_dsem_semaphores_fleet(&text, &figures);

    if (ngx_http_dsem_semaphores_row(r, &text, "semaphore", figures.rows.elts)
        != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_dsem_semaphores_bounds(&text);

    ngx_http_dsem_json_close(&text, "}");
    ngx_http_dsem_api_text_put(&text, "\n");

    return ngx_http_dsem_answer_send(r, NGX_HTTP_OK, NGX_HTTP_DSEM_API_JSON,
                                     &text);
}


static void
ngx_http_dsem_semaphores_head(ngx_http_request_t *r,
    ngx_http_dsem_api_text_t *text, ngx_http_dsem_api_figures_t *figures)
{
    ngx_time_t                    *tp;
    ngx_http_dsem_loc_conf_t      *dlcf;
    ngx_http_dsem_main_conf_t     *dmcf;
    ngx_http_dsem_survey_redis_t  *redis;

    dlcf = ngx_http_get_module_loc_conf(r, ngx_http_dsem_module);
    dmcf = ngx_http_get_module_main_conf(r, ngx_http_dsem_module);
    redis = &figures->redis;
    tp = ngx_timeofday();

    ngx_http_dsem_json_open(text, NULL, "{");
    ngx_http_dsem_json_string(text, "node", &dmcf->node);
    ngx_http_dsem_json_seconds(text, "time",
                               (uint64_t) tp->sec * 1000 + tp->msec);
    ngx_http_dsem_json_string(text, "version", &ngx_http_dsem_api_version);
    ngx_http_dsem_json_flag(text, "write", dlcf->write);

    ngx_http_dsem_json_open(text, "redis", "{");
    ngx_http_dsem_json_string(text, "state",
                              &ngx_http_dsem_api_states[redis->state]);
    ngx_http_dsem_json_seconds(text, "since", redis->since);

    if (redis->reason.len) {
        ngx_http_dsem_json_string(text, "reason", &redis->reason);

    } else {
        ngx_http_dsem_json_literal(text, "reason", "null");
    }

    ngx_http_dsem_json_string(text, "address", &redis->address);
    ngx_http_dsem_json_close(text, "}");
}


static void
ngx_http_dsem_semaphores_fleet(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_api_figures_t *figures)
{
    uint64_t                      now;
    ngx_uint_t                    i, n;
    ngx_http_dsem_survey_t       *survey;
    ngx_http_dsem_survey_node_t  *node;

    survey = figures->survey;

    ngx_http_dsem_json_open(text, "fleet", "{");

    if (survey) {
        ngx_http_dsem_json_seconds(text, "age", figures->age);
        ngx_http_dsem_json_number(text, "sessions", survey->nsessions);

    } else {
        ngx_http_dsem_json_literal(text, "age", "null");
        ngx_http_dsem_json_literal(text, "sessions", "null");
    }

    ngx_http_dsem_json_open(text, "nodes", "[");

    now = ngx_http_dsem_monotonic();

    node = survey ? survey->nodes.elts : NULL;
    n = survey ? survey->nodes.nelts : 0;

    for (i = 0; i < ngx_min(n, NGX_HTTP_DSEM_API_MAX_NODES); i++) {
        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_string(text, "node", &node[i].node);
        ngx_http_dsem_json_number(text, "sessions", node[i].sessions);
        ngx_http_dsem_json_number(text, "holding", node[i].holding);
        ngx_http_dsem_json_seconds(text, "heartbeat",
                                   now - ngx_min(node[i].heard, now));
        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
    ngx_http_dsem_json_flag(text, "partial",
                            figures->partial
                            || n > NGX_HTTP_DSEM_API_MAX_NODES);
    ngx_http_dsem_json_close(text, "}");
}


/* key: of the only one, with its sessions and keys; NULL: one of several */

static ngx_int_t
ngx_http_dsem_semaphores_row(ngx_http_request_t *r,
    ngx_http_dsem_api_text_t *text, const char *key,
    ngx_http_dsem_api_row_t *row)
{
    ngx_array_t                        keys;
    ngx_http_dsem_survey_semaphore_t  *fleet, unknown;

    fleet = row->fleet;

    if (fleet == NULL) {
        ngx_memzero(&unknown, sizeof(ngx_http_dsem_survey_semaphore_t));

        unknown.limit = -1;
        unknown.configured = -1;
        unknown.held = -1;
        unknown.waiting = -1;

        fleet = &unknown;
    }

    ngx_http_dsem_json_open(text, key, "{");
    ngx_http_dsem_json_string(text, "name", &row->name);

    ngx_http_dsem_semaphores_row_fleet(text, fleet, row->pool);
    ngx_http_dsem_semaphores_row_servers(text, fleet, row->pool);

    if (ngx_http_dsem_semaphores_row_nodes(r, text, fleet) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_dsem_semaphores_row_disagreeing(text, fleet, row->pool);

    if (key) {
        if (ngx_http_dsem_tops_read(r->pool, &row->name,
                                    ngx_crc32_short(row->name.data,
                                                    row->name.len), &keys)
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        ngx_http_dsem_semaphores_row_sessions(text, fleet);
    }

    ngx_http_dsem_semaphores_local(text, "local", row->local, row->literal,
                                   key ? &keys : NULL);
    ngx_http_dsem_json_close(text, "}");

    return NGX_OK;
}


static void
ngx_http_dsem_semaphores_row_fleet(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_api_pool_t *pool)
{
    ngx_int_t  idle;

    ngx_http_dsem_json_maybe(text, "limit",
                             pool ? pool->limit : fleet->limit);
    ngx_http_dsem_json_maybe(text, "configured",
                             pool ? pool->configured : fleet->configured);

    if (fleet->order) {
        ngx_http_dsem_json_open(text, "order", "{");
        ngx_http_dsem_json_maybe(text, "limit", fleet->ordered);
        ngx_http_dsem_json_flag(text, "paused", fleet->paused);
        ngx_http_dsem_json_close(text, "}");

    } else {
        ngx_http_dsem_json_literal(text, "order", "null");
    }

    ngx_http_dsem_semaphores_row_auto(text, fleet->found);

    idle = (fleet->held < 0) ? 0 : ngx_http_dsem_api_figures_idle(fleet);

    ngx_http_dsem_json_maybe(text, "in_use", fleet->held - idle);
    ngx_http_dsem_json_maybe(text, "idle", (fleet->held < 0) ? -1 : idle);
    ngx_http_dsem_json_maybe(text, "waiting", fleet->waiting);
}


/* "limit=auto": the limit found, why it is what it is, and how it got there */

static void
ngx_http_dsem_semaphores_row_auto(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_found_t *found)
{
    ngx_uint_t             i;
    ngx_http_dsem_move_t  *move;

    if (found == NULL) {
        ngx_http_dsem_json_literal(text, "auto", "null");
        return;
    }

    ngx_http_dsem_json_open(text, "auto", "{");
    ngx_http_dsem_json_maybe(text, "min", found->min);
    ngx_http_dsem_json_maybe(text, "max", found->max);
    ngx_http_dsem_json_maybe(text, "found", found->limit);
    ngx_http_dsem_semaphores_auto_word(text, "reason", found->reason);
    ngx_http_dsem_semaphores_auto_time(text, "floor", found->floor);
    ngx_http_dsem_semaphores_auto_time(text, "latency", found->latency);

    ngx_http_dsem_json_open(text, "history", "[");

    move = found->moves.elts;

    for (i = 0; i < found->moves.nelts; i++) {
        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_seconds(text, "age", ngx_max(move[i].age, 0));
        ngx_http_dsem_json_maybe(text, "limit", move[i].limit);
        ngx_http_dsem_semaphores_auto_word(text, "reason", move[i].reason);
        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
    ngx_http_dsem_json_close(text, "}");
}


/* seconds; null where it is unknown */

static void
ngx_http_dsem_semaphores_auto_time(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_int_t us)
{
    char  value[2 * NGX_INT_T_LEN + 3];

    if (us <= 0) {
        ngx_http_dsem_json_literal(text, key, "null");
        return;
    }

    ngx_sprintf((u_char *) value, "%i.%06i%Z", us / 1000000, us % 1000000);

    ngx_http_dsem_json_literal(text, key, value);
}


static void
ngx_http_dsem_semaphores_auto_word(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_int_t reason)
{
    ngx_str_t  word;

    word.data = (u_char *) ngx_http_dsem_api_figures_reason(reason);
    word.len = ngx_strlen(word.data);

    ngx_http_dsem_json_string(text, key, &word);
}


/* of a pool; limits of the semaphore are those of one server */

static void
ngx_http_dsem_semaphores_row_servers(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_api_pool_t *pool)
{
    ngx_uint_t                   i;
    ngx_http_dsem_api_server_t  *server;

    if (pool == NULL) {
        ngx_http_dsem_json_literal(text, "per_server", "null");
        ngx_http_dsem_json_literal(text, "servers", "null");
        return;
    }

    ngx_http_dsem_json_open(text, "per_server", "{");
    ngx_http_dsem_json_maybe(text, "limit", pool->each);
    ngx_http_dsem_json_maybe(text, "configured",
                             ngx_http_dsem_api_pool_each(fleet->configured));
    ngx_http_dsem_json_close(text, "}");

    ngx_http_dsem_json_open(text, "servers", "[");

    server = pool->servers.elts;

    for (i = 0; i < pool->servers.nelts; i++) {
        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_string(text, "server", &server[i].name);
        ngx_http_dsem_json_number(text, "in_use", server[i].in_use);
        ngx_http_dsem_json_maybe(text, "limit", server[i].limit);
        ngx_http_dsem_json_maybe(text, "ordered", server[i].ordered);

        if (server[i].usable == -1) {
            ngx_http_dsem_json_literal(text, "usable", "null");

        } else {
            ngx_http_dsem_json_flag(text, "usable", server[i].usable);
        }

        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
}


static ngx_int_t
ngx_http_dsem_semaphores_row_nodes(ngx_http_request_t *r,
    ngx_http_dsem_api_text_t *text, ngx_http_dsem_survey_semaphore_t *fleet)
{
    ngx_uint_t                 i, n;
    ngx_array_t                nodes;
    ngx_http_dsem_api_node_t  *node;

    if (ngx_http_dsem_api_figures_nodes(r->pool, &fleet->holders, &nodes)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_json_open(text, "nodes", "[");

    node = nodes.elts;
    n = ngx_min(nodes.nelts, NGX_HTTP_DSEM_API_MAX_NODES);

    for (i = 0; i < n; i++) {
        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_string(text, "node", &node[i].node);
        ngx_http_dsem_json_number(text, "in_use", node[i].in_use);
        ngx_http_dsem_json_number(text, "idle", node[i].idle);
        ngx_http_dsem_json_number(text, "waiting", node[i].waiting);
        ngx_http_dsem_json_number(text, "sessions", node[i].sessions);
        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
    ngx_http_dsem_json_flag(text, "partial",
                            fleet->partial || n < nodes.nelts);

    return NGX_OK;
}


static void
ngx_http_dsem_semaphores_row_disagreeing(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_survey_semaphore_t *fleet, ngx_http_dsem_api_pool_t *pool)
{
    ngx_int_t                      limit;
    ngx_uint_t                     i;
    ngx_http_dsem_disagreement_t  *node;

    ngx_http_dsem_json_open(text, "disagreeing", "[");

    node = fleet->disagreements.elts;

    for (i = 0; i < fleet->disagreements.nelts; i++) {
        limit = pool ? ngx_http_dsem_api_pool_each(node[i].limit)
                     : node[i].limit;

        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_string(text, "node", &node[i].node);
        ngx_http_dsem_json_maybe(text, "limit", limit);
        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
}


static void
ngx_http_dsem_semaphores_row_sessions(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_survey_semaphore_t *fleet)
{
    ngx_uint_t               i;
    ngx_http_dsem_holder_t  *holder;

    ngx_http_dsem_json_open(text, "sessions", "[");

    holder = fleet->holders.elts;

    for (i = 0; i < fleet->holders.nelts; i++) {
        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_string(text, "session", &holder[i].session);
        ngx_http_dsem_json_string(text, "node", &holder[i].node);
        ngx_http_dsem_json_number(text, "worker", holder[i].worker);
        ngx_http_dsem_json_maybe(text, "held", holder[i].held);
        ngx_http_dsem_json_maybe(text, "idle", holder[i].idle);
        ngx_http_dsem_json_maybe(text, "waiting", holder[i].waiting);
        ngx_http_dsem_json_seconds(text, "lease",
                                   ngx_max(holder[i].lease, 0));
        ngx_http_dsem_json_flag(text, "heard", holder[i].heard);
        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
}


/*
 * Of this node.
 *
 * literal   its name and limit are in the configuration; or NULL
 * keys      or NULL, where they are not shown
 */

static void
ngx_http_dsem_semaphores_local(ngx_http_dsem_api_text_t *text, const char *key,
    ngx_http_dsem_figures_t *local, ngx_http_dsem_limits_pair_t *literal,
    ngx_array_t *keys)
{
    ngx_uint_t  i;

    ngx_http_dsem_json_open(text, key, "{");

    ngx_http_dsem_json_maybe(text, "configured",
                             (literal && !literal->max_conns) ? literal->limit
                                                              : -1);
    ngx_http_dsem_json_maybe(text, "limit", local->limit);
    ngx_http_dsem_json_flag(text, "dry_run", local->dry_run);

    ngx_http_dsem_json_number(text, "in_use", local->in_use);
    ngx_http_dsem_json_number(text, "idle", local->idle);
    ngx_http_dsem_json_number(text, "waiting", local->waiting);
    ngx_http_dsem_json_seconds(text, "oldest_hold", local->oldest_hold);

    for (i = 0; i < NGX_HTTP_DSEM_NCOUNTS; i++) {
        ngx_http_dsem_json_number(text, ngx_http_dsem_api_counts[i],
                                  local->values[i]);
    }

    ngx_http_dsem_json_number(text, "most_in_use", local->most_in_use);
    ngx_http_dsem_json_number(text, "most_waiting", local->most_waiting);

    ngx_http_dsem_semaphores_histogram(text, "wait",
                                  &local->values[NGX_HTTP_DSEM_VALUE_WAIT]);
    ngx_http_dsem_semaphores_histogram(text, "hold",
                                  &local->values[NGX_HTTP_DSEM_VALUE_HOLD]);
    ngx_http_dsem_semaphores_history(text, local);

    if (keys) {
        ngx_http_dsem_semaphores_keys(text, keys);
    }

    ngx_http_dsem_json_close(text, "}");
}


/* the busiest keys of "fair" */

static void
ngx_http_dsem_semaphores_keys(ngx_http_dsem_api_text_t *text, ngx_array_t *keys)
{
    ngx_uint_t                i;
    ngx_http_dsem_top_key_t  *key;

    ngx_http_dsem_json_open(text, "keys", "[");

    key = keys->elts;

    for (i = 0; i < keys->nelts; i++) {
        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_string(text, "key", &key[i].key);
        ngx_http_dsem_json_number(text, "in_use", ngx_max(key[i].in_use, 0));
        ngx_http_dsem_json_number(text, "waiting",
                                  ngx_max(key[i].waiting, 0));
        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
}


/* behind the buckets is their sum */

static void
ngx_http_dsem_semaphores_histogram(ngx_http_dsem_api_text_t *text,
    const char *key, uint64_t *buckets)
{
    uint64_t    count;
    ngx_uint_t  i;

    ngx_http_dsem_json_open(text, key, "{");
    ngx_http_dsem_json_open(text, "buckets", "[");

    count = 0;

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS; i++) {
        count += buckets[i];
        ngx_http_dsem_json_number(text, NULL, buckets[i]);
    }

    ngx_http_dsem_json_close(text, "]");
    ngx_http_dsem_json_number(text, "count", count);
    ngx_http_dsem_json_seconds(text, "sum", buckets[i]);
    ngx_http_dsem_json_close(text, "}");
}


/* the periods, and their sums */

static void
ngx_http_dsem_semaphores_history(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_figures_t *local)
{
    uint64_t                 sums[NGX_HTTP_DSEM_ROW_TRACKED];
    ngx_uint_t               i, k;
    ngx_http_dsem_period_t  *period;

    static const char *const  words[NGX_HTTP_DSEM_ROW_TRACKED] = {
        "passed", "rejected", "timeout", "error"
    };

    ngx_memzero(sums, sizeof(sums));

    ngx_http_dsem_json_open(text, "history", "[");

    for (i = 0; i < local->nperiods; i++) {
        period = &local->periods[i];

        for (k = 0; k < NGX_HTTP_DSEM_ROW_TRACKED; k++) {
            sums[k] += period->n[k];
        }

        ngx_http_dsem_json_open(text, NULL, "[");
        ngx_http_dsem_json_number(text, NULL, period->n[0]);
        ngx_http_dsem_json_number(text, NULL, (uint64_t) period->n[1]
                                              + period->n[2] + period->n[3]);
        ngx_http_dsem_json_close(text, "]");
    }

    ngx_http_dsem_json_close(text, "]");

    ngx_http_dsem_json_open(text, "last_hour", "{");

    for (k = 0; k < NGX_HTTP_DSEM_ROW_TRACKED; k++) {
        ngx_http_dsem_json_number(text, words[k], sums[k]);
    }

    ngx_http_dsem_json_close(text, "}");
}


static void
ngx_http_dsem_semaphores_bounds(ngx_http_dsem_api_text_t *text)
{
    ngx_uint_t  i;

    ngx_http_dsem_json_open(text, "buckets", "[");

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS - 1; i++) {
        ngx_http_dsem_json_seconds(text, NULL,
                                   ngx_http_dsem_counters_bounds[i]);
    }

    ngx_http_dsem_json_close(text, "]");
}


ngx_int_t
ngx_http_dsem_api_semaphores_health(ngx_http_request_t *r, ngx_str_t *name)
{
    ngx_str_t                     *reason;
    ngx_uint_t                     ok;
    ngx_http_dsem_api_text_t       text;
    ngx_http_dsem_survey_redis_t   redis;

    static ngx_str_t  good = ngx_string("ok");

    ngx_http_dsem_survey_redis(&redis);

    ok = (redis.state == NGX_HTTP_DSEM_CONDITION_AVAILABLE);
    reason = &redis.reason;

    if (reason->len == 0) {
        reason = &ngx_http_dsem_api_reasons[redis.state];
    }

    ngx_http_dsem_api_text_init(&text, r->pool);

    ngx_http_dsem_json_open(&text, NULL, "{");
    ngx_http_dsem_json_string(&text, "status",
                              ok ? &good
                                 : &ngx_http_dsem_api_states[redis.state]);

    if (!ok) {
        ngx_http_dsem_json_string(&text, "reason", reason);
    }

    ngx_http_dsem_json_close(&text, "}");
    ngx_http_dsem_api_text_put(&text, "\n");

    return ngx_http_dsem_answer_send(r, ok ? NGX_HTTP_OK
                                           : NGX_HTTP_SERVICE_UNAVAILABLE,
                                     NGX_HTTP_DSEM_API_JSON, &text);
}
