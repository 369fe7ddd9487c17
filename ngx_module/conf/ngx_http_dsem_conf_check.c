
/*
 * The check of all limits against each other.
 *
 * One literal name has one literal limit in the whole configuration, and
 * literal names are never taken in opposite orders, or in a cycle of orders,
 * which would let requests wait for each other.  A key of "fair" that all
 * requests of a name have at this node gets a warning.
 *
 * A list of limits is checked where it is written, so that a message has
 * the line; a level that inherits it has the same list.  The names and orders
 * seen so far are kept in trees: a limit costs a few look-ups for each one
 * before it in its own list, however many other lists there are.
 *
 * Called by: conf (life), conf_limit (a limit is read), conf_digest (all
 * literal limits).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_conf.h"
#include "ngx_http_dsem_conf_param.h"
#include "ngx_http_dsem_module.h"
#include "ngx_http_dsem_text.h"


/* bytes of a limit in a message */
#define NGX_HTTP_DSEM_CHECK_TEXT                                              \
    (sizeof("limit=auto min= max=") + 2 * NGX_INT_T_LEN)


/* a literal name, or two of them in their order, and where it was first */
typedef struct ngx_http_dsem_seen_s  ngx_http_dsem_seen_t;

struct ngx_http_dsem_seen_s {
    ngx_str_node_t             sn;
    ngx_int_t                  limit;      /* unset: no literal limit yet */
    ngx_int_t                  min;        /* of "limit=auto" */
    ngx_int_t                  max;        /* of "auto"; 0: another one */
    ngx_str_t                  encoded;    /* of a name */
    ngx_flag_t                *strict;     /* of a name: outlives the check */
    ngx_uint_t                 max_conns;  /* unsigned:1, of a pool */
    ngx_uint_t                 pool;       /* unsigned:1, of a name: it is
                                              that of an upstream */
    ngx_array_t               *later;      /* of a name: what is taken after
                                              it; ngx_http_dsem_seen_t * */
    ngx_uint_t                 visit;      /* of a name: its last walk */
    ngx_str_t                  key;        /* of a name: of "fair", without
                                              variables; or null */
    ngx_uint_t                 keys;       /* unsigned:1, of a name: not all
                                              requests have this key */
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


static ngx_int_t ngx_http_dsem_check_before(ngx_conf_t *cf,
    ngx_http_dsem_check_t *check, ngx_array_t *limits,
    ngx_http_dsem_seen_t *seen);
static ngx_int_t ngx_http_dsem_check_limit(ngx_conf_t *cf,
    ngx_http_dsem_seen_t *seen, ngx_http_dsem_limit_t *limit);
static void ngx_http_dsem_check_key(ngx_http_dsem_seen_t *seen,
    ngx_http_dsem_limit_t *limit);
static u_char *ngx_http_dsem_check_text(u_char *p, ngx_int_t limit,
    ngx_int_t min, ngx_int_t max);
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


/*
 * Begins the check of literal names, before any directive is read.  It lives
 * as long as the configuration is read.  NULL: no memory.
 */

ngx_http_dsem_check_t *
ngx_http_dsem_check_create(ngx_conf_t *cf)
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
 * All literal names of the whole configuration, in the order of the tree.
 *
 * pairs   ngx_http_dsem_limits_pair_t; without a literal limit it is unset
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_check_literals(ngx_http_dsem_check_t *check,
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

        pair = ngx_array_push(pairs);
        if (pair == NULL) {
            return NGX_ERROR;
        }

        pair->name = seen->encoded;
        pair->limit = seen->limit;
        pair->min = seen->min;
        pair->max = seen->max;
        pair->max_conns = seen->max_conns;
    }

    return NGX_OK;
}


/*
 * One key for all requests of a name shares the permits with other nodes only,
 * which may have other keys: all lines are read.
 */

void
ngx_http_dsem_check_warn(ngx_conf_t *cf, ngx_http_dsem_check_t *check)
{
    ngx_rbtree_node_t     *node;
    ngx_http_dsem_seen_t  *seen;

    if (check->names.root == check->names.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(check->names.root, check->names.sentinel);
         node;
         node = ngx_rbtree_next(&check->names, node))
    {
        seen = (ngx_http_dsem_seen_t *) node;

        if (seen->key.data && !seen->keys) {
            ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                          "\"fair=%V\" of semaphore \"%V\" in %V:%ui has no "
                          "variables, all its requests at this node have one "
                          "key, which shares only with keys of other nodes",
                          ngx_http_dsem_param_word(cf, &seen->key),
                          ngx_http_dsem_param_word(cf, &seen->sn.str),
                          &seen->file, seen->line);
        }
    }
}


/*
 * Checks a limit with a literal name against all literal names so far.
 *
 * limits   those of the level so far, without this one
 *
 * Returns NGX_OK, or NGX_ERROR when a message has been logged or there is
 * no memory.
 */

ngx_int_t
ngx_http_dsem_check_literal(ngx_conf_t *cf, ngx_array_t *limits,
    ngx_http_dsem_limit_t *limit)
{
    ngx_http_dsem_seen_t       *seen;
    ngx_http_dsem_check_t      *check;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    check = dmcf->check;

    seen = ngx_http_dsem_check_add(cf, &check->names, &limit->name.value);
    if (seen == NULL) {
        return NGX_ERROR;
    }

    if (seen->pool) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "semaphore \"%V\" is that of an upstream in "
                           "%V:%ui, no other line may have its name",
                           ngx_http_dsem_param_word(cf, &seen->sn.str),
                           &seen->file, seen->line);
        return NGX_ERROR;
    }

    seen->encoded = limit->encoded;

    /*
     * a limit without a queue rejects at once, and must find every permit in
     * Redis: this holds for all limits of the name
     */

    if (seen->strict == NULL) {
        seen->strict = limit->strict;
    }

    *seen->strict |= *limit->strict;
    limit->strict = seen->strict;

    if (ngx_http_dsem_check_limit(cf, seen, limit) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_dsem_check_key(seen, limit);

    return ngx_http_dsem_check_before(cf, check, limits, seen);
}


/* the order with the lines that stand before this one */

static ngx_int_t
ngx_http_dsem_check_before(ngx_conf_t *cf, ngx_http_dsem_check_t *check,
    ngx_array_t *limits, ngx_http_dsem_seen_t *seen)
{
    ngx_uint_t              i;
    ngx_http_dsem_seen_t   *other;
    ngx_http_dsem_limit_t  *before;

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
 * Checks the limit of an upstream, whose name no other line may have.  It is
 * taken after all others of a request, so no order can differ.
 */

ngx_int_t
ngx_http_dsem_check_pool(ngx_conf_t *cf, ngx_http_dsem_limit_t *limit)
{
    ngx_http_dsem_seen_t       *seen;
    ngx_http_dsem_check_t      *check;
    ngx_http_dsem_main_conf_t  *dmcf;

    dmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_dsem_module);
    check = dmcf->check;

    seen = ngx_http_dsem_check_find(&check->names, &limit->name.value);

    if (seen) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "semaphore \"%V\" is used in %V:%ui, that of an "
                           "upstream must have a name of its own",
                           ngx_http_dsem_param_word(cf, &seen->sn.str),
                           &seen->file, seen->line);
        return NGX_ERROR;
    }

    seen = ngx_http_dsem_check_add(cf, &check->names, &limit->name.value);
    if (seen == NULL) {
        return NGX_ERROR;
    }

    seen->encoded = limit->encoded;
    seen->strict = limit->strict;
    seen->limit = limit->number;
    seen->max_conns = limit->max_conns;
    seen->pool = 1;

    ngx_http_dsem_check_key(seen, limit);

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_check_limit(ngx_conf_t *cf, ngx_http_dsem_seen_t *seen,
    ngx_http_dsem_limit_t *limit)
{
    u_char  before[NGX_HTTP_DSEM_CHECK_TEXT], now[NGX_HTTP_DSEM_CHECK_TEXT];

    if (limit->number == NGX_CONF_UNSET
        || (limit->number == seen->limit
            && limit->min == seen->min
            && limit->max == seen->max))
    {
        return NGX_OK;
    }

    if (seen->limit == NGX_CONF_UNSET) {
        seen->limit = limit->number;
        seen->min = limit->min;
        seen->max = limit->max;
        ngx_http_dsem_check_place(cf, seen);
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "semaphore \"%V\" has \"%s\" in %V:%ui, but \"%s\"",
                       ngx_http_dsem_param_word(cf, &seen->sn.str),
                       ngx_http_dsem_check_text(before, seen->limit,
                                                seen->min, seen->max),
                       &seen->file, seen->line,
                       ngx_http_dsem_check_text(now, limit->number,
                                                limit->min, limit->max));
    return NGX_ERROR;
}


/* locations may have keys of their own, without variables */

static void
ngx_http_dsem_check_key(ngx_http_dsem_seen_t *seen,
    ngx_http_dsem_limit_t *limit)
{
    ngx_str_t  *key;

    if (limit->fair == NULL || limit->fair->lengths) {
        seen->keys = 1;
        return;
    }

    key = &limit->fair->value;

    if (seen->key.data && ngx_http_dsem_text_order(&seen->key, key) != 0) {
        seen->keys = 1;
    }

    seen->key = *key;
}


/* a limit as it may be written; p has room for the longest */

static u_char *
ngx_http_dsem_check_text(u_char *p, ngx_int_t limit, ngx_int_t min,
    ngx_int_t max)
{
    if (max) {
        ngx_sprintf(p, "limit=auto min=%i max=%i%Z", min, max);

    } else {
        ngx_sprintf(p, "limit=%i%Z", limit);
    }

    return p;
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
                           ngx_http_dsem_param_word(cf, &second->sn.str),
                           ngx_http_dsem_param_word(cf, &first->sn.str),
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
                           ngx_http_dsem_param_word(cf, &first->sn.str),
                           ngx_http_dsem_param_word(cf, &second->sn.str),
                           ngx_http_dsem_param_word(cf, &second->sn.str),
                           ngx_http_dsem_param_word(cf, &later[i]->sn.str),
                           &order->file, order->line,
                           ngx_http_dsem_param_word(cf, &later[i]->sn.str),
                           ngx_http_dsem_param_word(cf, &first->sn.str));
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* follows every name once in a visit */

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

    seen = ngx_pcalloc(cf->temp_pool, sizeof(ngx_http_dsem_seen_t));
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
