
/*
 * The corpus as a test: each file of it, once, to its target.
 *
 * A library that nginx is started with (LD_PRELOAD): it runs before nginx'
 * main(), with the functions of nginx itself, whose sources need not be here,
 * and ends the process.  All targets, and what they need of the module, are
 * compiled as one file.  The few functions of the module that are missing are
 * never called.
 *
 * Environment: FUZZ_CORPUS, a folder with one folder for each target.
 * Run by: t/fuzz/corpus.t.
 */


#include "target.h"
#include "target/api.c"
#include "target/conf.c"
#include "target/guard.c"
#include "target/message.c"
#include "target/name.c"
#include "target/peers.c"
#include "target/text.c"
#include "target.c"
#include "connection.c"
#include "reply.c"

#include "ngx_http_dsem_addr.c"
#include "ngx_http_dsem_candidates.c"
#include "ngx_http_dsem_guard.c"
#include "ngx_http_dsem_info.c"
#include "ngx_http_dsem_key.c"
#include "ngx_http_dsem_reason.c"
#include "ngx_http_dsem_resp.c"
#include "ngx_http_dsem_text.c"
#include "ngx_http_dsem_cells.c"
#include "ngx_http_dsem_counters.c"
#include "ngx_http_dsem_process.c"
#include "ngx_http_dsem_rows.c"
#include "ngx_http_dsem_top.c"
#include "ngx_http_dsem_memo.c"
#include "ngx_http_dsem_zone.c"
#include "ngx_http_dsem_lease.c"
#include "ngx_http_dsem_limits.c"
#include "ngx_http_dsem_hint.c"
#include "ngx_http_dsem_fleet.c"
#include "ngx_http_dsem_inspect.c"
#include "ngx_http_dsem_api_body.c"
#include "ngx_http_dsem_api_json.c"
#include "ngx_http_dsem_api_text.c"

#include <dirent.h>


typedef struct {
    const char   *name;
    int         (*run)(const uint8_t *data, size_t size);
} replay_target_t;


static void replay(void) __attribute__((constructor));
static void replay_folder(const char *corpus, replay_target_t *target);
static void replay_file(const char *path, replay_target_t *target);


static replay_target_t  replay_targets[] = {
    { "api", fuzz_target_api },
    { "conf", fuzz_target_conf },
    { "guard", fuzz_target_guard },
    { "message", fuzz_target_message },
    { "name", fuzz_target_name },
    { "peers", fuzz_target_peers },
    { "text", fuzz_target_text },
    { NULL, NULL }
};


/*
 * Each piece of a pool is memory of its own, so that AddressSanitizer knows
 * where it ends: ngx_palloc() and the like are these, by the command line.
 */

void *
replay_palloc(ngx_pool_t *pool, size_t size)
{
    return ngx_pmemalign(pool, size, 16);
}


void *
replay_pcalloc(ngx_pool_t *pool, size_t size)
{
    void  *p;

    p = replay_palloc(pool, size);

    return p ? memset(p, 0, size) : NULL;
}


static void
replay(void)
{
    char             *corpus;
    replay_target_t  *target;

    corpus = getenv("FUZZ_CORPUS");

    if (corpus == NULL) {
        return;
    }

    (void) LLVMFuzzerInitialize(NULL, NULL);

    for (target = replay_targets; target->name; target++) {
        replay_folder(corpus, target);
    }

    exit(0);
}


/* the last file that is named did it */

static void
replay_folder(const char *corpus, replay_target_t *target)
{
    DIR            *dir;
    char            path[4096];
    ngx_uint_t      n;
    struct dirent  *entry;

    n = 0;

    snprintf(path, sizeof(path), "%s/%s", corpus, target->name);
    dir = opendir(path);

    if (dir == NULL) {
        fuzz_fail("%s: %s", path, strerror(errno));
    }

    while ((entry = readdir(dir)) != NULL) {

        if (entry->d_name[0] == '.') {
            continue;
        }

        snprintf(path, sizeof(path), "%s/%s/%s", corpus, target->name,
                 entry->d_name);

        printf("file %s/%s\n", target->name, entry->d_name);
        fflush(stdout);

        replay_file(path, target);
        n++;
    }

    (void) closedir(dir);

    printf("target %s: %lu files\n", target->name, (unsigned long) n);
}


/* in memory that ends where the file does */

static void
replay_file(const char *path, replay_target_t *target)
{
    FILE     *file;
    size_t    size;
    uint8_t  *data;

    static uint8_t  buf[64 * 1024];

    file = fopen(path, "r");

    if (file == NULL) {
        fuzz_fail("%s: %s", path, strerror(errno));
    }

    size = fread(buf, 1, sizeof(buf), file);
    (void) fclose(file);

    data = malloc(size);
    ngx_memcpy(data, buf, size);

    (void) target->run(data, size);

    free(data);
}
