
/*
 * What workers of a node share about limits, without nginx: two of them at one
 * time, with a clock that stands still, and steps of the second one in the
 * middle of a function of the first.
 *
 * Prints one line for each assertion, "ok" or "not ok" and its name.
 */


/* the clock of this file, for the inline function of monotonic.h */
#define clock_gettime  memo_clock

#include "ngx_http_dsem_process.c"
#include <stdio.h>

#undef ngx_memory_barrier
#define ngx_memory_barrier()  memo_barrier()

static void memo_barrier(void);

#include "ngx_http_dsem_memo.c"


#define MEMO_MINUTE   60000

/* configured, and ordered */
#define MEMO_LIMIT    20
#define MEMO_ORDER    2


typedef void (*memo_step_pt)(void);


ngx_pid_t                     ngx_pid;
volatile ngx_cycle_t         *ngx_cycle;
uint32_t                     *ngx_crc32_table_short;

static ngx_http_dsem_memo_t   memo;
static uint64_t               memo_now = 10 * MEMO_MINUTE;

/*
 * what the second worker does when the first one has read the clock, or writes
 * the name of the first place
 */
static memo_step_pt           memo_clock_step;
static memo_step_pt           memo_name_step;

static ngx_uint_t             memo_lines;

/* names, each with its checksum */
static ngx_str_t              memo_x = ngx_string("x");
static ngx_str_t              memo_y = ngx_string("y");


/* what the sources need of nginx, which may not be here; none is called */

void *
ngx_alloc(size_t size, ngx_log_t *log)
{
    return NULL;
}


off_t
ngx_atoof(u_char *line, size_t n)
{
    return 0;
}


u_char * ngx_cdecl
ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    *buf = '\0';

    return buf;
}


/* each step is made once */

static void
memo_step(memo_step_pt *step)
{
    memo_step_pt  handler;

    handler = *step;
    *step = NULL;

    if (handler) {
        handler();
    }
}


int
memo_clock(clockid_t id, struct timespec *ts)
{
    ts->tv_sec = memo_now / 1000;
    ts->tv_nsec = memo_now % 1000 * 1000000;

    memo_step(&memo_clock_step);

    return 0;
}


static void
memo_barrier(void)
{
    __sync_synchronize();

    if (memo.lower[0].value == NGX_HTTP_DSEM_MEMO_TAKEN) {
        memo_step(&memo_name_step);
    }
}


static void
memo_is(ngx_int_t got, ngx_int_t expected, const char *name)
{
    printf("%sok %s\n", got == expected ? "" : "not ", name);

    if (got != expected) {
        printf("got %ld, expected %ld\n", (long) got, (long) expected);
    }
}


static void
memo_foreign_later(void)
{
    memo_now++;
    memo_lines += ngx_http_dsem_memo_foreign(&memo);
}


static void
memo_foreign_test(void)
{
    ngx_uint_t  i;

    memo_is(ngx_http_dsem_memo_foreign(&memo), 1, "foreign message logged");

    for (i = 0; i < 10; i++) {
        memo_now += 1000;
        memo_clock_step = memo_foreign_later;
        memo_lines += ngx_http_dsem_memo_foreign(&memo);
    }

    memo_is(memo_lines, 0, "once, by workers that receive some at a time");

    memo_now += MEMO_MINUTE;
    memo_is(ngx_http_dsem_memo_foreign(&memo), 1, "again after a minute");
    memo_is(ngx_http_dsem_memo_foreigners(&memo), 22, "all counted");
}


static void
memo_order_later(void)
{
    memo_now++;
    memo_lines += ngx_http_dsem_memo_claim_order(&memo, 1001, 1);
}


static void
memo_order_test(void)
{
    ngx_uint_t  i;

    memo_lines = 0;

    for (i = 1; i <= NGX_HTTP_DSEM_MEMO_ORDERS; i++) {
        memo_lines += ngx_http_dsem_memo_claim_order(&memo, i, 1);
    }

    memo_is(memo_lines, NGX_HTTP_DSEM_MEMO_ORDERS, "malformed orders logged");
    memo_is(ngx_http_dsem_memo_claim_order(&memo, 1000, 1), 1, "one more");

    memo_now += MEMO_MINUTE;
    memo_lines = 0;
    memo_clock_step = memo_order_later;
    memo_lines += ngx_http_dsem_memo_claim_order(&memo, 1002, 1);

    memo_is(memo_lines, 1, "one a minute, by workers that meet two at a time");
}


/* an order changes, a worker has read a message of before last */

static void
memo_order_late_test(void)
{
    ngx_memzero(&memo, sizeof(ngx_http_dsem_memo_t));

    memo_is(ngx_http_dsem_memo_claim_order(&memo, 1, 1), 1, "malformed order");
    memo_is(ngx_http_dsem_memo_claim_order(&memo, 1, 3), 1, "another one");
    memo_is(ngx_http_dsem_memo_claim_order(&memo, 1, 1), 0, "not that before");
    memo_is(ngx_http_dsem_memo_claim_order(&memo, 1, 3), 0,
            "nor the other one again");
    memo_is(ngx_http_dsem_memo_claim_order(&memo, 1, 5), 1, "a third one");

    memo_now += MEMO_MINUTE;
    memo_is(ngx_http_dsem_memo_claim_order(&memo, 1, 3), 1,
            "that before, after a minute");

    ngx_memzero(&memo, sizeof(ngx_http_dsem_memo_t));
}


/* the reply to a command that is sent now */

static void
memo_reply(ngx_str_t *name, ngx_int_t limit)
{
    memo_now++;

    ngx_http_dsem_memo_set_lower(&memo, name, name->data[0], MEMO_LIMIT, limit,
                                 0, memo_now);
}


static void
memo_reply_ordered(void)
{
    memo_reply(&memo_x, MEMO_ORDER);
}


static ngx_int_t
memo_lower(ngx_str_t *name)
{
    return ngx_http_dsem_memo_lower(&memo, name, name->data[0], MEMO_LIMIT,
                                    MEMO_LIMIT);
}


/* an order of x, with a place or two, ends, and one of y takes the first */

static void
memo_places_end(const char *name)
{
    memo_is(memo_lower(&memo_x), MEMO_ORDER, "order remembered");

    memo_reply(&memo_x, MEMO_LIMIT);
    memo_is(memo_lower(&memo_x), MEMO_LIMIT, "its end, too");

    memo_reply(&memo_y, MEMO_ORDER);
    memo_is(memo_lower(&memo_y), MEMO_ORDER, "order of another name");
    memo_is(memo_lower(&memo_x), MEMO_LIMIT, name);

    ngx_memzero(&memo, sizeof(ngx_http_dsem_memo_t));
}


/* the second worker reads its reply when the first one has a newer one */

static void
memo_late_test(void)
{
    uint64_t  sent;

    sent = ++memo_now;

    memo_reply(&memo_x, MEMO_ORDER);

    ngx_http_dsem_memo_set_lower(&memo, &memo_x, memo_x.data[0], MEMO_LIMIT,
                                 MEMO_LIMIT, 0, sent);
    memo_is(memo_lower(&memo_x), MEMO_ORDER, "order of a first reply kept");

    sent = ++memo_now;

    memo_reply(&memo_x, MEMO_LIMIT);

    ngx_http_dsem_memo_set_lower(&memo, &memo_x, memo_x.data[0], MEMO_LIMIT,
                                 MEMO_ORDER, 1, sent);
    memo_is(memo_lower(&memo_x), MEMO_LIMIT, "no order that has ended");
    memo_is(ngx_http_dsem_memo_paused(&memo, &memo_x, memo_x.data[0]), 0,
            "no pause");

    ngx_http_dsem_memo_set_lower(&memo, &memo_x, memo_x.data[0], MEMO_LIMIT,
                                 MEMO_ORDER, 1, memo_now);
    memo_is(memo_lower(&memo_x), MEMO_ORDER, "of one time the last reply");

    ngx_memzero(&memo, sizeof(ngx_http_dsem_memo_t));
}


/* two workers meet an order at a time: neither finds a place of its name */

static void
memo_places_test(void)
{
    ngx_uint_t  i;

    for (i = 0; i < 2; i++) {
        ngx_http_dsem_memo_take(&memo, &memo_x, memo_x.data[0],
                                2 * (MEMO_ORDER + 1), memo_now);
    }

    memo_places_end("no second place, taken after the first one");

    memo_name_step = memo_reply_ordered;
    memo_reply_ordered();

    memo_places_end("no second place, taken while the first one is");
}


int
main(void)
{
    memo_foreign_test();
    memo_order_test();
    memo_order_late_test();
    memo_late_test();
    memo_places_test();

    return 0;
}
