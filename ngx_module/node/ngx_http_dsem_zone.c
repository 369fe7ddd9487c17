
/*
 * The zone: shared memory of the workers of a node.
 *
 * Owns one entry per session of a worker process, so that another worker can
 * say bye for one that died, the last state of the fleet in each shard,
 * for workers that start while Redis is unavailable, and what one worker has
 * logged for all.  The rest of the memory is that of the list of processes, of
 * the memo, of the top keys and of the counters.
 *
 * The entry of a draining predecessor is that of a living process, and stays.
 *
 * A reload may change where the state is in Redis.  A space is one shard of one
 * such state: what is remembered of a space, and the sessions in it, mean
 * nothing to workers in another one.  A dead session waits for a worker in its
 * space, which may come with a later reload, as long as there is room.
 *
 * There is no lock: a process that is stopped, or killed, at any point in
 * here delays no other.  A process claims an entry as its "owner", and
 * fills it in before it gives it a number; an entry without a number has no
 * session.  Numbers are never used twice: the process that takes the number
 * back is the only one that frees the entry, and a copy is whole if the number
 * has not changed meanwhile.
 *
 * Called by: the rooms of session; conf, at configuration time; module, when a
 * process starts and ends.  A single
 * process has no zone and knows nothing of others.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_memo.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_process.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_top.h"
#include "ngx_http_dsem_zone.h"


/* the part of the zone that is used for entries */
#define NGX_HTTP_DSEM_ZONE_PART   8

/* processes, beside one for each entry */
#define NGX_HTTP_DSEM_ZONE_PROCESSES  64


struct ngx_http_dsem_zone_entry_s {
    ngx_atomic_t                 owner;    /* number of the process; 0: free */
    ngx_atomic_t                 number;   /* 0: not filled in */
    ngx_atomic_t                 asked;    /* ms, time of the last bye */
    uint64_t                     space;
    uint32_t                     len;
    u_char                       session[NGX_HTTP_DSEM_SESSION_LEN];
};


/*
 * all workers in a space write the same; torn only where 64 bits are two words
 */
typedef struct {
    uint64_t                     space;          /* 0: no state */
    ngx_atomic_t                 sent;           /* monotonic ms, the command of
                                                    the reply with the state */
    ngx_http_dsem_zone_state_t   state;
    ngx_atomic_t                 recoveries;     /* so far, of any space */

    ngx_atomic_t                 scanned;        /* ms, time of the last turn */
} ngx_http_dsem_zone_shard_t;


struct ngx_http_dsem_zone_s {
    ngx_atomic_t                 configuration;  /* of the newest worker */
    ngx_http_dsem_zone_shard_t   shards[NGX_HTTP_DSEM_SHARDS];

    ngx_atomic_t                 full;           /* logged */
    ngx_atomic_t                 number;         /* of the last entry */
    ngx_atomic_t                 used;           /* none is behind these */

    uint64_t                     changed;        /* ms, by the API; 0: never */

    ngx_http_dsem_processes_t    processes;
    ngx_http_dsem_memo_t        *memo;
    void                        *counters;
    void                        *tops;

    ngx_uint_t                   nentries;
    ngx_http_dsem_zone_entry_t   entries[1];
};


static ngx_http_dsem_zone_entry_t *ngx_http_dsem_zone_claim(
    ngx_http_dsem_zone_t *zone, uint64_t space);
static ngx_uint_t ngx_http_dsem_zone_is(ngx_http_dsem_zone_entry_t *entry,
    ngx_str_t *session);
static ngx_int_t ngx_http_dsem_zone_copy(ngx_http_dsem_zone_entry_t *entry,
    ngx_http_dsem_zone_entry_t *copy);
static ngx_int_t ngx_http_dsem_zone_free(ngx_http_dsem_zone_t *zone,
    ngx_http_dsem_zone_entry_t *entry, ngx_atomic_uint_t number);
static ngx_uint_t ngx_http_dsem_zone_due(ngx_atomic_t *last,
    ngx_msec_t heartbeat);


/* a reload keeps the entries and the counters */

ngx_int_t
ngx_http_dsem_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    size_t                 size;
    ngx_uint_t             n, m;
    ngx_slab_pool_t       *shpool;
    ngx_http_dsem_zone_t  *zone;

    if (data) {
        shm_zone->data = data;
        return NGX_OK;
    }

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (shm_zone->shm.exists) {
        shm_zone->data = shpool->data;
        return NGX_OK;
    }

    size = shm_zone->shm.size - NGX_HTTP_DSEM_ZONE_MORE;

    n = size / NGX_HTTP_DSEM_ZONE_PART / sizeof(ngx_http_dsem_zone_entry_t);

    m = n + NGX_HTTP_DSEM_ZONE_PROCESSES;

    zone = ngx_slab_calloc(shpool,
                           sizeof(ngx_http_dsem_zone_t)
                           + n * sizeof(ngx_http_dsem_zone_entry_t)
                           + m * sizeof(ngx_http_dsem_process_t));
    if (zone == NULL) {
        return NGX_ERROR;
    }

    zone->nentries = n;

    zone->processes.n = m;
    zone->processes.processes = (ngx_http_dsem_process_t *) &zone->entries[n];

    zone->tops = ngx_slab_calloc(shpool, ngx_http_dsem_tops_size());
    if (zone->tops == NULL) {
        return NGX_ERROR;
    }

    zone->memo = ngx_slab_calloc(shpool, ngx_http_dsem_memo_size());
    if (zone->memo == NULL) {
        return NGX_ERROR;
    }

    zone->counters = ngx_http_dsem_counters_create(shpool);
    if (zone->counters == NULL) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "\"dsem_zone_size\" is too small for this machine, "
                      "whose pages have %ui bytes", ngx_pagesize);
        return NGX_ERROR;
    }

    shpool->data = zone;
    shm_zone->data = zone;

    return NGX_OK;
}


/*
 * For a process that serves requests: it uses the memory from now on.  Without
 * a zone, a single process, it has its own, of "size" bytes at most for the
 * counters.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_zone_attach(ngx_http_dsem_zone_t *zone, size_t size)
{
    if (ngx_http_dsem_process_enter(zone ? &zone->processes : NULL) != NGX_OK
        || ngx_http_dsem_counters_init(zone ? zone->counters : NULL, size)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_dsem_tops_init(zone ? zone->tops : NULL);
}


/* NULL: there is no zone */

ngx_http_dsem_memo_t *
ngx_http_dsem_zone_memo(ngx_http_dsem_zone_t *zone)
{
    return zone ? zone->memo : NULL;
}


/*
 * This process has this session, in a shard; called again with each reply to
 * it.  In a full zone it has no entry, until there is room at a later reply:
 * until then only the end of its lease releases its permits.
 */

void
ngx_http_dsem_zone_enter(ngx_http_dsem_zone_t *zone, ngx_uint_t shard,
    uint64_t space, ngx_http_dsem_zone_own_t *own, ngx_str_t *session)
{
    ngx_http_dsem_zone_entry_t  *entry;

    if (zone == NULL) {
        return;
    }

    if (own->entry && own->entry->number == own->number) {

        if (ngx_http_dsem_zone_is(own->entry, session)) {
            return;
        }

        /* the name is new */
        (void) ngx_http_dsem_zone_free(zone, own->entry, own->number);
    }

    own->entry = NULL;

    entry = ngx_http_dsem_zone_claim(zone, space);
    if (entry == NULL) {
        return;
    }

    entry->asked = 0;
    entry->space = space;
    entry->len = ngx_min(session->len, NGX_HTTP_DSEM_SESSION_LEN);
    ngx_memcpy(entry->session, session->data, entry->len);

    own->entry = entry;
    own->number = ngx_atomic_fetch_add(&zone->number, 1) + 1;

    ngx_memory_barrier();

    entry->number = own->number;

    /* it may be the successor of a dead process: a turn is due at once */
    zone->shards[shard].scanned = 0;
}


/* a free entry, without a number; NULL: there is none, logged once */

static ngx_http_dsem_zone_entry_t *
ngx_http_dsem_zone_claim(ngx_http_dsem_zone_t *zone, uint64_t space)
{
    ngx_uint_t                   i;
    ngx_atomic_uint_t            process;
    ngx_http_dsem_zone_entry_t   copy, *entry;

    process = ngx_http_dsem_process_number();

    for (i = 0; i < zone->nentries && process; i++) {
        entry = &zone->entries[i];

        if (entry->owner == 0
            && ngx_atomic_cmp_set(&entry->owner, 0, process))
        {
            ngx_http_dsem_process_raise(&zone->used, i + 1);
            return entry;
        }
    }

    /* that of a dead process in another space: its lease ends there */

    for (i = 0; i < zone->nentries && process; i++) {
        entry = &zone->entries[i];

        if (ngx_http_dsem_zone_copy(entry, &copy) == NGX_OK
            && copy.space != space
            && !ngx_http_dsem_process_alive(copy.owner)
            && ngx_http_dsem_zone_free(zone, entry, copy.number) == NGX_OK
            && ngx_atomic_cmp_set(&entry->owner, 0, process))
        {
            return entry;
        }
    }

    if (ngx_atomic_cmp_set(&zone->full, 0, 1)) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: zone full (%ui sessions), permits of killed "
                      "workers may be released only when their leases "
                      "expire, increase \"dsem_zone_size\"",
                      zone->nentries);
    }

    return NULL;
}


/*
 * The bye for this session has its reply.  NGX_DECLINED: another process has
 * freed the entry, or there was none.
 */

ngx_int_t
ngx_http_dsem_zone_leave(ngx_http_dsem_zone_t *zone, ngx_str_t *session)
{
    ngx_uint_t                   i;
    ngx_http_dsem_zone_entry_t   copy;

    if (zone == NULL) {
        return NGX_DECLINED;
    }

    for (i = 0; i < zone->used; i++) {

        if (ngx_http_dsem_zone_copy(&zone->entries[i], &copy) == NGX_OK
            && ngx_http_dsem_zone_is(&copy, session))
        {
            return ngx_http_dsem_zone_free(zone, &zone->entries[i],
                                           copy.number);
        }
    }

    return NGX_DECLINED;
}


static ngx_uint_t
ngx_http_dsem_zone_is(ngx_http_dsem_zone_entry_t *entry, ngx_str_t *session)
{
    return entry->len == session->len
           && ngx_memcmp(entry->session, session->data, session->len) == 0;
}


/* NGX_DECLINED: it has no session, or is being changed */

static ngx_int_t
ngx_http_dsem_zone_copy(ngx_http_dsem_zone_entry_t *entry,
    ngx_http_dsem_zone_entry_t *copy)
{
    copy->number = entry->number;

    if (copy->number == 0) {
        return NGX_DECLINED;
    }

    ngx_memory_barrier();

    copy->owner = entry->owner;
    copy->space = entry->space;
    copy->len = ngx_min(entry->len, NGX_HTTP_DSEM_SESSION_LEN);
    ngx_memcpy(copy->session, entry->session, copy->len);

    ngx_memory_barrier();

    return (entry->number == copy->number) ? NGX_OK : NGX_DECLINED;
}


static ngx_int_t
ngx_http_dsem_zone_free(ngx_http_dsem_zone_t *zone,
    ngx_http_dsem_zone_entry_t *entry, ngx_atomic_uint_t number)
{
    ngx_atomic_uint_t  owner;

    owner = entry->owner;

    if (!ngx_atomic_cmp_set(&entry->number, number, 0)) {
        return NGX_DECLINED;
    }

    (void) ngx_atomic_cmp_set(&entry->owner, owner, 0);

    zone->full = 0;

    return NGX_OK;
}


/*
 * True if this worker is to search a shard for dead ones: one of the node does
 * so per heartbeat, as a search costs system calls for each entry.  A worker
 * that takes its turn and dies, or is stopped, only leaves the next one to
 * another.  Those that drain in another space than the newest one all do so.
 */

ngx_uint_t
ngx_http_dsem_zone_turn(ngx_http_dsem_zone_t *zone, ngx_uint_t shard,
    uint64_t space, ngx_msec_t heartbeat)
{
    if (zone == NULL) {
        return 0;
    }

    return zone->shards[shard].space != space
           || ngx_http_dsem_zone_due(&zone->shards[shard].scanned, heartbeat);
}


/* true for one caller per heartbeat; the heartbeats of one worker jitter */

static ngx_uint_t
ngx_http_dsem_zone_due(ngx_atomic_t *last, ngx_msec_t heartbeat)
{
    ngx_atomic_uint_t  now, before;

    /* in this order: it is not ahead of the clock that is read after it */

    before = *last;
    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

    return now - before >= heartbeat / 4 * 3
           && ngx_atomic_cmp_set(last, before, now);
}


/*
 * The next session in a space, at "*next" or behind it, whose process is gone;
 * its name is copied to session->data, which has room for any.  NGX_DONE: no
 * more.  One that another worker was just given is passed over.
 */

ngx_int_t
ngx_http_dsem_zone_dead(ngx_http_dsem_zone_t *zone, uint64_t space,
    ngx_msec_t heartbeat, ngx_uint_t *next, ngx_str_t *session)
{
    ngx_atomic_uint_t            owner;
    ngx_http_dsem_zone_entry_t   copy, *entry;

    while (*next < zone->used) {
        entry = &zone->entries[(*next)++];

        if (entry->owner == 0) {
            continue;
        }

        if (ngx_http_dsem_zone_copy(entry, &copy) != NGX_OK) {
            owner = entry->owner;

            /* its process died before it gave the entry a number */

            if (owner
                && !ngx_http_dsem_process_alive(owner)
                && entry->number == 0)
            {
                (void) ngx_atomic_cmp_set(&entry->owner, owner, 0);
            }

            continue;
        }

        if (copy.space == space
            && !ngx_http_dsem_process_alive(copy.owner)
            && ngx_http_dsem_zone_due(&entry->asked, heartbeat))
        {
            session->len = copy.len;
            ngx_memcpy(session->data, copy.session, copy.len);

            return NGX_OK;
        }
    }

    return NGX_DONE;
}


/*
 * True if a process has a session in the space, or had one when it ended;
 * dead: one that is gone.
 */

ngx_uint_t
ngx_http_dsem_zone_has(ngx_http_dsem_zone_t *zone, uint64_t space,
    ngx_uint_t dead)
{
    ngx_uint_t                   i;
    ngx_http_dsem_zone_entry_t   copy;

    if (zone == NULL) {
        return 0;
    }

    for (i = 0; i < zone->used; i++) {

        if (zone->entries[i].space == space
            && ngx_http_dsem_zone_copy(&zone->entries[i], &copy) == NGX_OK
            && copy.space == space
            && !(dead && ngx_http_dsem_process_alive(copy.owner)))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * A worker with this configuration, numbered by the master, has started:
 * workers with an older one must not set limits any more, also before they
 * have their signal to exit.
 */

void
ngx_http_dsem_zone_configure(ngx_http_dsem_zone_t *zone,
    ngx_uint_t configuration)
{
    if (zone == NULL) {
        return;
    }

    ngx_http_dsem_process_raise(&zone->configuration, configuration);
}


/* the number of the newest configuration of this node */

ngx_uint_t
ngx_http_dsem_zone_newest(ngx_http_dsem_zone_t *zone)
{
    return zone ? zone->configuration : 0;
}


/*
 * The state of the fleet at the last reply to a session of this node.  A
 * state of another space is replaced by workers with the newest configuration
 * only.  A state that a sibling has seen lost does not come back with a reply
 * from before, and is not lost once more.
 */

void
ngx_http_dsem_zone_remember(ngx_http_dsem_zone_t *zone, ngx_uint_t shard,
    uint64_t space, ngx_uint_t newest, ngx_http_dsem_zone_state_t *state)
{
    ngx_http_dsem_zone_shard_t  *last;
    ngx_http_dsem_zone_state_t  *known;

    if (zone == NULL) {
        return;
    }

    last = &zone->shards[shard];
    known = &last->state;

    if (last->space != space) {

        if (!newest) {
            return;
        }

        last->space = 0;

        ngx_memory_barrier();

        last->sent = state->replied;
        known->generation = 0;

    } else if (!ngx_http_dsem_process_latest(&last->sent, state->replied)) {
        return;
    }

    /* a sibling may still be connected to a former master */

    if (known->generation != state->generation || known->term < state->term) {
        known->term = state->term;

        if (known->generation) {
            (void) ngx_atomic_fetch_add(&last->recoveries, 1);
        }
    }

    known->generation = state->generation;
    known->clock = state->clock;
    known->sessions = state->sessions;
    known->workers = newest ? state->workers : known->workers;
    known->longest = state->longest;
    known->replied = state->replied;

    ngx_memory_barrier();

    last->space = space;
}


/*
 * The remembered state; all zero: none.  In another space only what a worker
 * needs for its share of a limit: the fleet is there until it has followed.
 */

void
ngx_http_dsem_zone_recall(ngx_http_dsem_zone_t *zone, ngx_uint_t shard,
    uint64_t space, ngx_http_dsem_zone_state_t *state)
{
    ngx_http_dsem_zone_shard_t  *last;

    ngx_memzero(state, sizeof(ngx_http_dsem_zone_state_t));

    if (zone == NULL) {
        return;
    }

    last = &zone->shards[shard];

    *state = last->state;

    if (last->space != space) {
        state->generation = 0;
        state->term = 0;
        state->clock = 0;
    }

    /* where 64 bits are two words it may have been written by halves */
    state->replied = ngx_min(state->replied, ngx_http_dsem_monotonic());
}


/*
 * How often Redis has lost the state, or another process has taken it over, as
 * the workers of this node have met it: in the shard with most.
 */

ngx_uint_t
ngx_http_dsem_zone_recoveries(ngx_http_dsem_zone_t *zone)
{
    ngx_uint_t  i, most;

    if (zone == NULL) {
        return 0;
    }

    most = 0;

    for (i = 0; i < NGX_HTTP_DSEM_SHARDS; i++) {
        most = ngx_max(most, zone->shards[i].recoveries);
    }

    return most;
}


/* a worker of this node has changed what all see in Redis */

void
ngx_http_dsem_zone_change(ngx_http_dsem_zone_t *zone)
{
    if (zone) {
        zone->changed = ngx_http_dsem_monotonic();
    }
}


/* when that was; 0: never */

uint64_t
ngx_http_dsem_zone_changed(ngx_http_dsem_zone_t *zone)
{
    return zone ? zone->changed : 0;
}
