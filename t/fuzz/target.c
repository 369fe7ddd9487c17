
/*
 * What all fuzz targets need: nginx set up as far as its functions need it, a
 * log that is kept in memory, and the end of the process.
 *
 * No name is looked up in DNS: the functions of libc are replaced.
 *
 * Called by: target/, libFuzzer or replay.
 */


#include "target.h"
#include <netdb.h>
#include <stdio.h>


static void fuzz_log_writer(ngx_log_t *log, ngx_uint_t level, u_char *buf,
    size_t len);


fuzz_logged_t      fuzz_logged;
ngx_cycle_t        fuzz_cycle;
static ngx_log_t   fuzz_log;
static ngx_uint_t  fuzz_print;


int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    ngx_uint_t  n;

    static ngx_str_t  host = ngx_string("fuzz");

    fuzz_print = (getenv("FUZZ_SHOW") != NULL);

    fuzz_log.log_level = NGX_LOG_INFO;
    fuzz_log.writer = fuzz_log_writer;
    ngx_use_stderr = 0;

    ngx_pid = getpid();
    ngx_cycle = &fuzz_cycle;
    fuzz_cycle.log = &fuzz_log;
    fuzz_cycle.hostname = host;

    (void) signal(SIGPIPE, SIG_IGN);

    if (ngx_strerror_init() != NGX_OK) {
        fuzz_fail("ngx_strerror_init()");
    }

    ngx_time_init();

    /* ngx_os_init() would move the environment */

    ngx_pagesize = getpagesize();
    ngx_cacheline_size = NGX_CPU_CACHE_LINE;
    ngx_ncpu = 1;

    for (n = ngx_pagesize; n >>= 1; ngx_pagesize_shift++) { /* void */ }

    if (ngx_crc32_table_init() != NGX_OK) {
        fuzz_fail("ngx_crc32_table_init()");
    }

    ngx_slab_sizes_init();

    fuzz_cycle.pool = ngx_create_pool(1024, &fuzz_log);

    if (fuzz_cycle.pool == NULL || ngx_preinit_modules() != NGX_OK) {
        fuzz_fail("ngx_preinit_modules()");
    }

    return 0;
}


static void
fuzz_log_writer(ngx_log_t *log, ngx_uint_t level, u_char *buf, size_t len)
{
    if (fuzz_print) {
        fprintf(stderr, "%.*s\n", (int) len, buf);
    }

    fuzz_logged.emerg += (level == NGX_LOG_EMERG);

    /* "dsem: " alerts are broken invariants */

    if (level == NGX_LOG_ALERT) {
        fuzz_fail("alert: %.*s", (int) len, buf);
    }

    if (sizeof(fuzz_logged.data) - fuzz_logged.len < len + 1) {
        fuzz_logged.len = 0;
    }

    ngx_memcpy(fuzz_logged.data + fuzz_logged.len, buf, len);
    fuzz_logged.len += len;
    fuzz_logged.data[fuzz_logged.len++] = LF;
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


void
fuzz_show(const char *what, u_char *data, size_t len)
{
    /* void */
}


void
fuzz_copy(ngx_str_t *copy, const void *data, size_t size)
{
    copy->len = size;
    copy->data = malloc(size);

    if (size) {

        if (copy->data == NULL) {
            fuzz_fail("no memory");
        }

        ngx_memcpy(copy->data, data, size);
    }
}


void
fuzz_line(ngx_str_t *line, const uint8_t **data, size_t *size)
{
    u_char  *p, *last;

    line->data = (u_char *) *data;
    last = line->data + *size;

    p = memchr(line->data, LF, *size);

    line->len = (p ? p : last) - line->data;

    *data = p ? p + 1 : last;
    *size = last - *data;
}


ngx_uint_t
fuzz_contains(ngx_str_t *text, const char *part)
{
    return memmem(text->data, text->len, part, strlen(part)) != NULL;
}


/* "localhost" and "redis" have an address, no other name has */

int
getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **res)
{
    struct addrinfo     *info;
    struct sockaddr_in  *sin;

    if (strcmp(node, "localhost") != 0 && strcmp(node, "redis") != 0) {
        return EAI_NONAME;
    }

    info = calloc(1, sizeof(struct addrinfo) + sizeof(struct sockaddr_in));

    if (info == NULL) {
        return EAI_MEMORY;
    }

    sin = (struct sockaddr_in *) (info + 1);
    sin->sin_family = AF_INET;
    sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    info->ai_family = AF_INET;
    info->ai_socktype = SOCK_STREAM;
    info->ai_addrlen = sizeof(struct sockaddr_in);
    info->ai_addr = (struct sockaddr *) sin;

    *res = info;

    return 0;
}


void
freeaddrinfo(struct addrinfo *info)
{
    free(info);
}
