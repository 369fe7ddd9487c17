
/*
 * The "dsem" directive: the limits of a level, and all limits against each
 * other.
 *
 * Owns the parameters of a limit and the rules for limits that stand
 * together.  One literal name has one literal limit in the whole
 * configuration, and literal names are never taken in opposite orders, or in
 * a cycle of orders, which would let requests wait for each other.
 *
 * A list of limits is checked where it is written, so that a message tells
 * the line; a level that inherits it has the same list.  The names and orders
 * seen so far are kept in trees: a limit costs a few look-ups for each one
 * before it in its own list, however many other lists there are.
 *
 * Called by: nginx, through the table of directives in conf; conf.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_module.h"


/* a literal name, or two of them in their order, and where it was first */
typedef struct ngx_http_dsem_seen_s  ngx_http_dsem_seen_t;

struct ngx_http_dsem_seen_s {
    ngx_str_node_t             sn;
    ngx_int_t                  limit;      /* unset: no literal limit yet */
    ngx_str_t                  encoded;    /* of a name */
    ngx_flag_t                *strict;     /* of a name: outlives the check */
    ngx_array_t               *later;      /* of a name: what is taken after
                                              it; ngx_http_dsem_seen_t * */
    ngx_uint_t                 visit;      /* of a name: the last look at it */
    ngx_str_t                  file;
    ngx_uint_t                 line;
};


struct ngx_http_dsem_check_s {
    ngx_rbtree_t               names;
    ngx_rbtree_node_t          names_sentinel;
    ngx_rbtree_t               orders;
    ngx_rbtree_node_t          orders_sentinel;
    ngx_uint_t                 visits;
};


static char *ngx_http_dsem_limit_longest(ngx_conf_t *cf,
    ngx_http_dsem_main_conf_t *dmcf, ngx_int_t queue, ngx_str_t *name);
static char *ngx_http_dsem_limit_off(ngx_conf_t *cf,
    ngx_http_dsem_loc_conf_t *dlcf);
static ngx_int_t ngx_http_dsem_limit_params(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args);
static void ngx_http_dsem_limit_warn(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_limit_make(ngx_conf_t *cf,
    ngx_http_dsem_limit_t *limit, ngx_str_t *name,
    ngx_http_dsem_arg_t *args);
static ngx_int_t ngx_http_dsem_limit_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv);
static ngx_int_t ngx_http_dsem_limit_compile_optional(ngx_conf_t *cf,
    ngx_str_t *text, ngx_http_complex_value_t **cv);
static ngx_int_t ngx_http_dsem_check_literal(ngx_conf_t *cf,
    ngx_array_t *limits, ngx_http_dsem_limit_t *limit, ngx_int_t number);
static ngx_int_t ngx_http_dsem_check_strict(ngx_conf_t *cf,
    ngx_http_dsem_seen_t *seen, ngx_http_dsem_limit_t *limit);
static ngx_int_t ngx_http_dsem_check_limit(ngx_conf_t *cf,
    ngx_http_dsem_seen_t *seen, ngx_int_t limit);
static ngx_int_t ngx_http_dsem_check_order(ngx_conf_t *cf,
    ngx_http_dsem_check_t *check, ngx_http_dsem_seen_t *first,
    ngx_http_dsem_seen_t *second);
static ngx_int_t ngx_http_dsem_check_cycle(ngx_conf_t *cf,
    ngx_http_dsem_check_t *check, ngx_http_dsem_seen_t *first,
    ngx_http_dsem_seen_t *second);
static ngx_uint_t ngx_http_dsem_check_leads(ngx_http_dsem_seen_t *from,
    ngx_http_dsem_seen_t *to, ngx_uint_t visit);
static ngx_http_dsem_seen_t *ngx_http_dsem_check_order_of(
    ngx_http_dsem_check_t *check, ngx_http_dsem_seen_t *first,
    ngx_http_dsem_seen_t *second);
static ngx_http_dsem_seen_t *ngx_http_dsem_check_find(ngx_rbtree_t *tree,
    ngx_str_t *key);
static ngx_http_dsem_seen_t *ngx_http_dsem_check_add(ngx_conf_t *cf,
    ngx_rbtree_t *tree, ngx_str_t *key);
static void ngx_http_dsem_check_place(ngx_conf_t *cf,
    ngx_http_dsem_seen_t *seen);


/* indices of the parameters of "dsem" */
enum {
    NGX_HTTP_DSEM_PARAM_LIMIT = 0,
    NGX_HTTP_DSEM_PARAM_QUEUE,
    NGX_HTTP_DSEM_PARAM_TIMEOUT,
    NGX_HTTP_DSEM_PARAM_WEIGHT,
    NGX_HTTP_DSEM_PARAM_PRIORITY,
    NGX_HTTP_DSEM_NPARAMS
};


static ngx_http_dsem_param_t  ngx_http_dsem_params[] = {
    ngx_http_dsem_number("limit", 0, NGX_HTTP_DSEM_MAX_LIMIT, 1),
    ngx_http_dsem_number("queue", 0, NGX_HTTP_DSEM_MAX_QUEUE, 0),
    ngx_http_dsem_time("timeout", 1, NGX_HTTP_DSEM_MAX_TIME),
    ngx_http_dsem_number("weight", 1, NGX_HTTP_DSEM_MAX_LIMIT, 1),
    ngx_http_dsem_number("priority", NGX_HTTP_DSEM_MIN_PRIORITY,
                         NGX_HTTP_DSEM_MAX_PRIORITY, 1),
    ngx_http_dsem_null_param
};


/*
 * Reads one "dsem" directive of a level, or "dsem off".
 *
 * conf   the level's ngx_http_dsem_loc_conf_t: limits grows by one, or is
 *        NULL from now on
 *
 * Returns NGX_CONF_OK, or as nginx's setters do: NGX_CONF_ERROR when a
 * message has been logged, or the rest of a message for nginx to log.
 */

char *
ngx_http_dsem_limit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_dsem_loc_conf_t *dlcf = conf;

    ngx_str_t                  *value;
    ngx_http_dsem_arg_t         args[NGX_HTTP_DSEM_NPARAMS];
    ngx_http_dsem_limit_t       made, *limit;
    ngx_http_dsem_main_conf_t  *dmcf;

    value = cf->args->elts;

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {
        return ngx_http_dsem_limit_off(cf, dlcf);
    }

    if (value[1].len == 0) {
        return "has an empty name";
    }

    if (dlcf->limits == NULL) {
        return "is not allowed beside \"dsem off\" of the same level";
    }

    if (ngx_http_dsem_limit_params(cf, cmd, args) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    ngx_http_dsem_limit_warn(cf, cmd, args);

    if (dlcf->limits == NGX_CONF_UNSET_PTR) {
        dlcf->limits = ngx_array_create(cf->pool, 1,
                                       sizeof(ngx_http_dsem_limit_t));
        if (dlcf->limits == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_http_dsem_limit_make(cf, &made, &value[1], args) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (made.name.lengths == NULL
        && ngx_http_dsem_check_literal(cf, dlcf->limits, &made,
                                       args[NGX_HTTP_DSEM_PARAM_LIMIT].number)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    limit = ngx_array_push(dlcf->limits);
    if (limit == NULL) {
        return NGX_CONF_ERROR;
    }

    *limit = made;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    dmcf->enabled = 1;

    return ngx_http_dsem_limit_longest(cf, dmcf, limit->queue, &value[1]);
}


/* the word outlives the configuration's reading: a warning may name it */

static char *
ngx_http_dsem_limit_longest(ngx_conf_t *cf, ngx_http_dsem_main_conf_t *dmcf,
    ngx_int_t queue, ngx_str_t *name)
{
    ngx_str_t  *word;

    if (queue <= dmcf->longest) {
        return NGX_CONF_OK;
    }

    word = ngx_http_dsem_conf_word(cf, name);

    dmcf->longest = queue;
    dmcf->longest_name.len = word->len;
    dmcf->longest_name.data = ngx_pstrdup(cf->pool, word);

    return dmcf->longest_name.data ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_http_dsem_limit_off(ngx_conf_t *cf, ngx_http_dsem_loc_conf_t *dlcf)
{
    ngx_str_t  *value;

    if (cf->args->nelts > 2) {
        value = cf->args->elts;

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" in \"dsem off\", "
                           "a semaphore cannot be named \"off\"",
                           ngx_http_dsem_conf_word(cf, &value[2]));
        return NGX_CONF_ERROR;
    }

    if (dlcf->limits == NULL) {
        return "is duplicate";
    }

    if (dlcf->limits != NGX_CONF_UNSET_PTR) {
        return "with \"off\" is not allowed beside others of the same level";
    }

    dlcf->limits = NULL;

    return NGX_CONF_OK;
}


/* reads the parameters, and checks them against each other */

static ngx_int_t
ngx_http_dsem_limit_params(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args)
{
    ngx_http_dsem_arg_t  *limit, *weight;

    if (ngx_http_dsem_conf_params(cf, cmd, ngx_http_dsem_params, args)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    limit = &args[NGX_HTTP_DSEM_PARAM_LIMIT];
    weight = &args[NGX_HTTP_DSEM_PARAM_WEIGHT];

    if (limit->text.data == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" directive must have \"limit\" parameter",
                           &cmd->name);
        return NGX_ERROR;
    }

    /* unset is below any limit; a limit of zero means that nothing passes */

    if (limit->number > 0 && weight->number > limit->number) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"weight=%i\" is greater than \"limit=%i\" "
                           "in \"%V\" directive, no request could pass",
                           weight->number, limit->number, &cmd->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* parameters that are of no use without a queue */

static void
ngx_http_dsem_limit_warn(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_dsem_arg_t *args)
{
    ngx_uint_t  i;

    static ngx_uint_t  waits[] = {
        NGX_HTTP_DSEM_PARAM_TIMEOUT, NGX_HTTP_DSEM_PARAM_PRIORITY
    };

    if (args[NGX_HTTP_DSEM_PARAM_QUEUE].number > 0) {
        return;
    }

    for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        if (args[waits[i]].text.data) {
            ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                               "\"%V\" parameter in \"%V\" directive needs "
                               "\"queue\", without it no request waits for "
                               "a permit",
                               &ngx_http_dsem_params[waits[i]].name,
                               &cmd->name);
        }
    }
}


/* the arguments are valid */

static ngx_int_t
ngx_http_dsem_limit_make(ngx_conf_t *cf, ngx_http_dsem_limit_t *limit,
    ngx_str_t *name, ngx_http_dsem_arg_t *args)
{
    ngx_memzero(limit, sizeof(ngx_http_dsem_limit_t));

    if (ngx_http_dsem_limit_compile(cf, name, &limit->name) != NGX_OK) {
        return NGX_ERROR;
    }

    if (limit->name.lengths == NULL
        && ngx_http_dsem_key_encode(cf->pool, name, &limit->encoded)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_limit_compile(cf, &args[NGX_HTTP_DSEM_PARAM_LIMIT].text,
                                   &limit->limit)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_limit_compile_optional(cf,
                                    &args[NGX_HTTP_DSEM_PARAM_WEIGHT].text,
                                    &limit->weight)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_limit_compile_optional(cf,
                                    &args[NGX_HTTP_DSEM_PARAM_PRIORITY].text,
                                    &limit->priority)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    limit->queue = 0;
    limit->timeout = 5000;

    if (args[NGX_HTTP_DSEM_PARAM_QUEUE].text.data) {
        limit->queue = args[NGX_HTTP_DSEM_PARAM_QUEUE].number;
    }

    if (args[NGX_HTTP_DSEM_PARAM_TIMEOUT].text.data) {
        limit->timeout = args[NGX_HTTP_DSEM_PARAM_TIMEOUT].number;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_limit_compile(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t *cv)
{
    ngx_http_compile_complex_value_t  ccv;

    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = text;
    ccv.complex_value = cv;

    return ngx_http_compile_complex_value(&ccv);
}


static ngx_int_t
ngx_http_dsem_limit_compile_optional(ngx_conf_t *cf, ngx_str_t *text,
    ngx_http_complex_value_t **cv)
{
    if (text->data == NULL) {
        return NGX_OK;
    }

    *cv = ngx_palloc(cf->pool, sizeof(ngx_http_complex_value_t));
    if (*cv == NULL) {
        return NGX_ERROR;
    }

    return ngx_http_dsem_limit_compile(cf, text, *cv);
}


/*
 * Begins the check of literal names, before any directive is read.  It lives
 * as long as the configuration is read.  NULL: no memory.
 */

ngx_http_dsem_check_t *
ngx_http_dsem_limit_check_create(ngx_conf_t *cf)
{
    ngx_http_dsem_check_t  *check;

    check = ngx_pcalloc(cf->temp_pool, sizeof(ngx_http_dsem_check_t));
    if (check == NULL) {
        return NULL;
    }

    ngx_rbtree_init(&check->names, &check->names_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_rbtree_init(&check->orders, &check->orders_sentinel,
                    ngx_str_rbtree_insert_value);

    return check;
}


/*
 * All literal limits of the whole configuration, in the order of the tree.
 *
 * pairs   ngx_http_dsem_limits_pair_t
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_limit_literals(ngx_http_dsem_check_t *check,
    ngx_array_t *pairs)
{
    ngx_rbtree_node_t            *node;
    ngx_http_dsem_seen_t         *seen;
    ngx_http_dsem_limits_pair_t  *pair;

    if (check->names.root == check->names.sentinel) {
        return NGX_OK;
    }

    for (node = ngx_rbtree_min(check->names.root, check->names.sentinel);
         node;
         node = ngx_rbtree_next(&check->names, node))
    {
        seen = (ngx_http_dsem_seen_t *) node;

        if (seen->limit == NGX_CONF_UNSET) {
            continue;
        }

        pair = ngx_array_push(pairs);
        if (pair == NULL) {
            return NGX_ERROR;
        }

        pair->name = seen->encoded;
        pair->limit = seen->limit;
    }

    return NGX_OK;
}


/*
 * Checks a limit with a literal name against all literal names so far.
 *
 * limits   those of the level so far, without this one
 * number   the limit's number, NGX_CONF_UNSET if it has variables
 *
 * Returns NGX_OK, or NGX_ERROR when a message has been logged or there is
 * no memory.
 */

static ngx_int_t
ngx_http_dsem_check_literal(ngx_conf_t *cf, ngx_array_t *limits,
    ngx_http_dsem_limit_t *limit, ngx_int_t number)
{
    ngx_uint_t                  i;
    ngx_http_dsem_seen_t       *seen, *other;
    ngx_http_dsem_limit_t      *before;
    ngx_http_dsem_check_t      *check;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    check = dmcf->check;

    seen = ngx_http_dsem_check_add(cf, &check->names, &limit->name.value);
    if (seen == NULL) {
        return NGX_ERROR;
    }

    seen->encoded = limit->encoded;

    if (ngx_http_dsem_check_strict(cf, seen, limit) != NGX_OK
        || ngx_http_dsem_check_limit(cf, seen, number) != NGX_OK)
    {
        return NGX_ERROR;
    }

    before = limits->elts;

    for (i = 0; i < limits->nelts; i++) {

        if (before[i].name.lengths) {
            continue;
        }

        other = ngx_http_dsem_check_find(&check->names,
                                         &before[i].name.value);

        /* a name met twice is taken once, where it stands first */

        if (other == seen) {
            return NGX_OK;
        }

        if (ngx_http_dsem_check_order(cf, check, other, seen) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * A limit without a queue rejects at once, and must find every permit in
 * Redis: this holds for all limits of the name.
 */

static ngx_int_t
ngx_http_dsem_check_strict(ngx_conf_t *cf, ngx_http_dsem_seen_t *seen,
    ngx_http_dsem_limit_t *limit)
{
    if (seen->strict == NULL) {
        seen->strict = ngx_pcalloc(cf->pool, sizeof(ngx_flag_t));
        if (seen->strict == NULL) {
            return NGX_ERROR;
        }
    }

    if (limit->queue == 0) {
        *seen->strict = 1;
    }

    limit->strict = seen->strict;

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_check_limit(ngx_conf_t *cf, ngx_http_dsem_seen_t *seen,
    ngx_int_t limit)
{
    if (limit == NGX_CONF_UNSET || limit == seen->limit) {
        return NGX_OK;
    }

    if (seen->limit == NGX_CONF_UNSET) {
        seen->limit = limit;
        ngx_http_dsem_check_place(cf, seen);
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "semaphore \"%V\" has \"limit=%i\" in %V:%ui, "
                       "but \"limit=%i\"",
                       ngx_http_dsem_conf_word(cf, &seen->sn.str), seen->limit,
                       &seen->file, seen->line, limit);
    return NGX_ERROR;
}


/* remembers that the second is taken after the first, if that may be */

static ngx_int_t
ngx_http_dsem_check_order(ngx_conf_t *cf, ngx_http_dsem_check_t *check,
    ngx_http_dsem_seen_t *first, ngx_http_dsem_seen_t *second)
{
    ngx_str_t              key;
    ngx_http_dsem_seen_t  *pair[2], *opposite, **later;

    if (ngx_http_dsem_check_order_of(check, first, second)) {
        return NGX_OK;
    }

    opposite = ngx_http_dsem_check_order_of(check, second, first);

    if (opposite) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "semaphore \"%V\" is taken before \"%V\" "
                           "in %V:%ui, but after it",
                           ngx_http_dsem_conf_word(cf, &second->sn.str),
                           ngx_http_dsem_conf_word(cf, &first->sn.str),
                           &opposite->file, opposite->line);
        return NGX_ERROR;
    }

    if (ngx_http_dsem_check_cycle(cf, check, first, second) != NGX_OK) {
        return NGX_ERROR;
    }

    if (first->later == NULL) {
        first->later = ngx_array_create(cf->temp_pool, 2,
                                        sizeof(ngx_http_dsem_seen_t *));
        if (first->later == NULL) {
            return NGX_ERROR;
        }
    }

    later = ngx_array_push(first->later);
    if (later == NULL) {
        return NGX_ERROR;
    }

    *later = second;

    pair[0] = first;
    pair[1] = second;

    key.len = sizeof(pair);
    key.data = (u_char *) pair;

    return ngx_http_dsem_check_add(cf, &check->orders, &key) ? NGX_OK
                                                             : NGX_ERROR;
}


/* whether other limits lead from the second back to the first */

static ngx_int_t
ngx_http_dsem_check_cycle(ngx_conf_t *cf, ngx_http_dsem_check_t *check,
    ngx_http_dsem_seen_t *first, ngx_http_dsem_seen_t *second)
{
    ngx_uint_t              i;
    ngx_http_dsem_seen_t  **later, *order;

    if (second->later == NULL) {
        return NGX_OK;
    }

    check->visits++;
    later = second->later->elts;

    for (i = 0; i < second->later->nelts; i++) {

        if (!ngx_http_dsem_check_leads(later[i], first, check->visits)) {
            continue;
        }

        order = ngx_http_dsem_check_order_of(check, second, later[i]);

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "semaphore \"%V\" before \"%V\" makes a cycle: "
                           "\"%V\" is taken before \"%V\" in %V:%ui, and "
                           "\"%V\" before \"%V\" by other lines",
                           ngx_http_dsem_conf_word(cf, &first->sn.str),
                           ngx_http_dsem_conf_word(cf, &second->sn.str),
                           ngx_http_dsem_conf_word(cf, &second->sn.str),
                           ngx_http_dsem_conf_word(cf, &later[i]->sn.str),
                           &order->file, order->line,
                           ngx_http_dsem_conf_word(cf, &later[i]->sn.str),
                           ngx_http_dsem_conf_word(cf, &first->sn.str));
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* looks at every name once in a visit */

static ngx_uint_t
ngx_http_dsem_check_leads(ngx_http_dsem_seen_t *from,
    ngx_http_dsem_seen_t *to, ngx_uint_t visit)
{
    ngx_uint_t              i;
    ngx_http_dsem_seen_t  **later;

    if (from == to) {
        return 1;
    }

    if (from->visit == visit || from->later == NULL) {
        return 0;
    }

    from->visit = visit;
    later = from->later->elts;

    for (i = 0; i < from->later->nelts; i++) {
        if (ngx_http_dsem_check_leads(later[i], to, visit)) {
            return 1;
        }
    }

    return 0;
}


/* a literal name is in the tree once, so its address stands for it */

static ngx_http_dsem_seen_t *
ngx_http_dsem_check_order_of(ngx_http_dsem_check_t *check,
    ngx_http_dsem_seen_t *first, ngx_http_dsem_seen_t *second)
{
    ngx_str_t              key;
    ngx_http_dsem_seen_t  *pair[2];

    pair[0] = first;
    pair[1] = second;

    key.len = sizeof(pair);
    key.data = (u_char *) pair;

    return ngx_http_dsem_check_find(&check->orders, &key);
}


static ngx_http_dsem_seen_t *
ngx_http_dsem_check_find(ngx_rbtree_t *tree, ngx_str_t *key)
{
    uint32_t  hash;

    hash = ngx_crc32_short(key->data, key->len);

    return (ngx_http_dsem_seen_t *) ngx_str_rbtree_lookup(tree, key, hash);
}


/* finds what is there already, too; NULL: no memory */

static ngx_http_dsem_seen_t *
ngx_http_dsem_check_add(ngx_conf_t *cf, ngx_rbtree_t *tree, ngx_str_t *key)
{
    ngx_http_dsem_seen_t  *seen;

    seen = ngx_http_dsem_check_find(tree, key);
    if (seen) {
        return seen;
    }

    seen = ngx_palloc(cf->temp_pool, sizeof(ngx_http_dsem_seen_t));
    if (seen == NULL) {
        return NULL;
    }

    seen->sn.str.data = ngx_pstrdup(cf->temp_pool, key);
    if (seen->sn.str.data == NULL) {
        return NULL;
    }

    seen->sn.str.len = key->len;
    seen->sn.node.key = ngx_crc32_short(key->data, key->len);
    seen->limit = NGX_CONF_UNSET;
    seen->strict = NULL;
    seen->later = NULL;
    seen->visit = 0;

    ngx_http_dsem_check_place(cf, seen);

    ngx_rbtree_insert(tree, &seen->sn.node);

    return seen;
}


static void
ngx_http_dsem_check_place(ngx_conf_t *cf, ngx_http_dsem_seen_t *seen)
{
    if (cf->conf_file == NULL || cf->conf_file->file.name.data == NULL) {
        ngx_str_set(&seen->file, "command line");
        seen->line = 0;
        return;
    }

    seen->file = cf->conf_file->file.name;
    seen->line = cf->conf_file->line;
}
