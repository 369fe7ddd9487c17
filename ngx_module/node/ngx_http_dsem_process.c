
/*
 * Processes: those of this node that use its shared memory.
 *
 * Owns the list of them, and says which are still there: what a process has
 * in shared memory bears its number, and is free, or to be given back, once
 * that process is gone.  A pid may be used again, a number never is: a process
 * is one pid with the time of its start, and one that is not in the list any
 * more has ended.
 *
 * A process for which the list has no room has no number, and tries again once
 * a second: others of a storm of reloads end, and it may live for weeks.
 *
 * There is no lock: a process that is stopped, or killed, at any point in here
 * delays no other.  One that has died is taken out by the number that it had,
 * so its place is freed once, and not that of its successor.
 *
 * Called by: zone, when a process starts and ends, and for its sessions; cells
 * (gauges) and rows (names), for what is the process's own; counters, once a
 * second; zone, memo and limits, for replies that are late.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_process.h"


#define NGX_HTTP_DSEM_STAT_LEN      512

/* in /proc/<pid>/stat, counted after the name: threads, and the start time */
#define NGX_HTTP_DSEM_STAT_THREADS  17
#define NGX_HTTP_DSEM_STAT_FIELD    19


/* this process */
typedef struct {
    ngx_http_dsem_processes_t    *processes;
    ngx_http_dsem_processes_t     single;    /* the list of a single process */
    ngx_http_dsem_process_t       process;   /* in it */

    ngx_http_dsem_process_t      *own;       /* NULL: no room in the list yet */
    ngx_atomic_uint_t             number;    /* 0: none */

    ngx_atomic_uint_t            *alive;     /* numbers, at the last refresh */
    ngx_uint_t                    nalive;
    ngx_atomic_uint_t             last;      /* of them, the last found */
} ngx_http_dsem_process_self_t;


static void ngx_http_dsem_process_register(
    ngx_http_dsem_process_self_t *self);
static ngx_http_dsem_process_t *ngx_http_dsem_process_find(
    ngx_atomic_uint_t number);
static ngx_uint_t ngx_http_dsem_process_there(
    ngx_http_dsem_process_t *process, ngx_atomic_uint_t *number);
static ngx_uint_t ngx_http_dsem_process_gone(ngx_pid_t pid, uint64_t started);
static uint64_t ngx_http_dsem_process_started(ngx_pid_t pid);


static ngx_http_dsem_process_self_t  ngx_http_dsem_process_self;


/*
 * This process enters the list that is in its shared memory; NULL: a single
 * process.  NGX_ERROR: no memory.  It takes out what others have left: where
 * each process ends within a second none lives until a turn.
 */

ngx_int_t
ngx_http_dsem_process_enter(ngx_http_dsem_processes_t *processes)
{
    ngx_http_dsem_process_self_t  *self;

    self = &ngx_http_dsem_process_self;

    ngx_memzero(self, sizeof(ngx_http_dsem_process_self_t));

    if (processes == NULL) {
        processes = &self->single;
        processes->n = 1;
        processes->processes = &self->process;
    }

    self->processes = processes;

    self->alive = ngx_alloc(processes->n * sizeof(ngx_atomic_uint_t),
                            ngx_cycle->log);
    if (self->alive == NULL) {
        return NGX_ERROR;
    }

    ngx_http_dsem_processes_sweep();
    ngx_http_dsem_process_register(self);

    return NGX_OK;
}


/* where no place is left it has no number yet */

static void
ngx_http_dsem_process_register(ngx_http_dsem_process_self_t *self)
{
    ngx_uint_t                  i;
    ngx_http_dsem_process_t    *process;
    ngx_http_dsem_processes_t  *processes;

    processes = self->processes;

    for (i = 0; i < processes->n; i++) {
        process = &processes->processes[i];

        if (process->pid == 0
            && ngx_atomic_cmp_set(&process->pid, 0,
                                  (ngx_atomic_uint_t) ngx_pid))
        {
            ngx_http_dsem_process_raise(&processes->used, i + 1);

            process->started = ngx_http_dsem_process_started(ngx_pid);

            self->own = process;
            self->number = ngx_atomic_fetch_add(&processes->number, 1) + 1;

            ngx_memory_barrier();

            process->number = self->number;

            return;
        }
    }
}


/* the list had no room for this process */

void
ngx_http_dsem_process_retry(void)
{
    ngx_http_dsem_process_register(&ngx_http_dsem_process_self);
}


/* the process ends; what bears its number is free from then on */

void
ngx_http_dsem_process_leave(void)
{
    ngx_http_dsem_process_self_t  *self;

    self = &ngx_http_dsem_process_self;

    if (self->own) {
        self->own->number = 0;

        ngx_memory_barrier();

        self->own->pid = 0;
    }

    if (self->alive) {
        ngx_free(self->alive);
    }

    ngx_memzero(self, sizeof(ngx_http_dsem_process_self_t));
}


/* of this process; 0: the list has no room for it yet */

ngx_atomic_uint_t
ngx_http_dsem_process_number(void)
{
    return ngx_http_dsem_process_self.number;
}


/* whether the process is in the list, be it alive or not */

ngx_uint_t
ngx_http_dsem_process_registered(ngx_atomic_uint_t number)
{
    return number == ngx_http_dsem_process_self.number
           || ngx_http_dsem_process_find(number);
}


/* whether it is alive now: a call of the system */

ngx_uint_t
ngx_http_dsem_process_alive(ngx_atomic_uint_t number)
{
    ngx_atomic_uint_t         now;
    ngx_http_dsem_process_t  *process;

    if (number == ngx_http_dsem_process_self.number) {
        return 1;
    }

    process = ngx_http_dsem_process_find(number);

    return process
           && ngx_http_dsem_process_there(process, &now)
           && now == number;
}


static ngx_http_dsem_process_t *
ngx_http_dsem_process_find(ngx_atomic_uint_t number)
{
    ngx_uint_t                  i;
    ngx_http_dsem_processes_t  *processes;

    processes = ngx_http_dsem_process_self.processes;

    for (i = 0; i < processes->used; i++) {
        if (processes->processes[i].number == number) {
            return &processes->processes[i];
        }
    }

    return NULL;
}


/* its number is 0 until it has one */

static ngx_uint_t
ngx_http_dsem_process_there(ngx_http_dsem_process_t *process,
    ngx_atomic_uint_t *number)
{
    uint64_t           started;
    ngx_atomic_uint_t  pid;

    *number = process->number;

    ngx_memory_barrier();

    pid = process->pid;
    started = *number ? process->started : 0;

    ngx_memory_barrier();

    if (pid == 0 || process->number != *number) {
        /* it is being changed */
        return 1;
    }

    /* another one with the pid of this process: a dead one had it before */

    if (pid == (ngx_atomic_uint_t) ngx_pid) {
        return process == ngx_http_dsem_process_self.own;
    }

    return !ngx_http_dsem_process_gone((ngx_pid_t) pid, started);
}


/* for ngx_http_dsem_process_was_alive(): which ones are alive now */

void
ngx_http_dsem_processes_refresh(void)
{
    ngx_uint_t                     i;
    ngx_atomic_uint_t              number;
    ngx_http_dsem_process_t       *process;
    ngx_http_dsem_process_self_t  *self;

    self = &ngx_http_dsem_process_self;

    self->nalive = 0;
    self->last = 0;

    for (i = 0; i < self->processes->used; i++) {
        process = &self->processes->processes[i];

        if (process->pid
            && ngx_http_dsem_process_there(process, &number)
            && number)
        {
            self->alive[self->nalive++] = number;
        }
    }
}


/* whether it was alive at the last refresh; number: 0 for none */

ngx_uint_t
ngx_http_dsem_process_was_alive(ngx_atomic_uint_t number)
{
    ngx_uint_t                     i;
    ngx_http_dsem_process_self_t  *self;

    self = &ngx_http_dsem_process_self;

    if (number == 0) {
        return 0;
    }

    if (number == self->last) {
        return 1;
    }

    for (i = 0; i < self->nalive; i++) {
        if (self->alive[i] == number) {
            self->last = number;
            return 1;
        }
    }

    return 0;
}


/* takes those out that are gone */

void
ngx_http_dsem_processes_sweep(void)
{
    ngx_uint_t                  i;
    ngx_atomic_uint_t           number, pid;
    ngx_http_dsem_process_t    *process;
    ngx_http_dsem_processes_t  *processes;

    processes = ngx_http_dsem_process_self.processes;

    for (i = 0; i < processes->used; i++) {
        process = &processes->processes[i];
        pid = process->pid;

        if (pid
            && !ngx_http_dsem_process_there(process, &number)
            && (number == 0
                ? process->number == 0
                : ngx_atomic_cmp_set(&process->number, number, 0)))
        {
            (void) ngx_atomic_cmp_set(&process->pid, pid, 0);
        }
    }
}


/* "started" may be 0, unknown: then another process may have its pid */

static ngx_uint_t
ngx_http_dsem_process_gone(ngx_pid_t pid, uint64_t started)
{
    uint64_t  now;

    /* EPERM: it is there, and belongs to another user */

    if (kill(pid, 0) == -1 && ngx_errno == NGX_ESRCH) {
        return 1;
    }

    if (started == 0) {
        /* an unknown process counts as alive */
        return 0;
    }

    now = ngx_http_dsem_process_started(pid);

    return now && now != started;
}


/*
 * When a process was started, in clock ticks since the machine was; 0:
 * unknown.  The kernel answers from memory, no disk is involved.  A process
 * that has died but was not yet waited for counts as gone, but not while it has
 * a thread in a system call that no signal ends: its connections are open.
 */

static uint64_t
ngx_http_dsem_process_started(ngx_pid_t pid)
{
    u_char      *p, *last, *digits;
    u_char       path[sizeof("/proc//stat") + NGX_INT64_LEN];
    u_char       buf[NGX_HTTP_DSEM_STAT_LEN];
    ssize_t      n;
    ngx_fd_t     fd;
    ngx_uint_t   field, dead;

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

    dead = (p + 1 < last && p[1] == 'Z');

    for (field = 0; field < NGX_HTTP_DSEM_STAT_FIELD && p; field++) {

        if (dead && field == NGX_HTTP_DSEM_STAT_THREADS) {
            return p + 2 < last && p[1] == '1' && p[2] == ' ';
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
 * Raises a value to this one, unless it is as high already.  Several processes
 * may do so at a time: it never falls, and the highest one remains.
 */

void
ngx_http_dsem_process_raise(ngx_atomic_t *value, ngx_atomic_uint_t least)
{
    ngx_atomic_uint_t  now;

    do {
        now = *value;
    } while (now < least && !ngx_atomic_cmp_set(value, now, least));
}


/*
 * True unless a reply to a later command has been here.  The workers of a node
 * read their replies in any order, as one may be busy, or stopped: what they
 * share is what the reply shows whose command was sent last.
 *
 * last   monotonic ms, when that one was sent; sent: that of this reply
 */

ngx_uint_t
ngx_http_dsem_process_latest(ngx_atomic_t *last, uint64_t sent)
{
    ngx_atomic_uint_t  now, before;

    do {
        before = *last;

        /* ages: the times themselves wrap where a word has 32 bits */

        now = (ngx_atomic_uint_t) ngx_http_dsem_monotonic();

        if (now - (ngx_atomic_uint_t) sent > now - before) {
            return 0;
        }

    } while (!ngx_atomic_cmp_set(last, before, (ngx_atomic_uint_t) sent));

    return 1;
}
