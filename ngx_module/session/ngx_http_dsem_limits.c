
/*
 * Limits: the literal limits of this worker's configuration.
 *
 * Nodes may have different configurations for a while, or for good.  For each
 * name the lowest limit of all live configurations is in force.  A session
 * registers with the digest of its configuration (hello), and states its
 * limits if Redis does not know them.  An exiting worker leaves: its
 * configuration is an older one.
 *
 * Owns the session's copy of the limits, with the limit in force that a reply
 * has shown last, and logs a lower limit of another node, or an operator's
 * order, once per node and change.
 *
 * Called by: session (life), handshake (hello, beat), account (look-up),
 * sync (flags, replies), message.  The order of arguments is that of
 * lua/configure.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_limits.h"
#include "ngx_http_dsem_process.h"
#include "ngx_http_dsem_zone.h"


/*
 * limits in one call: Redis is not kept busy for long, although the fields of
 * names may be long; as in configure.lua
 */
#define NGX_HTTP_DSEM_LIMITS_MAX_BATCH  4

/* ms; Redis searches for the node that asks for a lower limit once in it */
#define NGX_HTTP_DSEM_LIMITS_ASK_INTERVAL  1000

/* questions in which workers before a reload leave */
#define NGX_HTTP_DSEM_LIMITS_NAMESAKES  2

/* of one name, ms and warnings in it */
#define NGX_HTTP_DSEM_LIMITS_WARN_TIME     60000
#define NGX_HTTP_DSEM_LIMITS_MAX_WARNINGS  4

/* ms; the state of the rule expires, as in lua/include/auto.lua */
#define NGX_HTTP_DSEM_LIMITS_LEARNED  3600000

/* arguments of every configure, and for each limit */
#define NGX_HTTP_DSEM_LIMITS_ARGS       4
#define NGX_HTTP_DSEM_LIMITS_PAIR_ARGS  2


static u_char *ngx_http_dsem_limits_add(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_literal_t *literal, ngx_http_dsem_limits_pair_t *pair,
    u_char *p);
static ngx_uint_t ngx_http_dsem_limits_in_shard(
    ngx_http_dsem_limits_pair_t *pair, ngx_uint_t shard, ngx_uint_t nshards);
static ngx_int_t ngx_http_dsem_limits_state_part(
    ngx_http_dsem_limits_t *limits, ngx_http_dsem_redis_t *redis,
    ngx_uint_t part, ngx_uint_t nparts);


/* of a session that does not count */
static ngx_str_t  ngx_http_dsem_limits_none = ngx_string("-");


/*
 * The limits of the names in one shard.  Without any the session counts
 * for no limit of that shard.  settings are copied; NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_limits_create(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_limits_settings_t *settings, ngx_uint_t shard,
    ngx_uint_t nshards, ngx_http_dsem_zone_t *zone, uint64_t space)
{
    size_t                        len;
    u_char                       *p;
    ngx_uint_t                    i, n;
    ngx_http_dsem_literal_t      *literal;
    ngx_http_dsem_limits_pair_t  *pair;

    ngx_memzero(limits, sizeof(ngx_http_dsem_limits_t));
    ngx_rbtree_init(&limits->names, &limits->sentinel,
                    ngx_str_rbtree_insert_value);

    len = settings->id.len;

    for (i = 0, n = 0; i < settings->npairs; i++) {
        pair = &settings->pairs[i];

        if (ngx_http_dsem_limits_in_shard(pair, shard, nshards)) {
            len += sizeof(ngx_http_dsem_literal_t) + pair->name.len;
            n++;
        }
    }

    literal = ngx_calloc(len, ngx_cycle->log);
    if (literal == NULL) {
        return NGX_ERROR;
    }

    limits->memo = ngx_http_dsem_zone_memo(zone);
    limits->space = (uint32_t) (space ^ (space >> 32));
    limits->literals = literal;
    limits->nliterals = n;

    p = (u_char *) (literal + n);

    limits->id.len = settings->id.len;
    limits->id.data = p;
    p = ngx_cpymem(p, settings->id.data, settings->id.len);

    if (n == 0) {
        limits->id = ngx_http_dsem_limits_none;
    }

    for (i = 0; i < settings->npairs; i++) {
        pair = &settings->pairs[i];

        if (!ngx_http_dsem_limits_in_shard(pair, shard, nshards)) {
            continue;
        }

        p = ngx_http_dsem_limits_add(limits, literal++, pair, p);
    }

    return NGX_OK;
}


/* the name is copied to p; returns the end */

static u_char *
ngx_http_dsem_limits_add(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_literal_t *literal, ngx_http_dsem_limits_pair_t *pair,
    u_char *p)
{
    literal->node.str.len = pair->name.len;
    literal->node.str.data = p;

    literal->node.node.key = ngx_crc32_short(pair->name.data, pair->name.len);
    literal->limit = pair->limit;
    literal->min = pair->min;
    literal->max = pair->max;
    literal->max_conns = pair->max_conns;
    literal->in_force = -1;

    literal->memory = pair->max
                      ? ngx_http_dsem_memo_limit(limits->memo,
                                                 literal->node.node.key
                                                 ^ limits->space)
                      : NULL;

    if (literal->memory == NULL) {
        literal->memory = &literal->own;
    }

    p = ngx_cpymem(p, pair->name.data, pair->name.len);

    ngx_rbtree_insert(&limits->names, &literal->node.node);

    return p;
}


static ngx_uint_t
ngx_http_dsem_limits_in_shard(ngx_http_dsem_limits_pair_t *pair,
    ngx_uint_t shard, ngx_uint_t nshards)
{
    return nshards == 1 || ngx_http_dsem_key_shard(&pair->name) == shard;
}


void
ngx_http_dsem_limits_free(ngx_http_dsem_limits_t *limits)
{
    if (limits->literals) {
        ngx_free(limits->literals);
    }

    ngx_memzero(limits, sizeof(ngx_http_dsem_limits_t));
}


/* with which the session registers in a new epoch */

ngx_str_t *
ngx_http_dsem_limits_id(ngx_http_dsem_limits_t *limits)
{
    limits->left = ngx_exiting ? 1 : 0;

    return ngx_exiting ? &ngx_http_dsem_limits_none : &limits->id;
}


/*
 * Redis lacks the configuration: sends its limits, in parts.  They are there
 * before any later call of this connection.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_limits_state(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_redis_t *redis)
{
    ngx_uint_t  part, nparts;

    if (limits->left) {
        return NGX_OK;
    }

    nparts = (limits->nliterals + NGX_HTTP_DSEM_LIMITS_MAX_BATCH - 1)
             / NGX_HTTP_DSEM_LIMITS_MAX_BATCH;

    for (part = 0; part < nparts; part++) {
        if (ngx_http_dsem_limits_state_part(limits, redis, part, nparts)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Limits are numbers; or where "limit=auto" begins, and its bounds: Redis may
 * have lost the limit that was found, and begins with it again.
 */

static ngx_int_t
ngx_http_dsem_limits_state_part(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_redis_t *redis, ngx_uint_t part, ngx_uint_t nparts)
{
    u_char                   *last, text[3 * NGX_INT_T_LEN + 2];
    ngx_uint_t                i, n;
    ngx_http_dsem_resp_t     *command;
    ngx_http_dsem_literal_t  *literal;

    i = part * NGX_HTTP_DSEM_LIMITS_MAX_BATCH;
    n = ngx_min(limits->nliterals - i, NGX_HTTP_DSEM_LIMITS_MAX_BATCH);

    command = ngx_http_dsem_redis_begin(redis, NGX_HTTP_DSEM_SCRIPT_CONFIGURE,
                      ngx_http_dsem_redis_keys(redis)->registry, 1,
                      NGX_HTTP_DSEM_LIMITS_ARGS
                      + n * NGX_HTTP_DSEM_LIMITS_PAIR_ARGS);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_string(command, &limits->id);
    ngx_http_dsem_resp_number(command, part);
    ngx_http_dsem_resp_number(command, nparts);
    ngx_http_dsem_resp_number(command, n);

    for (literal = &limits->literals[i]; n; literal++, n--) {
        ngx_http_dsem_resp_string(command, &literal->node.str);

        if (literal->max == 0) {
            ngx_http_dsem_resp_number(command, literal->limit);
            continue;
        }

        last = ngx_sprintf(text, "%i=%i-%i",
                           ngx_http_dsem_limits_last(literal), literal->min,
                           literal->max);

        ngx_http_dsem_resp_bytes(command, text, last - text);
    }

    /* a session that is unknown learns it by the calls that follow */

    return ngx_http_dsem_redis_call(redis, NULL, NULL);
}


/*
 * The worker exits: its limits do not count any more, however long its
 * requests run.  Without a connection the next hello says so.
 */

void
ngx_http_dsem_limits_leave(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_redis_t *redis)
{
    ngx_http_dsem_resp_t  *command;

    if (limits->left || limits->nliterals == 0) {
        return;
    }

    command = ngx_http_dsem_redis_begin(redis, NGX_HTTP_DSEM_SCRIPT_CONFIGURE,
                               ngx_http_dsem_redis_keys(redis)->registry, 1,
                               1);
    if (command == NULL) {
        return;
    }

    ngx_http_dsem_resp_string(command, &ngx_http_dsem_limits_none);

    if (ngx_http_dsem_redis_call(redis, NULL, NULL) == NGX_OK) {
        limits->left = 1;
    }
}


/* the limit of this encoded name; NULL: it has no literal one */

ngx_http_dsem_literal_t *
ngx_http_dsem_limits_find(ngx_http_dsem_limits_t *limits, ngx_str_t *name,
    uint32_t hash)
{
    return (ngx_http_dsem_literal_t *)
               ngx_str_rbtree_lookup(&limits->names, name, hash);
}


/*
 * Whether the next sync asks for a message, if another node asks for a lower
 * limit.  Where none does it costs nothing; a lost message is asked for again.
 */

ngx_uint_t
ngx_http_dsem_limits_ask_node(ngx_http_dsem_literal_t *literal)
{
    ngx_uint_t  lower;

    if (literal->max) {
        /* a limit that is found may be any number */
        return 0;
    }

    lower = (literal->in_force != -1 && literal->in_force < literal->limit);

    if (literal->elsewhere
        || (lower && ngx_current_msec - literal->asked
                     < NGX_HTTP_DSEM_LIMITS_ASK_INTERVAL))
    {
        return 0;
    }

    literal->asked = ngx_current_msec;

    return 1;
}


/*
 * A reply has shown the limit in force; sent: its command, monotonic ms.
 * Returns what this node asks for, -1: "limit=auto", which is any number.
 */

ngx_int_t
ngx_http_dsem_limits_seen(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_literal_t *literal, ngx_int_t limit, uint64_t sent)
{
    ngx_http_dsem_memo_limit_t  *memory;

    memory = literal->memory;

    /* siblings may have written another one since; 0 is no number of a probe */

    if (literal->max
        && ngx_http_dsem_process_latest(&memory->sent, sent)
        && !ngx_http_dsem_limits_probed(literal, limit))
    {
        memory->in_force = limit + 1;
    }

    if (literal->in_force != limit) {
        literal->in_force = limit;
        literal->elsewhere = 0;
        literal->namesakes = 0;

        if (limit == literal->limit) {
            ngx_http_dsem_memo_unclaim(limits->memo, literal->node.node.key);
        }
    }

    return literal->max ? -1 : literal->limit;
}


/*
 * What a reply has shown of a name: the limit in force, what its requests ask
 * for, or -1 where it says nothing of limits, and a pause.  A lower limit, such
 * as an order, and a pause are remembered for the time without Redis: accounts
 * are freed when they are empty, and a worker may start in an outage.  One that
 * has not the newest configuration asks for a limit of before the reload: that
 * this one is in force says nothing about that of now.
 */

void
ngx_http_dsem_limits_seen_lower(ngx_http_dsem_limits_t *limits,
    ngx_uint_t newest, ngx_str_t *name, uint32_t hash, ngx_int_t own,
    ngx_int_t limit, ngx_uint_t paused, uint64_t sent)
{
    if (!newest && limit == own) {
        own = -1;
    }

    ngx_http_dsem_memo_set_lower(limits->memo, name, hash ^ limits->space,
                                 own, limit, paused, sent);
}


/* own, or the lower limit that the node has seen in force; seen: see memo */

ngx_int_t
ngx_http_dsem_limits_lower(ngx_http_dsem_limits_t *limits, ngx_str_t *name,
    uint32_t hash, ngx_int_t own, ngx_int_t seen)
{
    return ngx_http_dsem_memo_lower(limits->memo, name, hash ^ limits->space,
                                    own, seen);
}


/* as far as the node has seen it */

ngx_uint_t
ngx_http_dsem_limits_paused(ngx_http_dsem_limits_t *limits, ngx_str_t *name,
    uint32_t hash)
{
    return ngx_http_dsem_memo_paused(limits->memo, name,
                                     hash ^ limits->space);
}


/*
 * A reply has shown the limit that was found, of "limit=auto"; then the limit
 * in force, see above.  kept: the one found without a probe, which lowers it
 * for a moment.
 */

void
ngx_http_dsem_limits_found(ngx_http_dsem_literal_t *literal, ngx_int_t found,
    ngx_int_t kept, int64_t generation, uint64_t sent)
{
    ngx_http_dsem_memo_limit_t  *memory;

    memory = literal->memory;

    literal->generation = generation;
    literal->found_at = ngx_current_msec;

    if (!ngx_http_dsem_process_latest(&memory->sampled, sent)) {
        return;
    }

    memory->found = kept;
    memory->probed = (found == kept) ? 0 : found;

    /* a reply to a sibling has shown the probe before */
    (void) ngx_atomic_cmp_set(&memory->in_force, found + 1, kept + 1);
}


/*
 * The limit that this worker had in another generation, which may be lost
 * in this one; 0: none, or longer ago than Redis keeps what it learns.
 */

ngx_int_t
ngx_http_dsem_limits_lost(ngx_http_dsem_literal_t *literal,
    int64_t generation)
{
    if (literal->generation == 0
        || literal->generation == generation
        || ngx_current_msec - literal->found_at
           > NGX_HTTP_DSEM_LIMITS_LEARNED)
    {
        return 0;
    }

    return ngx_http_dsem_limits_last(literal);
}


/*
 * The limit that was found last, by any worker of the node; the one of the
 * start if none was.  Only of "limit=auto".
 */

ngx_int_t
ngx_http_dsem_limits_last(ngx_http_dsem_literal_t *literal)
{
    ngx_int_t  limit;

    limit = literal->memory->found;

    if (limit == 0) {
        return literal->limit;
    }

    /* it may have been found within the bounds of an earlier configuration */

    limit = ngx_min(limit, literal->max);

    return ngx_max(limit, literal->min);
}


/* whether a limit in force is that of a probe, as the node has seen it last */

ngx_uint_t
ngx_http_dsem_limits_probed(ngx_http_dsem_literal_t *literal, ngx_int_t limit)
{
    return literal->max
           && limit != 0
           && (ngx_atomic_uint_t) limit == literal->memory->probed;
}


/*
 * The limit while Redis cannot be asked: a lower order, or a lower limit of
 * another node, stays in force.  Where none was found by this node, the one
 * that it has seen in force.  -1: it has seen none.
 */

ngx_int_t
ngx_http_dsem_limits_local(ngx_http_dsem_literal_t *literal)
{
    ngx_int_t  limit, in_force;

    if (literal->max == 0) {
        return -1;
    }

    in_force = (ngx_int_t) literal->memory->in_force - 1;

    if (literal->memory->found == 0) {
        return ngx_min(in_force, literal->max);
    }

    limit = ngx_http_dsem_limits_last(literal);

    return (in_force == -1) ? limit : ngx_min(limit, in_force);
}


/*
 * A message: this limit is in force, because another node asks for it; or an
 * operator ordered it, if the node has no name.
 *
 * namesake   the node has the name of this one, and may be this one: workers
 *            before a reload that have not left yet
 */

void
ngx_http_dsem_limits_lower_elsewhere(ngx_http_dsem_limits_t *limits,
    ngx_http_dsem_literal_t *literal, ngx_int_t limit, ngx_str_t *node,
    ngx_uint_t namesake)
{
    u_char  own[NGX_INT_T_LEN + sizeof("max_conns")];

    if ((literal->elsewhere && literal->in_force == limit)
        || (namesake
            && literal->namesakes++ < NGX_HTTP_DSEM_LIMITS_NAMESAKES))
    {
        return;
    }

    literal->in_force = limit;
    literal->elsewhere = 1;

    if (limit == literal->limit || (node->len && limit > literal->limit)) {
        return;
    }

    /* another node may have "limit=auto", and its limit moves all the time */

    if (ngx_current_msec - literal->warned >= NGX_HTTP_DSEM_LIMITS_WARN_TIME) {
        literal->warned = ngx_current_msec;
        literal->warnings = 0;
    }

    if (literal->warnings++ >= NGX_HTTP_DSEM_LIMITS_MAX_WARNINGS
        || !ngx_http_dsem_memo_claim(limits->memo, literal->node.node.key,
                                     limit, literal->limit))
    {
        return;
    }

    if (literal->max_conns) {
        ngx_sprintf(own, "max_conns%Z");

    } else {
        ngx_sprintf(own, "%i%Z", literal->limit);
    }

    if (node->len == 0) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: limit of \"%V\" is %i by an operator's order, "
                      "this node asks for %s",
                      &literal->node.str, limit, own);
        return;
    }

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: limit of \"%V\" is %i in force (%snode %V asks for "
                  "it), this node asks for %s",
                  &literal->node.str, limit, namesake ? "another " : "", node,
                  own);
}
