
/*
 * The zone: shared memory of the workers of a node.
 *
 * Owns one entry per worker process that has a session, so that another
 * worker can say bye for one that died, the last known state of the fleet,
 * for workers that start while Redis is unavailable, and what one worker has
 * logged for all.
 *
 * An entry belongs to a process, not to a pid: a pid that is used again has
 * another start time.  The entry of a draining predecessor is that of a
 * living process, and stays.
 *
 * Called by: session, handshake, limits; conf, at configuration time.  A single
 * process has no zone and knows nothing of others.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_zone.h"


#define NGX_HTTP_DSEM_STAT_LEN    512

/* lower limits of other nodes that the log has */
#define NGX_HTTP_DSEM_ZONE_SAID   64

/* the process's start time in /proc/<pid>/stat, counted after its name */
#define NGX_HTTP_DSEM_STAT_FIELD  19


typedef struct {
    ngx_queue_t       queue;
    uint64_t          number;         /* of entries, in order of entering */
    ngx_pid_t         pid;
    uint64_t          started;        /* in clock ticks; 0: not known */
    size_t            len;
    u_char            session[NGX_HTTP_DSEM_SESSION_LEN];
} ngx_http_dsem_zone_entry_t;


/* of a name, as its hash; two names may share one: said once more */
typedef struct {
    uint32_t          hash;
    ngx_int_t         limit;          /* in force */
    ngx_int_t         own;            /* of this node */
} ngx_http_dsem_zone_said_t;


typedef struct {
    ngx_queue_t       entries;
    uint64_t          number;
    ngx_uint_t        configuration;  /* of the newest worker */
    int64_t           generation;     /* 0: never seen one */
    ngx_uint_t        sessions;       /* 0: never seen the fleet */
    uint64_t          replied;        /* last by Redis, monotonic ms */

    ngx_http_dsem_zone_said_t  said[NGX_HTTP_DSEM_ZONE_SAID];
} ngx_http_dsem_zone_t;


static ngx_http_dsem_zone_entry_t *ngx_http_dsem_zone_find(
    ngx_http_dsem_zone_t *zone, ngx_str_t *session);
static ngx_uint_t ngx_http_dsem_zone_gone(ngx_http_dsem_zone_entry_t *entry);
static uint64_t ngx_http_dsem_zone_started(ngx_pid_t pid);


/* a reload keeps the entries */

ngx_int_t
ngx_http_dsem_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
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

    zone = ngx_slab_calloc(shpool, sizeof(ngx_http_dsem_zone_t));
    if (zone == NULL) {
        return NGX_ERROR;
    }

    ngx_queue_init(&zone->entries);

    shpool->data = zone;
    shm_zone->data = zone;

    return NGX_OK;
}


/*
 * This process has this session from now on.  In a full zone it has no
 * entry: then only the end of its lease releases its permits.
 */

void
ngx_http_dsem_zone_enter(ngx_shm_zone_t *shm_zone, ngx_str_t *session)
{
    ngx_slab_pool_t             *shpool;
    ngx_http_dsem_zone_t        *zone;
    ngx_http_dsem_zone_entry_t  *entry;

    if (shm_zone == NULL) {
        return;
    }

    zone = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    if (ngx_http_dsem_zone_find(zone, session)) {
        ngx_shmtx_unlock(&shpool->mutex);
        return;
    }

    entry = ngx_slab_calloc_locked(shpool,
                                   sizeof(ngx_http_dsem_zone_entry_t));

    if (entry) {
        entry->number = ++zone->number;
        entry->pid = ngx_pid;
        entry->started = ngx_http_dsem_zone_started(ngx_pid);
        entry->len = ngx_min(session->len, NGX_HTTP_DSEM_SESSION_LEN);
        ngx_memcpy(entry->session, session->data, entry->len);

        ngx_queue_insert_tail(&zone->entries, &entry->queue);
    }

    ngx_shmtx_unlock(&shpool->mutex);
}


/* the bye for this session has its reply */

void
ngx_http_dsem_zone_leave(ngx_shm_zone_t *shm_zone, ngx_str_t *session)
{
    ngx_slab_pool_t             *shpool;
    ngx_http_dsem_zone_entry_t  *entry;

    if (shm_zone == NULL) {
        return;
    }

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    entry = ngx_http_dsem_zone_find(shm_zone->data, session);

    if (entry) {
        ngx_queue_remove(&entry->queue);
        ngx_slab_free_locked(shpool, entry);
    }

    ngx_shmtx_unlock(&shpool->mutex);
}


static ngx_http_dsem_zone_entry_t *
ngx_http_dsem_zone_find(ngx_http_dsem_zone_t *zone, ngx_str_t *session)
{
    ngx_queue_t                 *q;
    ngx_http_dsem_zone_entry_t  *entry;

    for (q = ngx_queue_head(&zone->entries);
         q != ngx_queue_sentinel(&zone->entries);
         q = ngx_queue_next(q))
    {
        entry = ngx_queue_data(q, ngx_http_dsem_zone_entry_t, queue);

        if (entry->len == session->len
            && ngx_memcmp(entry->session, session->data, session->len) == 0)
        {
            return entry;
        }
    }

    return NULL;
}


/*
 * The next session, behind number "after", whose process is gone; its name
 * is copied to session->data, which has room for any.  NGX_DONE: no more.
 */

ngx_int_t
ngx_http_dsem_zone_dead(ngx_shm_zone_t *shm_zone, uint64_t *after,
    ngx_str_t *session)
{
    ngx_int_t                    rc;
    ngx_queue_t                 *q;
    ngx_slab_pool_t             *shpool;
    ngx_http_dsem_zone_t        *zone;
    ngx_http_dsem_zone_entry_t  *entry;

    if (shm_zone == NULL) {
        return NGX_DONE;
    }

    rc = NGX_DONE;
    zone = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    for (q = ngx_queue_head(&zone->entries);
         q != ngx_queue_sentinel(&zone->entries);
         q = ngx_queue_next(q))
    {
        entry = ngx_queue_data(q, ngx_http_dsem_zone_entry_t, queue);

        if (entry->number <= *after || !ngx_http_dsem_zone_gone(entry)) {
            continue;
        }

        *after = entry->number;
        session->len = entry->len;
        ngx_memcpy(session->data, entry->session, entry->len);

        rc = NGX_OK;
        break;
    }

    ngx_shmtx_unlock(&shpool->mutex);

    return rc;
}


static ngx_uint_t
ngx_http_dsem_zone_gone(ngx_http_dsem_zone_entry_t *entry)
{
    uint64_t  started;

    if (kill(entry->pid, 0) == -1) {
        return ngx_errno == NGX_ESRCH;
    }

    started = ngx_http_dsem_zone_started(entry->pid);

    /* an unknown process counts as alive: its lease will expire */
    return entry->started && started && started != entry->started;
}


/*
 * When a process was started, in clock ticks since the machine was; 0: not
 * known.  The kernel answers from memory, no disk is involved.  A process
 * that has died but was not yet waited for counts as gone.
 */

static uint64_t
ngx_http_dsem_zone_started(ngx_pid_t pid)
{
    u_char      *p, *last, *digits;
    u_char       path[sizeof("/proc//stat") + NGX_INT64_LEN];
    u_char       buf[NGX_HTTP_DSEM_STAT_LEN];
    ssize_t      n;
    ngx_fd_t     fd;
    ngx_uint_t   field;

    ngx_sprintf(path, "/proc/%P/stat%Z", pid);

    fd = ngx_open_file(path, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (fd == NGX_INVALID_FILE) {
        return 0;
    }

    n = ngx_read_fd(fd, buf, sizeof(buf));

    (void) ngx_close_file(fd);

    if (n <= 0) {
        return 0;
    }

    last = buf + n;

    /* the name, in parentheses, may hold blanks and parentheses itself */

    for (p = last; p > buf && p[-1] != ')'; p--) { /* void */ }

    for (field = 0; field < NGX_HTTP_DSEM_STAT_FIELD && p; field++) {

        if (field == 0 && p + 1 < last && p[1] == 'Z') {
            return 1;
        }

        p = ngx_strlchr(p + 1, last, ' ');
    }

    if (p == NULL) {
        return 0;
    }

    digits = p + 1;
    p = ngx_strlchr(digits, last, ' ');

    return (p == NULL) ? 0 : (uint64_t) ngx_atoof(digits, p - digits);
}


/*
 * A worker with this configuration, numbered by the master, has started:
 * workers with an older one must not set limits any more, also before they
 * are told to exit.
 */

void
ngx_http_dsem_zone_configure(ngx_shm_zone_t *shm_zone,
    ngx_uint_t configuration)
{
    ngx_slab_pool_t       *shpool;
    ngx_http_dsem_zone_t  *zone;

    if (shm_zone == NULL) {
        return;
    }

    zone = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    zone->configuration = ngx_max(zone->configuration, configuration);

    ngx_shmtx_unlock(&shpool->mutex);
}


/* the number of the newest configuration of this node */

ngx_uint_t
ngx_http_dsem_zone_newest(ngx_shm_zone_t *shm_zone)
{
    ngx_http_dsem_zone_t  *zone;

    if (shm_zone == NULL) {
        return 0;
    }

    zone = shm_zone->data;

    return zone->configuration;
}


/* the state of the fleet at the last reply to a worker of this node */

void
ngx_http_dsem_zone_remember(ngx_shm_zone_t *shm_zone, int64_t generation,
    ngx_uint_t sessions, uint64_t replied)
{
    ngx_slab_pool_t       *shpool;
    ngx_http_dsem_zone_t  *zone;

    if (shm_zone == NULL) {
        return;
    }

    zone = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    zone->generation = generation;
    zone->sessions = sessions;
    zone->replied = ngx_max(zone->replied, replied);

    ngx_shmtx_unlock(&shpool->mutex);
}


/* the remembered state; all zero: none */

void
ngx_http_dsem_zone_recall(ngx_shm_zone_t *shm_zone, int64_t *generation,
    ngx_uint_t *sessions, uint64_t *replied)
{
    ngx_slab_pool_t       *shpool;
    ngx_http_dsem_zone_t  *zone;

    *generation = 0;
    *sessions = 0;
    *replied = 0;

    if (shm_zone == NULL) {
        return;
    }

    zone = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    ngx_shmtx_lock(&shpool->mutex);

    *generation = zone->generation;
    *sessions = zone->sessions;
    *replied = zone->replied;

    ngx_shmtx_unlock(&shpool->mutex);
}


/*
 * Whether the log does not have it yet that this limit is in force instead
 * of the node's own; from now on it has.  Never waits: where the zone is
 * locked each worker says it for itself.
 */

ngx_uint_t
ngx_http_dsem_zone_say(ngx_shm_zone_t *shm_zone, uint32_t hash,
    ngx_int_t limit, ngx_int_t own)
{
    ngx_uint_t                  news;
    ngx_slab_pool_t            *shpool;
    ngx_http_dsem_zone_t       *zone;
    ngx_http_dsem_zone_said_t  *said;

    if (shm_zone == NULL) {
        return 1;
    }

    zone = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (!ngx_shmtx_trylock(&shpool->mutex)) {
        return 1;
    }

    said = &zone->said[hash % NGX_HTTP_DSEM_ZONE_SAID];

    news = (said->hash != hash || said->limit != limit || said->own != own);

    said->hash = hash;
    said->limit = limit;
    said->own = own;

    ngx_shmtx_unlock(&shpool->mutex);

    return news;
}


/* the node's own limit is in force: a lower one is news again */

void
ngx_http_dsem_zone_unsay(ngx_shm_zone_t *shm_zone, uint32_t hash)
{
    ngx_slab_pool_t            *shpool;
    ngx_http_dsem_zone_t       *zone;
    ngx_http_dsem_zone_said_t  *said;

    if (shm_zone == NULL) {
        return;
    }

    zone = shm_zone->data;
    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (!ngx_shmtx_trylock(&shpool->mutex)) {
        return;
    }

    said = &zone->said[hash % NGX_HTTP_DSEM_ZONE_SAID];

    if (said->hash == hash) {
        ngx_memzero(said, sizeof(ngx_http_dsem_zone_said_t));
    }

    ngx_shmtx_unlock(&shpool->mutex);
}
