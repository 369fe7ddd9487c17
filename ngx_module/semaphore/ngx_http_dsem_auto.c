
/*
 * "limit=auto": what this worker sees of the requests, for Redis, which finds
 * the limit.
 *
 * Owns one record for each name with "limit=auto" of this configuration, from
 * the start of the worker to its end: names are literal, so clients make none.
 * It sums up the requests that ended since the last sample.  The reply to a
 * sample has when the next one may be sent, so that the whole fleet sends
 * some ten a second for one name, or one from each of many workers.  A name
 * without traffic sends nothing, nor does an exiting worker, or one whose
 * session is not ready.
 *
 * The limit itself is in Redis, where every sync reads it: a sample that is
 * lost costs nothing but its figures.
 *
 * Called by: dispatch (life), semaphore (a request has ended), sync_reply (one
 * was rejected), redis (replies).  The order of arguments and values is that
 * of lua/adjust.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <math.h>
#include "ngx_http_dsem_auto.h"
#include "ngx_http_dsem_shards.h"


/* ms until the first sample, and without a request until the next one is new */
#define NGX_HTTP_DSEM_AUTO_FIRST     100
#define NGX_HTTP_DSEM_AUTO_LONGEST   10000

/* ms until the next one where a key is of another type */
#define NGX_HTTP_DSEM_AUTO_BROKEN    2000

/* of a semaphore, with what is kept of the rule */
#define NGX_HTTP_DSEM_AUTO_KEYS      "sqa"
#define NGX_HTTP_DSEM_AUTO_NKEYS     3

/* ms; the longest time that a sample covers, as in adjust.lua, and a pause */
#define NGX_HTTP_DSEM_AUTO_WINDOW    60000

/* ms; the longest time of a request that counts, as in adjust.lua */
#define NGX_HTTP_DSEM_AUTO_MAX_TIME  3600000

/* the most requests of a sample, as in adjust.lua */
#define NGX_HTTP_DSEM_AUTO_REQUESTS  1000000

/*
 * the largest mean weight, as in adjust.lua: a name that a request takes twice
 * may weigh more than a limit that is found, and an order lets it pass
 */
#define NGX_HTTP_DSEM_AUTO_WEIGHT    1000000.0

/*
 * the usual time of a worker's requests is that of its last 20 s, or of its
 * last 200 requests if these are more; it is sent from 100 requests on
 */
#define NGX_HTTP_DSEM_AUTO_USUAL     20000.0
#define NGX_HTTP_DSEM_AUTO_USUAL_OF  200.0
#define NGX_HTTP_DSEM_AUTO_ENOUGH    100.0

/* values of a reply */
#define NGX_HTTP_DSEM_AUTO_IN_FORCE  0
#define NGX_HTTP_DSEM_AUTO_FOUND     1
#define NGX_HTTP_DSEM_AUTO_WAIT      5
#define NGX_HTTP_DSEM_AUTO_KEPT      6


/* values in the first argument, behind epoch and number */
typedef enum {
    NGX_HTTP_DSEM_AUTO_SENT_GENERATION = 0,
    NGX_HTTP_DSEM_AUTO_SENT_MIN,
    NGX_HTTP_DSEM_AUTO_SENT_MAX,
    NGX_HTTP_DSEM_AUTO_SENT_FOUND,
    NGX_HTTP_DSEM_AUTO_NSENT
} ngx_http_dsem_auto_sent_e;


/* values of the sample; lua/adjust.lua has their units */
typedef enum {
    NGX_HTTP_DSEM_AUTO_SAMPLE_REQUESTS = 0,
    NGX_HTTP_DSEM_AUTO_SAMPLE_SUM,
    NGX_HTTP_DSEM_AUTO_SAMPLE_ERRORS,
    NGX_HTTP_DSEM_AUTO_SAMPLE_PEAK,
    NGX_HTTP_DSEM_AUTO_SAMPLE_WINDOW,
    NGX_HTTP_DSEM_AUTO_SAMPLE_LOGS,
    NGX_HTTP_DSEM_AUTO_SAMPLE_SQUARES,
    NGX_HTTP_DSEM_AUTO_SAMPLE_USUAL_BEFORE,
    NGX_HTTP_DSEM_AUTO_SAMPLE_USUAL,
    NGX_HTTP_DSEM_AUTO_SAMPLE_WEIGHT,
    NGX_HTTP_DSEM_AUTO_NSAMPLE
} ngx_http_dsem_auto_sample_e;


struct ngx_http_dsem_auto_s {
    ngx_http_dsem_session_t  *session;
    ngx_http_dsem_literal_t  *literal;

    /* since the last sample */
    int64_t                   count;
    int64_t                   errors;
    uint64_t                  sum;         /* ms, without errors */
    double                    permits;     /* as "sum", times weight */
    double                    logs;        /* of ln(us), without errors */
    double                    squares;     /* of its square */
    ngx_int_t                 peak;        /* permits in use at once */
    ngx_msec_t                peaked;      /* time when it was last seen */
    ngx_msec_t                since;       /* time of the last sample, or of
                                              the first request after it */

    ngx_event_t               timer;       /* of the next sample */
    ngx_msec_t                wait;        /* ms between two samples */
    /* since the start of the worker */
    double                    usual;       /* mean of ln(us), without errors */
    double                    usual_of;    /* requests that it is the mean of */

    unsigned                  sent:1;      /* a reply is to come */
    unsigned                  broken:1;    /* a key is of another type */
};


typedef struct {
    ngx_http_dsem_auto_t     *records;     /* NULL: none is "auto" */
    ngx_uint_t                n;
} ngx_http_dsem_autos_t;


static ngx_uint_t ngx_http_dsem_auto_each(ngx_http_dsem_auto_t *records);
static void ngx_http_dsem_auto_clear(ngx_http_dsem_auto_t *record);
static void ngx_http_dsem_auto_peak(ngx_http_dsem_auto_t *record,
    ngx_int_t peak, ngx_msec_t time);
static void ngx_http_dsem_auto_schedule(ngx_http_dsem_auto_t *record);
static void ngx_http_dsem_auto_timer_handler(ngx_event_t *ev);
static ngx_int_t ngx_http_dsem_auto_send(ngx_http_dsem_auto_t *record);
static void ngx_http_dsem_auto_usual(ngx_http_dsem_auto_t *record,
    ngx_msec_t window, int64_t *values);
static ngx_http_dsem_resp_t *ngx_http_dsem_auto_begin(
    ngx_http_dsem_auto_t *record);
static void ngx_http_dsem_auto_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_auto_broken(ngx_http_dsem_auto_t *record,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_auto_read(ngx_http_dsem_auto_t *record,
    ngx_http_dsem_reply_t *reply);


static ngx_http_dsem_autos_t  ngx_http_dsem_autos;


/* when the sessions of the worker are there; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_auto_init(void)
{
    ngx_http_dsem_autos_t  *autos;

    autos = &ngx_http_dsem_autos;

    ngx_memzero(autos, sizeof(ngx_http_dsem_autos_t));

    autos->n = ngx_http_dsem_auto_each(NULL);

    if (autos->n == 0) {
        return NGX_OK;
    }

    autos->records = ngx_calloc(autos->n * sizeof(ngx_http_dsem_auto_t),
                                ngx_cycle->log);
    if (autos->records == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_http_dsem_auto_each(autos->records);

    return NGX_OK;
}


/* counts the names, and fills a record for each if there are records */

static ngx_uint_t
ngx_http_dsem_auto_each(ngx_http_dsem_auto_t *records)
{
    ngx_uint_t                i, n;
    ngx_http_dsem_auto_t     *record;
    ngx_http_dsem_limits_t   *limits;
    ngx_http_dsem_session_t  *session;

    n = 0;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        limits = &session->limits;

        for (i = 0; i < limits->nliterals; i++) {

            if (limits->literals[i].max == 0) {
                continue;
            }

            n++;

            if (records == NULL) {
                continue;
            }

            record = &records[n - 1];

            record->session = session;
            record->literal = &limits->literals[i];
            record->literal->samples = record;
            record->wait = NGX_HTTP_DSEM_AUTO_FIRST;

            ngx_http_dsem_auto_clear(record);

            record->timer.handler = ngx_http_dsem_auto_timer_handler;
            record->timer.data = record;
            record->timer.log = ngx_cycle->log;
            record->timer.cancelable = 1;
        }
    }

    return n;
}


/* with the worker, when no reply comes any more */

void
ngx_http_dsem_auto_exit(void)
{
    ngx_uint_t              i;
    ngx_http_dsem_autos_t  *autos;

    autos = &ngx_http_dsem_autos;

    for (i = 0; i < autos->n; i++) {
        if (autos->records[i].timer.timer_set) {
            ngx_del_timer(&autos->records[i].timer);
        }
    }

    if (autos->records) {
        ngx_free(autos->records);
    }

    ngx_memzero(autos, sizeof(ngx_http_dsem_autos_t));
}


static void
ngx_http_dsem_auto_clear(ngx_http_dsem_auto_t *record)
{
    record->count = 0;
    record->errors = 0;
    record->sum = 0;
    record->permits = 0;
    record->logs = 0;
    record->squares = 0;
    record->peak = 0;
    record->peaked = ngx_current_msec;
    record->since = ngx_current_msec;
}


/*
 * A request was rejected for want of a permit: the limit is used, although
 * this worker may have few of its permits.
 */

void
ngx_http_dsem_auto_full(ngx_http_dsem_account_t *account)
{
    ngx_http_dsem_literal_t  *literal;

    literal = ngx_http_dsem_account_literal(account);

    if (literal && literal->samples) {
        ngx_http_dsem_auto_peak(literal->samples, account->usage.limit, 0);
    }
}


/*
 * The number of permits in use, from a reply.  Those of rejected or aborted
 * requests, which send no sample, are forgotten after a while: they show
 * nothing of a request that began "time" ms ago.
 */

static void
ngx_http_dsem_auto_peak(ngx_http_dsem_auto_t *record, ngx_int_t peak,
    ngx_msec_t time)
{
    if (record->count == 0
        && ngx_current_msec - record->peaked
           > time + NGX_HTTP_DSEM_AUTO_LONGEST)
    {
        record->peak = 0;
    }

    if (peak >= record->peak) {
        record->peak = peak;
        record->peaked = ngx_current_msec;
    }
}


/*
 * A request has ended, with its time at the upstream in ms; its permits are
 * still those of the account.  The time of an aborted one is too short, so
 * that it counts only where it is longer than usual.  Where Redis is not asked
 * for long, the first requests are enough.
 */

void
ngx_http_dsem_auto_add(ngx_http_dsem_account_t *account, ngx_int_t weight,
    ngx_http_dsem_sample_e result, ngx_msec_t time)
{
    double                    log_us;
    ngx_http_dsem_auto_t     *record;
    ngx_http_dsem_literal_t  *literal;

    literal = ngx_http_dsem_account_literal(account);

    if (literal == NULL || literal->samples == NULL) {
        return;
    }

    record = literal->samples;

    ngx_http_dsem_auto_peak(record, account->held, time);

    if (record->count == NGX_HTTP_DSEM_AUTO_REQUESTS
        || (result == NGX_HTTP_DSEM_SAMPLE_ABORTED
            && time <= account->hold_time >> NGX_HTTP_DSEM_HOLD_TIME_SHIFT))
    {
        return;
    }

    time = ngx_min(time, NGX_HTTP_DSEM_AUTO_MAX_TIME);

    if (record->count == 0
        && ngx_current_msec - record->since
           > time + NGX_HTTP_DSEM_AUTO_LONGEST)
    {
        /* nothing was in progress before it */
        record->since = ngx_current_msec - time;
    }

    record->count++;

    if (result == NGX_HTTP_DSEM_SAMPLE_ERROR) {
        record->errors++;

    } else {
        /* a time in whole ms: in the middle of it */

        log_us = log((time + 0.5) * 1000);

        record->sum += time;
        record->permits += (double) time * weight;
        record->logs += log_us;
        record->squares += log_us * log_us;
    }

    ngx_http_dsem_auto_schedule(record);
}


/* the next sample, when the pause that Redis replied has passed */

static void
ngx_http_dsem_auto_schedule(ngx_http_dsem_auto_t *record)
{
    ngx_msec_t  passed;

    if (record->timer.timer_set || record->sent) {
        return;
    }

    passed = ngx_current_msec - record->since;

    ngx_add_timer(&record->timer,
                  (passed < record->wait) ? record->wait - passed : 1);
}


static void
ngx_http_dsem_auto_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_auto_t  *record;

    record = ev->data;

    /* while Redis cannot be asked, or recovers, the limit does not move */

    if (!ngx_http_dsem_session_ready(record->session)
        || !ngx_http_dsem_session_newest(record->session)
        || record->session->recovery
        || ngx_http_dsem_auto_send(record) != NGX_OK)
    {
        record->wait = NGX_HTTP_DSEM_AUTO_FIRST;
    }

    ngx_http_dsem_auto_clear(record);
}


/* NGX_ERROR: no memory, or Redis is not up */

static ngx_int_t
ngx_http_dsem_auto_send(ngx_http_dsem_auto_t *record)
{
    double                 weight;
    int64_t                values[NGX_HTTP_DSEM_AUTO_NSAMPLE];
    ngx_msec_t             window;
    ngx_http_dsem_resp_t  *command;

    command = ngx_http_dsem_auto_begin(record);
    if (command == NULL) {
        return NGX_ERROR;
    }

    window = ngx_current_msec - record->since;

    values[NGX_HTTP_DSEM_AUTO_SAMPLE_REQUESTS] = record->count;
    values[NGX_HTTP_DSEM_AUTO_SAMPLE_SUM] = record->sum * 1000;
    values[NGX_HTTP_DSEM_AUTO_SAMPLE_ERRORS] = record->errors;
    values[NGX_HTTP_DSEM_AUTO_SAMPLE_PEAK] = record->peak;
    values[NGX_HTTP_DSEM_AUTO_SAMPLE_WINDOW] =
                       ngx_max(ngx_min(window, NGX_HTTP_DSEM_AUTO_WINDOW), 1);
    values[NGX_HTTP_DSEM_AUTO_SAMPLE_LOGS] =
                                       (int64_t) (record->logs * 1000 + 0.5);
    values[NGX_HTTP_DSEM_AUTO_SAMPLE_SQUARES] =
                                    (int64_t) (record->squares * 1000 + 0.5);

    ngx_http_dsem_auto_usual(record, window, values);

    weight = record->sum ? record->permits / record->sum : 1;
    weight = ngx_min(weight, NGX_HTTP_DSEM_AUTO_WEIGHT);

    values[NGX_HTTP_DSEM_AUTO_SAMPLE_WEIGHT] =
                                             (int64_t) (weight * 1000 + 0.5);

    ngx_http_dsem_resp_string(command, &record->literal->node.str);
    ngx_http_dsem_resp_numbers(command, values, NGX_HTTP_DSEM_AUTO_NSAMPLE);

    if (ngx_http_dsem_redis_call(record->session->redis,
                                 ngx_http_dsem_auto_handler, record)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    record->sent = 1;

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "dsem sample \"%V\": requests:%L errors:%L peak:%i",
                   &record->literal->node.str, record->count, record->errors,
                   record->peak);

    return NGX_OK;
}


/*
 * Nodes may be farther from the backend than others.  The usual time of this
 * worker's requests before the sample and with it, ln(us) times 10000; twice
 * zero while few requests have ended.
 */

static void
ngx_http_dsem_auto_usual(ngx_http_dsem_auto_t *record, ngx_msec_t window,
    int64_t *values)
{
    double      left, mean;
    int64_t     good;
    ngx_uint_t  enough;

    good = record->count - record->errors;
    enough = (record->usual_of >= NGX_HTTP_DSEM_AUTO_ENOUGH);

    left = record->usual_of
           * ngx_max(1 - window / NGX_HTTP_DSEM_AUTO_USUAL, 0);
    record->usual_of = good + ngx_max(left, ngx_min(record->usual_of,
                                                NGX_HTTP_DSEM_AUTO_USUAL_OF));

    values[NGX_HTTP_DSEM_AUTO_SAMPLE_USUAL_BEFORE] =
                       enough ? (int64_t) (record->usual * 10000 + 0.5) : 0;

    if (good) {
        mean = record->logs / good;
        record->usual += (mean - record->usual) * good / record->usual_of;
    }

    values[NGX_HTTP_DSEM_AUTO_SAMPLE_USUAL] =
                       enough ? (int64_t) (record->usual * 10000 + 0.5) : 0;
}


/* with the keys of the semaphore; NULL: no memory, or not up */

static ngx_http_dsem_resp_t *
ngx_http_dsem_auto_begin(ngx_http_dsem_auto_t *record)
{
    u_char                   *buf;
    int64_t                   values[NGX_HTTP_DSEM_AUTO_NSENT];
    ngx_str_t                 keys[NGX_HTTP_DSEM_AUTO_NKEYS], *name;
    ngx_http_dsem_keys_t     *names;
    ngx_http_dsem_resp_t     *command;
    ngx_http_dsem_literal_t  *literal;

    if (!ngx_http_dsem_redis_is_up(record->session->redis)) {
        return NULL;
    }

    literal = record->literal;
    name = &literal->node.str;
    names = ngx_http_dsem_redis_keys(record->session->redis);

    buf = ngx_alloc(NGX_HTTP_DSEM_AUTO_NKEYS
                    * ngx_http_dsem_key_len(names, name), ngx_cycle->log);
    if (buf == NULL) {
        return NULL;
    }

    (void) ngx_http_dsem_key_parts(names, NGX_HTTP_DSEM_AUTO_KEYS, name, keys,
                                   buf);

    values[NGX_HTTP_DSEM_AUTO_SENT_GENERATION] = record->session->generation;
    values[NGX_HTTP_DSEM_AUTO_SENT_MIN] = literal->min;
    values[NGX_HTTP_DSEM_AUTO_SENT_MAX] = literal->max;
    values[NGX_HTTP_DSEM_AUTO_SENT_FOUND] =
            ngx_http_dsem_limits_lost(literal, record->session->generation);

    command = ngx_http_dsem_redis_begin_packed(record->session->redis,
                      NGX_HTTP_DSEM_SCRIPT_ADJUST, keys,
                      NGX_HTTP_DSEM_AUTO_NKEYS, values,
                      NGX_HTTP_DSEM_AUTO_NSENT, 2);
    ngx_free(buf);

    return command;
}


static void
ngx_http_dsem_auto_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_auto_t *record = data;

    record->sent = 0;

    if (reply == NULL) {
        return;
    }

    if (reply->status == NGX_HTTP_DSEM_REPLY_OK) {
        ngx_http_dsem_auto_read(record, reply);
        return;
    }

    record->wait = NGX_HTTP_DSEM_AUTO_BROKEN;

    /* of a pool elsewhere the log has a line of its own, see sync_reply */

    if (!record->broken && reply->status == NGX_HTTP_DSEM_REPLY_BROKEN) {
        record->broken = 1;
        ngx_http_dsem_auto_broken(record, reply);
    }
}


/* to delete another key than the one that is broken may exceed the limit */

static void
ngx_http_dsem_auto_broken(ngx_http_dsem_auto_t *record,
    ngx_http_dsem_reply_t *reply)
{
    u_char                *buf;
    ngx_str_t              keys[NGX_HTTP_DSEM_AUTO_NKEYS], *key, *name;
    ngx_http_dsem_keys_t  *names;

    name = &record->literal->node.str;
    names = ngx_http_dsem_redis_keys(record->session->redis);

    buf = ngx_alloc(NGX_HTTP_DSEM_AUTO_NKEYS
                    * ngx_http_dsem_key_len(names, name), ngx_cycle->log);
    if (buf == NULL) {
        return;
    }

    (void) ngx_http_dsem_key_parts(names, NGX_HTTP_DSEM_AUTO_KEYS, name, keys,
                                   buf);

    key = ngx_http_dsem_resp_broken_key(reply, &keys[0], &keys[1], &keys[2]);

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "dsem: the limit of semaphore \"%V\" stays as it is (key "
                  "\"%V\" in redis is of another type), delete the key",
                  name, key);
    ngx_free(buf);
}


/* the limit in force, and when the next sample is wanted */

static void
ngx_http_dsem_auto_read(ngx_http_dsem_auto_t *record,
    ngx_http_dsem_reply_t *reply)
{
    int64_t                   wait, in_force;
    ngx_str_t                *name;
    ngx_http_dsem_account_t  *account;
    ngx_http_dsem_literal_t  *literal;
    ngx_http_dsem_session_t  *session;

    session = record->session;
    literal = record->literal;

    wait = reply->values[NGX_HTTP_DSEM_AUTO_WAIT];
    record->wait = ngx_max(ngx_min(wait, NGX_HTTP_DSEM_AUTO_WINDOW), 1);
    record->broken = 0;

    if (reply->values[NGX_HTTP_DSEM_AUTO_KEPT] > 0) {
        ngx_http_dsem_limits_found(literal,
                                   reply->values[NGX_HTTP_DSEM_AUTO_FOUND],
                                   reply->values[NGX_HTTP_DSEM_AUTO_KEPT],
                                   session->generation, reply->sent);
    }

    in_force = reply->values[NGX_HTTP_DSEM_AUTO_IN_FORCE];

    if (session->recovery == 0 && in_force >= 0) {
        name = &literal->node.str;

        (void) ngx_http_dsem_limits_seen(&session->limits, literal, in_force,
                                         reply->sent);

        account = ngx_http_dsem_account_find(name, literal->node.node.key);

        if (account && account->usage.limit != -1) {
            account->usage.limit = literal->in_force;
        }
    }

    /* requests have ended since */

    if (record->count) {
        ngx_http_dsem_auto_schedule(record);
    }
}
