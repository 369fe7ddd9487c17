
/*
 * The survey: the state of the whole fleet, read from Redis for people.
 *
 * Owns the last results, those that wait for the next one, and when that may
 * begin.  A topic is what one reading asks for: the usual names, or a single
 * name with all of its holders, of which a few are remembered.  The result of a
 * reading replaces the last one when it is complete, never before.  Readings of
 * a topic begin at most once a second, however many wait for them.  Those that
 * wait have the time of a command of Redis, and then see the last result, with
 * its age; the reading goes on for some time more.
 *
 * Nothing here decides about requests: a reading that fails costs a display.  A
 * waiter is called from a posted event, never from here.
 *
 * Called by: api; dispatch (init, exit); reading (the end, and each time that a
 * command's time has passed), by a handler.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_reading.h"
#include "ngx_http_dsem_shards.h"
#include "ngx_http_dsem_survey.h"
#include "ngx_http_dsem_text.h"


/* ms between the beginnings of two readings; a result is not older */
#define NGX_HTTP_DSEM_SURVEY_INTERVAL   1000

/* the usual names, and single names that are remembered */
#define NGX_HTTP_DSEM_SURVEY_TOPICS     9


typedef struct {
    ngx_http_dsem_fleet_t         *last;       /* result; NULL: none */
    uint64_t                       started;    /* monotonic ms; 0: never */
    uint64_t                       begun;      /* when the result was */
    ngx_http_dsem_reading_t        reading;
    ngx_queue_t                    waiters;

    ngx_str_t                      name;       /* empty: the usual names */
    u_char                         buf[NGX_HTTP_DSEM_MAX_NAME];
} ngx_http_dsem_survey_topic_t;


/* the first topic is that of the usual names, the others have one each */
typedef struct {
    ngx_http_dsem_survey_topic_t   topics[NGX_HTTP_DSEM_SURVEY_TOPICS];
    ngx_queue_t                    done;       /* waiters to be called */
    ngx_event_t                    call;
    ngx_uint_t                     results;    /* of the usual names */
    ngx_http_dsem_zone_t          *zone;       /* NULL: a single process */
    uint64_t                       changed;    /* by this worker, as begun */
} ngx_http_dsem_survey_state_t;


static void ngx_http_dsem_survey_topic_free(
    ngx_http_dsem_survey_topic_t *topic);
static ngx_http_dsem_survey_topic_t *ngx_http_dsem_survey_named(
    ngx_str_t *name);
static ngx_http_dsem_survey_topic_t *ngx_http_dsem_survey_topic_of(
    ngx_str_t *name);
static ngx_int_t ngx_http_dsem_survey_begin(
    ngx_http_dsem_survey_topic_t *topic);
static void ngx_http_dsem_survey_reading_handler(void *data,
    ngx_http_dsem_fleet_t *result);
static ngx_uint_t ngx_http_dsem_survey_behind(
    ngx_http_dsem_survey_topic_t *topic);
static void ngx_http_dsem_survey_call_handler(ngx_event_t *ev);


static ngx_http_dsem_survey_state_t  ngx_http_dsem_survey_state;


void
ngx_http_dsem_survey_init(ngx_http_dsem_session_settings_t *settings)
{
    ngx_uint_t                     i;
    ngx_http_dsem_survey_topic_t  *topic;
    ngx_http_dsem_survey_state_t  *state;

    state = &ngx_http_dsem_survey_state;

    ngx_memzero(state, sizeof(ngx_http_dsem_survey_state_t));

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_TOPICS; i++) {
        topic = &state->topics[i];

        topic->name.data = topic->buf;
        ngx_queue_init(&topic->waiters);

        ngx_http_dsem_reading_init(&topic->reading, settings->redis.timeout,
                                   ngx_http_dsem_survey_reading_handler, topic);
    }

    ngx_queue_init(&state->done);

    state->call.handler = ngx_http_dsem_survey_call_handler;
    state->call.log = ngx_cycle->log;

    state->zone = settings->zone;

    ngx_http_dsem_roster_init();
}


/* with the worker, when no reply comes any more */

void
ngx_http_dsem_survey_exit(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_TOPICS; i++) {
        ngx_http_dsem_survey_topic_free(&ngx_http_dsem_survey_state.topics[i]);
    }

    ngx_http_dsem_roster_free();
}


static void
ngx_http_dsem_survey_topic_free(ngx_http_dsem_survey_topic_t *topic)
{
    ngx_http_dsem_reading_stop(&topic->reading);

    if (topic->last) {
        ngx_http_dsem_fleet_destroy(topic->last);
        topic->last = NULL;
    }
}


/* see the header for what it returns */

ngx_int_t
ngx_http_dsem_survey_update(ngx_http_dsem_survey_wait_t *wait)
{
    uint64_t                       now, changed;
    ngx_http_dsem_survey_topic_t  *topic;

    now = ngx_http_dsem_monotonic();
    changed = ngx_max(ngx_http_dsem_survey_state.changed,
                  ngx_http_dsem_zone_changed(ngx_http_dsem_survey_state.zone));

    topic = ngx_http_dsem_survey_named(&wait->name);

    if (topic == NULL) {
        return NGX_DECLINED;
    }

    if (topic->last
        && now - topic->last->survey.read < NGX_HTTP_DSEM_SURVEY_INTERVAL
        && topic->begun > changed)
    {
        return NGX_OK;
    }

    if (topic->reading.fleet == NULL) {

        if (topic->started > changed
            && now - topic->started < NGX_HTTP_DSEM_SURVEY_INTERVAL)
        {
            /* the last one has just failed */
            return NGX_DECLINED;
        }

        if (ngx_http_dsem_survey_begin(topic) != NGX_OK) {
            return NGX_DECLINED;
        }
    }

    ngx_queue_insert_tail(&topic->waiters, &wait->queue);
    wait->waiting = 1;
    wait->changed = changed;

    /* a worker that exits answers first; without a waiter it does not wait */
    ngx_http_dsem_reading_await(&topic->reading, 1);

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_dsem_survey_begin(ngx_http_dsem_survey_topic_t *topic)
{
    topic->started = ngx_http_dsem_monotonic();

    return ngx_http_dsem_reading_begin(&topic->reading, &topic->name);
}


/* after a change by the API of this worker: the next question sees it */

void
ngx_http_dsem_survey_expire(void)
{
    ngx_http_dsem_survey_state.changed = ngx_http_dsem_monotonic();

    ngx_http_dsem_zone_change(ngx_http_dsem_survey_state.zone);
}


void
ngx_http_dsem_survey_cancel(void *data)
{
    ngx_http_dsem_survey_wait_t *wait = data;

    ngx_uint_t                     i;
    ngx_http_dsem_survey_topic_t  *topic;

    if (!wait->waiting) {
        return;
    }

    ngx_queue_remove(&wait->queue);
    wait->waiting = 0;

    /* without a waiter a reading keeps no worker that exits */

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_TOPICS; i++) {
        topic = &ngx_http_dsem_survey_state.topics[i];

        ngx_http_dsem_reading_await(&topic->reading,
                                    !ngx_queue_empty(&topic->waiters));
    }
}


/* see the header for what it returns; later results leave it as it is */

ngx_int_t
ngx_http_dsem_survey_hold(ngx_pool_t *pool, ngx_http_dsem_survey_t **survey)
{
    ngx_pool_cleanup_t     *cln;
    ngx_http_dsem_fleet_t  *fleet;

    *survey = NULL;
    fleet = ngx_http_dsem_survey_state.topics[0].last;

    if (fleet == NULL) {
        return NGX_OK;
    }

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_http_dsem_fleet_destroy;
    cln->data = fleet;

    fleet->users++;
    *survey = &fleet->survey;

    return NGX_OK;
}


/* of the last result of the usual names; 0: there is none */

ngx_uint_t
ngx_http_dsem_survey_number(void)
{
    return ngx_http_dsem_survey_state.results;
}


/*
 * What was read by name has all holders: it counts unless it is older by more
 * than an interval.  NULL: neither Redis nor this node know the name.
 */

ngx_http_dsem_survey_semaphore_t *
ngx_http_dsem_survey_find(ngx_str_t *name)
{
    ngx_uint_t                         i;
    ngx_http_dsem_survey_topic_t      *topic;
    ngx_http_dsem_survey_semaphore_t  *usual, *found;

    usual = NULL;

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_TOPICS; i++) {
        topic = &ngx_http_dsem_survey_state.topics[i];

        found = topic->last
                ? ngx_http_dsem_text_find(&topic->last->survey.semaphores,
                                          name)
                : NULL;

        if (i == 0) {
            usual = found;

        } else if (found
                   && (usual == NULL
                       || found->read + NGX_HTTP_DSEM_SURVEY_INTERVAL
                          >= usual->read))
        {
            return found;
        }
    }

    return usual;
}


/* true if Redis was just asked for this name, so that not to know it counts */

ngx_uint_t
ngx_http_dsem_survey_asked(ngx_str_t *name)
{
    ngx_http_dsem_survey_topic_t  *topic;

    topic = ngx_http_dsem_survey_topic_of(name);

    return topic
           && topic->last
           && ngx_http_dsem_monotonic() - topic->last->survey.read
              < 2 * NGX_HTTP_DSEM_SURVEY_INTERVAL;
}


/*
 * The topic of a single name, or of the usual names.  NULL: it is no name, or
 * readings of all topics have begun within the last second, with other names.
 */

static ngx_http_dsem_survey_topic_t *
ngx_http_dsem_survey_named(ngx_str_t *name)
{
    ngx_uint_t                     i;
    ngx_http_dsem_survey_topic_t  *topic, *oldest;

    topic = ngx_http_dsem_survey_topic_of(name);
    if (topic || !ngx_http_dsem_fleet_is_name(name)) {
        return topic;
    }

    /* the one that has begun longest ago gets the name */

    oldest = &ngx_http_dsem_survey_state.topics[1];

    for (i = 2; i < NGX_HTTP_DSEM_SURVEY_TOPICS; i++) {
        topic = &ngx_http_dsem_survey_state.topics[i];

        if (topic->started < oldest->started) {
            oldest = topic;
        }
    }

    if (oldest->reading.fleet
        || (oldest->started
            && ngx_http_dsem_monotonic() - oldest->started
               < NGX_HTTP_DSEM_SURVEY_INTERVAL))
    {
        return NULL;
    }

    ngx_http_dsem_survey_topic_free(oldest);

    oldest->started = 0;
    oldest->name.len = name->len;
    ngx_memcpy(oldest->buf, name->data, name->len);

    return oldest;
}


/* the one that has this name; or NULL */

static ngx_http_dsem_survey_topic_t *
ngx_http_dsem_survey_topic_of(ngx_str_t *name)
{
    ngx_uint_t                     i;
    ngx_http_dsem_survey_topic_t  *topic;

    for (i = 0; i < NGX_HTTP_DSEM_SURVEY_TOPICS; i++) {
        topic = &ngx_http_dsem_survey_state.topics[i];

        if (topic->name.len == name->len
            && (i == 0 || ngx_memcmp(topic->buf, name->data, name->len) == 0))
        {
            return topic;
        }
    }

    return NULL;
}


/* called by the reading; it may go on for those that wait next */

static void
ngx_http_dsem_survey_reading_handler(void *data, ngx_http_dsem_fleet_t *result)
{
    ngx_http_dsem_survey_topic_t *topic = data;

    ngx_http_dsem_survey_state_t  *state;

    if (result) {
        if (topic->last) {
            ngx_http_dsem_fleet_destroy(topic->last);
        }

        topic->last = result;
        topic->begun = topic->started;

        ngx_http_dsem_survey_state.results += (topic->name.len == 0);

        if (ngx_http_dsem_survey_behind(topic)
            && ngx_http_dsem_survey_begin(topic) == NGX_OK)
        {
            return;
        }
    }

    /* the waiters of a topic are called, from a posted event */

    state = &ngx_http_dsem_survey_state;

    if (!ngx_queue_empty(&topic->waiters)) {
        ngx_queue_add(&state->done, &topic->waiters);
        ngx_queue_init(&topic->waiters);

        /* without a waiter a reading keeps no worker that exits */
        ngx_http_dsem_reading_await(&topic->reading, 0);

        ngx_post_event(&state->call, &ngx_posted_events);
    }
}


/* true if the result may be of before a change that a waiter has seen */

static ngx_uint_t
ngx_http_dsem_survey_behind(ngx_http_dsem_survey_topic_t *topic)
{
    ngx_queue_t                  *q;
    ngx_http_dsem_survey_wait_t  *wait;

    for (q = ngx_queue_head(&topic->waiters);
         q != ngx_queue_sentinel(&topic->waiters);
         q = ngx_queue_next(q))
    {
        wait = ngx_queue_data(q, ngx_http_dsem_survey_wait_t, queue);

        if (wait->changed >= topic->begun) {
            return 1;
        }
    }

    return 0;
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

    redis->state = worst->condition;
    redis->since = ngx_http_dsem_monotonic() - worst->since;
    redis->address = *ngx_http_dsem_redis_address(worst->redis);

    if (worst->condition == NGX_HTTP_DSEM_CONDITION_RECOVERING) {
        ngx_str_set(&redis->reason, "lost state is being declared again");

    } else if (worst->condition != NGX_HTTP_DSEM_CONDITION_AVAILABLE) {
        ngx_http_dsem_redis_reason(worst->redis, &redis->reason);
    }
}
