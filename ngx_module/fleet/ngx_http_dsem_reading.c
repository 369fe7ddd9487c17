
/*
 * A reading: what one survey asks of Redis, from the first call to the end.
 *
 * Asks each shard for some of its names, and then for the figures of all names
 * of the roster, in calls of a bounded size, a few at a time; or for one name
 * with all of its holders.  Owns what is being read until it is complete, and
 * then hands it up.  A reply of another form, or none, ends the reading without
 * a result, and so does its time: some timeouts of a command, as many names
 * over a distant network are many round trips.
 *
 * A reply may come when its reading is over: a call has the number of its
 * reading, and such a reply is dropped.  Knows no waiters and no last result:
 * its handler is called each time that a command's time has passed, and at the
 * end.
 *
 * Called by: survey (begin, stop); redis (replies).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_reading.h"
#include "ngx_http_dsem_shards.h"


/* the time of a reading, in timeouts of a command */
#define NGX_HTTP_DSEM_READING_PERIODS    10

/* unanswered calls of one reading in one shard */
#define NGX_HTTP_DSEM_READING_INFLIGHT   4

/* of the search for names in one shard, which the next reading goes on with */
#define NGX_HTTP_DSEM_READING_STEPS      8

/* semaphores of one call, and accounts: "inspect" reads no more */
#define NGX_HTTP_DSEM_READING_BATCH      16
#define NGX_HTTP_DSEM_READING_FIELDS     512

/* of one call: those of the shard, and two of each semaphore */
#define NGX_HTTP_DSEM_READING_KEYS       (2 + 2 * NGX_HTTP_DSEM_READING_BATCH)

/* accounts of one semaphore: of the usual names, of a single one */
#define NGX_HTTP_DSEM_READING_HOLDERS    60
#define NGX_HTTP_DSEM_READING_MANY       250
#define NGX_HTTP_DSEM_READING_ALL        1024

/* fields of a semaphore that are no accounts */
#define NGX_HTTP_DSEM_READING_OTHERS     4

/* ms for which beats report idle permits: figures may be asked for rarely */
#define NGX_HTTP_DSEM_READING_WATCH      60000

/* ms between log lines for replies of another form */
#define NGX_HTTP_DSEM_READING_LOG        60000


/* a call that is sent; freed when its reply has come or never will */
typedef struct {
    ngx_http_dsem_reading_t       *reading;
    ngx_http_dsem_session_t       *session;
    ngx_uint_t                     number;     /* of the reading */
    ngx_uint_t                     first;
    ngx_uint_t                     n;
    ngx_uint_t                     count;      /* unsigned:1, sessions */
} ngx_http_dsem_reading_call_t;


static ngx_int_t ngx_http_dsem_reading_begin_named(
    ngx_http_dsem_reading_t *reading, ngx_str_t *name);
static ngx_int_t ngx_http_dsem_reading_begin_usual(
    ngx_http_dsem_reading_t *reading);
static ngx_int_t ngx_http_dsem_reading_ask_names(
    ngx_http_dsem_reading_t *reading, ngx_http_dsem_session_t *session);
static void ngx_http_dsem_reading_names_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_int_t ngx_http_dsem_reading_divide(ngx_http_dsem_reading_t *reading);
static ngx_int_t ngx_http_dsem_reading_begin_part(
    ngx_http_dsem_reading_t *reading, ngx_http_dsem_session_t *session);
static ngx_int_t ngx_http_dsem_reading_ask_next(
    ngx_http_dsem_reading_t *reading, ngx_http_dsem_session_t *session);
static ngx_http_dsem_resp_t *ngx_http_dsem_reading_command(
    ngx_http_dsem_reading_t *reading, ngx_http_dsem_session_t *session,
    ngx_uint_t n);
static ngx_http_dsem_reading_call_t *ngx_http_dsem_reading_call(
    ngx_http_dsem_reading_t *reading, ngx_http_dsem_session_t *session,
    ngx_http_dsem_reply_pt handler);
static void ngx_http_dsem_reading_figures_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static ngx_http_dsem_reading_t *ngx_http_dsem_reading_expected(
    ngx_http_dsem_reading_call_t *call, ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_reading_unfit(ngx_http_dsem_session_t *session,
    ngx_int_t rc, ngx_str_t *error);
static void ngx_http_dsem_reading_end(ngx_http_dsem_reading_t *reading,
    ngx_http_dsem_fleet_t *result);
static void ngx_http_dsem_reading_timer_handler(ngx_event_t *ev);


/* monotonic ms of the last such line, of any reading; 0: never */
static uint64_t  ngx_http_dsem_reading_logged;


void
ngx_http_dsem_reading_init(ngx_http_dsem_reading_t *reading, ngx_msec_t timeout,
    ngx_http_dsem_reading_pt handler, void *data)
{
    ngx_memzero(reading, sizeof(ngx_http_dsem_reading_t));

    reading->timer.handler = ngx_http_dsem_reading_timer_handler;
    reading->timer.data = reading;
    reading->timer.log = ngx_cycle->log;

    reading->timeout = timeout;
    reading->handler = handler;
    reading->data = data;
}


/* see the header for what it returns */

ngx_int_t
ngx_http_dsem_reading_begin(ngx_http_dsem_reading_t *reading, ngx_str_t *name)
{
    ngx_int_t  rc;

    reading->number++;
    reading->inflight = 0;
    reading->periods = 0;
    ngx_memzero(reading->parts, sizeof(reading->parts));

    reading->fleet = ngx_http_dsem_fleet_create();
    if (reading->fleet == NULL) {
        return NGX_ERROR;
    }

    ngx_add_timer(&reading->timer, reading->timeout);

    rc = name->len ? ngx_http_dsem_reading_begin_named(reading, name)
                   : ngx_http_dsem_reading_begin_usual(reading);

    if (rc != NGX_OK) {
        ngx_http_dsem_reading_stop(reading);
    }

    return rc;
}


void
ngx_http_dsem_reading_stop(ngx_http_dsem_reading_t *reading)
{
    if (reading->timer.timer_set) {
        ngx_del_timer(&reading->timer);
    }

    if (reading->fleet) {
        ngx_http_dsem_fleet_destroy(reading->fleet);
        reading->fleet = NULL;
    }
}


void
ngx_http_dsem_reading_await(ngx_http_dsem_reading_t *reading,
    ngx_uint_t awaited)
{
    reading->timer.cancelable = !awaited;
}


static ngx_int_t
ngx_http_dsem_reading_begin_named(ngx_http_dsem_reading_t *reading,
    ngx_str_t *name)
{
    ngx_http_dsem_session_t       *session;
    ngx_http_dsem_reading_part_t  *part;

    session = ngx_http_dsem_shards_session(name);
    ngx_http_dsem_shards_wake(session);

    if (!ngx_http_dsem_redis_is_up(session->redis)
        || ngx_http_dsem_fleet_add(reading->fleet, name, session->shard)
           == NULL)
    {
        return NGX_ERROR;
    }

    part = &reading->parts[session->shard];

    part->asked = 1;
    part->last = 1;
    part->batch = 1;
    part->holders = NGX_HTTP_DSEM_READING_ALL;

    return ngx_http_dsem_reading_ask_next(reading, session);
}


/* a shard that cannot be asked now is left out */

static ngx_int_t
ngx_http_dsem_reading_begin_usual(ngx_http_dsem_reading_t *reading)
{
    ngx_http_dsem_session_t  *session;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        ngx_http_dsem_shards_wake(session);

        if (!ngx_http_dsem_redis_is_up(session->redis)) {
            reading->fleet->survey.partial = 1;
            continue;
        }

        if (ngx_http_dsem_reading_ask_names(reading, session) != NGX_OK) {
            return NGX_ERROR;
        }

        reading->parts[session->shard].asked = 1;
    }

    return reading->inflight ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_dsem_reading_ask_names(ngx_http_dsem_reading_t *reading,
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

    return ngx_http_dsem_reading_call(reading, session,
                                      ngx_http_dsem_reading_names_handler)
           ? NGX_OK : NGX_ERROR;
}


static void
ngx_http_dsem_reading_names_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_reading_call_t *call = data;

    ngx_int_t                 rc;
    ngx_http_dsem_reading_t  *reading;
    ngx_http_dsem_session_t  *session;

    session = call->session;

    reading = ngx_http_dsem_reading_expected(call, reply);
    if (reading == NULL) {
        return;
    }

    rc = ngx_http_dsem_roster_read(session->shard, &reply->text);

    if (rc != NGX_OK) {
        ngx_http_dsem_reading_unfit(session, rc, NULL);
        ngx_http_dsem_reading_end(reading, NULL);
        return;
    }

    if (ngx_http_dsem_roster_more(session->shard)
        && ++reading->parts[session->shard].steps < NGX_HTTP_DSEM_READING_STEPS)
    {
        if (ngx_http_dsem_reading_ask_names(reading, session) != NGX_OK) {
            ngx_http_dsem_reading_end(reading, NULL);
        }

        return;
    }

    if (reading->inflight == 0
        && ngx_http_dsem_reading_divide(reading) != NGX_OK)
    {
        ngx_http_dsem_reading_end(reading, NULL);
    }
}


/* all shards have replied names: each has a part of the sorted list */

static ngx_int_t
ngx_http_dsem_reading_divide(ngx_http_dsem_reading_t *reading)
{
    ngx_uint_t                         i, n;
    ngx_http_dsem_session_t           *session;
    ngx_http_dsem_reading_part_t      *part;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    if (ngx_http_dsem_roster_add(reading->fleet,
                                 ngx_http_dsem_shards_next(NULL)->nshards)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_http_dsem_fleet_sort(reading->fleet);

    semaphore = reading->fleet->survey.semaphores.elts;
    n = reading->fleet->survey.semaphores.nelts;
    i = 0;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        part = &reading->parts[session->shard];

        part->next = i;

        while (i < n && semaphore[i].shard == session->shard) {
            i++;
        }

        part->last = i;

        if (part->asked
            && ngx_http_dsem_reading_begin_part(reading, session) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the first calls in a shard: the larger its fleet, the fewer names in each */

static ngx_int_t
ngx_http_dsem_reading_begin_part(ngx_http_dsem_reading_t *reading,
    ngx_http_dsem_session_t *session)
{
    ngx_uint_t                     i, fleet;
    ngx_http_dsem_reading_part_t  *part;

    part = &reading->parts[session->shard];
    fleet = ngx_http_dsem_session_nsessions(session);

    fleet = ngx_min(fleet, NGX_HTTP_DSEM_READING_MANY);

    part->holders = ngx_max(fleet, NGX_HTTP_DSEM_READING_HOLDERS);

    part->batch = NGX_HTTP_DSEM_READING_FIELDS
                  / (fleet + NGX_HTTP_DSEM_READING_OTHERS);
    part->batch = ngx_min(part->batch, NGX_HTTP_DSEM_READING_BATCH);

    for (i = 0; i < NGX_HTTP_DSEM_READING_INFLIGHT; i++) {
        if (ngx_http_dsem_reading_ask_next(reading, session) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* the next call in a shard, if there is any; one without names counts too */

static ngx_int_t
ngx_http_dsem_reading_ask_next(ngx_http_dsem_reading_t *reading,
    ngx_http_dsem_session_t *session)
{
    ngx_uint_t                         n, i;
    ngx_http_dsem_resp_t              *command;
    ngx_http_dsem_reading_part_t      *part;
    ngx_http_dsem_reading_call_t      *call;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    part = &reading->parts[session->shard];

    n = ngx_min(part->last - part->next, part->batch);

    if (n == 0 && part->begun) {
        return NGX_OK;
    }

    command = ngx_http_dsem_reading_command(reading, session, n);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_number(command, part->holders);
    ngx_http_dsem_resp_number(command, NGX_HTTP_DSEM_READING_WATCH);

    semaphore = reading->fleet->survey.semaphores.elts;
    semaphore += part->next;

    for (i = 0; i < n; i++) {
        ngx_http_dsem_resp_string(command, &semaphore[i].name);
    }

    call = ngx_http_dsem_reading_call(reading, session,
                                      ngx_http_dsem_reading_figures_handler);
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
ngx_http_dsem_reading_command(ngx_http_dsem_reading_t *reading,
    ngx_http_dsem_session_t *session, ngx_uint_t n)
{
    size_t                             len;
    u_char                            *p, *buf;
    ngx_str_t                          keys[NGX_HTTP_DSEM_READING_KEYS];
    ngx_uint_t                         i;
    ngx_http_dsem_keys_t              *names;
    ngx_http_dsem_resp_t              *command;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    names = ngx_http_dsem_redis_keys(session->redis);

    keys[0] = names->registry[NGX_HTTP_DSEM_KEY_SESSIONS];
    keys[1] = names->registry[NGX_HTTP_DSEM_KEY_IDLE];

    semaphore = reading->fleet->survey.semaphores.elts;
    semaphore += reading->parts[session->shard].next;

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

static ngx_http_dsem_reading_call_t *
ngx_http_dsem_reading_call(ngx_http_dsem_reading_t *reading,
    ngx_http_dsem_session_t *session, ngx_http_dsem_reply_pt handler)
{
    ngx_http_dsem_reading_call_t  *call;

    call = ngx_calloc(sizeof(ngx_http_dsem_reading_call_t), ngx_cycle->log);
    if (call == NULL) {
        return NULL;
    }

    call->reading = reading;
    call->session = session;
    call->number = reading->number;

    if (ngx_http_dsem_redis_call(session->redis, handler, call) != NGX_OK) {
        ngx_free(call);
        return NULL;
    }

    reading->inflight++;

    return call;
}


static void
ngx_http_dsem_reading_figures_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_reading_call_t *call = data;

    ngx_int_t                     rc;
    ngx_http_dsem_reading_t      *reading;
    ngx_http_dsem_fleet_t        *result;
    ngx_http_dsem_session_t      *session;
    ngx_http_dsem_reading_call_t  copy;

    copy = *call;
    session = copy.session;

    reading = ngx_http_dsem_reading_expected(call, reply);
    if (reading == NULL) {
        return;
    }

    rc = ngx_http_dsem_inspect_read(reading->fleet, copy.first, copy.n,
                                    copy.count, &reply->text);

    if (rc != NGX_OK) {
        ngx_http_dsem_reading_unfit(session, rc, NULL);
        ngx_http_dsem_reading_end(reading, NULL);
        return;
    }

    if (ngx_http_dsem_reading_ask_next(reading, session) != NGX_OK) {
        ngx_http_dsem_reading_end(reading, NULL);
        return;
    }

    if (reading->inflight == 0) {
        result = reading->fleet;
        reading->fleet = NULL;

        ngx_http_dsem_fleet_complete(result);
        ngx_http_dsem_reading_end(reading, result);
    }
}


/* frees the call; NULL: the reading is over, or ends with this reply */

static ngx_http_dsem_reading_t *
ngx_http_dsem_reading_expected(ngx_http_dsem_reading_call_t *call,
    ngx_http_dsem_reply_t *reply)
{
    ngx_uint_t                number;
    ngx_http_dsem_reading_t  *reading;
    ngx_http_dsem_session_t  *session;

    reading = call->reading;
    number = call->number;
    session = call->session;

    ngx_free(call);

    if (reading->fleet == NULL || reading->number != number) {
        return NULL;
    }

    reading->inflight--;

    if (reply && reply->status == NGX_HTTP_DSEM_REPLY_OK) {
        return reading;
    }

    if (reply && reply->status == NGX_HTTP_DSEM_REPLY_ERROR) {
        ngx_http_dsem_reading_unfit(session, NGX_DECLINED, &reply->text);
    }

    ngx_http_dsem_reading_end(reading, NULL);

    return NULL;
}


/*
 * The connection stays: requests need it, and the text may come from what a
 * person has written to the keys.  "error": of Redis, instead of text.
 */

static void
ngx_http_dsem_reading_unfit(ngx_http_dsem_session_t *session, ngx_int_t rc,
    ngx_str_t *error)
{
    uint64_t  now;

    static ngx_str_t  text = ngx_string("unexpected text");

    now = ngx_http_dsem_monotonic();

    if (rc == NGX_ERROR
        || (ngx_http_dsem_reading_logged
            && now - ngx_http_dsem_reading_logged < NGX_HTTP_DSEM_READING_LOG))
    {
        return;
    }

    ngx_http_dsem_reading_logged = now;

    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "dsem: figures of the fleet not readable (%V from redis "
                  "%V), \"dsem_api\" shows older ones", error ? error : &text,
                  ngx_http_dsem_redis_address(session->redis));
}


/* complete or not: what is not the result is freed */

static void
ngx_http_dsem_reading_end(ngx_http_dsem_reading_t *reading,
    ngx_http_dsem_fleet_t *result)
{
    ngx_http_dsem_reading_stop(reading);

    reading->handler(reading->data, result);
}


/* too late for those that wait, but perhaps not for the next ones */

static void
ngx_http_dsem_reading_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_reading_t  *reading;

    reading = ev->data;

    if (++reading->periods == NGX_HTTP_DSEM_READING_PERIODS) {
        ngx_http_dsem_reading_end(reading, NULL);
        return;
    }

    ngx_add_timer(ev, reading->timeout);
    reading->handler(reading->data, NULL);
}
