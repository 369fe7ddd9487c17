
/*
 * Memory: each allocation of the program, of the guard and of hiredis passes
 * here, is counted, and fails on demand.
 *
 * The walk lets the k-th allocation fail in the life of two connections, once
 * for each k: alone, and with all that follow.  Each life is a process of its
 * own, because hiredis ends the process at some of them.
 *
 * Linked with --wrap for malloc(), calloc(), realloc(), strdup(), free().
 */


#include "fuzz.h"
#include <execinfo.h>
#include <malloc.h>
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <sys/wait.h>


/* exit statuses of a life */
#define FUZZ_LIFE_FAILED  0     /* an allocation did, and nothing else */
#define FUZZ_LIFE_WHOLE   3     /* none is left to fail */


/* functions that are named of those that lead to an allocation */
#define FUZZ_NFRAMES      6

/* and those of the wrapper itself */
#define FUZZ_NWRAPPERS    3


typedef struct {
    char        *name;
    ngx_uint_t   tried;
    ngx_uint_t   crashed;
} fuzz_step_t;


/* a life's note for its parent: the first allocation that failed */
typedef struct {
    ngx_uint_t   step;
    int          nframes;
    void        *frames[FUZZ_NFRAMES + FUZZ_NWRAPPERS];
} fuzz_memory_at_t;


void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
void __wrap_free(void *p);

static ngx_uint_t fuzz_memory_fails(void);
static void *fuzz_memory_count(void *p);
static ngx_uint_t fuzz_memory_life(ngx_uint_t k, ngx_uint_t all);
static int fuzz_memory_live(void);
static void fuzz_memory_commands(void);
static void fuzz_memory_subscription(void);
static void fuzz_memory_step(ngx_uint_t step);
static void fuzz_memory_site(char *buf, size_t len);


size_t      fuzz_memory_used;
size_t      fuzz_memory_peak;
ngx_uint_t  fuzz_memory_fail_at;     /* 0: none */
ngx_uint_t  fuzz_memory_fail_all;    /* from there on */
ngx_uint_t  fuzz_memory_failed;

static ngx_uint_t         fuzz_memory_calls;
static fuzz_memory_at_t  *fuzz_memory_at;

static fuzz_step_t  fuzz_steps[] = {
    { "connect", 0, 0 },
    { "command", 0, 0 },
    { "write", 0, 0 },
    { "reply", 0, 0 },
    { "close", 0, 0 },
    { "subscribe", 0, 0 },
    { "message", 0, 0 },
    { "close subscription", 0, 0 },
    { NULL, 0, 0 }
};

enum {
    FUZZ_CONNECT = 0,
    FUZZ_COMMAND,
    FUZZ_WRITE,
    FUZZ_REPLY,
    FUZZ_CLOSE,
    FUZZ_SUBSCRIBE,
    FUZZ_MESSAGE,
    FUZZ_END
};


static ngx_uint_t
fuzz_memory_fails(void)
{
    fuzz_memory_calls++;

    if (fuzz_memory_fail_at == 0
        || fuzz_memory_calls < fuzz_memory_fail_at
        || (fuzz_memory_calls > fuzz_memory_fail_at && !fuzz_memory_fail_all))
    {
        return 0;
    }

    if (fuzz_memory_failed++ == 0) {
        fuzz_memory_at->nframes = backtrace(fuzz_memory_at->frames,
                                            FUZZ_NFRAMES + FUZZ_NWRAPPERS);
    }

    errno = ENOMEM;

    return 1;
}


static void *
fuzz_memory_count(void *p)
{
    if (p) {
        fuzz_memory_used += malloc_usable_size(p);
        fuzz_memory_peak = ngx_max(fuzz_memory_peak, fuzz_memory_used);
    }

    return p;
}


void *
__wrap_malloc(size_t size)
{
    return fuzz_memory_fails() ? NULL : fuzz_memory_count(__real_malloc(size));
}


void *
__wrap_calloc(size_t n, size_t size)
{
    return fuzz_memory_fails() ? NULL
                               : fuzz_memory_count(__real_calloc(n, size));
}


void *
__wrap_realloc(void *p, size_t size)
{
    if (fuzz_memory_fails()) {
        return NULL;
    }

    fuzz_memory_used -= p ? malloc_usable_size(p) : 0;

    return fuzz_memory_count(__real_realloc(p, size));
}


char *
__wrap_strdup(const char *s)
{
    char  *p;

    p = __wrap_malloc(strlen(s) + 1);

    return p ? strcpy(p, s) : NULL;
}


void
__wrap_free(void *p)
{
    fuzz_memory_used -= p ? malloc_usable_size(p) : 0;

    __real_free(p);
}


/* the guard's; nginx's own would also log */

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


/* returns how many lives ended in a crash */

ngx_uint_t
fuzz_memory_walk(void)
{
    ngx_uint_t   k, all, crashed;
    fuzz_step_t *step;

    fuzz_memory_at = mmap(NULL, sizeof(fuzz_memory_at_t),
                          PROT_READ|PROT_WRITE, MAP_SHARED|MAP_ANON, -1, 0);

    if (fuzz_memory_at == MAP_FAILED) {
        fuzz_fail("mmap: %s", strerror(errno));
    }

    /* hiredis 0.14 needs memory to close, or ends the process */

    for (all = 0; all < ((HIREDIS_MAJOR > 0) ? 2 : 1); all++) {
        for (k = 1; fuzz_memory_life(k, all) == NGX_OK; k++) {
            /* void */
        }
    }

    crashed = 0;

    for (step = fuzz_steps; step->name; step++) {
        printf("hiredis %d.%d.%d %s: %lu failures, %lu crashes\n",
               HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH, step->name,
               (unsigned long) step->tried, (unsigned long) step->crashed);

        crashed += step->crashed;
    }

    return crashed;
}


/* NGX_DONE: it had no k-th allocation */

static ngx_uint_t
fuzz_memory_life(ngx_uint_t k, ngx_uint_t all)
{
    int    status;
    char   path[64], site[512];
    pid_t  pid;

    (void) fflush(NULL);
    fuzz_memory_at->nframes = 0;

    pid = fork();

    if (pid == -1) {
        fuzz_fail("fork: %s", strerror(errno));
    }

    if (pid == 0) {
        fuzz_memory_fail_at = k;
        fuzz_memory_fail_all = all;

        status = fuzz_memory_live();
        fuzz_unlisten();

        _exit(status);
    }

    if (waitpid(pid, &status, 0) != pid) {
        fuzz_fail("waitpid: %s", strerror(errno));
    }

    if (WIFEXITED(status) && WEXITSTATUS(status) == FUZZ_LIFE_WHOLE) {
        return NGX_DONE;
    }

    if (fuzz_memory_at->nframes == 0) {
        fuzz_fail("no allocation failed, but the life has");
    }

    fuzz_steps[fuzz_memory_at->step].tried++;

    if (WIFEXITED(status) && WEXITSTATUS(status) == FUZZ_LIFE_FAILED) {
        return NGX_OK;
    }

    fuzz_steps[fuzz_memory_at->step].crashed++;

    fuzz_memory_site(site, sizeof(site));

    printf("crash: allocation %lu%s, %s: %s\n", (unsigned long) k,
           all ? " and all after it" : "",
           fuzz_steps[fuzz_memory_at->step].name, site);

    snprintf(path, sizeof(path), "guard.%d.sock", (int) pid);
    (void) unlink(path);

    return NGX_OK;
}


static int
fuzz_memory_live(void)
{
    size_t  used;

    fuzz_listen();
    used = fuzz_memory_used;

    fuzz_memory_commands();
    fuzz_memory_subscription();

    if (fuzz_memory_used != used) {
        fuzz_fail("%zu bytes in use became %zu", used, fuzz_memory_used);
    }

    return fuzz_memory_failed ? FUZZ_LIFE_FAILED : FUZZ_LIFE_WHOLE;
}


static void
fuzz_memory_commands(void)
{
    ngx_uint_t  i;

    static fuzz_text_t        text;
    static fuzz_connection_t  connection;

    connection.numbered = 1;

    fuzz_memory_step(FUZZ_CONNECT);
    (void) fuzz_connect(&connection);

    fuzz_memory_step(FUZZ_COMMAND);

    for (i = 0; i < 3; i++) {
        (void) fuzz_send(&connection);
    }

    fuzz_memory_step(FUZZ_WRITE);
    fuzz_write(&connection);

    fuzz_memory_step(FUZZ_REPLY);

    for (i = 0; i < 3; i++) {
        text.len = 0;
        fuzz_good_reply(&text, i);
        fuzz_receive(&connection, text.data, text.len);
    }

    (void) fuzz_send(&connection);
    fuzz_write(&connection);

    text.len = 0;
    fuzz_add(&text, "-ERR\r\n");
    fuzz_receive(&connection, text.data, text.len);

    (void) fuzz_send(&connection);

    fuzz_memory_step(FUZZ_CLOSE);
    fuzz_finish(&connection);

    if (fuzz_memory_failed == 0 && connection.nreplies != 4) {
        fuzz_fail("%lu replies", (unsigned long) connection.nreplies);
    }
}


static void
fuzz_memory_subscription(void)
{
    static fuzz_text_t        text;
    static fuzz_connection_t  connection;

    fuzz_memory_step(FUZZ_CONNECT);
    (void) fuzz_connect(&connection);

    fuzz_memory_step(FUZZ_SUBSCRIBE);
    (void) fuzz_subscribe(&connection);

    fuzz_memory_step(FUZZ_WRITE);
    fuzz_write(&connection);

    fuzz_memory_step(FUZZ_MESSAGE);

    text.len = 0;
    fuzz_good_message(&text, "subscribe", ":1");
    fuzz_receive(&connection, text.data, text.len);

    text.len = 0;
    fuzz_good_message(&text, "message", "$2\r\n17");
    fuzz_receive(&connection, text.data, text.len);

    fuzz_memory_step(FUZZ_END);
    fuzz_finish(&connection);
}


/* the step of the allocation that fails */

static void
fuzz_memory_step(ngx_uint_t step)
{
    if (fuzz_memory_failed == 0) {
        fuzz_memory_at->step = step;
    }
}


/* the functions that led to the allocation that failed, the last one first */

static void
fuzz_memory_site(char *buf, size_t len)
{
    int     i;
    char    name[64];
    size_t  n;

    n = 0;
    buf[0] = '\0';

    for (i = 0; i < fuzz_memory_at->nframes && n < len; i++) {
        __sanitizer_symbolize_pc(fuzz_memory_at->frames[i], "%f", name,
                                 sizeof(name));

        if (strncmp(name, "fuzz_memory_", 12) == 0
            || strncmp(name, "__wrap_", 7) == 0
            || strstr(name, "backtrace"))
        {
            continue;
        }

        if (strncmp(name, "fuzz_", 5) == 0) {
            return;
        }

        n += snprintf(buf + n, len - n, "%s%s", n ? " < " : "", name);
    }
}
