
/*
 * The table of counters, without nginx: names that come and go, processes that
 * are killed and stopped in the middle of it.
 *
 * Prints one line for each assertion, "ok" or "not ok" and its name.
 */


#include "ngx_http_dsem_counters.c"
#include "ngx_http_dsem_process.c"
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>


#define TABLE_SMALL      (96 * 1024)
#define TABLE_LARGE      (1024 * 1024)
#define TABLE_CHILDREN   4
#define TABLE_PROCESSES  80


/* what the children of a storm have done, each for itself */
typedef struct {
    volatile uint64_t         begun;
    volatile uint64_t         done;
} table_work_t;


typedef struct {
    ngx_atomic_t              msec;       /* the clock of all */
    table_work_t              work[TABLE_CHILDREN];
} table_storm_t;


ngx_pid_t                     ngx_pid;
ngx_uint_t                    ngx_pagesize;
ngx_uint_t                    ngx_pagesize_shift;
ngx_uint_t                    ngx_cacheline_size;
volatile ngx_msec_t           ngx_current_msec;
volatile ngx_cycle_t         *ngx_cycle;
ngx_rbtree_t                  ngx_event_timer_rbtree;
uint32_t                     *ngx_crc32_table_short;
static uint32_t               table_crc32[16];
static ngx_cycle_t            table_cycle;
static ngx_log_t              table_log;

/* the memory of one reader, from its beginning again */
static ngx_http_dsem_processes_t        *table_processes;
static ngx_http_dsem_counters_shared_t  *table_counters;
static u_char                 table_memory[4 * TABLE_LARGE];
static size_t                 table_used;


/* what it needs of nginx, whose sources may not be here */

void
ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
    const char *fmt, ...)
{
    printf("log: %s\n", fmt);
}


void *
ngx_palloc(ngx_pool_t *pool, size_t size)
{
    size_t  used;

    used = table_used;
    table_used += ngx_align(size, 16);

    return (table_used > sizeof(table_memory)) ? NULL : &table_memory[used];
}


void *
ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_palloc(pool, size);
}


void *
ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    void  *p;

    p = ngx_palloc(pool, size);

    return p ? memset(p, 0, size) : NULL;
}


void *
ngx_array_push(ngx_array_t *array)
{
    u_char  *last;

    if (array->nelts == array->nalloc) {
        last = ngx_palloc(array->pool, 2 * array->nalloc * array->size);
        if (last == NULL) {
            return NULL;
        }

        memcpy(last, array->elts, array->nelts * array->size);
        array->elts = last;
        array->nalloc *= 2;
    }

    last = (u_char *) array->elts + array->size * array->nelts++;

    return last;
}


void *
ngx_alloc(size_t size, ngx_log_t *log)
{
    return malloc(size);
}


void *
ngx_calloc(size_t size, ngx_log_t *log)
{
    return calloc(1, size);
}


void *
ngx_slab_calloc(ngx_slab_pool_t *pool, size_t size)
{
    return NULL;
}


void
ngx_rbtree_insert(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
}


void
ngx_rbtree_delete(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
}


ngx_int_t
ngx_memn2cmp(u_char *s1, u_char *s2, size_t n1, size_t n2)
{
    int  rc;

    rc = memcmp(s1, s2, ngx_min(n1, n2));

    return rc ? rc : (ngx_int_t) n1 - (ngx_int_t) n2;
}


u_char * ngx_cdecl
ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    va_list    args;
    ngx_pid_t  pid;

    /* the only one is "/proc/%P/stat%Z" */

    va_start(args, fmt);
    pid = va_arg(args, ngx_pid_t);
    va_end(args);

    return buf + sprintf((char *) buf, "/proc/%d/stat", (int) pid);
}


off_t
ngx_atoof(u_char *line, size_t n)
{
    return atoll((char *) line);
}


static void
table_ok(ngx_uint_t ok, const char *name)
{
    printf("%s %s\n", ok ? "ok" : "not ok", name);
    fflush(stdout);
}


static void *
table_shared(size_t size)
{
    void  *p;

    p = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_ANON|MAP_SHARED, -1, 0);

    if (p == MAP_FAILED) {
        exit(2);
    }

    return p;
}


/* this process is one of the users of the table */

static void
table_enter(void)
{
    if (ngx_http_dsem_process_enter(table_processes) != NGX_OK
        || ngx_http_dsem_counters_init(table_counters, 0) != NGX_OK)
    {
        exit(2);
    }
}


/* a child, which begins with what its parent has */

static void
table_process(void)
{
    ngx_pid = getpid();
    table_enter();
}


static void
table_leave(void)
{
    ngx_http_dsem_process_leave();
}


/* a new table; this process is one of its users */

static ngx_http_dsem_counters_shared_t *
table_new(size_t size)
{
    size_t  list;

    list = TABLE_PROCESSES * sizeof(ngx_http_dsem_process_t);

    table_processes = table_shared(sizeof(ngx_http_dsem_processes_t) + list);
    table_processes->n = TABLE_PROCESSES;
    table_processes->processes =
                              (ngx_http_dsem_process_t *) &table_processes[1];

    table_counters = ngx_http_dsem_counters_layout(table_shared(size), size);

    table_enter();

    return table_counters;
}


static void
table_seconds(ngx_uint_t n)
{
    ngx_current_msec += n * 1024;
}


static void
table_turn(void)
{
    ngx_http_dsem_counters_maintain(ngx_http_dsem_counters.shared);
    ngx_http_dsem_processes_sweep();
    ngx_http_dsem_cells_sweep();
}


static void
table_name(ngx_http_dsem_counted_t *counted, ngx_str_t *name, u_char *buf,
    ngx_uint_t n)
{
    name->data = buf;
    name->len = sprintf((char *) buf, "name:%lu", (unsigned long) n);

    memset(counted, 0, sizeof(ngx_http_dsem_counted_t));

    counted->name = name;
    counted->hash = ngx_crc32_short(name->data, name->len);
}


/* a name is used once, and its user goes */

static void
table_count(ngx_uint_t n, ngx_uint_t which, ngx_uint_t times)
{
    u_char                    buf[64];
    ngx_str_t                 name;
    ngx_http_dsem_counted_t   counted;

    table_name(&counted, &name, buf, n);
    ngx_http_dsem_counters_add(&counted, which, times);
}


static uint64_t
table_of(ngx_uint_t n, ngx_uint_t which)
{
    u_char                    buf[64];
    ngx_str_t                 name;
    ngx_http_dsem_counted_t   counted;
    ngx_http_dsem_figures_t   figures;

    table_name(&counted, &name, buf, n);

    if (ngx_http_dsem_figures_read_one(&name, &figures) != NGX_OK) {
        return 0;
    }

    return figures.values[which];
}


static ngx_uint_t
table_wants(void *data, ngx_str_t *name)
{
    return 0;
}


/* over all names, or those without a row alone */

static uint64_t
table_sum(ngx_uint_t which, ngx_uint_t last, ngx_uint_t *names)
{
    uint64_t                          sum;
    ngx_uint_t                        i;
    ngx_http_dsem_figures_t         **figures;
    ngx_http_dsem_counters_reader_t   reader;

    table_used = 0;

    reader.wants = table_wants;
    reader.spare = NGX_MAX_INT_T_VALUE;

    (void) ngx_http_dsem_figures_begin(&reader, NULL);

    while (ngx_http_dsem_figures_read(&reader) == NGX_AGAIN) {
        /* void */
    }

    sum = reader.other.values[which];
    figures = reader.names.elts;

    for (i = 0; i < reader.names.nelts && !last; i++) {
        sum += figures[i]->values[which];
    }

    *names = reader.names.nelts;

    return sum;
}


/* a reader with few places, of so many rows */

static void
table_pieces(ngx_uint_t nrows)
{
    ngx_uint_t                        pieces;
    ngx_http_dsem_counters_reader_t   reader;

    table_used = 0;

    reader.wants = table_wants;
    reader.spare = 10;

    (void) ngx_http_dsem_figures_begin(&reader, NULL);

    for (pieces = 1;
         ngx_http_dsem_figures_read(&reader) == NGX_AGAIN;
         pieces++)
    {
        /* void */
    }

    table_ok(pieces == (nrows + 255) / 256, "read: in pieces");
    table_ok(reader.names.nelts == 10
             && reader.partial
             && reader.other.values[NGX_HTTP_DSEM_COUNT_PASSED] == nrows - 10
             && reader.other.periods[0].n[0] == nrows - 10,
             "read: what has no place is other");
}


/* many names, each used once; some are used again and again */

static void
table_many(ngx_uint_t n)
{
    uint64_t                          popular, other;
    ngx_uint_t                        i, j, names, nrows;
    ngx_http_dsem_counters_shared_t  *shared;

    shared = table_new(TABLE_LARGE);
    nrows = shared->rows->nrows;

    printf("note %lu names in 1m\n", (unsigned long) nrows - 1);
    table_ok(nrows > 500, "500 names in 1m");

    for (i = 0; i < nrows - 1; i++) {
        table_count(i, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    }

    other = table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 1, &names);
    table_ok(other == 0 && names == nrows - 1, "every row is used");

    table_pieces(nrows - 1);

    for (i = 0; i < n; i++) {
        table_count(1000 + i, NGX_HTTP_DSEM_COUNT_REJECTED, 1);

        if (i % 100 == 0) {
            ngx_current_msec += 500;
            for (j = 0; j < 10; j++) {
                table_count(j, NGX_HTTP_DSEM_COUNT_QUEUED, 1);
            }
            table_turn();
        }
    }

    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == nrows - 1
             && table_sum(NGX_HTTP_DSEM_COUNT_REJECTED, 0, &names) == n,
             "many names: no count is lost");
    table_ok(names <= nrows - 1, "many names: no more rows");

    popular = 0;
    for (j = 0; j < 10; j++) {
        popular += table_of(j, NGX_HTTP_DSEM_COUNT_QUEUED)
                   + table_of(j, NGX_HTTP_DSEM_COUNT_PASSED);
    }

    table_ok(popular == 10 * ((n + 99) / 100) + 10,
             "many names: popular ones keep their rows");

    other = table_sum(NGX_HTTP_DSEM_COUNT_REJECTED, 1, &names);
    table_ok(other > n - nrows && other < n, "many names: rest is other");
}


/* no row can be had: later one is */

static void
table_full(void)
{
    u_char                            buf[64];
    ngx_str_t                         name;
    ngx_uint_t                        i, names, n;
    ngx_http_dsem_counted_t           counted;
    ngx_http_dsem_counters_shared_t  *shared;

    shared = table_new(TABLE_SMALL);
    n = shared->rows->nrows - 1;

    for (i = 0; i < n; i++) {
        table_count(i, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    }

    table_name(&counted, &name, buf, 1000);
    ngx_http_dsem_counters_open(&counted);
    counted.cell->in_use = 3;
    ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, 1);

    table_ok(table_of(1000, NGX_HTTP_DSEM_COUNT_PASSED) == 0
             && table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 1, &names) == 1,
             "full: new name counts in other");

    table_seconds(6);
    table_turn();
    ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, 1);

    table_ok(table_of(1000, NGX_HTTP_DSEM_COUNT_PASSED) == 1,
             "full: it has a row when others are not used");
    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == n + 2
             && table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 1, &names) == 2,
             "full: one other name is folded");

    /* its own row goes to another name, while it is kept by its user */

    table_seconds(6);

    for (i = 0; i < n; i++) {
        table_count(2000 + i, NGX_HTTP_DSEM_COUNT_TIMEOUT, 1);
    }

    ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_TIMEOUT, 1);

    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_TIMEOUT, 0, &names) == n + 1
             && table_sum(NGX_HTTP_DSEM_COUNT_TIMEOUT, 1, &names) == 1,
             "renamed: count of its user is not of the new name");

    table_seconds(6);
    table_turn();
    ngx_http_dsem_counters_keep(&counted);
    ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_TIMEOUT, 1);

    table_ok(table_of(1000, NGX_HTTP_DSEM_COUNT_TIMEOUT) == 1,
             "renamed: user finds a row again");

    /* a name that is kept, though not counted, has its row for ever */

    for (i = 0; i < 100 * n; i++) {
        if (i % n == 0) {
            table_seconds(3);
            ngx_http_dsem_counters_keep(&counted);
        }
        table_count(10000 + i, NGX_HTTP_DSEM_COUNT_ERROR, 1);
    }

    table_ok(table_of(1000, NGX_HTTP_DSEM_COUNT_TIMEOUT) == 1,
             "kept: flood does not take its row");
    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_ERROR, 0, &names) == 100 * n,
             "kept: no count is lost");
}


/* the clock of nginx wraps, on 32 bits after 49 days: rows grow old as ever */

static void
table_wrap(void)
{
    ngx_uint_t                        i, n, names;
    ngx_msec_t                        now;
    ngx_http_dsem_counters_shared_t  *shared;

    now = ngx_current_msec;
    ngx_current_msec = (ngx_msec_t) -3000;

    shared = table_new(TABLE_SMALL);
    n = shared->rows->nrows - 1;

    for (i = 0; i < n; i++) {
        table_count(i, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    }

    table_seconds(5);
    table_count(n - 1, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    table_seconds(3);
    table_count(1000, NGX_HTTP_DSEM_COUNT_PASSED, 1);

    table_ok(table_of(1000, NGX_HTTP_DSEM_COUNT_PASSED) == 1,
             "clock wraps: an unused row is taken");
    table_ok(table_of(n - 1, NGX_HTTP_DSEM_COUNT_PASSED) == 2
             && table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == n + 2,
             "clock wraps: a used one keeps its name");

    ngx_current_msec = now;
}


/*
 * A process dies while it changes the name of a row.  used: its pid is that of
 * another one when this is found out.
 */

static void
table_died(ngx_uint_t used)
{
    u_char                   buf[64];
    ngx_str_t                name;
    ngx_pid_t                pid;
    ngx_uint_t               i, names;
    ngx_http_dsem_row_t     *row;
    ngx_http_dsem_counted_t  counted;

    (void) table_new(TABLE_SMALL);

    table_name(&counted, &name, buf, 1);
    ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, 3);

    row = counted.row;
    pid = fork();

    if (pid == 0) {
        table_process();
        (void) ngx_http_dsem_row_own(row);
        row->version++;
        _exit(0);
    }

    waitpid(pid, NULL, 0);

    for (i = 0; i < TABLE_PROCESSES && used; i++) {
        if (table_processes->processes[i].pid == (ngx_atomic_uint_t) pid) {
            table_processes->processes[i].pid = 1;
        }
    }

    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == 3
             && table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 1, &names) == 3
             && names == 0,
             "died: counts are of the other names");

    table_turn();

    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 1, &names) == 3
             && row->owner == 0 && row->len == 0,
             used ? "died: its row is free, its pid used again"
                  : "died: its row is free");

    ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    table_ok(table_of(1, NGX_HTTP_DSEM_COUNT_PASSED) == 1
             && table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == 4,
             "died: the name has a row again");
}


/* names of one hash have 16 rows */

static void
table_crowd(void)
{
    u_char                   buf[64];
    ngx_str_t                name;
    ngx_uint_t               i, names, place;
    ngx_atomic_uint_t        version;
    ngx_http_dsem_counted_t  counted;

    (void) table_new(TABLE_LARGE);

    for (i = 0; i < 40; i++) {
        table_name(&counted, &name, buf, i);
        counted.hash = 77;
        ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    }

    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == 40
             && names == 16
             && table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 1, &names) == 24,
             "one hash: 16 rows, rest is other");

    table_seconds(6);

    for (i = 39; i > 19; i--) {
        table_name(&counted, &name, buf, i);
        counted.hash = 77;
        ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    }

    table_name(&counted, &name, buf, 39);
    place = 0;

    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == 60
             && names == 16
             && ngx_http_dsem_rows_find(ngx_http_dsem_counters_rows(), &name,
                                        77, &place, &version),
             "one hash: later names replace unused ones");
}


/* 35 periods, each with as many as its number */

static void
table_history(void)
{
    u_char                            buf[64];
    ngx_str_t                         name;
    ngx_uint_t                        i, bad;
    ngx_http_dsem_counted_t           counted;
    ngx_http_dsem_figures_t           figures;
    ngx_http_dsem_counters_shared_t  *shared;

    shared = table_new(TABLE_SMALL);
    table_name(&counted, &name, buf, 1);

    for (i = 1; i <= 35; i++) {
        ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, i);
        ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_QUEUED, 1);
        ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_ERROR, 2);

        if (i == 3) {
            (void) ngx_http_dsem_figures_read_one(&name, &figures);
            table_ok(figures.nperiods == 3
                     && figures.periods[0].n[0] == 2
                     && figures.periods[2].n[0] == 4,
                     "history: three periods");
        }

        if (i < 35) {
            shared->created -= NGX_HTTP_DSEM_PERIOD * 1000;
            table_turn();
        }
    }

    (void) ngx_http_dsem_figures_read_one(&name, &figures);

    for (bad = 0, i = 0; i < 30; i++) {
        bad += figures.periods[i].n[0] != i + 7
               || figures.periods[i].n[3] != 2
               || figures.periods[i].n[1] != 0;
    }

    table_ok(figures.nperiods == 30 && bad == 0, "history: last 30 periods");

    shared->created -= (uint64_t) 100 * NGX_HTTP_DSEM_PERIOD * 1000;
    table_turn();
    (void) ngx_http_dsem_figures_read_one(&name, &figures);

    for (bad = 0, i = 0; i < 30; i++) {
        bad += figures.periods[i].n[0] != 0;
    }

    table_ok(figures.nperiods == 30 && bad == 0, "history: a long pause");
}


static void
table_histogram(void)
{
    u_char                    buf[64];
    ngx_str_t                 name;
    uint64_t                 *wait, *hold;
    ngx_uint_t                i;
    ngx_http_dsem_counted_t   counted;
    ngx_http_dsem_figures_t   figures;

    (void) table_new(TABLE_SMALL);
    table_name(&counted, &name, buf, 1);

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS - 1; i++) {
        ngx_http_dsem_counters_observe(&counted, NGX_HTTP_DSEM_VALUE_HOLD,
                                       ngx_http_dsem_counters_bounds[i]);
        ngx_http_dsem_counters_observe(&counted, NGX_HTTP_DSEM_VALUE_WAIT,
                                       ngx_http_dsem_counters_bounds[i] + 1);
    }

    ngx_http_dsem_counters_most(&counted, 7, 2, 9);
    ngx_http_dsem_counters_most(&counted, 5, 3, 9);
    ngx_http_dsem_counters_most(&counted, -1, 0, -1);

    (void) ngx_http_dsem_figures_read_one(&name, &figures);

    wait = &figures.values[NGX_HTTP_DSEM_VALUE_WAIT];
    hold = &figures.values[NGX_HTTP_DSEM_VALUE_HOLD];

    for (i = 0; i < NGX_HTTP_DSEM_NBUCKETS - 1; i++) {
        if (hold[i] != 1 || wait[i + 1] != 1) {
            break;
        }
    }

    /* behind the buckets is the sum */

    table_ok(i == NGX_HTTP_DSEM_NBUCKETS - 1
             && wait[0] == 0
             && hold[i] == 0
             && wait[NGX_HTTP_DSEM_NBUCKETS]
                == hold[NGX_HTTP_DSEM_NBUCKETS] + i,
             "histogram: bounds belong to their buckets");
    table_ok(figures.most_in_use == 7 && figures.most_waiting == 3,
             "highest figures");
    table_ok(figures.limit == 9, "last limit");
}


static void
table_crowd_child(table_storm_t *storm, ngx_uint_t n, ngx_uint_t seed)
{
    u_char                   buf[64];
    ngx_str_t                name;
    ngx_http_dsem_counted_t  counted;

    table_process();
    srandom(seed);

    while (n--) {
        ngx_current_msec = ngx_atomic_fetch_add(&storm->msec, 8192);

        table_name(&counted, &name, buf, random() % 200);
        counted.hash = 77;
        ngx_http_dsem_counters_add(&counted, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    }

    _exit(0);
}


/* processes that all replace names of one hash, all the time */

static void
table_crowd_storm(ngx_uint_t n)
{
    ngx_uint_t                        i, names;
    table_storm_t                    *storm;
    ngx_http_dsem_counters_shared_t  *shared;

    storm = table_shared(sizeof(table_storm_t));
    shared = table_new(TABLE_LARGE);

    for (i = 0; i < TABLE_CHILDREN; i++) {
        if (fork() == 0) {
            table_crowd_child(storm, n, i);
        }
    }

    while (wait(NULL) > 0) { /* void */ }

    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names)
             == n * TABLE_CHILDREN,
             "one hash, renamed by all: no count is lost");
    table_ok(shared->rows->rows[0].len == 0,
             "one hash, renamed by all: row of the others has no name");
}


/* gauges: two processes, one of which is killed */

static void
table_gauges(void)
{
    int                               pipes[2];
    u_char                            buf[64];
    ngx_str_t                         name;
    ngx_pid_t                         pid;
    ngx_uint_t                        used;
    ngx_http_dsem_counted_t           counted;
    ngx_http_dsem_figures_t           figures;
    ngx_http_dsem_counters_shared_t  *shared;

    shared = table_new(TABLE_SMALL);
    table_name(&counted, &name, buf, 1);

    ngx_http_dsem_counters_open(&counted);
    counted.cell->in_use += 2;
    counted.cell->waiting += 1;

    if (pipe(pipes) == -1) {
        exit(2);
    }

    pid = fork();

    if (pid == 0) {
        table_process();
        table_name(&counted, &name, buf, 1);
        ngx_http_dsem_counters_open(&counted);
        counted.cell->in_use += 5;
        counted.cell->idle += 4;
        (void) !write(pipes[1], "x", 1);
        pause();
    }

    (void) !read(pipes[0], buf + 32, 1);

    (void) ngx_http_dsem_figures_read_one(&name, &figures);
    table_ok(figures.in_use == 7 && figures.idle == 4 && figures.waiting == 1,
             "gauges: of two processes");

    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    (void) ngx_http_dsem_figures_read_one(&name, &figures);
    table_ok(figures.in_use == 2 && figures.idle == 0 && figures.waiting == 1,
             "gauges: of a killed process gone");

    used = shared->cells->used;
    table_turn();

    pid = fork();

    if (pid == 0) {
        table_process();
        table_name(&counted, &name, buf, 1);
        ngx_http_dsem_counters_open(&counted);
        ngx_http_dsem_counters_close(&counted);
        table_leave();
        exit(shared->cells->used != used);
    }

    {
        int  status;

        waitpid(pid, &status, 0);
        table_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                 "gauges: its cells are used again");
    }
}


/* gauges: this process has the pid of one that was killed */

static void
table_pid(void)
{
    u_char                    buf[64];
    ngx_str_t                 name;
    ngx_pid_t                 pid;
    ngx_http_dsem_counted_t   counted;
    ngx_http_dsem_figures_t   figures;

    (void) table_new(TABLE_SMALL);
    table_leave();

    pid = fork();

    if (pid == 0) {
        table_process();
        table_name(&counted, &name, buf, 1);
        ngx_http_dsem_counters_open(&counted);
        counted.cell->in_use += 5;
        _exit(0);
    }

    waitpid(pid, NULL, 0);

    ngx_pid = pid;

    table_enter();

    table_name(&counted, &name, buf, 1);
    ngx_http_dsem_counters_open(&counted);
    counted.cell->in_use += 3;

    (void) ngx_http_dsem_figures_read_one(&name, &figures);
    table_ok(figures.in_use == 3, "gauges: not of a killed one with its pid");

    table_turn();

    (void) ngx_http_dsem_figures_read_one(&name, &figures);
    table_ok(figures.in_use == 3, "gauges: its own after a turn");

    ngx_pid = getpid();
}


/* names of a survey: a busy one behind a name that many processes use */

static void
table_names(void)
{
    u_char                          buf[64];
    ngx_str_t                       name;
    ngx_uint_t                      i, n;
    ngx_array_t                     names;
    ngx_http_dsem_counted_t         counted;
    ngx_http_dsem_counters_name_t  *found;

    (void) table_new(TABLE_SMALL);

    for (i = 1; i <= 20; i++) {
        table_count(i, NGX_HTTP_DSEM_COUNT_PASSED, 1);
    }

    for (i = 0; i < 16; i++) {
        table_name(&counted, &name, buf, (i < 15) ? 1 : 20);
        ngx_http_dsem_counters_open(&counted);
        counted.cell->in_use += 1;
    }

    table_used = 0;

    if (ngx_http_dsem_figures_names(NULL, 10, &names) != NGX_OK) {
        exit(2);
    }

    found = names.elts;

    for (i = 0, n = 0; i < names.nelts; i++) {
        n += found[i].busy;
    }

    table_ok(n == 2 && found[1].busy && found[1].name.len == name.len
             && memcmp(found[1].name.data, name.data, name.len) == 0,
             "names: both busy ones, each once");
}


/* processes that end before a turn, every other one killed */

static void
table_short_lives(ngx_uint_t n)
{
    u_char                            buf[64];
    ngx_str_t                         name;
    ngx_pid_t                         pid;
    ngx_uint_t                        i;
    ngx_http_dsem_counted_t           counted;
    ngx_http_dsem_figures_t           figures;
    ngx_http_dsem_counters_shared_t  *shared;

    shared = table_new(TABLE_SMALL);

    for (i = 0; i < n; i++) {
        pid = fork();

        if (pid == 0) {
            table_process();
            table_name(&counted, &name, buf, 1);
            ngx_http_dsem_counters_open(&counted);
            counted.cell->in_use += 1;

            if (i % 2) {
                table_leave();
            }

            _exit(0);
        }

        waitpid(pid, NULL, 0);
    }

    table_process();
    table_name(&counted, &name, buf, 1);
    ngx_http_dsem_counters_open(&counted);
    counted.cell->in_use += 3;

    (void) ngx_http_dsem_figures_read_one(&name, &figures);
    table_ok(figures.in_use == 3, "short lives: gauges are known");
    table_ok(shared->cells->used < 64, "short lives: few cells");
}


static void
table_child(table_storm_t *storm, ngx_uint_t i, ngx_uint_t seed)
{
    table_work_t  *work;

    table_process();
    srandom(seed);

    work = &storm->work[i];

    for ( ;; ) {
        ngx_current_msec = ngx_atomic_fetch_add(&storm->msec, 64);

        work->begun++;
        table_count(random() % 200, NGX_HTTP_DSEM_COUNT_PASSED, 1);
        work->done++;

        if (random() % 64 == 0) {
            table_turn();
        }
    }
}


/* a pid that a process of another user has got since */

static void
table_users(void)
{
    int    status;
    pid_t  pid;

    pid = fork();

    if (pid == 0) {

        if (geteuid() == 0 && setuid(65534) == -1) {
            _exit(4);
        }

        status = ngx_http_dsem_process_gone(1,
                                      ngx_http_dsem_process_started(1) + 1)
                 ? 0 : 1;
        status |= ngx_http_dsem_process_gone(1,
                                            ngx_http_dsem_process_started(1))
                  ? 2 : 0;
        _exit(status);
    }

    (void) waitpid(pid, &status, 0);

    table_ok(WIFEXITED(status) && (WEXITSTATUS(status) & 5) == 0,
             "users: pid of a process that is gone");
    table_ok(WIFEXITED(status) && (WEXITSTATUS(status) & 6) == 0,
             "users: process of another user");
}


/* processes that all change names all the time are killed and stopped */

static void
table_storm(ngx_uint_t kills)
{
    uint64_t                          done, sum, before;
    ngx_pid_t                         pids[TABLE_CHILDREN];
    ngx_uint_t                        i, j, k, n, lost, stuck, names;
    table_storm_t                    *storm;
    ngx_http_dsem_row_t              *row;
    ngx_http_dsem_counters_shared_t  *shared;

    storm = table_shared(sizeof(table_storm_t));
    shared = table_new(TABLE_SMALL);
    stuck = 0;
    lost = 0;

    memset(pids, 0, sizeof(pids));

    for (k = 0; k < kills; k++) {
        i = k % TABLE_CHILDREN;

        if (pids[i]) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
            lost += storm->work[i].begun != storm->work[i].done;
            storm->work[i].begun = storm->work[i].done;
        }

        pids[i] = fork();

        if (pids[i] == 0) {
            table_child(storm, i, k);
        }

        usleep(random() % 2000);

        /* one is stopped: the others go on */

        if (k % 16 == 15) {
            j = (i + 1) % TABLE_CHILDREN;
            kill(pids[i], SIGSTOP);
            before = storm->work[j].done;

            for (n = 0; n < 2000 && storm->work[j].done < before + 200; n++) {
                usleep(1000);
            }

            stuck += (n == 2000);
            kill(pids[i], SIGCONT);
        }
    }

    for (i = 0; i < TABLE_CHILDREN; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
        lost += storm->work[i].begun != storm->work[i].done;
    }

    for (done = 0, i = 0; i < TABLE_CHILDREN; i++) {
        done += storm->work[i].done;
    }

    sum = table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names);

    printf("note %lu counts, %lu kills, %lu in a count; sum %lu\n",
           (unsigned long) done, (unsigned long) kills, (unsigned long) lost,
           (unsigned long) sum);
    table_ok(sum >= done && sum <= done + lost,
             "storm: a kill loses one count at most");
    table_ok(stuck == 0, "storm: a stopped process delays no other");

    table_turn();

    for (n = 0, i = 1; i < shared->rows->nrows; i++) {
        row = &shared->rows->rows[i];
        n += row->owner || (row->version & 1);
    }

    table_ok(n == 0, "storm: no row is left to a dead process");
    table_ok(table_sum(NGX_HTTP_DSEM_COUNT_PASSED, 0, &names) == sum,
             "storm: recovery changes no sum");

    /* and every row can still be had */

    ngx_current_msec = storm->msec + 10240;

    for (n = 0, i = 0; i < shared->rows->nrows - 1; i++) {

        /* a free row is not always found at once */

        for (k = 0; k < 16; k++) {
            table_count(5000 + i, NGX_HTTP_DSEM_COUNT_PASSED, 1);

            if (table_of(5000 + i, NGX_HTTP_DSEM_COUNT_PASSED)) {
                n++;
                break;
            }
        }
    }

    table_ok(n == shared->rows->nrows - 1, "storm: every row is usable");
}


static void
table_crc32_init(void)
{
    uint32_t    c;
    ngx_uint_t  i, bit;

    for (i = 0; i < 16; i++) {
        c = i;

        for (bit = 0; bit < 4; bit++) {
            c = (c & 1) ? (c >> 1) ^ 0xedb88320 : c >> 1;
        }

        table_crc32[i] = c;
    }

    ngx_crc32_table_short = table_crc32;
}


int
main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }

    ngx_pid = getpid();
    ngx_pagesize = getpagesize();
    ngx_cacheline_size = 64;
    ngx_current_msec = 1000000;
    table_cycle.log = &table_log;
    ngx_cycle = &table_cycle;

    table_crc32_init();

    table_many(atoi(argv[1]));
    table_full();
    table_wrap();
    table_died(0);
    table_died(1);
    table_crowd();
    table_crowd_storm(20 * atoi(argv[1]));
    table_history();
    table_histogram();
    table_gauges();
    table_pid();
    table_names();
    table_short_lives(2000);
    table_users();
    table_storm(atoi(argv[2]));

    return 0;
}
