
/*
 * Processes: whether one of this node is still there, and a value that all of
 * them raise.
 *
 * A pid may be used again: a process is one pid with the time of its
 * start.
 *
 * Called by: zone, cells and rows, for what a dead process has left in shared
 * memory; and counters, for peaks.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_process.h"


#define NGX_HTTP_DSEM_STAT_LEN    512

/* the process's start time in /proc/<pid>/stat, counted after its name */
#define NGX_HTTP_DSEM_STAT_FIELD  19


/* "started" may be 0, unknown: then another process may have its pid */

ngx_uint_t
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
 * that has died but was not yet waited for counts as gone.
 */

uint64_t
ngx_http_dsem_process_started(ngx_pid_t pid)
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
