
/*
 * Target: directives, as nginx reads them from its file.
 *
 * Each line goes where its first letter says: "h" http, "s" server, "l" and
 * "m" two locations.  nginx reads the whole file with all of its modules, and
 * the process goes on.  What is rejected has a message.  A password of
 * dsem_redis is in no message, and not in what "nginx -T" prints.
 */


#include "target.h"
#include <dlfcn.h>
#include <stdio.h>
#include <sys/mman.h>


#define CONF_SECRET    "Sesam0pen"
#define CONF_PASSWORD  " password="


static void conf_write(ngx_str_t *text);
static void conf_lines(FILE *file, ngx_str_t *text, u_char where);
static ngx_cycle_t *conf_cycle(ngx_pool_t *pool);
static void conf_module(ngx_cycle_t *cycle);
static ngx_uint_t conf_parse(ngx_cycle_t *cycle);
static ngx_uint_t conf_secret(ngx_str_t *text);
static ngx_uint_t conf_any(ngx_str_t *text, const char *bytes);
static void conf_hidden(ngx_cycle_t *cycle);


static int          conf_fd = -1;
static char         conf_name[64];
static ngx_cycle_t  conf_old_cycle;


FUZZ_TARGET(conf)(const uint8_t *data, size_t size)
{
    ngx_str_t     text, logged;
    ngx_uint_t    secret, accepted;
    ngx_pool_t   *pool;
    ngx_cycle_t  *cycle;

    fuzz_copy(&text, data, size);

    conf_write(&text);
    secret = conf_secret(&text);

    fuzz_logged.len = 0;
    fuzz_logged.emerg = 0;

    pool = ngx_create_pool(16 * 1024, ngx_cycle->log);
    cycle = conf_cycle(pool);

    accepted = conf_parse(cycle);

    fuzz_check(accepted || fuzz_logged.emerg);

    if (secret) {
        logged.data = fuzz_logged.data;
        logged.len = fuzz_logged.len;

        fuzz_check(!fuzz_contains(&logged, CONF_SECRET));

        if (accepted) {
            conf_hidden(cycle);
        }
    }

    ngx_destroy_pool(pool);
    free(text.data);

    ngx_cycle = &fuzz_cycle;

    return 0;
}


static void
conf_write(ngx_str_t *text)
{
    FILE  *file;

    if (conf_fd == -1) {
        conf_fd = memfd_create("nginx.conf", 0);
        sprintf(conf_name, "/proc/self/fd/%d", conf_fd);
    }

    fuzz_check(conf_fd != -1 && ftruncate(conf_fd, 0) == 0);

    file = fopen(conf_name, "w");
    fuzz_check(file);

    fprintf(file, "events {}\nhttp {\n");
    conf_lines(file, text, 'h');
    fprintf(file, "server {\n");
    conf_lines(file, text, 's');
    fprintf(file, "location / {\n");
    conf_lines(file, text, 'l');
    fprintf(file, "}\nlocation /b/ {\n");
    conf_lines(file, text, 'm');
    fprintf(file, "}\n}\n}\n");

    fuzz_check(fclose(file) == 0);
}


static void
conf_lines(FILE *file, ngx_str_t *text, u_char where)
{
    size_t          size;
    ngx_str_t       line;
    const uint8_t  *p;

    p = text->data;
    size = text->len;

    while (size) {
        fuzz_line(&line, &p, &size);

        if (line.len && line.data[0] == where) {
            fwrite(line.data + 1, 1, line.len - 1, file);
            fputc(LF, file);
        }
    }
}


/* as ngx_init_cycle() begins */

static ngx_cycle_t *
conf_cycle(ngx_pool_t *pool)
{
    void               *conf;
    ngx_uint_t          i;
    ngx_cycle_t        *cycle;
    ngx_core_module_t  *module;

    static ngx_str_t  prefix = ngx_string("/nonexistent/");

    cycle = ngx_pcalloc(pool, sizeof(ngx_cycle_t));

    cycle->pool = pool;
    cycle->log = ngx_cycle->log;
    cycle->old_cycle = &conf_old_cycle;
    cycle->hostname = fuzz_cycle.hostname;
    cycle->prefix = prefix;
    cycle->conf_prefix = prefix;
    cycle->conf_file.data = (u_char *) conf_name;
    cycle->conf_file.len = strlen(conf_name);

    conf_old_cycle.log = ngx_cycle->log;

    fuzz_check(ngx_array_init(&cycle->paths, pool, 10, sizeof(ngx_path_t *))
               == NGX_OK);
    fuzz_check(ngx_array_init(&cycle->config_dump, pool, 1,
                              sizeof(ngx_conf_dump_t)) == NGX_OK);
    fuzz_check(ngx_list_init(&cycle->open_files, pool, 20,
                             sizeof(ngx_open_file_t)) == NGX_OK);
    fuzz_check(ngx_list_init(&cycle->shared_memory, pool, 1,
                             sizeof(ngx_shm_zone_t)) == NGX_OK);
    fuzz_check(ngx_array_init(&cycle->listening, pool, 10,
                              sizeof(ngx_listening_t)) == NGX_OK);

    ngx_rbtree_init(&cycle->config_dump_rbtree, &cycle->config_dump_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_queue_init(&cycle->reusable_connections_queue);

    cycle->conf_ctx = ngx_pcalloc(pool, ngx_max_module * sizeof(void *));

    fuzz_check(ngx_cycle_modules(cycle) == NGX_OK);

    conf_module(cycle);

    for (i = 0; cycle->modules[i]; i++) {

        if (cycle->modules[i]->type != NGX_CORE_MODULE) {
            continue;
        }

        module = cycle->modules[i]->ctx;

        if (module->create_conf) {
            conf = module->create_conf(cycle);
            fuzz_check(conf);
            cycle->conf_ctx[cycle->modules[i]->index] = conf;
        }
    }

    return cycle;
}


/* that of DSEM_MODULE, where nginx has it not linked in */

static void
conf_module(ngx_cycle_t *cycle)
{
#ifdef FUZZ_REPLAY
    char        *path;
    void        *handle;
    ngx_conf_t   conf;
    ngx_str_t    name = ngx_string("ngx_http_dsem_module.so");
    char       **names, **order;

    ngx_module_t  **modules;

    path = getenv("DSEM_MODULE");

    if (path == NULL) {
        return;
    }

    handle = dlopen(path, RTLD_NOW|RTLD_LOCAL);

    if (handle == NULL) {
        fuzz_fail("%s", dlerror());
    }

    modules = dlsym(handle, "ngx_modules");
    names = dlsym(handle, "ngx_module_names");
    order = dlsym(handle, "ngx_module_order");

    fuzz_check(modules && names && order);

    modules[0]->name = names[0];

    ngx_memzero(&conf, sizeof(ngx_conf_t));
    conf.cycle = cycle;
    conf.log = cycle->log;
    conf.pool = cycle->pool;

    fuzz_check(ngx_add_module(&conf, &name, modules[0], order) == NGX_OK);
#endif
}


static ngx_uint_t
conf_parse(ngx_cycle_t *cycle)
{
    char        *rc;
    ngx_conf_t   conf;

    ngx_memzero(&conf, sizeof(ngx_conf_t));

    conf.args = ngx_array_create(cycle->pool, 10, sizeof(ngx_str_t));
    conf.temp_pool = ngx_create_pool(16 * 1024, cycle->log);
    conf.ctx = cycle->conf_ctx;
    conf.cycle = cycle;
    conf.pool = cycle->pool;
    conf.log = cycle->log;
    conf.module_type = NGX_CORE_MODULE;
    conf.cmd_type = NGX_MAIN_CONF;

    ngx_dump_config = 1;

    rc = ngx_conf_parse(&conf, &cycle->conf_file);

    ngx_destroy_pool(conf.temp_pool);

    return rc == NGX_CONF_OK;
}


/* it is there once, as a word of a whole directive of dsem_redis */

static ngx_uint_t
conf_secret(ngx_str_t *text)
{
    u_char          *p, *last;
    size_t           size;
    ngx_str_t        line;
    const uint8_t   *data;

    static char  head[] = "hdsem_redis ";

    p = memmem(text->data, text->len, CONF_SECRET, sizeof(CONF_SECRET) - 1);
    last = text->data + text->len;

    if (p == NULL
        || memmem(p + 1, last - p - 1, CONF_SECRET, sizeof(CONF_SECRET) - 1))
    {
        return 0;
    }

    data = text->data;
    size = text->len;

    while (size) {
        fuzz_line(&line, &data, &size);

        if (!fuzz_contains(&line, CONF_SECRET)) {

            /* what began before may go on in the line */

            if (line.len == 0
                || line.data[line.len - 1] != ';'
                || conf_any(&line, "#{}\"'\\"))
            {
                return 0;
            }

            continue;
        }

        last = p;
        p = memmem(line.data, last - line.data, CONF_PASSWORD,
                   sizeof(CONF_PASSWORD) - 1);

        if (p == NULL
            || line.len < sizeof(head)
            || memcmp(line.data, head, sizeof(head) - 1) != 0)
        {
            return 0;
        }

        line.len = p - line.data;

        /* the value may have "${" */

        for (p += sizeof(CONF_PASSWORD) - 1; p < last; p++) {
            if ((*p && strchr(" \t\r;\"'\\", *p))
                || (*p == '{' && p[-1] != '$'))
            {
                return 0;
            }
        }

        return !conf_any(&line, ";#{}\"'\\");
    }

    return 0;
}


static ngx_uint_t
conf_any(ngx_str_t *text, const char *bytes)
{
    size_t  i;

    for (i = 0; i < text->len; i++) {
        if (text->data[i] == '\0' || strchr(bytes, text->data[i])) {
            return 1;
        }
    }

    return 0;
}


static void
conf_hidden(ngx_cycle_t *cycle)
{
    ngx_str_t         text;
    ngx_conf_dump_t  *dump;

    dump = cycle->config_dump.elts;

    fuzz_check(cycle->config_dump.nelts == 1);

    text.data = dump->buffer->start;
    text.len = dump->buffer->last - dump->buffer->start;

    fuzz_check(!fuzz_contains(&text, CONF_SECRET));
}
