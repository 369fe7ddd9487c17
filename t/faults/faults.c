
/*
 * Makes calls of the module fail: allocations, calls of nginx and of the
 * system.  Preloaded into nginx by the tests of this folder (Dsem::Faults).
 *
 * The library waits for nginx to load the module, and puts its own functions
 * into the module's table of addresses (GOT).  So calls of the module and of
 * the hiredis inside it fail, and those of nginx itself do not.
 *
 * A call is known by its path: the return addresses inside the module.  Each
 * path fails once, in all processes together; the same call succeeds the next
 * time, and a path beyond it is reached.  While the configuration is read, a
 * path fails in a child process, whose end is recorded, and the parent goes on
 * as if there were no fault.
 *
 * Some functions of hiredis end the process for want of memory, or use what
 * they did not get: no call of these fails (DSEM_FAULTS_NOT).
 *
 * The table of paths is a file that is mapped by all processes and written by
 * the test (t/lib/Dsem/Faults.pm knows its layout); what failed is appended
 * to a second file.
 */

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>


#define MODULE       "ngx_http_dsem_module"
#define MAX_PATHS    16384
#define MAX_DEPTH    40


/* kinds of calls; the last one is a mode: fail in a child, else in a worker */

#define MEMORY       1
#define SYSTEM       2
#define NGINX        4
#define CHILD        8

/* memory as well, unless the array has room */
#define ARRAY        (MEMORY|16)


typedef long (*call_pt)(long a, long b, long c, long d, long e, long f);


typedef struct {
    const char  *name;
    int          kind;
    long         result;
    int          error;
    call_pt      real;
} call_t;


/* as in nginx */

#define WORKER       3

typedef struct {
    void        *elts;
    uintptr_t    nelts;
    size_t       size;
    uintptr_t    nalloc;
} array_t;


/* the file shared by all processes and the test */

typedef struct {
    uint32_t     kinds;              /* that fail now */
    uint32_t     failed;             /* paths so far */
    uint64_t     path[MAX_PATHS];
} table_t;


static long fail_or_call(call_t *call, long a, long b, long c, long d, long e,
    long f);


static call_t  calls[] = {
    { "malloc",                  MEMORY, 0, ENOMEM, NULL },
    { "calloc",                  MEMORY, 0, ENOMEM, NULL },
    { "realloc",                 MEMORY, 0, ENOMEM, NULL },
    { "strdup",                  MEMORY, 0, ENOMEM, NULL },
    { "ngx_alloc",               MEMORY, 0, ENOMEM, NULL },
    { "ngx_calloc",              MEMORY, 0, ENOMEM, NULL },
    { "ngx_create_pool",         MEMORY, 0, ENOMEM, NULL },
    { "ngx_palloc",              MEMORY, 0, ENOMEM, NULL },
    { "ngx_pcalloc",             MEMORY, 0, ENOMEM, NULL },
    { "ngx_pnalloc",             MEMORY, 0, ENOMEM, NULL },
    { "ngx_pstrdup",             MEMORY, 0, ENOMEM, NULL },
    { "ngx_array_create",        MEMORY, 0, ENOMEM, NULL },
    { "ngx_array_push",          ARRAY,  0, ENOMEM, NULL },
    { "ngx_array_push_n",        ARRAY,  0, ENOMEM, NULL },
    { "ngx_list_push",           MEMORY, 0, ENOMEM, NULL },
    { "ngx_alloc_chain_link",    MEMORY, 0, ENOMEM, NULL },
    { "ngx_create_temp_buf",     MEMORY, 0, ENOMEM, NULL },
    { "ngx_pool_cleanup_add",    MEMORY, 0, ENOMEM, NULL },
    { "ngx_http_cleanup_add",    MEMORY, 0, ENOMEM, NULL },
    { "ngx_slab_calloc",         MEMORY, 0, ENOMEM, NULL },
    { "ngx_shared_memory_add",   MEMORY, 0, ENOMEM, NULL },
    { "ngx_http_add_variable",   MEMORY, 0, ENOMEM, NULL },
    { "ngx_get_connection",      NGINX,  0, ENOMEM, NULL },
    { "ngx_resolve_start",       NGINX,  0, ENOMEM, NULL },
    { "ngx_resolve_name",        NGINX, -1, ENOMEM, NULL },
    { "ngx_handle_read_event",   NGINX, -1, ENOSPC, NULL },
    { "ngx_handle_write_event",  NGINX, -1, ENOSPC, NULL },
    { "ngx_http_complex_value",  NGINX, -1, ENOMEM, NULL },
    { "ngx_http_compile_complex_value",
                                 NGINX, -1, ENOMEM, NULL },
    { "ngx_http_discard_request_body",
                                 NGINX, 500, ENOMEM, NULL },
    { "ngx_http_read_client_request_body",
                                 NGINX, 500, ENOMEM, NULL },
    { "ngx_read_file",           SYSTEM, -1, EIO, NULL },
    { "socket",                  SYSTEM, -1, EMFILE, NULL },
    { "connect",                 SYSTEM, -1, ENETUNREACH, NULL },
    { "getsockopt",              SYSTEM, -1, ENOBUFS, NULL },
    { "setsockopt",              SYSTEM, -1, ENOBUFS, NULL },
    { "fcntl",                   SYSTEM, -1, EACCES, NULL },
    { "fcntl64",                 SYSTEM, -1, EACCES, NULL },
    { "read",                    SYSTEM, -1, EIO, NULL },
    { "write",                   SYSTEM, -1, EIO, NULL },
    { "recv",                    SYSTEM, -1, EIO, NULL },
    { "send",                    SYSTEM, -1, EIO, NULL },
    { "open",                    SYSTEM, -1, EMFILE, NULL },
    { "open64",                  SYSTEM, -1, EMFILE, NULL },
    { "mmap",                    SYSTEM, -1, ENOMEM, NULL },
    { "mmap64",                  SYSTEM, -1, ENOMEM, NULL },
    { "getrandom",               SYSTEM, -1, ENOSYS, NULL },
    { "poll",                    SYSTEM, -1, ENOMEM, NULL }
};

#define N_CALLS  (sizeof(calls) / sizeof(call_t))


/* a function for each entry: six words are enough for all of them */

#define WRAP(i)                                                              \
    static long                                                              \
    wrap_##i(long a, long b, long c, long d, long e, long f)                 \
    {                                                                        \
        return fail_or_call(&calls[i], a, b, c, d, e, f);                    \
    }

#define WRAP10(t)                                                            \
    WRAP(t##0) WRAP(t##1) WRAP(t##2) WRAP(t##3) WRAP(t##4)                   \
    WRAP(t##5) WRAP(t##6) WRAP(t##7) WRAP(t##8) WRAP(t##9)

#define NAME10(t)                                                            \
    wrap_##t##0, wrap_##t##1, wrap_##t##2, wrap_##t##3, wrap_##t##4,         \
    wrap_##t##5, wrap_##t##6, wrap_##t##7, wrap_##t##8, wrap_##t##9

WRAP10() WRAP10(1) WRAP10(2) WRAP10(3)
WRAP(40) WRAP(41) WRAP(42) WRAP(43) WRAP(44) WRAP(45) WRAP(46) WRAP(47)

static call_pt  wraps[] = {
    NAME10(), NAME10(1), NAME10(2), NAME10(3),
    wrap_40, wrap_41, wrap_42, wrap_43, wrap_44, wrap_45, wrap_46, wrap_47
};

_Static_assert(sizeof(wraps) / sizeof(call_pt) == N_CALLS,
               "a function for each call");


static table_t    *table;
static int         records = -1;
static uintptr_t   from, to;             /* where the module is */
static uintptr_t   not[16];              /* where no call may fail, in it */
static uintptr_t  *process;              /* ngx_process */
static int         ends;                 /* gcov writes its counts then */


static uint64_t
hash_of(void **frames, int n)
{
    int        i;
    uint64_t   hash;

    hash = 1469598103934665603ULL;

    for (i = 0; i < n; i++) {
        hash = (hash ^ ((uintptr_t) frames[i] - from)) * 1099511628211ULL;
        hash ^= hash >> 29;
    }

    return hash ? hash : 1;
}


/* the innermost frames inside the module, up to the first one outside of it */

static int
module_frames(void **frames)
{
    int         i, n, all;
    void       *stack[MAX_DEPTH];
    uintptr_t   addr;

    n = 0;
    all = backtrace(stack, MAX_DEPTH);

    for (i = 0; i < all; i++) {
        addr = (uintptr_t) stack[i];

        if (addr >= from && addr < to) {
            frames[n++] = stack[i];

        } else if (n) {
            break;
        }
    }

    return n;
}


static int
is_spared(uintptr_t addr)
{
    int  i;

    for (i = 0; i < 16; i += 2) {
        if (addr >= not[i] && addr < not[i + 1]) {
            return 1;
        }
    }

    return 0;
}


/* an array grows by one element, or by n */

static int
has_room(call_t *call, long a, long n)
{
    array_t  *array;

    if (call->kind != ARRAY) {
        return 0;
    }

    array = (array_t *) a;

    if (strcmp(call->name, "ngx_array_push") == 0) {
        n = 1;
    }

    return array->nelts + n <= array->nalloc;
}


/* 1: this process is the first one to be here */

static int
is_new(uint64_t hash)
{
    int        i;
    uint64_t  *path;

    for (i = 0; i < MAX_PATHS; i++) {
        path = &table->path[(hash + i) % MAX_PATHS];

        if (*path == 0 && __sync_bool_compare_and_swap(path, 0, hash)) {
            __sync_fetch_and_add(&table->failed, 1);
            return 1;
        }

        if (*path == hash) {
            return 0;
        }
    }

    return 0;
}


static void
record(call_t *call, const char *how, int status, void **frames, int n)
{
    int    i;
    char   line[1024], *p, *last;

    last = line + sizeof(line) - 32;
    p = line + snprintf(line, 128, "%d %s %d %s", (int) getpid(), how, status,
                        call->name);

    for (i = 0; i < n && p < last; i++) {
        p += sprintf(p, " %lx", (unsigned long) ((uintptr_t) frames[i] - from));
    }

    *p++ = '\n';

    if (write(records, line, p - line) == -1) {
        abort();
    }
}


static long
fail_or_call(call_t *call, long a, long b, long c, long d, long e, long f)
{
    int     n, status;
    pid_t   pid;
    void   *frames[MAX_DEPTH];

    if (!(table->kinds & call->kind)
        || ends
        || !(table->kinds & CHILD || *process == WORKER)
        || has_room(call, a, b))
    {
        return call->real(a, b, c, d, e, f);
    }

    n = module_frames(frames);

    if (n == 0 || is_spared((uintptr_t) frames[0] - from)) {
        return call->real(a, b, c, d, e, f);
    }

    if (!is_new(hash_of(frames, n))) {
        return call->real(a, b, c, d, e, f);
    }

    if (table->kinds & CHILD) {
        pid = fork();

        if (pid > 0) {
            while (waitpid(pid, &status, 0) == -1 && errno == EINTR) {
                /* again */
            }

            record(call, "status", status, frames, n);
            return call->real(a, b, c, d, e, f);
        }

        /* the child: no other fault */
        table = calloc(1, sizeof(table_t));

        if (pid == -1 || table == NULL) {
            abort();
        }

    } else {
        record(call, "fails", 0, frames, n);
    }

    errno = call->error;

    return call->result;
}


/* one entry of the table of addresses, which is read-only by now */

static void
replace(const char *name, void **slot)
{
    char    *page;
    size_t   i, size;

    size = sysconf(_SC_PAGESIZE);
    page = (char *) ((uintptr_t) slot & ~(size - 1));

    for (i = 0; i < N_CALLS; i++) {
        if (strcmp(name, calls[i].name) != 0 || *slot == (void *) wraps[i]) {
            continue;
        }

        if (mprotect(page, size, PROT_READ|PROT_WRITE) == -1) {
            abort();
        }

        calls[i].real = (call_pt) *slot;
        *slot = (void *) wraps[i];
    }
}


static void
replace_all(struct link_map *map)
{
    size_t       i, n[2] = { 0, 0 };
    const char  *names = NULL;
    ElfW(Dyn)   *dyn;
    ElfW(Sym)   *symbols = NULL;
    ElfW(Rela)  *rela[2] = { NULL, NULL }, *r;

    for (dyn = map->l_ld; dyn->d_tag != DT_NULL; dyn++) {
        switch (dyn->d_tag) {
        case DT_SYMTAB:   symbols = (void *) dyn->d_un.d_ptr; break;
        case DT_STRTAB:   names = (void *) dyn->d_un.d_ptr; break;
        case DT_RELA:     rela[0] = (void *) dyn->d_un.d_ptr; break;
        case DT_RELASZ:   n[0] = dyn->d_un.d_val / sizeof(*r); break;
        case DT_JMPREL:   rela[1] = (void *) dyn->d_un.d_ptr; break;
        case DT_PLTRELSZ: n[1] = dyn->d_un.d_val / sizeof(*r); break;
        }
    }

    for (i = 0; i < n[0] + n[1]; i++) {
        r = i < n[0] ? &rela[0][i] : &rela[1][i - n[0]];

        if (ELF64_R_SYM(r->r_info)) {
            replace(names + symbols[ELF64_R_SYM(r->r_info)].st_name,
                    (void **) (map->l_addr + r->r_offset));
        }
    }
}


static void
find_module(struct link_map *map)
{
    int          i;
    uintptr_t    end;
    ElfW(Ehdr)  *elf;
    ElfW(Phdr)  *part;

    elf = (ElfW(Ehdr) *) map->l_addr;
    part = (ElfW(Phdr) *) (map->l_addr + elf->e_phoff);

    from = map->l_addr;
    to = from;

    for (i = 0; i < elf->e_phnum; i++) {
        end = from + part[i].p_vaddr + part[i].p_memsz;

        if (part[i].p_type == PT_LOAD && end > to) {
            to = end;
        }
    }
}


static void
end(void)
{
    ends = 1;
}


/* a worker that exits unloads the module */

int
dlclose(void *handle)
{
    int  (*real)(void *handle);

    if (process && *process == WORKER) {
        end();
    }

    real = (int (*)(void *)) dlsym(RTLD_NEXT, "dlclose");

    return real(handle);
}


/* nginx loads its modules here */

void *
dlopen(const char *name, int flags)
{
    void             *handle, *(*real)(const char *name, int flags);
    struct link_map  *map;

    real = (void *(*)(const char *, int)) dlsym(RTLD_NEXT, "dlopen");
    handle = real(name, flags);

    if (table == NULL || handle == NULL || name == NULL
        || strstr(name, MODULE) == NULL)
    {
        return handle;
    }

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == -1) {
        abort();
    }

    if (process == NULL) {
        process = dlsym(RTLD_DEFAULT, "ngx_process");
        atexit(end);
    }

    find_module(map);
    replace_all(map);

    return handle;
}


__attribute__((constructor)) static void
init(void)
{
    int    i, fd;
    char  *p;
    void  *first[1];

    if (getenv("DSEM_FAULTS") == NULL) {
        return;
    }

    fd = open(getenv("DSEM_FAULTS"), O_RDWR);
    records = open(getenv("DSEM_FAULTS_LOG"), O_WRONLY|O_APPEND|O_CLOEXEC);

    if (fd == -1 || records == -1) {
        abort();
    }

    table = mmap(NULL, sizeof(table_t), PROT_READ|PROT_WRITE, MAP_SHARED, fd,
                 0);

    if (table == MAP_FAILED) {
        abort();
    }

    close(fd);

    for (i = 0, p = getenv("DSEM_FAULTS_NOT"); i < 16 && p && *p; i++) {
        not[i] = strtoul(p, &p, 16);
    }

    /* the first one loads a library */
    (void) backtrace(first, 1);
}
