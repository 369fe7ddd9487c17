
/*
 * Rows: a table of names with values, in shared memory.
 *
 * Owns the names, and which row has which: rows are as many as there is
 * memory, names come from clients.  A new name takes a free row, or one that
 * was not used for some seconds.  The first row is for all names that have
 * none.
 *
 * There is no lock: a process that is stopped, or killed, at any point in here
 * delays no other, and no value is lost.  Values are only ever added to, by
 * any process at any time.  The name of a row has what was added since its
 * base; what is before the base, of earlier names, belongs to the other names.
 * So the sum over all rows is always what was added, and a new base can be
 * written once more by the process that finds a row whose owner has died.
 * Only the owner of a row changes its name, while the version is odd; a user
 * that remembers a row looks the name up again when it has another version.
 *
 * The index has four slots for each row, and a name may be in any of a window
 * of them that begins at its hash.  A slot counts only if its row says so, too.
 * Two processes that enter the same name at once create two rows, which
 * readers add up.
 *
 * Called by: counters.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_counters.h"
#include "ngx_http_dsem_process.h"


/* the places in the index in which a name may be */
#define NGX_HTTP_DSEM_ROWS_WINDOW  16
#define NGX_HTTP_DSEM_ROWS_SLOTS   4

/* rows that are read for a new name */
#define NGX_HTTP_DSEM_ROWS_TRIES   16

/* ms by ngx_http_dsem_rows_time() in which a row keeps its name */
#define NGX_HTTP_DSEM_ROWS_GRACE   (5 * 1024)


static ngx_http_dsem_row_t *ngx_http_dsem_rows_create(
    ngx_http_dsem_rows_t *rows, ngx_str_t *name, uint32_t hash,
    ngx_atomic_uint_t *version);
static ngx_uint_t ngx_http_dsem_rows_better(ngx_http_dsem_row_t *row,
    ngx_http_dsem_row_t *best);
static ngx_http_dsem_row_t *ngx_http_dsem_rows_crowded(
    ngx_http_dsem_rows_t *rows, uint32_t hash);
static ngx_http_dsem_row_t *ngx_http_dsem_rows_oldest(
    ngx_http_dsem_rows_t *rows);
static ngx_int_t ngx_http_dsem_rows_rename(ngx_http_dsem_rows_t *rows,
    ngx_http_dsem_row_t *row, ngx_str_t *name, uint32_t hash);
static void ngx_http_dsem_rows_clear(ngx_http_dsem_rows_t *rows,
    ngx_http_dsem_row_t *row);
static ngx_int_t ngx_http_dsem_rows_place(ngx_http_dsem_rows_t *rows,
    ngx_http_dsem_row_t *row);
static ngx_uint_t ngx_http_dsem_rows_free_slot(ngx_http_dsem_rows_t *rows,
    ngx_uint_t slot, ngx_atomic_uint_t word);


#define ngx_http_dsem_rows_slot(rows, hash, i)                                \
    (((hash) + (i)) % (rows)->nslots)

#define ngx_http_dsem_rows_tag(hash)                                          \
    ((ngx_atomic_uint_t) ((hash) & ~(uint32_t) NGX_HTTP_DSEM_ROWS_NUMBER))


/* bytes for this number of rows, with their index */

size_t
ngx_http_dsem_rows_size(ngx_uint_t nrows)
{
    return sizeof(ngx_http_dsem_rows_t)
           + nrows * (sizeof(ngx_http_dsem_row_t)
                      + NGX_HTTP_DSEM_ROWS_SLOTS * sizeof(ngx_atomic_t));
}


/* the memory is all zero; there is one row at least, for the other names */

void
ngx_http_dsem_rows_init(ngx_http_dsem_rows_t *rows, ngx_uint_t nrows)
{
    rows->nrows = nrows;
    rows->nslots = nrows * NGX_HTTP_DSEM_ROWS_SLOTS;
    rows->slots = (ngx_atomic_t *) &rows->rows[nrows];
    rows->used = 1;
}


/*
 * The row of a name, created if there is none, and its version.  Where none
 * can be had it is that of the other names.
 */

ngx_http_dsem_row_t *
ngx_http_dsem_rows_get(ngx_http_dsem_rows_t *rows, ngx_str_t *name,
    uint32_t hash, ngx_atomic_uint_t *version)
{
    ngx_uint_t            place;
    ngx_http_dsem_row_t  *row;

    place = 0;
    row = ngx_http_dsem_rows_find(rows, name, hash, &place, version);

    if (row) {
        return row;
    }

    row = ngx_http_dsem_rows_create(rows, name, hash, version);

    if (row == NULL) {
        row = &rows->rows[0];
        *version = row->version;
    }

    return row;
}


/*
 * A row of the name, at this place of its window or behind it; the next search
 * begins at "*place".  NULL: there is none.
 */

ngx_http_dsem_row_t *
ngx_http_dsem_rows_find(ngx_http_dsem_rows_t *rows, ngx_str_t *name,
    uint32_t hash, ngx_uint_t *place, ngx_atomic_uint_t *version)
{
    ngx_uint_t            slot;
    ngx_atomic_uint_t     word;
    ngx_http_dsem_row_t  *row;

    while (*place < NGX_HTTP_DSEM_ROWS_WINDOW) {
        slot = ngx_http_dsem_rows_slot(rows, hash, *place);
        word = rows->slots[slot];
        (*place)++;

        if (word == 0
            || (word & ~(ngx_atomic_uint_t) NGX_HTTP_DSEM_ROWS_NUMBER)
               != ngx_http_dsem_rows_tag(hash))
        {
            continue;
        }

        row = &rows->rows[word & NGX_HTTP_DSEM_ROWS_NUMBER];
        *version = row->version;

        ngx_memory_barrier();

        if ((*version & 1)
            || row->slot != slot
            || row->hash != hash
            || row->len != name->len
            || ngx_memcmp(row->name, name->data, name->len) != 0)
        {
            continue;
        }

        ngx_memory_barrier();

        if (row->version == *version) {
            return row;
        }
    }

    return NULL;
}


/* NULL: no row can be had now */

static ngx_http_dsem_row_t *
ngx_http_dsem_rows_create(ngx_http_dsem_rows_t *rows, ngx_str_t *name,
    uint32_t hash, ngx_atomic_uint_t *version)
{
    ngx_atomic_uint_t     age;
    ngx_http_dsem_row_t  *row;

    if (name->len == 0 || name->len > NGX_HTTP_DSEM_MAX_NAME) {
        return NULL;
    }

    row = ngx_http_dsem_rows_crowded(rows, hash);

    if (row == NULL) {
        row = ngx_http_dsem_rows_oldest(rows);
    }

    if (row == NULL || !ngx_http_dsem_row_own(row)) {
        return NULL;
    }

    /* the clock of its last user may be a little ahead */

    age = ngx_http_dsem_rows_time() - row->used;

    if (row->len
        && (age < NGX_HTTP_DSEM_ROWS_GRACE
            || age > (ngx_atomic_uint_t) -NGX_HTTP_DSEM_ROWS_GRACE))
    {
        ngx_http_dsem_row_disown(row);
        return NULL;
    }

    /* it may have another name again when this process goes on */
    *version = row->version + 2;

    if (ngx_http_dsem_rows_rename(rows, row, name, hash) != NGX_OK) {
        return NULL;
    }

    return row;
}


/*
 * Where no slot of a window is free, one of its rows has to go.  A slot is
 * read once: it may be emptied meanwhile, and 0 is not the number of a row
 * here, but of the one that is never renamed.
 */

static ngx_http_dsem_row_t *
ngx_http_dsem_rows_crowded(ngx_http_dsem_rows_t *rows, uint32_t hash)
{
    ngx_uint_t            i, slot;
    ngx_atomic_uint_t     word;
    ngx_http_dsem_row_t  *row, *best;

    best = NULL;

    for (i = 0; i < NGX_HTTP_DSEM_ROWS_WINDOW; i++) {
        slot = ngx_http_dsem_rows_slot(rows, hash, i);
        word = rows->slots[slot];

        if (ngx_http_dsem_rows_free_slot(rows, slot, word)) {
            return NULL;
        }

        row = &rows->rows[word & NGX_HTTP_DSEM_ROWS_NUMBER];

        if (ngx_http_dsem_rows_better(row, best)) {
            best = row;
        }
    }

    return best;
}


/* the next free row, or of some the one that was not used for the longest */

static ngx_http_dsem_row_t *
ngx_http_dsem_rows_oldest(ngx_http_dsem_rows_t *rows)
{
    ngx_uint_t            i, n;
    ngx_http_dsem_row_t  *row, *best;

    if (rows->nrows == 1) {
        return NULL;
    }

    best = NULL;

    for (i = 0; i < NGX_HTTP_DSEM_ROWS_TRIES; i++) {
        n = ngx_atomic_fetch_add(&rows->hand, 1) % (rows->nrows - 1) + 1;
        row = &rows->rows[n];

        if (ngx_http_dsem_rows_better(row, best)) {
            best = row;
        }

        if (best && best->len == 0) {
            break;
        }
    }

    if (best) {
        n = ngx_http_dsem_rows_number(rows, best) + 1;

        ngx_http_dsem_process_raise(&rows->used, n);
    }

    return best;
}


static ngx_uint_t
ngx_http_dsem_rows_better(ngx_http_dsem_row_t *row, ngx_http_dsem_row_t *best)
{
    if (row->owner || (row->version & 1)) {
        return 0;
    }

    return best == NULL
           || row->len == 0
           || (ngx_atomic_int_t) (row->used - best->used) < 0;
}


ngx_uint_t
ngx_http_dsem_row_own(ngx_http_dsem_row_t *row)
{
    ngx_atomic_uint_t  process;

    process = ngx_http_dsem_process_number();

    return process
           && row->owner == 0
           && ngx_atomic_cmp_set(&row->owner, 0, process);
}


void
ngx_http_dsem_row_disown(ngx_http_dsem_row_t *row)
{
    ngx_memory_barrier();

    row->owner = 0;
}


/* by its owner; NGX_DECLINED: there is no place for it, the row is free */

static ngx_int_t
ngx_http_dsem_rows_rename(ngx_http_dsem_rows_t *rows, ngx_http_dsem_row_t *row,
    ngx_str_t *name, uint32_t hash)
{
    ngx_int_t  rc;

    row->version++;

    ngx_memory_barrier();

    ngx_http_dsem_rows_clear(rows, row);

    ngx_memcpy(row->name, name->data, name->len);
    row->hash = hash;
    row->len = name->len;
    row->used = ngx_http_dsem_rows_time();
    row->first = rows->period;
    row->last = row->first;

    rc = ngx_http_dsem_rows_place(rows, row);

    if (rc != NGX_OK) {
        row->len = 0;
    }

    ngx_memory_barrier();

    row->version++;

    ngx_http_dsem_row_disown(row);

    return rc;
}


/* what it has becomes part of the other names */

static void
ngx_http_dsem_rows_clear(ngx_http_dsem_rows_t *rows, ngx_http_dsem_row_t *row)
{
    ngx_uint_t          i;
    ngx_atomic_t       *slot;
    ngx_atomic_uint_t   word;

    slot = &rows->slots[row->slot];
    word = *slot;

    if ((word & NGX_HTTP_DSEM_ROWS_NUMBER)
        == ngx_http_dsem_rows_number(rows, row))
    {
        (void) ngx_atomic_cmp_set(slot, word, 0);
    }

    row->len = 0;
    row->used = 0;
    row->dry = 0;
    row->limit = 0;

    for (i = 0; i < NGX_HTTP_DSEM_NVALUES; i++) {
        row->base[i] = row->values[i];
    }

    row->series = NGX_HTTP_DSEM_ROW_NEW;

    for (i = 0; i < NGX_HTTP_DSEM_NPEAKS; i++) {
        row->peaks[i] = 0;
    }

    ngx_memzero(row->snapshots, sizeof(row->snapshots));
}


/* NGX_DECLINED: its window is full */

static ngx_int_t
ngx_http_dsem_rows_place(ngx_http_dsem_rows_t *rows, ngx_http_dsem_row_t *row)
{
    ngx_uint_t          i, slot;
    ngx_atomic_uint_t   word, own;

    own = ngx_http_dsem_rows_tag(row->hash)
          | ngx_http_dsem_rows_number(rows, row);

    for (i = 0; i < NGX_HTTP_DSEM_ROWS_WINDOW; i++) {
        slot = ngx_http_dsem_rows_slot(rows, row->hash, i);
        word = rows->slots[slot];

        if (!ngx_http_dsem_rows_free_slot(rows, slot, word)) {
            continue;
        }

        row->slot = slot;

        ngx_memory_barrier();

        if (ngx_atomic_cmp_set(&rows->slots[slot], word, own)) {
            return NGX_OK;
        }
    }

    return NGX_DECLINED;
}


/* empty, or left over from another name of its row */

static ngx_uint_t
ngx_http_dsem_rows_free_slot(ngx_http_dsem_rows_t *rows, ngx_uint_t slot,
    ngx_atomic_uint_t word)
{
    ngx_http_dsem_row_t  *row;

    if (word == 0) {
        return 1;
    }

    row = &rows->rows[word & NGX_HTTP_DSEM_ROWS_NUMBER];

    return row->slot != slot;
}


/*
 * For readers.  A copy without a name is of a row that has none, or whose name
 * is being changed: all of its values belong to the other names.
 */

void
ngx_http_dsem_row_copy(ngx_http_dsem_row_t *row, ngx_http_dsem_row_t *copy)
{
    ngx_uint_t  i;

    for (i = 0; i < 3; i++) {
        copy->version = row->version;

        ngx_memory_barrier();

        ngx_memcpy((u_char *) copy + offsetof(ngx_http_dsem_row_t, owner),
                   (u_char *) row + offsetof(ngx_http_dsem_row_t, owner),
                   sizeof(ngx_http_dsem_row_t)
                   - offsetof(ngx_http_dsem_row_t, owner));

        ngx_memory_barrier();

        if (!(copy->version & 1) && row->version == copy->version) {
            copy->len = ngx_min(copy->len, NGX_HTTP_DSEM_MAX_NAME);
            return;
        }
    }

    copy->len = 0;
}


/* if its owner has died, it is free again, or keeps its name */

void
ngx_http_dsem_rows_recover(ngx_http_dsem_rows_t *rows,
    ngx_http_dsem_row_t *row)
{
    ngx_atomic_uint_t  owner, process;

    owner = row->owner;
    process = ngx_http_dsem_process_number();

    if (owner == 0
        || process == 0
        || ngx_http_dsem_process_alive(owner)
        || !ngx_atomic_cmp_set(&row->owner, owner, process))
    {
        return;
    }

    if (row->version & 1) {
        ngx_http_dsem_rows_clear(rows, row);

        ngx_memory_barrier();

        row->version++;
    }

    ngx_http_dsem_row_disown(row);
}
