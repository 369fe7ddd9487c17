
/*
 * A run: what one survey asks of Redis, from the first call to the end.
 *
 * Asks each shard for some of its names, and then for the figures of all names
 * of the roster, in calls of a bounded size, a few at a time; or for one name
 * with all of its holders.  Owns what is being read until it is complete, and
 * then hands it up.  A reply of another form, or none, ends the run without a
 * result, and so does its time: some timeouts of a command, as many names over
 * a distant network are many round trips.
 *
 * A reply may come when its run is over: a call has the number of its run, and
 * such a reply is dropped.  Knows no waiters and no last result: its handler
 * is called each time that a command's time has passed, and at the end.
 *
 * Called by: survey (begin, stop); redis (replies).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_roster.h"
#include "ngx_http_dsem_run.h"
#include "ngx_http_dsem_shards.h"


/* the time of a run, in timeouts of a command */
#define NGX_HTTP_DSEM_RUN_PERIODS    10

/* unanswered calls of one run in one shard */
#define NGX_HTTP_DSEM_RUN_INFLIGHT   4

/* of the search for names in one shard, which the next run goes on with */
#define NGX_HTTP_DSEM_RUN_STEPS      8

/* semaphores of one call, and accounts: "inspect" reads no more */
#define NGX_HTTP_DSEM_RUN_BATCH      16
#define NGX_HTTP_DSEM_RUN_FIELDS     512

/* accounts of one semaphore: of the usual names, of a single one */
#define NGX_HTTP_DSEM_RUN_HOLDERS    60
#define NGX_HTTP_DSEM_RUN_MANY       250
#define NGX_HTTP_DSEM_RUN_ALL        1024

/* fields of a semaphore that are no accounts */
#define NGX_HTTP_DSEM_RUN_OTHERS     4

/* ms for which beats report idle permits: figures may be asked for rarely */
#define NGX_HTTP_DSEM_RUN_WATCH      60000

/* ms between log lines for replies of another form */
#define NGX_HTTP_DSEM_RUN_LOG        60000


/* a call that is sent; freed when its reply has come or never will */
typedef struct {
    ngx_http_dsem_run_t           *run;
    ngx_http_dsem_session_t       *session;
    ngx_uint_t                     number;     /* of the run */
    ngx_uint_t                     first;
    ngx_uint_t                     n;
    ngx_uint_t                     count;      /* unsigned:1, sessions */
} ngx_http_dsem_run_call_t;


static ngx_int_t ngx_http_dsem_run_begin_named(ngx_http_dsem_run_t *run,
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_run_begin_usual(ngx_http_dsem_run_t *run);
static ngx_int_t ngx_http_dsem_run_ask_names(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session);
static void ngx_http_dsem_run_names_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_int_t ngx_http_dsem_run_divide(ngx_http_dsem_run_t *run);
static ngx_int_t ngx_http_dsem_run_begin_part(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session);
static ngx_int_t ngx_http_dsem_run_ask_next(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session);
static ngx_http_dsem_resp_t *ngx_http_dsem_run_command(
    ngx_http_dsem_run_t *run, ngx_http_dsem_session_t *session, ngx_uint_t n);
static ngx_http_dsem_run_call_t *ngx_http_dsem_run_call(
    ngx_http_dsem_run_t *run, ngx_http_dsem_session_t *session,
    ngx_http_dsem_reply_pt handler);
static void ngx_http_dsem_run_figures_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_http_dsem_run_t *ngx_http_dsem_run_expected(
    ngx_http_dsem_run_call_t *call, ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_run_unfit(ngx_http_dsem_session_t *session,
    ngx_int_t rc, ngx_str_t *error);
static void ngx_http_dsem_run_end(ngx_http_dsem_run_t *run,
    ngx_http_dsem_fleet_t *result);
static void ngx_http_dsem_run_timer_handler(ngx_event_t *ev);


/* monotonic ms of the last such line, of any run; 0: never */
static uint64_t  ngx_http_dsem_run_logged;


void
ngx_http_dsem_run_init(ngx_http_dsem_run_t *run, ngx_msec_t timeout,
    ngx_http_dsem_run_pt handler, void *data)
{
    ngx_memzero(run, sizeof(ngx_http_dsem_run_t));

    run->timer.handler = ngx_http_dsem_run_timer_handler;
    run->timer.data = run;
    run->timer.log = ngx_cycle->log;

    run->timeout = timeout;
    run->handler = handler;
    run->data = data;
}


/* see the header for what it returns */

ngx_int_t
ngx_http_dsem_run_begin(ngx_http_dsem_run_t *run, ngx_str_t *name)
{
    ngx_int_t  rc;

    run->number++;
    run->inflight = 0;
    run->periods = 0;
    ngx_memzero(run->parts, sizeof(run->parts));

    run->fleet = ngx_http_dsem_fleet_create();
    if (run->fleet == NULL) {
        return NGX_ERROR;
    }

    ngx_add_timer(&run->timer, run->timeout);

    rc = name->len ? ngx_http_dsem_run_begin_named(run, name)
                   : ngx_http_dsem_run_begin_usual(run);

    if (rc != NGX_OK) {
        ngx_http_dsem_run_stop(run);
    }

    return rc;
}


void
ngx_http_dsem_run_stop(ngx_http_dsem_run_t *run)
{
    if (run->timer.timer_set) {
        ngx_del_timer(&run->timer);
    }

    if (run->fleet) {
        ngx_http_dsem_fleet_destroy(run->fleet);
        run->fleet = NULL;
    }
}


void
ngx_http_dsem_run_await(ngx_http_dsem_run_t *run, ngx_uint_t awaited)
{
    run->timer.cancelable = !awaited;
}


static ngx_int_t
ngx_http_dsem_run_begin_named(ngx_http_dsem_run_t *run, ngx_str_t *name)
{
    ngx_http_dsem_session_t   *session;
    ngx_http_dsem_run_part_t  *part;

    session = ngx_http_dsem_shards_session(name);
    ngx_http_dsem_shards_wake(session);

    if (!ngx_http_dsem_redis_is_up(session->redis)
        || ngx_http_dsem_fleet_add(run->fleet, name, session->shard) == NULL)
    {
        return NGX_ERROR;
    }

    part = &run->parts[session->shard];

    part->asked = 1;
    part->last = 1;
    part->batch = 1;
    part->holders = NGX_HTTP_DSEM_RUN_ALL;

    return ngx_http_dsem_run_ask_next(run, session);
}


/* a shard that cannot be asked now is left out */

static ngx_int_t
ngx_http_dsem_run_begin_usual(ngx_http_dsem_run_t *run)
{
    ngx_http_dsem_session_t  *session;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        ngx_http_dsem_shards_wake(session);

        if (!ngx_http_dsem_redis_is_up(session->redis)) {
            run->fleet->survey.partial = 1;
            continue;
        }

        if (ngx_http_dsem_run_ask_names(run, session) != NGX_OK) {
            return NGX_ERROR;
        }

        run->parts[session->shard].asked = 1;
    }

    return run->inflight ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_dsem_run_ask_names(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session)
{
    ngx_http_dsem_resp_t  *command;

    command = ngx_http_dsem_redis_begin(session->redis,
                                        NGX_HTTP_DSEM_SCRIPT_NAMES, NULL, 0,
                                        1);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_string(command,
                              ngx_http_dsem_roster_cursor(session->shard));

    return ngx_http_dsem_run_call(run, session,
                                  ngx_http_dsem_run_names_handler)
           ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_dsem_run_names_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_run_call_t *call = data;

    ngx_int_t                 rc;
    ngx_http_dsem_run_t      *run;
    ngx_http_dsem_session_t  *session;

    session = call->session;

    run = ngx_http_dsem_run_expected(call, reply);
    if (run == NULL) {
        return;
    }

    rc = ngx_http_dsem_roster_read(session->shard, &reply->text);

    if (rc != NGX_OK) {
        ngx_http_dsem_run_unfit(session, rc, NULL);
        ngx_http_dsem_run_end(run, NULL);
        return;
    }

    if (ngx_http_dsem_roster_more(session->shard)
        && ++run->parts[session->shard].steps < NGX_HTTP_DSEM_RUN_STEPS)
    {
        if (ngx_http_dsem_run_ask_names(run, session) != NGX_OK) {
            ngx_http_dsem_run_end(run, NULL);
        }

        return;
    }

    if (run->inflight == 0 && ngx_http_dsem_run_divide(run) != NGX_OK) {
        ngx_http_dsem_run_end(run, NULL);
    }
}


/* all shards have replied names: each has a part of the sorted list */

static ngx_int_t
ngx_http_dsem_run_divide(ngx_http_dsem_run_t *run)
{
    ngx_uint_t                         i, n;
    ngx_http_dsem_session_t           *session;
    ngx_http_dsem_run_part_t          *part;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    n = 0;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        n++;
    }

    if (ngx_http_dsem_roster_add(run->fleet, n) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_dsem_fleet_sort(run->fleet);

    semaphore = run->fleet->survey.semaphores.elts;
    n = run->fleet->survey.semaphores.nelts;
    i = 0;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        part = &run->parts[session->shard];

        part->next = i;

        while (i < n && semaphore[i].shard == session->shard) {
            i++;
        }

        part->last = i;

        if (part->asked
            && ngx_http_dsem_run_begin_part(run, session) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the first calls in a shard: the larger its fleet, the fewer names in each */

static ngx_int_t
ngx_http_dsem_run_begin_part(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session)
{
    ngx_uint_t                 i, fleet;
    ngx_http_dsem_run_part_t  *part;

    part = &run->parts[session->shard];
    fleet = ngx_http_dsem_session_nsessions(session);

    fleet = ngx_min(fleet, NGX_HTTP_DSEM_RUN_MANY);

    part->holders = ngx_max(fleet, NGX_HTTP_DSEM_RUN_HOLDERS);

    part->batch = NGX_HTTP_DSEM_RUN_FIELDS
                  / (fleet + NGX_HTTP_DSEM_RUN_OTHERS);
    part->batch = ngx_min(part->batch, NGX_HTTP_DSEM_RUN_BATCH);

    for (i = 0; i < NGX_HTTP_DSEM_RUN_INFLIGHT; i++) {
        if (ngx_http_dsem_run_ask_next(run, session) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the next call in a shard, if there is any; one without names counts too */

static ngx_int_t
ngx_http_dsem_run_ask_next(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session)
{
    ngx_uint_t                         n, i;
    ngx_http_dsem_resp_t              *command;
    ngx_http_dsem_run_part_t          *part;
    ngx_http_dsem_run_call_t          *call;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    part = &run->parts[session->shard];

    n = ngx_min(part->last - part->next, part->batch);

    if (n == 0 && part->begun) {
        return NGX_OK;
    }

    command = ngx_http_dsem_run_command(run, session, n);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_number(command, part->holders);
    ngx_http_dsem_resp_number(command, NGX_HTTP_DSEM_RUN_WATCH);

    semaphore = run->fleet->survey.semaphores.elts;
    semaphore += part->next;

    for (i = 0; i < n; i++) {
        ngx_http_dsem_resp_string(command, &semaphore[i].name);
    }

    call = ngx_http_dsem_run_call(run, session,
                                  ngx_http_dsem_run_figures_handler);
    if (call == NULL) {
        return NGX_ERROR;
    }

    call->first = part->next;
    call->n = n;
    call->count = !part->begun;

    part->next += n;
    part->begun = 1;

    return NGX_OK;
}


/* with the keys of the next "n" semaphores; NULL: no memory, or not up */

static ngx_http_dsem_resp_t *
ngx_http_dsem_run_command(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session, ngx_uint_t n)
{
    size_t                             len;
    u_char                            *p, *buf;
    ngx_str_t                          keys[2 + 2 * NGX_HTTP_DSEM_RUN_BATCH];
    ngx_uint_t                         i;
    ngx_http_dsem_keys_t              *names;
    ngx_http_dsem_resp_t              *command;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    names = ngx_http_dsem_redis_keys(session->redis);

    keys[0] = names->registry[NGX_HTTP_DSEM_KEY_SESSIONS];
    keys[1] = names->registry[NGX_HTTP_DSEM_KEY_IDLE];

    semaphore = run->fleet->survey.semaphores.elts;
    semaphore += run->parts[session->shard].next;

    len = 1;

    for (i = 0; i < n; i++) {
        len += 2 * ngx_http_dsem_key_len(names, &semaphore[i].name);
    }

    buf = ngx_alloc(len, ngx_cycle->log);
    if (buf == NULL) {
        return NULL;
    }

    p = buf;

    for (i = 0; i < n; i++) {
        p = ngx_http_dsem_key_parts(names, "sa", &semaphore[i].name,
                                    &keys[2 + 2 * i], p);
    }

    command = ngx_http_dsem_redis_begin(session->redis,
                                        NGX_HTTP_DSEM_SCRIPT_INSPECT, keys,
                                        2 + 2 * n, 2 + n);

    ngx_free(buf);

    return command;
}


/* makes the call that was begun; NULL: no memory */

static ngx_http_dsem_run_call_t *
ngx_http_dsem_run_call(ngx_http_dsem_run_t *run,
    ngx_http_dsem_session_t *session, ngx_http_dsem_reply_pt handler)
{
    ngx_http_dsem_run_call_t  *call;

    call = ngx_calloc(sizeof(ngx_http_dsem_run_call_t), ngx_cycle->log);
    if (call == NULL) {
        return NULL;
    }

    call->run = run;
    call->session = session;
    call->number = run->number;

    if (ngx_http_dsem_redis_call(session->redis, handler, call) != NGX_OK) {
        ngx_free(call);
        return NULL;
    }

    run->inflight++;

    return call;
}


static void
ngx_http_dsem_run_figures_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_run_call_t *call = data;

    ngx_int_t                  rc;
    ngx_http_dsem_run_t       *run;
    ngx_http_dsem_fleet_t     *result;
    ngx_http_dsem_session_t   *session;
    ngx_http_dsem_run_call_t   copy;

    copy = *call;
    session = copy.session;

    run = ngx_http_dsem_run_expected(call, reply);
    if (run == NULL) {
        return;
    }

    rc = ngx_http_dsem_inspect_read(run->fleet, copy.first, copy.n, copy.count,
                                    &reply->text);

    if (rc != NGX_OK) {
        ngx_http_dsem_run_unfit(session, rc, NULL);
        ngx_http_dsem_run_end(run, NULL);
        return;
    }

    if (ngx_http_dsem_run_ask_next(run, session) != NGX_OK) {
        ngx_http_dsem_run_end(run, NULL);
        return;
    }

    if (run->inflight == 0) {
        result = run->fleet;
        run->fleet = NULL;

        ngx_http_dsem_fleet_complete(result);
        ngx_http_dsem_run_end(run, result);
    }
}


/* frees the call; NULL: the run is over, or ends with this reply */

static ngx_http_dsem_run_t *
ngx_http_dsem_run_expected(ngx_http_dsem_run_call_t *call,
    ngx_http_dsem_reply_t *reply)
{
    ngx_uint_t                number;
    ngx_http_dsem_run_t      *run;
    ngx_http_dsem_session_t  *session;

    run = call->run;
    number = call->number;
    session = call->session;

    ngx_free(call);

    if (run->fleet == NULL || run->number != number) {
        return NULL;
    }

    run->inflight--;

    if (reply && reply->status == NGX_HTTP_DSEM_REPLY_OK) {
        return run;
    }

    if (reply && reply->status == NGX_HTTP_DSEM_REPLY_ERROR) {
        ngx_http_dsem_run_unfit(session, NGX_DECLINED, &reply->text);
    }

    ngx_http_dsem_run_end(run, NULL);

    return NULL;
}


/*
 * The connection stays: requests need it, and the text may come from what a
 * person has written to the keys.  "error": of Redis, instead of text.
 */

static void
ngx_http_dsem_run_unfit(ngx_http_dsem_session_t *session, ngx_int_t rc,
    ngx_str_t *error)
{
    uint64_t  now;

    static ngx_str_t  text = ngx_string("unexpected text");

    now = ngx_http_dsem_monotonic();

    if (rc == NGX_ERROR
        || (ngx_http_dsem_run_logged
            && now - ngx_http_dsem_run_logged < NGX_HTTP_DSEM_RUN_LOG))
    {
        return;
    }

    ngx_http_dsem_run_logged = now;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: figures of the fleet not readable (%V from redis "
                  "%V), \"dsem_api\" shows older ones", error ? error : &text,
                  ngx_http_dsem_redis_address(session->redis));
}


/* complete or not: what is not the result is freed */

static void
ngx_http_dsem_run_end(ngx_http_dsem_run_t *run, ngx_http_dsem_fleet_t *result)
{
    ngx_http_dsem_run_stop(run);

    run->handler(run->data, result);
}


/* too late for those that wait, but perhaps not for the next ones */

static void
ngx_http_dsem_run_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_run_t  *run;

    run = ev->data;

    if (++run->periods == NGX_HTTP_DSEM_RUN_PERIODS) {
        ngx_http_dsem_run_end(run, NULL);
        return;
    }

    ngx_add_timer(ev, run->timeout);
    run->handler(run->data, NULL);
}
