
/*
 * Inspect: reads what lua/inspect.lua replies.
 *
 * Replies are text with whatever is in the keys: a line of another form ends
 * the reading, and names are those that were asked for.
 *
 * Called by: reading.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_text.h"


/* changes of a limit that is found; Redis keeps fewer */
#define NGX_HTTP_DSEM_INSPECT_MAX_MOVES  256


/* a line of a semaphore; NGX_DECLINED: another form, NGX_ERROR: no memory */
typedef struct {
    const char    *word;
    ngx_int_t    (*read)(ngx_http_dsem_fleet_t *fleet,
                         ngx_http_dsem_survey_semaphore_t *semaphore,
                         ngx_str_t *line);
} ngx_http_dsem_inspect_line_t;


static ngx_int_t ngx_http_dsem_inspect_shard(ngx_http_dsem_fleet_t *fleet,
    ngx_str_t *line, ngx_uint_t count);
static ngx_int_t ngx_http_dsem_inspect_semaphore(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line);
static ngx_int_t ngx_http_dsem_inspect_account(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line);
static ngx_int_t ngx_http_dsem_inspect_asks(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line);
static ngx_int_t ngx_http_dsem_inspect_server(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line);
static ngx_int_t ngx_http_dsem_inspect_auto(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line);
static ngx_int_t ngx_http_dsem_inspect_history(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line);
static ngx_int_t ngx_http_dsem_inspect_limit(ngx_str_t *line,
    ngx_int_t *limit);
static ngx_int_t ngx_http_dsem_inspect_numbers(ngx_str_t *line,
    ngx_int_t *values, ngx_uint_t n);


static ngx_http_dsem_inspect_line_t  ngx_http_dsem_inspect_lines[] = {
    { "semaphore", ngx_http_dsem_inspect_semaphore },
    { "account", ngx_http_dsem_inspect_account },
    { "asks", ngx_http_dsem_inspect_asks },
    { "server", ngx_http_dsem_inspect_server },
    { "auto", ngx_http_dsem_inspect_auto },
    { "history", ngx_http_dsem_inspect_history },
    { NULL, NULL }
};


/*
 * Reads a reply of "inspect", which was asked for "n" semaphores from the one
 * with the index "first" on; "count": its sessions are not counted yet.
 * NGX_DECLINED: the text has another form; NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_inspect_read(ngx_http_dsem_fleet_t *fleet, ngx_uint_t first,
    ngx_uint_t n, ngx_uint_t count, ngx_str_t *text)
{
    ngx_int_t                          rc;
    ngx_str_t                          line, word;
    ngx_http_dsem_inspect_line_t      *l;
    ngx_http_dsem_survey_semaphore_t  *semaphore, *next, *last;

    semaphore = NULL;
    next = fleet->survey.semaphores.elts;
    next += first;
    last = next + n;

    if (ngx_http_dsem_text_line(text, &line) != NGX_OK
        || ngx_http_dsem_inspect_shard(fleet, &line, count) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    while (ngx_http_dsem_text_line(text, &line) == NGX_OK) {

        word = ngx_http_dsem_text_word(&line);

        for (l = ngx_http_dsem_inspect_lines; l->word; l++) {
            if (ngx_http_dsem_text_is(&word, l->word)) {
                break;
            }
        }

        if (l == ngx_http_dsem_inspect_lines) {

            if (next == last) {
                return NGX_DECLINED;
            }

            semaphore = next++;
        }

        if (l->word == NULL || semaphore == NULL) {
            return NGX_DECLINED;
        }

        rc = l->read(fleet, semaphore, &line);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    return (next == last) ? NGX_OK : NGX_DECLINED;
}


/* "shard <generation> <clock> <ms of recovery left> <live sessions>" */

static ngx_int_t
ngx_http_dsem_inspect_shard(ngx_http_dsem_fleet_t *fleet, ngx_str_t *line,
    ngx_uint_t count)
{
    ngx_str_t  word;
    ngx_int_t  values[4];

    word = ngx_http_dsem_text_word(line);

    if (!ngx_http_dsem_text_is(&word, "shard")
        || ngx_http_dsem_inspect_numbers(line, values, 4) != NGX_OK
        || line->len)
    {
        return NGX_DECLINED;
    }

    /* a worker that uses several shards has a session in each of them */

    if (count) {
        fleet->survey.nsessions = ngx_max((ngx_int_t) fleet->survey.nsessions,
                                          values[3]);
    }

    return NGX_OK;
}


/*
 * "<name> <held> <waiting> <limit in force> <configured limit> <ordered limit>
 * <paused> <partial>"; limits may be "-".
 */

static ngx_int_t
ngx_http_dsem_inspect_semaphore(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line)
{
    ngx_str_t  name;
    ngx_int_t  counts[2], flags[2];

    name = ngx_http_dsem_text_word(line);

    if (ngx_http_dsem_text_order(&name, &semaphore->name) != 0
        || ngx_http_dsem_inspect_numbers(line, counts, 2) != NGX_OK
        || ngx_http_dsem_inspect_limit(line, &semaphore->limit) != NGX_OK
        || ngx_http_dsem_inspect_limit(line, &semaphore->configured) != NGX_OK
        || ngx_http_dsem_inspect_limit(line, &semaphore->ordered) != NGX_OK
        || ngx_http_dsem_inspect_numbers(line, flags, 2) != NGX_OK
        || line->len)
    {
        return NGX_DECLINED;
    }

    semaphore->replied = 1;
    semaphore->held = counts[0];
    semaphore->waiting = counts[1];
    semaphore->paused = (flags[0] != 0);
    semaphore->partial = (flags[1] != 0);
    semaphore->order = (semaphore->ordered != -1 || semaphore->paused);
    semaphore->in_redis = (semaphore->order
                           || semaphore->held
                           || semaphore->waiting
                           || semaphore->limit != -1
                           || semaphore->configured != -1);

    return NGX_OK;
}


/* "<session> <held> <waiting> <idle> <ms of lease left> <1: not silent>" */

static ngx_int_t
ngx_http_dsem_inspect_account(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line)
{
    ngx_int_t               values[5];
    ngx_str_t               session;
    ngx_http_dsem_holder_t  holder;

    session = ngx_http_dsem_text_word(line);

    if (ngx_http_dsem_fleet_session(&session, &holder) != NGX_OK
        || ngx_http_dsem_inspect_numbers(line, values, 5) != NGX_OK
        || line->len)
    {
        return NGX_DECLINED;
    }

    holder.held = values[0];
    holder.waiting = values[1];

    /* as of some seconds ago, it may be more than is held now */
    holder.idle = ngx_min(values[2], ngx_max(holder.held, 0));

    holder.lease = values[3];
    holder.heard = (values[4] != 0);

    semaphore->in_redis = 1;

    return ngx_http_dsem_fleet_hold(fleet, semaphore, &holder);
}


/* "<limit> <node>" */

static ngx_int_t
ngx_http_dsem_inspect_asks(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line)
{
    ngx_str_t                      node;
    ngx_int_t                      limit;
    ngx_http_dsem_disagreement_t  *disagreement;

    if (ngx_http_dsem_inspect_numbers(line, &limit, 1) != NGX_OK) {
        return NGX_DECLINED;
    }

    node = ngx_http_dsem_text_word(line);

    if (line->len || !ngx_http_dsem_fleet_is_node(&node)) {
        return NGX_DECLINED;
    }

    disagreement = ngx_http_dsem_fleet_push(fleet, &semaphore->disagreements,
                                         sizeof(ngx_http_dsem_disagreement_t),
                                         &node);
    if (disagreement == NULL) {
        return NGX_ERROR;
    }

    disagreement->limit = limit;

    return NGX_OK;
}


/* "<server> <held> <limit> <ordered limit>"; limits may be "-" */

static ngx_int_t
ngx_http_dsem_inspect_server(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line)
{
    ngx_str_t                       name;
    ngx_http_dsem_survey_server_t  *server;

    name = ngx_http_dsem_text_word(line);

    if (!ngx_http_dsem_fleet_is_name(&name)) {
        return NGX_DECLINED;
    }

    server = ngx_http_dsem_fleet_push(fleet, &semaphore->servers,
                                      sizeof(ngx_http_dsem_survey_server_t),
                                      &name);
    if (server == NULL) {
        return NGX_ERROR;
    }

    if (ngx_http_dsem_inspect_numbers(line, &server->held, 1) != NGX_OK
        || ngx_http_dsem_inspect_limit(line, &server->limit) != NGX_OK
        || ngx_http_dsem_inspect_limit(line, &server->ordered) != NGX_OK
        || line->len)
    {
        return NGX_DECLINED;
    }

    semaphore->in_redis = 1;

    return NGX_OK;
}


/* "<min> <max> <limit found> <reason> <floor> <latency>" */

static ngx_int_t
ngx_http_dsem_inspect_auto(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line)
{
    ngx_int_t               values[6];
    ngx_http_dsem_found_t  *found;

    if (semaphore->found
        || ngx_http_dsem_inspect_numbers(line, values, 6) != NGX_OK
        || line->len)
    {
        return NGX_DECLINED;
    }

    found = ngx_pcalloc(fleet->pool, sizeof(ngx_http_dsem_found_t));
    if (found == NULL) {
        return NGX_ERROR;
    }

    found->min = values[0];
    found->max = values[1];
    found->limit = values[2];
    found->reason = values[3];
    found->floor = values[4];
    found->latency = values[5];

    semaphore->found = found;

    return NGX_OK;
}


/* "<clock now> <clock> <limit> <reason> ...", the oldest change first */

static ngx_int_t
ngx_http_dsem_inspect_history(ngx_http_dsem_fleet_t *fleet,
    ngx_http_dsem_survey_semaphore_t *semaphore, ngx_str_t *line)
{
    int64_t                now, clock;
    ngx_int_t              values[2];
    ngx_http_dsem_move_t  *move;

    if (semaphore->found == NULL
        || ngx_http_dsem_text_number(line, &now) != NGX_OK)
    {
        return NGX_DECLINED;
    }

    while (line->len) {

        if (semaphore->found->moves.nelts == NGX_HTTP_DSEM_INSPECT_MAX_MOVES
            || ngx_http_dsem_text_number(line, &clock) != NGX_OK
            || ngx_http_dsem_inspect_numbers(line, values, 2) != NGX_OK)
        {
            /* the text is passed on as it is in Redis */
            return NGX_OK;
        }

        move = ngx_http_dsem_fleet_push(fleet, &semaphore->found->moves,
                                        sizeof(ngx_http_dsem_move_t), NULL);
        if (move == NULL) {
            return NGX_ERROR;
        }

        /* one that another clock has written is as new as can be */

        move->age = (clock >= 0 && clock < now)
                    ? (ngx_int_t) ngx_min(now - clock, NGX_MAX_INT_T_VALUE)
                    : 0;
        move->limit = values[0];
        move->reason = values[1];
    }

    return NGX_OK;
}


/* a number that is not negative, or "-" */

static ngx_int_t
ngx_http_dsem_inspect_limit(ngx_str_t *line, ngx_int_t *limit)
{
    if (line->len && line->data[0] == '-') {
        *limit = -1;

        return (ngx_http_dsem_text_word(line).len == 1) ? NGX_OK
                                                        : NGX_DECLINED;
    }

    return ngx_http_dsem_inspect_numbers(line, limit, 1);
}


/* where ngx_int_t has 32 bits the clock of Redis does not fit, nor need it */

static ngx_int_t
ngx_http_dsem_inspect_numbers(ngx_str_t *line, ngx_int_t *values, ngx_uint_t n)
{
    int64_t  value;

    while (n--) {

        if (ngx_http_dsem_text_number(line, &value) != NGX_OK) {
            return NGX_DECLINED;
        }

        value = ngx_max(value, -NGX_MAX_INT_T_VALUE);
        *values++ = (ngx_int_t) ngx_min(value, NGX_MAX_INT_T_VALUE);
    }

    return NGX_OK;
}
