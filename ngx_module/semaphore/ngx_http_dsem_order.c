
/*
 * Orders: limits and pauses that an operator sets for the whole fleet, and
 * sessions that an operator removes.
 *
 * Owns what is under way: a task outlives the order that it was made from,
 * whose owner may go, and ends when the last reply has come.  A limit that was
 * raised serves the queue in calls of a bounded size, one after the other.
 * Where there are several shards a session is searched in one after the
 * other, at last in those to which the worker has yet to connect.  Redis checks
 * an order again, and changes nothing where it is wrong.
 *
 * Called by: api; dispatch (init, exit); redis (replies).  The order of
 * arguments and values is that of lua/order.lua.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_bye.h"
#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_order.h"
#include "ngx_http_dsem_shards.h"


/* calls of one order that serve its queue; then waiting workers do the rest */
#define NGX_HTTP_DSEM_ORDER_MAX_CALLS   1024

/* tasks at once */
#define NGX_HTTP_DSEM_ORDER_MAX_TASKS   64

/* ms between two tests of a session that is not ready yet */
#define NGX_HTTP_DSEM_ORDER_LOOK        20

/* values of a reply */
#define NGX_HTTP_DSEM_ORDER_IN_FORCE    0
#define NGX_HTTP_DSEM_ORDER_CONFIGURED  1
#define NGX_HTTP_DSEM_ORDER_ORDERED     2
#define NGX_HTTP_DSEM_ORDER_PAUSED      3
#define NGX_HTTP_DSEM_ORDER_HELD        4
#define NGX_HTTP_DSEM_ORDER_WAITING     5
#define NGX_HTTP_DSEM_ORDER_MORE        6
#define NGX_HTTP_DSEM_ORDER_BEFORE      7
#define NGX_HTTP_DSEM_ORDER_WAS_PAUSED  8
#define NGX_HTTP_DSEM_ORDER_REFUSED     9
#define NGX_HTTP_DSEM_ORDER_HIGHEST     10

/* why an order for a server was refused, 0: it was not */
#define NGX_HTTP_DSEM_ORDER_NO_POOL     1

#define NGX_HTTP_DSEM_ORDER_NAME_LEN                                          \
    ngx_max(NGX_HTTP_DSEM_MAX_NAME, NGX_HTTP_DSEM_SESSION_LEN)


/* freed when neither its order nor a reply needs it */
typedef struct {
    ngx_queue_t                 queue;
    ngx_http_dsem_order_t      *order;     /* NULL: its handler was called, or
                                              the owner has left */
    ngx_http_dsem_session_t    *session;   /* of the shard that is asked */
    ngx_event_t                 timer;     /* the next look, or the deadline */
    ngx_event_t                 done;      /* calls the handler */
    ngx_msec_t                  deadline;

    ngx_str_t                   name;      /* of a semaphore, or a session */
    u_char                      buf[NGX_HTTP_DSEM_ORDER_NAME_LEN];
    ngx_str_t                   server;
    u_char                      server_buf[NGX_HTTP_DSEM_MAX_NAME];
    ngx_int_t                   limit;
    ngx_int_t                   paused;
    ngx_uint_t                  calls;
    ngx_uint_t                  asked;     /* shards, a bit for each */

    unsigned                    force:1;
    unsigned                    removal:1;
    unsigned                    sent:1;    /* a reply is to come */
} ngx_http_dsem_order_task_t;


typedef struct {
    ngx_queue_t                 tasks;
    ngx_uint_t                  n;
    ngx_msec_t                  timeout;
} ngx_http_dsem_orders_t;


static ngx_http_dsem_order_task_t *ngx_http_dsem_order_task(
    ngx_http_dsem_order_t *order);
static void ngx_http_dsem_order_free(ngx_http_dsem_order_task_t *task);
static void ngx_http_dsem_order_timer_handler(ngx_event_t *ev);
static void ngx_http_dsem_order_send(ngx_http_dsem_order_task_t *task);
static ngx_http_dsem_resp_t *ngx_http_dsem_order_begin(
    ngx_http_dsem_order_task_t *task);
static ngx_int_t ngx_http_dsem_order_call(ngx_http_dsem_order_task_t *task);
static void ngx_http_dsem_order_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_order_seen(ngx_http_dsem_order_task_t *task,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_order_remove_next(
    ngx_http_dsem_order_task_t *task);
static ngx_int_t ngx_http_dsem_order_remove_call(
    ngx_http_dsem_order_task_t *task);
static void ngx_http_dsem_order_remove_handler(void *data,
    ngx_http_dsem_reply_t *reply);
static void ngx_http_dsem_order_finish(ngx_http_dsem_order_task_t *task,
    ngx_int_t rc);
static void ngx_http_dsem_order_done_handler(ngx_event_t *ev);


static ngx_http_dsem_orders_t  ngx_http_dsem_orders;


void
ngx_http_dsem_order_init(ngx_http_dsem_session_settings_t *settings)
{
    ngx_http_dsem_orders_t  *orders;

    orders = &ngx_http_dsem_orders;

    ngx_memzero(orders, sizeof(ngx_http_dsem_orders_t));
    ngx_queue_init(&orders->tasks);

    orders->timeout = settings->redis.timeout;
}


/* with the worker, when no reply comes any more */

void
ngx_http_dsem_order_exit(void)
{
    ngx_queue_t  *q, *tasks;

    tasks = &ngx_http_dsem_orders.tasks;

    while (ngx_http_dsem_orders.n) {
        q = ngx_queue_head(tasks);
        ngx_http_dsem_order_free(ngx_queue_data(q, ngx_http_dsem_order_task_t,
                                                queue));
    }
}


/* sets an order, see the header */

ngx_int_t
ngx_http_dsem_order_set(ngx_http_dsem_order_t *order)
{
    ngx_http_dsem_session_t     *session;
    ngx_http_dsem_order_task_t  *task;

    if (!ngx_http_dsem_fleet_is_name(&order->name)
        || (order->server.len && !ngx_http_dsem_fleet_is_name(&order->server))
        || order->limit < NGX_HTTP_DSEM_ORDER_KEEP
        || order->limit > NGX_HTTP_DSEM_MAX_LIMIT)
    {
        return NGX_DECLINED;
    }

    session = ngx_http_dsem_shards_session(&order->name);
    ngx_http_dsem_shards_wake(session);

    if (ngx_http_dsem_session_unavailable(session)) {
        return NGX_DECLINED;
    }

    task = ngx_http_dsem_order_task(order);
    if (task == NULL) {
        return NGX_DECLINED;
    }

    task->session = session;

    ngx_http_dsem_order_send(task);

    return NGX_AGAIN;
}


/* removes a session, wherever it is; see the header */

ngx_int_t
ngx_http_dsem_order_remove_session(ngx_http_dsem_order_t *order)
{
    ngx_uint_t                   up;
    ngx_http_dsem_holder_t       holder;
    ngx_http_dsem_session_t     *session;
    ngx_http_dsem_order_task_t  *task;

    if (ngx_http_dsem_fleet_session(&order->name, &holder) != NGX_OK) {
        return NGX_DECLINED;
    }

    up = 0;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        ngx_http_dsem_shards_wake(session);

        up |= !ngx_http_dsem_session_unavailable(session)
              || ngx_http_dsem_redis_is_up(session->redis);
    }

    if (!up) {
        return NGX_DECLINED;
    }

    task = ngx_http_dsem_order_task(order);
    if (task == NULL) {
        return NGX_DECLINED;
    }

    task->removal = 1;

    ngx_http_dsem_order_remove_next(task);

    return NGX_AGAIN;
}


/* the owner leaves; what was sent is executed all the same */

void
ngx_http_dsem_order_cancel(ngx_http_dsem_order_t *order)
{
    ngx_queue_t                 *q;
    ngx_http_dsem_order_task_t  *task;

    for (q = ngx_queue_head(&ngx_http_dsem_orders.tasks);
         q != ngx_queue_sentinel(&ngx_http_dsem_orders.tasks);
         q = ngx_queue_next(q))
    {
        task = ngx_queue_data(q, ngx_http_dsem_order_task_t, queue);

        if (task->order == order) {
            task->order = NULL;

            /* while it is awaited a worker does not exit */
            task->timer.cancelable = 1;

            if (!task->sent) {
                ngx_http_dsem_order_free(task);
            }

            return;
        }
    }
}


/* NULL: no memory, or too many of them */

static ngx_http_dsem_order_task_t *
ngx_http_dsem_order_task(ngx_http_dsem_order_t *order)
{
    ngx_http_dsem_orders_t      *orders;
    ngx_http_dsem_order_task_t  *task;

    orders = &ngx_http_dsem_orders;

    if (orders->n == NGX_HTTP_DSEM_ORDER_MAX_TASKS) {
        return NULL;
    }

    task = ngx_calloc(sizeof(ngx_http_dsem_order_task_t), ngx_cycle->log);
    if (task == NULL) {
        return NULL;
    }

    task->order = order;
    task->limit = order->limit;
    task->paused = order->paused;
    task->force = order->force;

    task->name.len = order->name.len;
    task->name.data = task->buf;
    ngx_memcpy(task->buf, order->name.data, order->name.len);

    task->server.len = order->server.len;
    task->server.data = task->server_buf;

    if (order->server.len) {
        ngx_memcpy(task->server_buf, order->server.data, order->server.len);
    }

    task->timer.handler = ngx_http_dsem_order_timer_handler;
    task->timer.data = task;
    task->timer.log = ngx_cycle->log;

    task->done.handler = ngx_http_dsem_order_done_handler;
    task->done.data = task;
    task->done.log = ngx_cycle->log;

    task->deadline = ngx_current_msec + orders->timeout;

    ngx_queue_insert_tail(&orders->tasks, &task->queue);
    orders->n++;

    return task;
}


static void
ngx_http_dsem_order_free(ngx_http_dsem_order_task_t *task)
{
    if (task->timer.timer_set) {
        ngx_del_timer(&task->timer);
    }

    if (task->done.posted) {
        ngx_delete_posted_event(&task->done);
    }

    ngx_queue_remove(&task->queue);
    ngx_http_dsem_orders.n--;

    ngx_free(task);
}


/* the session may be ready now; or it is too late for a reply */

static void
ngx_http_dsem_order_timer_handler(ngx_event_t *ev)
{
    ngx_http_dsem_order_task_t  *task;

    task = ev->data;

    if (task->sent
        || (ngx_msec_int_t) (task->deadline - ngx_current_msec) <= 0)
    {
        ngx_http_dsem_order_finish(task, task->calls ? NGX_OK : NGX_ERROR);
        return;
    }

    if (task->removal) {
        ngx_http_dsem_order_remove_next(task);

    } else {
        ngx_http_dsem_order_send(task);
    }
}


/* as soon as the session is registered: Redis asks for that */

static void
ngx_http_dsem_order_send(ngx_http_dsem_order_task_t *task)
{
    ngx_msec_int_t  left;

    left = task->deadline - ngx_current_msec;
    left = ngx_max(left, 1);

    if (!ngx_http_dsem_session_ready(task->session)) {
        ngx_add_timer(&task->timer, ngx_min(left, NGX_HTTP_DSEM_ORDER_LOOK));
        return;
    }

    if (ngx_http_dsem_order_call(task) != NGX_OK) {
        ngx_http_dsem_order_finish(task, NGX_ERROR);
        return;
    }

    ngx_add_timer(&task->timer, left);
}


/* with the keys of the semaphore; NULL: no memory, or not up */

static ngx_http_dsem_resp_t *
ngx_http_dsem_order_begin(ngx_http_dsem_order_task_t *task)
{
    u_char                *buf;
    ngx_str_t              keys[2];
    ngx_http_dsem_keys_t  *names;
    ngx_http_dsem_resp_t  *command;

    names = ngx_http_dsem_redis_keys(task->session->redis);

    buf = ngx_alloc(2 * ngx_http_dsem_key_len(names, &task->name),
                    ngx_cycle->log);
    if (buf == NULL) {
        return NULL;
    }

    (void) ngx_http_dsem_key_parts(names, "sq", &task->name, keys, buf);

    command = ngx_http_dsem_redis_begin(task->session->redis,
                                        NGX_HTTP_DSEM_SCRIPT_ORDER, keys, 2,
                                        task->server.len ? 4 : 3);
    ngx_free(buf);

    return command;
}


/* the order, or after the first reply the work that was left */

static ngx_int_t
ngx_http_dsem_order_call(ngx_http_dsem_order_task_t *task)
{
    ngx_http_dsem_resp_t  *command;

    command = ngx_http_dsem_order_begin(task);
    if (command == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_resp_string(command, &task->name);

    if (task->calls || task->limit == NGX_HTTP_DSEM_ORDER_KEEP) {
        ngx_http_dsem_resp_bytes(command, "=", 1);

    } else if (task->limit == NGX_HTTP_DSEM_ORDER_NONE) {
        ngx_http_dsem_resp_bytes(command, "-", 1);

    } else {
        ngx_http_dsem_resp_number(command, task->limit);
    }

    if (task->calls || task->paused == -1) {
        ngx_http_dsem_resp_bytes(command, "=", 1);

    } else {
        ngx_http_dsem_resp_number(command, task->paused != 0);
    }

    if (task->server.len) {
        ngx_http_dsem_resp_string(command, &task->server);
    }

    if (ngx_http_dsem_redis_call(task->session->redis,
                                 ngx_http_dsem_order_handler, task)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    task->sent = 1;

    if (task->order) {
        task->order->sent = 1;
    }

    return NGX_OK;
}


static void
ngx_http_dsem_order_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_order_task_t *task = data;

    int64_t                *values;
    ngx_int_t               rc;
    ngx_http_dsem_order_t  *order;

    task->sent = 0;

    if (reply == NULL || reply->status != NGX_HTTP_DSEM_REPLY_OK) {
        /*
         * Without a reply, or not executed.  An order whose queue was being
         * served is set all the same.
         */
        rc = (reply == NULL) ? NGX_ERROR : NGX_ABORT;
        ngx_http_dsem_order_finish(task, task->calls ? NGX_OK : rc);
        return;
    }

    values = reply->values;

    if (values[NGX_HTTP_DSEM_ORDER_REFUSED]) {
        rc = (values[NGX_HTTP_DSEM_ORDER_REFUSED]
              == NGX_HTTP_DSEM_ORDER_NO_POOL) ? NGX_DECLINED : NGX_BUSY;

        ngx_http_dsem_order_finish(task, rc);
        return;
    }

    ngx_http_dsem_order_seen(task, reply);

    if (task->order) {
        order = task->order;

        order->in_force = values[NGX_HTTP_DSEM_ORDER_IN_FORCE];
        order->configured = values[NGX_HTTP_DSEM_ORDER_CONFIGURED];
        order->ordered = values[NGX_HTTP_DSEM_ORDER_ORDERED];
        order->is_paused = (values[NGX_HTTP_DSEM_ORDER_PAUSED] != 0);
        order->held = values[NGX_HTTP_DSEM_ORDER_HELD];
        order->waiting = values[NGX_HTTP_DSEM_ORDER_WAITING];
        order->highest = values[NGX_HTTP_DSEM_ORDER_HIGHEST];

        if (task->calls == 0) {
            order->was_ordered = values[NGX_HTTP_DSEM_ORDER_BEFORE];
            order->was_paused = (values[NGX_HTTP_DSEM_ORDER_WAS_PAUSED] != 0);
        }
    }

    task->calls++;

    if (values[NGX_HTTP_DSEM_ORDER_MORE]
        && task->calls < NGX_HTTP_DSEM_ORDER_MAX_CALLS
        && ngx_http_dsem_order_call(task) == NGX_OK)
    {
        return;
    }

    ngx_http_dsem_order_finish(task, NGX_OK);
}


/*
 * What is in force in an outage, too, as by the reply of a sync: no request of
 * the name may come before.  The order of a server is none of the pool.  While
 * Redis recovers not all configurations are registered again, and without an
 * order the limit may be too high.
 */

static void
ngx_http_dsem_order_seen(ngx_http_dsem_order_task_t *task,
    ngx_http_dsem_reply_t *reply)
{
    int64_t                  *values;
    uint32_t                  hash;
    ngx_int_t                 own, limit;
    ngx_uint_t                ordered;
    ngx_http_dsem_limits_t   *limits;
    ngx_http_dsem_literal_t  *literal;

    values = reply->values;
    limits = &task->session->limits;
    hash = ngx_crc32_short(task->name.data, task->name.len);

    limit = values[NGX_HTTP_DSEM_ORDER_IN_FORCE];
    ordered = (values[NGX_HTTP_DSEM_ORDER_ORDERED] != -1);
    own = -1;

    if (task->server.len == 0 && (ordered || task->session->recovery == 0)) {
        literal = ngx_http_dsem_limits_find(limits, &task->name, hash);

        if (literal && limit != -1) {
            own = ngx_http_dsem_limits_seen(limits, literal, limit,
                                            reply->sent);

        } else {
            /* requests may ask for any limit; without an order none is cut */
            limit = ngx_max(limit, 0);
            own = ordered ? NGX_HTTP_DSEM_MAX_LIMIT : limit;
        }
    }

    ngx_http_dsem_limits_seen_lower(limits,
                                    ngx_http_dsem_session_newest(task->session),
                                    &task->name, hash, own, limit,
                                    values[NGX_HTTP_DSEM_ORDER_PAUSED] != 0,
                                    reply->sent);
}


/* asks the next shard, or waits for one, or has asked all of them */

static void
ngx_http_dsem_order_remove_next(ngx_http_dsem_order_task_t *task)
{
    ngx_uint_t                missed;
    ngx_msec_int_t            left;
    ngx_http_dsem_session_t  *session;

    if (ngx_http_dsem_order_remove_call(task) == NGX_OK) {
        return;
    }

    if (task->timer.timer_set) {
        ngx_del_timer(&task->timer);
    }

    left = task->deadline - ngx_current_msec;
    left = ngx_max(left, 1);
    missed = 0;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        if (task->asked & ((ngx_uint_t) 1 << session->shard)) {
            continue;
        }

        /* it may have left meanwhile */
        ngx_http_dsem_shards_wake(session);

        if (!ngx_http_dsem_session_unavailable(session)) {
            ngx_add_timer(&task->timer,
                          ngx_min(left, NGX_HTTP_DSEM_ORDER_LOOK));
            return;
        }

        missed = 1;
    }

    ngx_http_dsem_order_finish(task, missed ? NGX_ERROR : NGX_DECLINED);
}


/* NGX_DECLINED: no shard is left that can be asked now */

static ngx_int_t
ngx_http_dsem_order_remove_call(ngx_http_dsem_order_task_t *task)
{
    ngx_msec_int_t            left;
    ngx_http_dsem_session_t  *session;

    for (session = ngx_http_dsem_shards_next(NULL);
         session;
         session = ngx_http_dsem_shards_next(session))
    {
        if (!(task->asked & ((ngx_uint_t) 1 << session->shard))
            && ngx_http_dsem_bye_remove(session, &task->name, task->force,
                                        ngx_http_dsem_order_remove_handler,
                                        task)
               == NGX_OK)
        {
            break;
        }
    }

    if (session == NULL) {
        return NGX_DECLINED;
    }

    task->asked |= (ngx_uint_t) 1 << session->shard;
    task->sent = 1;

    if (task->order) {
        task->order->sent = 1;

        if (!task->timer.timer_set) {
            left = task->deadline - ngx_current_msec;
            ngx_add_timer(&task->timer, ngx_max(left, 1));
        }
    }

    return NGX_OK;
}


static void
ngx_http_dsem_order_remove_handler(void *data, ngx_http_dsem_reply_t *reply)
{
    ngx_http_dsem_order_task_t *task = data;

    task->sent = 0;

    if (reply == NULL) {
        ngx_http_dsem_order_finish(task, NGX_ERROR);
        return;
    }

    switch (reply->values[0]) {

    case NGX_HTTP_DSEM_REMOVED:
        ngx_http_dsem_order_finish(task, NGX_OK);
        return;

    case NGX_HTTP_DSEM_REMOVED_NOT:
        ngx_http_dsem_order_finish(task, NGX_BUSY);
        return;

    default: /* NGX_HTTP_DSEM_REMOVED_UNKNOWN */

        if (task->order) {
            /* nothing is changed so far */
            task->order->sent = 0;
        }

        ngx_http_dsem_order_remove_next(task);
        return;
    }
}


/* the owner gets the result; the task ends when no reply is to come */

static void
ngx_http_dsem_order_finish(ngx_http_dsem_order_task_t *task, ngx_int_t rc)
{
    if (task->done.posted) {
        /* the handler of the owner is about to be called */
        return;
    }

    if (task->order == NULL) {

        if (!task->sent) {
            ngx_http_dsem_order_free(task);
        }

        return;
    }

    if (task->timer.timer_set) {
        ngx_del_timer(&task->timer);
    }

    task->order->rc = rc;

    ngx_post_event(&task->done, &ngx_posted_events);
}


static void
ngx_http_dsem_order_done_handler(ngx_event_t *ev)
{
    ngx_http_dsem_order_t       *order;
    ngx_http_dsem_order_task_t  *task;

    task = ev->data;
    order = task->order;

    task->order = NULL;

    if (!task->sent) {
        ngx_http_dsem_order_free(task);
    }

    if (order) {
        order->handler(order);
    }
}
