
/*
 * Top keys: what the busiest keys of "fair" have at this node.
 *
 * Owns a table of blocks in shared memory.  A worker writes the busiest keys
 * of one semaphore to a block, now and then; a reader adds up those of all
 * workers.  The memory is fixed, whatever keys clients send: where there are
 * more semaphores than blocks, the keys of some are not shown.
 *
 * There is no lock: a block that was not written for a while is free, be its
 * process stopped or killed, and a copy is whole if the version is even and
 * has not changed meanwhile.  The figures are for people: a worker that was
 * stopped for long may spoil them until the next turn, and nothing else.
 *
 * Called by: fair (which shows), api (which reads), zone (life).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_top.h"


/* workers with a semaphore each whose keys are shown; of a single process */
#define NGX_HTTP_DSEM_TOPS_BLOCKS   25
#define NGX_HTTP_DSEM_TOPS_PRIVATE  8

/* ms after which a block that was not written is free */
#define NGX_HTTP_DSEM_TOPS_TIME     4000


typedef struct {
    uint32_t               len;
    int32_t                in_use;
    int32_t                waiting;
    u_char                 key[NGX_HTTP_DSEM_MAX_NAME];
} ngx_http_dsem_top_line_t;


struct ngx_http_dsem_top_block_s {
    ngx_atomic_t               written;    /* ms; 0: never, free */
    ngx_atomic_t               owner;      /* number of the writer */
    ngx_atomic_t               version;    /* odd: it is being written */

    uint32_t                   hash;       /* of the semaphore's name */
    uint32_t                   len;
    uint32_t                   n;
    u_char                     name[NGX_HTTP_DSEM_MAX_NAME];
    ngx_http_dsem_top_line_t   lines[NGX_HTTP_DSEM_TOP_KEYS];
};


typedef struct {
    ngx_atomic_t               number;     /* the last that was given */
    ngx_http_dsem_top_block_t  blocks[1];
} ngx_http_dsem_tops_shared_t;


typedef struct {
    ngx_uint_t                    n;
    ngx_http_dsem_tops_shared_t  *shared;
} ngx_http_dsem_tops_t;


static ngx_int_t ngx_http_dsem_top_claim(ngx_http_dsem_top_own_t *own);
static ngx_uint_t ngx_http_dsem_top_stale(ngx_atomic_uint_t written,
    ngx_atomic_uint_t now);
static ngx_int_t ngx_http_dsem_top_copy(ngx_http_dsem_top_block_t *block,
    ngx_http_dsem_top_block_t *copy);
static ngx_int_t ngx_http_dsem_top_add(ngx_pool_t *pool,
    ngx_http_dsem_top_line_t *line, ngx_array_t *keys);
static int ngx_libc_cdecl ngx_http_dsem_top_compare(const void *one,
    const void *two);


static ngx_http_dsem_tops_t  ngx_http_dsem_tops;


/* the shared memory of the blocks, in bytes */

size_t
ngx_http_dsem_tops_size(void)
{
    return sizeof(ngx_http_dsem_tops_shared_t)
           + (NGX_HTTP_DSEM_TOPS_BLOCKS - 1)
             * sizeof(ngx_http_dsem_top_block_t);
}


/*
 * With the worker.  shared: zeroed memory of ngx_http_dsem_tops_size() bytes;
 * NULL: a single process.  NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_tops_init(void *shared)
{
    ngx_http_dsem_tops_t  *tops;

    tops = &ngx_http_dsem_tops;

    tops->shared = shared;
    tops->n = NGX_HTTP_DSEM_TOPS_BLOCKS;

    if (shared) {
        return NGX_OK;
    }

    tops->n = NGX_HTTP_DSEM_TOPS_PRIVATE;

    tops->shared = ngx_calloc(sizeof(ngx_http_dsem_tops_shared_t)
                              + tops->n * sizeof(ngx_http_dsem_top_block_t),
                              ngx_cycle->log);

    return tops->shared ? NGX_OK : NGX_ERROR;
}


/*
 * These are now the busiest keys of a semaphore in this worker, at most
 * NGX_HTTP_DSEM_TOP_KEYS.  They are shown for a while.
 */

void
ngx_http_dsem_top_show(ngx_http_dsem_top_own_t *own, ngx_str_t *name,
    uint32_t hash, ngx_http_dsem_top_key_t *keys, ngx_uint_t n)
{
    ngx_uint_t                  i;
    ngx_http_dsem_top_key_t    *key;
    ngx_http_dsem_top_line_t   *line;
    ngx_http_dsem_top_block_t  *block;

    if ((own->block == NULL || own->block->owner != own->number)
        && ngx_http_dsem_top_claim(own) != NGX_OK)
    {
        return;
    }

    block = own->block;

    block->version |= 1;

    ngx_memory_barrier();

    block->hash = hash;
    block->len = ngx_min(name->len, NGX_HTTP_DSEM_MAX_NAME);
    ngx_memcpy(block->name, name->data, block->len);

    block->n = n;

    for (i = 0; i < n; i++) {
        line = &block->lines[i];
        key = &keys[i];

        line->in_use = (int32_t) key->in_use;
        line->waiting = (int32_t) key->waiting;
        line->len = ngx_min(key->key.len, NGX_HTTP_DSEM_MAX_NAME);
        ngx_memcpy(line->key, key->key.data, line->len);
    }

    block->written = (ngx_atomic_uint_t) ngx_http_dsem_monotonic() | 1;

    ngx_memory_barrier();

    block->version++;
}


/* a free block; NGX_DECLINED: there is none */

static ngx_int_t
ngx_http_dsem_top_claim(ngx_http_dsem_top_own_t *own)
{
    ngx_uint_t                    i;
    ngx_atomic_uint_t             written, now;
    ngx_http_dsem_top_block_t    *block;
    ngx_http_dsem_tops_shared_t  *shared;

    shared = ngx_http_dsem_tops.shared;

    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

    own->block = NULL;

    for (i = 0; i < ngx_http_dsem_tops.n; i++) {
        block = &shared->blocks[i];
        written = block->written;

        if (ngx_http_dsem_top_stale(written, now)
            && ngx_atomic_cmp_set(&block->written, written, now | 1))
        {
            own->block = block;
            own->number = ngx_atomic_fetch_add(&shared->number, 1) + 1;
            block->owner = own->number;
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


/* it may have been written since now; of some systems the time has 32 bits */

static ngx_uint_t
ngx_http_dsem_top_stale(ngx_atomic_uint_t written, ngx_atomic_uint_t now)
{
    return written == 0
           || now + NGX_HTTP_DSEM_TOPS_TIME - written
              > 2 * NGX_HTTP_DSEM_TOPS_TIME;
}


/* no key has anything any more */

void
ngx_http_dsem_top_hide(ngx_http_dsem_top_own_t *own)
{
    if (own->block && own->block->owner == own->number) {
        own->block->owner = 0;
        own->block->written = 0;
    }

    own->block = NULL;
}


/*
 * The busiest keys of a semaphore in all workers of the node, the busiest
 * first.  keys is of ngx_http_dsem_top_key_t, and is created here.
 * NGX_ERROR: no memory.
 */

ngx_int_t
ngx_http_dsem_tops_read(ngx_pool_t *pool, ngx_str_t *name, uint32_t hash,
    ngx_array_t *keys)
{
    ngx_uint_t                  i, k;
    ngx_http_dsem_top_block_t  *block, *copy;

    copy = ngx_palloc(pool, sizeof(ngx_http_dsem_top_block_t));

    if (copy == NULL
        || ngx_array_init(keys, pool, NGX_HTTP_DSEM_TOP_KEYS,
                          sizeof(ngx_http_dsem_top_key_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < ngx_http_dsem_tops.n; i++) {
        block = &ngx_http_dsem_tops.shared->blocks[i];

        if (block->hash != hash
            || ngx_http_dsem_top_copy(block, copy) != NGX_OK
            || copy->len != name->len
            || ngx_memcmp(copy->name, name->data, name->len) != 0)
        {
            continue;
        }

        for (k = 0; k < copy->n; k++) {
            if (ngx_http_dsem_top_add(pool, &copy->lines[k], keys)
                != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    ngx_qsort(keys->elts, keys->nelts, sizeof(ngx_http_dsem_top_key_t),
              ngx_http_dsem_top_compare);

    keys->nelts = ngx_min(keys->nelts, NGX_HTTP_DSEM_TOP_SHOWN);

    return NGX_OK;
}


/* NGX_DECLINED: it is free, or being written */

static ngx_int_t
ngx_http_dsem_top_copy(ngx_http_dsem_top_block_t *block,
    ngx_http_dsem_top_block_t *copy)
{
    ngx_uint_t         i;
    ngx_atomic_uint_t  version, now;

    version = block->version;

    now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

    if ((version & 1) || ngx_http_dsem_top_stale(block->written, now)) {
        return NGX_DECLINED;
    }

    ngx_memory_barrier();

    *copy = *block;

    ngx_memory_barrier();

    if (block->version != version) {
        return NGX_DECLINED;
    }

    /* lengths that a process which was stopped for long may have spoiled */

    copy->n = ngx_min(copy->n, NGX_HTTP_DSEM_TOP_KEYS);

    for (i = 0; i < copy->n; i++) {
        copy->lines[i].len = ngx_min(copy->lines[i].len,
                                     NGX_HTTP_DSEM_MAX_NAME);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_top_add(ngx_pool_t *pool, ngx_http_dsem_top_line_t *line,
    ngx_array_t *keys)
{
    ngx_uint_t                i;
    ngx_http_dsem_top_key_t  *key;

    key = keys->elts;

    for (i = 0; i < keys->nelts; i++) {
        if (key[i].key.len == line->len
            && ngx_memcmp(key[i].key.data, line->key, line->len) == 0)
        {
            key[i].in_use += line->in_use;
            key[i].waiting += line->waiting;
            return NGX_OK;
        }
    }

    key = ngx_array_push(keys);
    if (key == NULL) {
        return NGX_ERROR;
    }

    key->in_use = line->in_use;
    key->waiting = line->waiting;
    key->key.len = line->len;
    key->key.data = ngx_pnalloc(pool, line->len);

    if (key->key.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(key->key.data, line->key, line->len);

    return NGX_OK;
}


/* by requests waiting and permits in use, then by name */

static int ngx_libc_cdecl
ngx_http_dsem_top_compare(const void *one, const void *two)
{
    ngx_int_t                       more;
    const ngx_http_dsem_top_key_t  *a, *b;

    a = one;
    b = two;

    more = (b->in_use + b->waiting) - (a->in_use + a->waiting);

    if (more) {
        return (more > 0) ? 1 : -1;
    }

    return (int) ngx_memn2cmp(a->key.data, b->key.data, a->key.len,
                              b->key.len);
}
