
/*
 * The survey: what the whole fleet looks like, read from Redis for people.
 *
 * A run asks each shard for some of its names, and then for the figures of
 * all names that are known, in calls of a bounded size, a few at a time.  Its
 * result replaces the last one when it is complete, never before.  There is
 * one run for the usual names, and a few more for single names with all of
 * their holders.  Each begins at most once a second, however many wait for
 * it.  Those that wait have the time of a command of Redis, and then see the
 * last result, with its age; the run goes on for some time more, as many names
 * over a distant network are many round trips.
 *
 * Nothing here decides about requests: a run that fails costs a display.  A
 * waiter is called from a posted event, never from here.
 *
 * Called by: api; dispatch (init, exit); redis (replies).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_roster.h"
#include "ngx_http_dsem_shards.h"
#include "ngx_http_dsem_survey.h"


/* ms between the beginnings of two runs; a result is not older */
#define NGX_HTTP_DSEM_SURVEY_INTERVAL   1000

/* single names that are remembered */
#define NGX_HTTP_DSEM_SURVEY_NAMES      8

/* the time of a run, in timeouts of a command */
#define NGX_HTTP_DSEM_SURVEY_PERIODS    10

/* unanswered calls of one run in one shard */
#define NGX_HTTP_DSEM_SURVEY_INFLIGHT   4

/* semaphores of one call, and accounts: "inspect" looks at so many */
#define NGX_HTTP_DSEM_SURVEY_BATCH      16
#define NGX_HTTP_DSEM_SURVEY_FIELDS     512

/* accounts of one semaphore: of the usual names, of a single one */
#define NGX_HTTP_DSEM_SURVEY_HOLDERS    60
#define NGX_HTTP_DSEM_SURVEY_MANY       250
#define NGX_HTTP_DSEM_SURVEY_ALL        1024

/* fields of a semaphore that are no accounts */
#define NGX_HTTP_DSEM_SURVEY_OTHERS     4

/* ms for which workers tell idle permits: figures may be asked for rarely */
#define NGX_HTTP_DSEM_SURVEY_WATCH      60000

/* ms between log lines for replies of another form */
#define NGX_HTTP_DSEM_SURVEY_LOG        60000


/* in one shard */
typedef struct {
    ngx_uint_t                     next;       /* semaphore to ask for */
    ngx_uint_t                     last;
    ngx_uint_t                     holders;    /* of one semaphore */
    ngx_uint_t                     batch;
    unsigned                       asked:1;    /* it is part of the run */
    unsigned                       begun:1;    /* figures have been asked */
} ngx_http_dsem_survey_part_t;


typedef struct {
    ngx_http_dsem_fleet_t         *last;       /* result; NULL: none */
    ngx_http_dsem_fleet_t         *fleet;      /* being read; NULL: none */
    ngx_uint_t                     number;
    ngx_uint_t                     inflight;
    uint64_t                       started;    /* monotonic ms; 0: never */
    uint64_t                       begun;      /* when the result was */
    ngx_event_t                    timer;
    ngx_uint_t                     periods;    /* of the timer */
    ngx_queue_t                    waiters;
    ngx_http_dsem_survey_part_t    parts[NGX_HTTP_DSEM_SHARDS];

    ngx_str_t                      name;       /* empty: the usual names */
    u_char                         buf[NGX_HTTP_DSEM_MAX_NAME];
} ngx_http_dsem_survey_run_t;


/* a call that is sent; freed when its reply has come or never will */
typedef struct {
    ngx_http_dsem_survey_run_t    *run;
    ngx_http_dsem_session_t       *session;
    ngx_uint_t                     number;     /* of the run */
    ngx_uint_t                     first;
    ngx_uint_t                     n;
    ngx_uint_t                     count;      /* unsigned:1, sessions */
} ngx_http_dsem_survey_call_t;


typedef struct {
    ngx_http_dsem_survey_run_t     usual;
    ngx_http_dsem_survey_run_t     named[NGX_HTTP_DSEM_SURVEY_NAMES];
    ngx_queue_t                    done;       /* waiters to be called */
    ngx_event_t                    call;
    ngx_msec_t                     timeout;
    ngx_shm_zone_t                *zone;       /* NULL: a single process */
    uint64_t                       changed;    /* by this worker, as begun */
    uint64_t                       logged;     /* monotonic ms; 0: never */
} ngx_http_dsem_survey_state_t;


static void ngx_http_dsem_survey_run_init(ngx_http_dsem_survey_run_t *run);
static void ngx_http_dsem_survey_run_free(ngx_http_dsem_survey_run_t *run);
static void ngx_http_dsem_survey_left(ngx_http_dsem_survey_run_t *run);
static ngx_http_dsem_survey_run_t *ngx_http_dsem_survey_named(
    ngx_str_t *name);
static ngx_http_dsem_survey_run_t *ngx_http_dsem_survey_run_of(
    ngx_str_t *name);
static ngx_http_dsem_survey_run_t *ngx_http_dsem_survey_vacate(
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_survey_begin(ngx_http_dsem_survey_run_t *run);
static ngx_int_t ngx_http_dsem_survey_begin_named(
    ngx_http_dsem_survey_run_t *run);
static ngx_int_t ngx_http_dsem_survey_begin_usual(
    ngx_http_dsem_survey_run_t *run);
static ngx_int_t ngx_http_dsem_survey_ask_names(
    ngx_http_dsem_survey_run_t *run, ngx_http_dsem_session_t *session);
static void ngx_http_dsem_survey_names_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_int_t ngx_http_dsem_survey_divide(ngx_http_dsem_survey_run_t *run);
static ngx_int_t ngx_http_dsem_survey_begin_part(
    ngx_http_dsem_survey_run_t *run, ngx_http_dsem_session_t *session);
static ngx_int_t ngx_http_dsem_survey_ask_next(
    ngx_http_dsem_survey_run_t *run, ngx_http_dsem_session_t *session);
static ngx_int_t ngx_http_dsem_survey_ask(ngx_http_dsem_survey_run_t *run,
    ngx_http_dsem_session_t *session, ngx_uint_t n);
static ngx_http_dsem_resp_t *ngx_http_dsem_survey_command(
    ngx_http_dsem_survey_run_t *run, ngx_http_dsem_session_t *session,
    ngx_uint_t n);
static ngx_http_dsem_survey_call_t *ngx_http_dsem_survey_call(
    ngx_http_dsem_survey_run_t *run, ngx_http_dsem_session_t *session,
    ngx_http_dsem_reply_pt handler);
static void ngx_http_dsem_survey_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_http_dsem_survey_run_t *ngx_http_dsem_survey_expected(
    ngx_http_dsem_survey_call_t *call, ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_survey_unfit(ngx_http_dsem_session_t *session,
    ngx_int_t rc);
static void ngx_http_dsem_survey_complete(ngx_http_dsem_survey_run_t *run);
static void ngx_http_dsem_survey_end(ngx_http_dsem_survey_run_t *run);
static void ngx_http_dsem_survey_wake(ngx_http_dsem_survey_run_t *run);
static void ngx_http_dsem_survey_timer_handler(ngx_event_t *ev);
static void ngx_http_dsem_survey_call_handler(ngx_event_t *ev);


static ngx_http_dsem_survey_state_t  ngx_http_dsem_survey_state;


void
ngx_http_dsem_survey_init(ngx_http_dsem_session_settings_t *settings)
{
    ngx_uint_t                     i;
    ngx_http_dsem_survey_state_t  *state;

    state = &ngx_http_dsem_survey_state;

    ngx_memzero(state, sizeof(ngx_http_dsem_survey_state_t));

    ngx_http_dsem_survey_run_init(&state->usual);

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_NAMES; i++) {
        ngx_http_dsem_survey_run_init(&state->named[i]);
    }

    ngx_queue_init(&state->done);

    state->call.handler = ngx_http_dsem_survey_call_handler;
    state->call.log = ngx_cycle->log;

    state->timeout = settings->redis.timeout;
    state->zone = settings->zone;

    ngx_http_dsem_roster_init();
}


static void
ngx_http_dsem_survey_run_init(ngx_http_dsem_survey_run_t *run)
{
    ngx_queue_init(&run->waiters);

    run->timer.handler = ngx_http_dsem_survey_timer_handler;
    run->timer.data = run;
    run->timer.log = ngx_cycle->log;

    run->name.data = run->buf;
}


/* with the worker, when no reply comes any more */

void
ngx_http_dsem_survey_exit(void)
{
    ngx_uint_t                     i;
    ngx_http_dsem_survey_state_t  *state;

    state = &ngx_http_dsem_survey_state;

    ngx_http_dsem_survey_run_free(&state->usual);

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_NAMES; i++) {
        ngx_http_dsem_survey_run_free(&state->named[i]);
    }

    ngx_http_dsem_roster_free();
}


static void
ngx_http_dsem_survey_run_free(ngx_http_dsem_survey_run_t *run)
{
    if (run->timer.timer_set) {
        ngx_del_timer(&run->timer);
    }

    if (run->fleet) {
        ngx_http_dsem_fleet_destroy(run->fleet);
        run->fleet = NULL;
    }

    if (run->last) {
        ngx_http_dsem_fleet_destroy(run->last);
        run->last = NULL;
    }
}


/* see the header for what it returns */

ngx_int_t
ngx_http_dsem_survey_update(ngx_http_dsem_survey_wait_t *wait)
{
    uint64_t                     now, changed;
    ngx_http_dsem_survey_run_t  *run;

    now = ngx_http_dsem_monotonic();
    changed = ngx_max(ngx_http_dsem_survey_state.changed,
                  ngx_http_dsem_zone_changed(ngx_http_dsem_survey_state.zone));

    run = wait->name.len ? ngx_http_dsem_survey_named(&wait->name)
                         : &ngx_http_dsem_survey_state.usual;

    if (run == NULL) {
        return NGX_DECLINED;
    }

    if (run->last
        && now - run->last->survey.read < NGX_HTTP_DSEM_SURVEY_INTERVAL
        && run->begun > changed)
    {
        return NGX_OK;
    }

    if (run->fleet == NULL) {

        if (run->started > changed
            && now - run->started < NGX_HTTP_DSEM_SURVEY_INTERVAL)
        {
            /* the last one has just failed */
            return NGX_DECLINED;
        }

        run->started = now;

        if (ngx_http_dsem_survey_begin(run) != NGX_OK) {
            ngx_http_dsem_survey_end(run);
            return NGX_DECLINED;
        }
    }

    ngx_queue_insert_tail(&run->waiters, &wait->queue);
    wait->waiting = 1;

    /* a worker that exits answers first; without a waiter it does not wait */
    run->timer.cancelable = 0;

    return NGX_AGAIN;
}


/* after a change by the API of this worker: the next question sees it */

void
ngx_http_dsem_survey_expire(void)
{
    ngx_http_dsem_survey_state.changed = ngx_http_dsem_monotonic();

    ngx_http_dsem_zone_change(ngx_http_dsem_survey_state.zone);
}


void
ngx_http_dsem_survey_cancel(ngx_http_dsem_survey_wait_t *wait)
{
    ngx_uint_t                     i;
    ngx_http_dsem_survey_state_t  *state;

    if (!wait->waiting) {
        return;
    }

    ngx_queue_remove(&wait->queue);
    wait->waiting = 0;

    state = &ngx_http_dsem_survey_state;

    ngx_http_dsem_survey_left(&state->usual);

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_NAMES; i++) {
        ngx_http_dsem_survey_left(&state->named[i]);
    }
}


/* without a waiter it keeps no worker that exits */

static void
ngx_http_dsem_survey_left(ngx_http_dsem_survey_run_t *run)
{
    run->timer.cancelable = ngx_queue_empty(&run->waiters);
}


ngx_http_dsem_survey_t *
ngx_http_dsem_survey(void)
{
    ngx_http_dsem_fleet_t  *fleet;

    fleet = ngx_http_dsem_survey_state.usual.last;

    return fleet ? &fleet->survey : NULL;
}


/*
 * What was read by name has all holders: it counts unless it is older by more
 * than an interval.  NULL: neither Redis nor this node know the name.
 */

ngx_http_dsem_survey_semaphore_t *
ngx_http_dsem_survey_find(ngx_str_t *name)
{
    ngx_uint_t                         i;
    ngx_http_dsem_survey_run_t        *run;
    ngx_http_dsem_survey_semaphore_t  *usual, *named;

    run = &ngx_http_dsem_survey_state.usual;
    usual = run->last ? ngx_http_dsem_fleet_find(run->last, name) : NULL;

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_NAMES; i++) {
        run = &ngx_http_dsem_survey_state.named[i];

        named = run->last ? ngx_http_dsem_fleet_find(run->last, name) : NULL;

        if (named
            && (usual == NULL
                || named->read + NGX_HTTP_DSEM_SURVEY_INTERVAL >= usual->read))
        {
            return named;
        }
    }

    return usual;
}


/* true if Redis was just asked for this name, so that not to know it counts */

ngx_uint_t
ngx_http_dsem_survey_asked(ngx_str_t *name)
{
    ngx_http_dsem_survey_run_t  *run;

    run = ngx_http_dsem_survey_run_of(name);

    return run
           && run->last
           && ngx_http_dsem_monotonic() - run->last->survey.read
              < 2 * NGX_HTTP_DSEM_SURVEY_INTERVAL;
}


/*
 * The run of a single name.  NULL: it is none, or all runs have begun within
 * the last second, with other names.
 */

static ngx_http_dsem_survey_run_t *
ngx_http_dsem_survey_named(ngx_str_t *name)
{
    ngx_http_dsem_survey_run_t  *run;

    if (!ngx_http_dsem_fleet_is_name(name)) {
        return NULL;
    }

    run = ngx_http_dsem_survey_run_of(name);
    if (run) {
        return run;
    }

    return ngx_http_dsem_survey_vacate(name);
}


/* the one that has this name; or NULL */

static ngx_http_dsem_survey_run_t *
ngx_http_dsem_survey_run_of(ngx_str_t *name)
{
    ngx_uint_t                   i;
    ngx_http_dsem_survey_run_t  *run;

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_NAMES; i++) {
        run = &ngx_http_dsem_survey_state.named[i];

        if (run->name.len == name->len
            && ngx_memcmp(run->buf, name->data, name->len) == 0)
        {
            return run;
        }
    }

    return NULL;
}


/* the one that has begun longest ago gets the name */

static ngx_http_dsem_survey_run_t *
ngx_http_dsem_survey_vacate(ngx_str_t *name)
{
    ngx_uint_t                   i;
    ngx_http_dsem_survey_run_t  *run, *oldest;

    oldest = &ngx_http_dsem_survey_state.named[0];

    for (i = 1; i < NGX_HTTP_DSEM_SURVEY_NAMES; i++) {
        run = &ngx_http_dsem_survey_state.named[i];

        if (run->started < oldest->started) {
            oldest = run;
        }
    }

    if (oldest->fleet
        || (oldest->started
            && ngx_http_dsem_monotonic() - oldest->started
               < NGX_HTTP_DSEM_SURVEY_INTERVAL))
    {
        return NULL;
    }

    ngx_http_dsem_survey_run_free(oldest);

    oldest->started = 0;
    oldest->name.len = name->len;
    ngx_memcpy(oldest->buf, name->data, name->len);

    return oldest;
}


/* anything but NGX_OK: no memory, or no shard can be asked */

static ngx_int_t
ngx_http_dsem_survey_begin(ngx_http_dsem_survey_run_t *run)
{
    run->number++;
    run->inflight = 0;
    run->periods = 0;
    ngx_memzero(run->parts, sizeof(run->parts));

    run->fleet = ngx_http_dsem_fleet_create();
    if (run->fleet == NULL) {
        return NGX_ERROR;
    }

    ngx_add_timer(&run->timer, ngx_http_dsem_survey_state.timeout);

    return run->name.len ? ngx_http_dsem_survey_begin_named(run)
                         : ngx_http_dsem_survey_begin_usual(run);
}


static ngx_int_t
ngx_http_dsem_survey_begin_named(ngx_http_dsem_survey_run_t *run)
{
    ngx_http_dsem_session_t      *session;
    ngx_http_dsem_survey_part_t  *part;

    session = ngx_http_dsem_shards_session(&run->name);
    ngx_http_dsem_shards_wake(session);

    if (!ngx_http_dsem_redis_is_up(session->redis)
        || ngx_http_dsem_fleet_add(run->fleet, &run->name, session->shard)
           == NULL)
    {
        return NGX_ERROR;
    }

    part = &run->parts[session->shard];

    part->asked = 1;
    part->last = 1;
    part->batch = 1;
    part->holders = NGX_HTTP_DSEM_SURVEY_ALL;

    return ngx_http_dsem_survey_ask_next(run, session);
}


/* a shard that cannot be asked now is left out */

static ngx_int_t
ngx_http_dsem_survey_begin_usual(ngx_http_dsem_survey_run_t *run)
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

        if (ngx_http_dsem_survey_ask_names(run, session) != NGX_OK) {
            return NGX_ERROR;
        }

        run->parts[session->shard].asked = 1;
    }

    return run->inflight ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_dsem_survey_ask_names(ngx_http_dsem_survey_run_t *run,
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

    return ngx_http_dsem_survey_call(run, session,
                                     ngx_http_dsem_survey_names_handler)
           ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_dsem_survey_names_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_survey_call_t *call = data;

    ngx_int_t                    rc;
    ngx_http_dsem_session_t     *session;
    ngx_http_dsem_survey_run_t  *run;

    session = call->session;

    run = ngx_http_dsem_survey_expected(call, reply);
    if (run == NULL) {
        return;
    }

    rc = ngx_http_dsem_roster_read(session->shard, &reply->text);

    if (rc != NGX_OK) {
        ngx_http_dsem_survey_unfit(session, rc);
        ngx_http_dsem_survey_end(run);
        return;
    }

    if (run->inflight == 0 && ngx_http_dsem_survey_divide(run) != NGX_OK) {
        ngx_http_dsem_survey_end(run);
    }
}


/* all shards have told names: each has a part of the sorted list */

static ngx_int_t
ngx_http_dsem_survey_divide(ngx_http_dsem_survey_run_t *run)
{
    ngx_uint_t                         i, n;
    ngx_http_dsem_session_t           *session;
    ngx_http_dsem_survey_part_t       *part;
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
            && ngx_http_dsem_survey_begin_part(run, session) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the first calls in a shard: the larger its fleet, the fewer names in each */

static ngx_int_t
ngx_http_dsem_survey_begin_part(ngx_http_dsem_survey_run_t *run,
    ngx_http_dsem_session_t *session)
{
    ngx_uint_t                    i, fleet;
    ngx_http_dsem_survey_part_t  *part;

    part = &run->parts[session->shard];
    fleet = ngx_http_dsem_session_fleet(session);

    fleet = ngx_min(fleet, NGX_HTTP_DSEM_SURVEY_MANY);

    part->holders = ngx_max(fleet, NGX_HTTP_DSEM_SURVEY_HOLDERS);

    part->batch = NGX_HTTP_DSEM_SURVEY_FIELDS
                  / (fleet + NGX_HTTP_DSEM_SURVEY_OTHERS);
    part->batch = ngx_min(part->batch, NGX_HTTP_DSEM_SURVEY_BATCH);

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_INFLIGHT; i++) {
        if (ngx_http_dsem_survey_ask_next(run, session) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the next call in a shard, if there is any; one without names counts too */

static ngx_int_t
ngx_http_dsem_survey_ask_next(ngx_http_dsem_survey_run_t *run,
    ngx_http_dsem_session_t *session)
{
    ngx_uint_t                    n;
    ngx_http_dsem_survey_part_t  *part;

    part = &run->parts[session->shard];

    n = ngx_min(part->last - part->next, part->batch);

    if (n == 0 && part->begun) {
        return NGX_OK;
    }

    return ngx_http_dsem_survey_ask(run, session, n);
}


static ngx_int_t
ngx_http_dsem_survey_ask(ngx_http_dsem_survey_run_t *run,
    ngx_http_dsem_session_t *session, ngx_uint_t n)
{
    ngx_uint_t                         i;
    ngx_http_dsem_resp_t              *command;
    ngx_http_dsem_survey_call_t       *call;
    ngx_http_dsem_survey_part_t       *part;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    part = &run->parts[session->shard];

    command = ngx_http_dsem_survey_command(run, session, n);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_number(command, part->holders);
    ngx_http_dsem_resp_number(command, NGX_HTTP_DSEM_SURVEY_WATCH);

    semaphore = run->fleet->survey.semaphores.elts;
    semaphore += part->next;

    for (i = 0; i < n; i++) {
        ngx_http_dsem_resp_string(command, &semaphore[i].name);
    }

    call = ngx_http_dsem_survey_call(run, session,
                                     ngx_http_dsem_survey_handler);
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
ngx_http_dsem_survey_command(ngx_http_dsem_survey_run_t *run,
    ngx_http_dsem_session_t *session, ngx_uint_t n)
{
    size_t                             len;
    u_char                            *p, *buf;
    ngx_str_t                          keys[2 + NGX_HTTP_DSEM_SURVEY_BATCH];
    ngx_uint_t                         i;
    ngx_http_dsem_keys_t              *names;
    ngx_http_dsem_resp_t              *command;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    names = ngx_http_dsem_redis_keys(session->redis);

    keys[0] = names->registry[0];
    keys[1] = names->registry[2];

    semaphore = run->fleet->survey.semaphores.elts;
    semaphore += run->parts[session->shard].next;

    len = 1;

    for (i = 0; i < n; i++) {
        len += ngx_http_dsem_key_len(names, &semaphore[i].name);
    }

    buf = ngx_alloc(len, ngx_cycle->log);
    if (buf == NULL) {
        return NULL;
    }

    p = buf;

    for (i = 0; i < n; i++) {
        p = ngx_http_dsem_key_semaphore(names, &semaphore[i].name,
                                        &keys[2 + i], p);
    }

    command = ngx_http_dsem_redis_begin(session->redis,
                                        NGX_HTTP_DSEM_SCRIPT_INSPECT, keys,
                                        2 + n, 2 + n);

    ngx_free(buf);

    return command;
}


/* makes the call that was begun; NULL: no memory */

static ngx_http_dsem_survey_call_t *
ngx_http_dsem_survey_call(ngx_http_dsem_survey_run_t *run,
    ngx_http_dsem_session_t *session, ngx_http_dsem_reply_pt handler)
{
    ngx_http_dsem_survey_call_t  *call;

    call = ngx_calloc(sizeof(ngx_http_dsem_survey_call_t), ngx_cycle->log);
    if (call == NULL) {
        return NULL;
    }

    call->run = run;
    call->session = session;
    call->number = run->number;

    if (ngx_http_dsem_redis_call_text(session->redis, handler, call)
        != NGX_OK)
    {
        ngx_free(call);
        return NULL;
    }

    run->inflight++;

    return call;
}


static void
ngx_http_dsem_survey_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_survey_call_t *call = data;

    ngx_int_t                     rc;
    ngx_http_dsem_session_t      *session;
    ngx_http_dsem_survey_run_t   *run;
    ngx_http_dsem_survey_call_t   copy;

    copy = *call;
    session = copy.session;

    run = ngx_http_dsem_survey_expected(call, reply);
    if (run == NULL) {
        return;
    }

    rc = ngx_http_dsem_fleet_read(run->fleet, copy.first, copy.n, copy.count,
                                  &reply->text);

    if (rc != NGX_OK) {
        ngx_http_dsem_survey_unfit(session, rc);
        ngx_http_dsem_survey_end(run);
        return;
    }

    if (ngx_http_dsem_survey_ask_next(run, session) != NGX_OK) {
        ngx_http_dsem_survey_end(run);
        return;
    }

    if (run->inflight == 0) {
        ngx_http_dsem_survey_complete(run);
    }
}


/* frees the call; NULL: the run is over, or ends with this reply */

static ngx_http_dsem_survey_run_t *
ngx_http_dsem_survey_expected(ngx_http_dsem_survey_call_t *call,
    ngx_http_dsem_reply_t *reply)
{
    ngx_uint_t                   number;
    ngx_http_dsem_survey_run_t  *run;

    run = call->run;
    number = call->number;

    ngx_free(call);

    if (run->fleet == NULL || run->number != number) {
        return NULL;
    }

    run->inflight--;

    if (reply && reply->status == NGX_HTTP_DSEM_REPLY_OK) {
        return run;
    }

    ngx_http_dsem_survey_end(run);

    return NULL;
}


/*
 * The connection stays: requests need it, and the text may come from what a
 * person has written to the keys.
 */

static void
ngx_http_dsem_survey_unfit(ngx_http_dsem_session_t *session, ngx_int_t rc)
{
    uint64_t                       now;
    ngx_http_dsem_survey_state_t  *state;

    state = &ngx_http_dsem_survey_state;
    now = ngx_http_dsem_monotonic();

    if (rc == NGX_ERROR
        || (state->logged && now - state->logged < NGX_HTTP_DSEM_SURVEY_LOG))
    {
        return;
    }

    state->logged = now;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: figures of the fleet not readable (unexpected text "
                  "from redis %V), \"dsem_api\" shows older ones",
                  ngx_http_dsem_redis_address(session->redis));
}


static void
ngx_http_dsem_survey_complete(ngx_http_dsem_survey_run_t *run)
{
    ngx_http_dsem_fleet_t  *last;

    if (ngx_http_dsem_fleet_complete(run->fleet) == NGX_OK) {
        last = run->last;
        run->last = run->fleet;
        run->begun = run->started;
        run->fleet = last;
    }

    ngx_http_dsem_survey_end(run);
}


/* complete or not: what is not the result is freed, waiters are called */

static void
ngx_http_dsem_survey_end(ngx_http_dsem_survey_run_t *run)
{
    if (run->fleet) {
        ngx_http_dsem_fleet_destroy(run->fleet);
        run->fleet = NULL;
    }

    if (run->timer.timer_set) {
        ngx_del_timer(&run->timer);
    }

    ngx_http_dsem_survey_wake(run);
}


/* the waiters of a run are called, from a posted event */

static void
ngx_http_dsem_survey_wake(ngx_http_dsem_survey_run_t *run)
{
    ngx_http_dsem_survey_state_t  *state;

    state = &ngx_http_dsem_survey_state;

    if (!ngx_queue_empty(&run->waiters)) {
        ngx_queue_add(&state->done, &run->waiters);
        ngx_queue_init(&run->waiters);

        ngx_post_event(&state->call, &ngx_posted_events);
    }
}


/* too late for those that wait, but perhaps not for the next ones */

static void
ngx_http_dsem_survey_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_survey_run_t  *run;

    run = ev->data;

    if (++run->periods == NGX_HTTP_DSEM_SURVEY_PERIODS) {
        ngx_http_dsem_survey_end(run);
        return;
    }

    ngx_add_timer(ev, ngx_http_dsem_survey_state.timeout);
    ngx_http_dsem_survey_wake(run);
}


/* each may wait again, or cancel another one */

static void
ngx_http_dsem_survey_call_handler(ngx_event_t *ev)
{
    ngx_queue_t                  *q, *done;
    ngx_http_dsem_survey_wait_t  *wait;

    done = &ngx_http_dsem_survey_state.done;

    while (!ngx_queue_empty(done)) {
        q = ngx_queue_head(done);
        ngx_queue_remove(q);

        wait = ngx_queue_data(q, ngx_http_dsem_survey_wait_t, queue);
        wait->waiting = 0;

        wait->handler(wait->data);
    }
}


/*
 * Of the shards that are used; "since" is that of the worst.  Where a worker
 * has no requests one shard is used for this: a load balancer asks before it
 * sends any.
 */

void
ngx_http_dsem_survey_redis(ngx_http_dsem_survey_redis_t *redis)
{
    ngx_uint_t                first;
    ngx_http_dsem_session_t  *session, *worst, *good;

    worst = ngx_http_dsem_shards_next(NULL);
    good = NULL;
    first = 1;

    for (session = worst;
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        if (!session->started) {
            continue;
        }

        ngx_http_dsem_session_note(session);

        if (good == NULL
            && session->condition == NGX_HTTP_DSEM_CONDITION_AVAILABLE)
        {
            good = session;
        }

        /* the worse the higher; a shard that was just started is not bad */

        if (first || session->condition > worst->condition) {
            worst = session;
            first = 0;
        }
    }

    ngx_memzero(redis, sizeof(ngx_http_dsem_survey_redis_t));

    if (worst == NULL) {
        return;
    }

    if (first || good) {
        ngx_http_dsem_shards_wake(first ? worst : good);
    }

    redis->state = (ngx_http_dsem_survey_state_e) worst->condition;
    redis->shard = worst->shard;
    redis->since = ngx_http_dsem_monotonic() - worst->since;
    redis->address = *ngx_http_dsem_redis_address(worst->redis);

    if (worst->condition == NGX_HTTP_DSEM_CONDITION_RECOVERING) {
        ngx_str_set(&redis->reason, "lost state is being declared again");

    } else if (worst->condition != NGX_HTTP_DSEM_CONDITION_AVAILABLE) {
        ngx_http_dsem_redis_reason(worst->redis, &redis->reason);
    }
}
