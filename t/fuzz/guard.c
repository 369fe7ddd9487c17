
/*
 * The fuzzer of the guard: the real guard and the real hiredis against a peer
 * that sends replies of any shape.
 *
 * A round is one connection with a few turns of commands and replies.  It
 * depends on the seed and on its number only, so any round can be repeated
 * alone.  A round passes when the process survives, each command is called
 * back exactly once, and all memory is free again.
 *
 * Run by: t/redis/hostile_replies.t, or by hand with AddressSanitizer.
 */


#include "fuzz.h"
#include <getopt.h>
#include <stdio.h>
#include <sys/resource.h>


/* several copies of one reply, as hiredis keeps them, and its buffer */
#define FUZZ_MAX_MEMORY  (24 * 1024 * 1024)

/* of resident memory, after the first rounds; a leak is found earlier */
#define FUZZ_MAX_GROWTH  (16 * 1024 * 1024)

/* rounds until the allocator grows no more */
#define FUZZ_WARM        1000

/* one round in so many sends very long replies */
#define FUZZ_LONG        1000


static void fuzz_round(ngx_uint_t number);
static void fuzz_turn(fuzz_connection_t *connection);
static void fuzz_deliver(fuzz_connection_t *connection);
static void fuzz_long_reply(fuzz_connection_t *connection);
static void fuzz_long_array(fuzz_connection_t *connection);
static size_t fuzz_resident(void);
static void fuzz_abort_handler(int signo);


static ngx_cycle_t     fuzz_cycle;
volatile ngx_cycle_t  *ngx_cycle = &fuzz_cycle;

static uint64_t     fuzz_seed_value = 1;
static ngx_uint_t   fuzz_current;
static ngx_uint_t   fuzz_print;
static ngx_uint_t   fuzz_unguarded;
static ngx_uint_t   fuzz_survived;
static ngx_uint_t   fuzz_answered;
static fuzz_text_t  fuzz_text;


/* freed memory stays long enough to show its use, but memory stays flat */

const char *
__asan_default_options(void)
{
    return "abort_on_error=1:detect_leaks=0:quarantine_size_mb=4";
}


const char *
__ubsan_default_options(void)
{
    return "abort_on_error=1:print_stacktrace=1";
}


int
main(int argc, char **argv)
{
    int          c;
    size_t       resident;
    ngx_uint_t   i, first, rounds, walk, corpus;

    struct rlimit  limit = { 0, 0 };

    static struct option  options[] = {
        { "seed", required_argument, NULL, 's' },
        { "rounds", required_argument, NULL, 'n' },
        { "round", required_argument, NULL, 'r' },
        { "no-guard", no_argument, NULL, 'g' },
        { "memory", no_argument, NULL, 'm' },
        { "corpus", no_argument, NULL, 'c' },
        { NULL, 0, NULL, 0 }
    };

    first = 0;
    rounds = 1000;
    walk = 0;
    corpus = 0;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {

        switch (c) {

        case 's':
            fuzz_seed_value = strtoull(optarg, NULL, 10);
            break;

        case 'n':
            rounds = strtoul(optarg, NULL, 10);
            break;

        case 'r':
            first = strtoul(optarg, NULL, 10);
            rounds = 1;
            fuzz_print = 1;
            break;

        case 'g':
            fuzz_unguarded = 1;
            break;

        case 'm':
            walk = 1;
            break;

        case 'c':
            corpus = 1;
            break;

        default:
            fprintf(stderr, "usage: guard [--seed=n] [--rounds=n] "
                    "[--round=n] [--no-guard] [--memory] "
                    "[--corpus]\n");
            return 2;
        }
    }

    (void) signal(SIGPIPE, SIG_IGN);
    (void) setrlimit(RLIMIT_CORE, &limit);

    if (walk) {
        return fuzz_memory_walk() ? 1 : 0;
    }

    (void) signal(SIGABRT, fuzz_abort_handler);

    fuzz_listen();

    if (corpus) {
        printf("rejected %lu replies\n", (unsigned long) fuzz_corpus());
        fuzz_unlisten();
        return 0;
    }

    resident = 0;

    for (i = first; i < first + rounds; i++) {
        fuzz_round(i);

        if (i == first + FUZZ_WARM) {
            resident = fuzz_resident();
        }
    }

    fuzz_unlisten();

    if (resident && fuzz_resident() > resident + FUZZ_MAX_GROWTH) {
        fuzz_fail("resident memory grew from %zu to %zu", resident,
                  fuzz_resident());
    }

    printf("hiredis %d.%d.%d seed %llu rounds %lu replies %lu alive %lu "
           "peak %zu resident %zu\n", HIREDIS_MAJOR, HIREDIS_MINOR,
           HIREDIS_PATCH, (unsigned long long) fuzz_seed_value,
           (unsigned long) rounds, (unsigned long) fuzz_answered,
           (unsigned long) fuzz_survived, fuzz_memory_peak, fuzz_resident());

    return 0;
}


static void
fuzz_round(ngx_uint_t number)
{
    size_t      used;
    ngx_uint_t  turns;

    static fuzz_connection_t  connection;

    fuzz_current = number;
    fuzz_seed(fuzz_seed_value, number);

    used = fuzz_memory_used;

    ngx_memzero(&connection, sizeof(fuzz_connection_t));
    connection.unguarded = fuzz_unguarded;

    if (fuzz_connect(&connection) != NGX_OK) {
        fuzz_fail("no connection");
    }

    if (fuzz_below(2)) {
        (void) fuzz_subscribe(&connection);

    } else if (fuzz_below(2)) {
        connection.pairs = 1;
        connection.guard.pairs = 1;
    }

    switch (fuzz_below(FUZZ_LONG)) {

    case 0:
        connection.misled = 1;
        fuzz_long_reply(&connection);
        break;

    case 1:
        connection.misled = 1;
        fuzz_long_array(&connection);
        break;
    }

    for (turns = 1 + fuzz_below(6); turns && connection.ac; turns--) {
        fuzz_turn(&connection);
    }

    if (connection.ac) {
        fuzz_survived++;

        if (fuzz_below(2)) {
            fuzz_eof(&connection);
        }
    }

    fuzz_finish(&connection);
    fuzz_answered += connection.nreplies;

    if (fuzz_memory_used != used) {
        fuzz_fail("%zu bytes in use became %zu", used, fuzz_memory_used);
    }

    if (fuzz_memory_peak > FUZZ_MAX_MEMORY) {
        fuzz_fail("%zu bytes in use at once", fuzz_memory_peak);
    }
}


/* a few commands and the replies; one turn in four is good */

static void
fuzz_turn(fuzz_connection_t *connection)
{
    ngx_uint_t  i, n, evil, pending, before;

    n = connection->subscribed ? 0 : fuzz_below(5);

    for (i = 0; i < n; i++) {
        (void) fuzz_send(connection);
    }

    fuzz_write(connection);

    pending = 0;

    for (i = 0; i < connection->ncalls; i++) {
        pending += !(connection->calls[i].replies || connection->calls[i].lost);
    }

    evil = fuzz_below(4);

    if (evil) {
        connection->misled = 1;
        connection->owner_closes = (fuzz_below(16) == 0);
        connection->owner_sends = (fuzz_below(8) == 0);
    }

    before = connection->nreplies;

    fuzz_text.len = 0;
    fuzz_replies(&fuzz_text, connection, pending, evil);
    fuzz_deliver(connection);

    connection->owner_closes = 0;
    connection->owner_sends = 0;

    if (!connection->misled
        && (connection->ac == NULL
            || connection->nreplies - before
               != (connection->subscribed ? 1 : pending)))
    {
        fuzz_fail("good replies were rejected");
    }

    if (evil && fuzz_below(16) == 0) {
        fuzz_close(connection);
    }
}


/* in one piece, in a few, or byte by byte */

static void
fuzz_deliver(fuzz_connection_t *connection)
{
    u_char  *p, *last;
    size_t   max, n;

    p = fuzz_text.data;
    last = p + fuzz_text.len;

    switch (fuzz_below(4)) {

    case 0:
        max = (fuzz_text.len < 256) ? 1 : 64;
        break;

    case 1:
        max = 1 + fuzz_text.len / 3;
        break;

    default:
        max = 16 * 1024;
    }

    while (p < last && connection->ac) {
        n = 1 + fuzz_below(max);
        n = ngx_min(n, (size_t) (last - p));

        fuzz_receive(connection, p, n);
        p += n;
    }
}


/* a string that may end after the connection */

static void
fuzz_long_reply(fuzz_connection_t *connection)
{
    ngx_uint_t  i;

    if (!connection->subscribed) {
        (void) fuzz_send(connection);
    }

    fuzz_write(connection);

    fuzz_text.len = 0;
    fuzz_add(&fuzz_text, "$%lu\r\n", 4096UL * (1 + fuzz_below(2048)));

    while (fuzz_text.len < 16000) {
        fuzz_add(&fuzz_text, "%s", "0123456789012345678901234567890\n");
    }

    for (i = 0; i < 600 && connection->ac; i++) {
        fuzz_receive(connection, fuzz_text.data, fuzz_text.len);
    }
}


/* as many integers as the guard lets in, and some more */

static void
fuzz_long_array(fuzz_connection_t *connection)
{
    ngx_uint_t  i;

    if (!connection->subscribed) {
        (void) fuzz_send(connection);
    }

    fuzz_write(connection);

    fuzz_text.len = 0;
    fuzz_add(&fuzz_text, "*%lu\r\n$1\r\na\r\n",
             256UL * 1024 - 2 + fuzz_below(5));
    fuzz_receive(connection, fuzz_text.data, fuzz_text.len);

    fuzz_text.len = 0;

    while (fuzz_text.len < 16000) {
        fuzz_add(&fuzz_text, ":1\r\n:-9\r\n");
    }

    for (i = 0; i < 100 && connection->ac; i++) {
        fuzz_receive(connection, fuzz_text.data, fuzz_text.len);
    }
}


static size_t
fuzz_resident(void)
{
    FILE           *file;
    unsigned long   size, resident;

    file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%lu %lu", &size, &resident) != 2) {
        fuzz_fail("/proc/self/statm: %s", strerror(errno));
    }

    (void) fclose(file);

    return resident * sysconf(_SC_PAGESIZE);
}


void
fuzz_fail(const char *fmt, ...)
{
    va_list  args;

    fputs("fuzz: ", stderr);

    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);

    fputc('\n', stderr);

    abort();
}


/* the bytes of a round that is repeated */

void
fuzz_show(const char *what, u_char *data, size_t len)
{
    size_t  i;

    if (!fuzz_print) {
        return;
    }

    printf("%s", what);

    for (i = 0; i < len; i++) {
        printf((data[i] < ' ' || data[i] > '~' || data[i] == '\\')
               ? "\\x%02x" : "%c", data[i]);
    }

    printf("\n");
    (void) fflush(stdout);
}


static void
fuzz_abort_handler(int signo)
{
    char  line[128];
    int   n;

    n = snprintf(line, sizeof(line), "fuzz: repeat with --seed=%llu "
                 "--round=%lu\n", (unsigned long long) fuzz_seed_value,
                 (unsigned long) fuzz_current);

    (void) !write(STDERR_FILENO, line, n);

    fuzz_unlisten();
}
