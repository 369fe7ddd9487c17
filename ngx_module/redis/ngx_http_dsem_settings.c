
/*
 * Where Redis is, and how it is spoken to: what the configuration says.
 *
 * A worker outlives its configuration (a single process reads it anew while
 * it runs), so that nothing may point into one: what redis uses is a copy.
 *
 * A password is kept in pages of its own, which the kernel leaves out of a
 * core, and is wiped before they go.  A copy elsewhere is wiped by the code
 * that made it.
 *
 * Called by: redis (the copy); conf_secret, when a password is read.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/mman.h>
#include "ngx_http_dsem_settings.h"


static ngx_int_t ngx_http_dsem_settings_server(ngx_http_dsem_server_t *copy,
    ngx_http_dsem_server_t *server, ngx_pool_t *pool);
static ngx_int_t ngx_http_dsem_settings_string(ngx_str_t *copy,
    ngx_str_t *value, ngx_pool_t *pool);
static ngx_int_t ngx_http_dsem_secret_copy(ngx_http_dsem_secret_t *copy,
    ngx_http_dsem_secret_t *secret);


/* a copy in the pool; NGX_ERROR: no memory, the rest is to be freed */

ngx_int_t
ngx_http_dsem_settings_copy(ngx_http_dsem_redis_settings_t *copy,
    ngx_http_dsem_redis_settings_t *settings, ngx_pool_t *pool)
{
    ngx_uint_t  i;

    *copy = *settings;

    ngx_memzero(&copy->login.auth, sizeof(ngx_http_dsem_secret_t));
    ngx_memzero(&copy->sentinel_login.auth, sizeof(ngx_http_dsem_secret_t));

    copy->login.tls = ngx_http_dsem_tls_ref(settings->login.tls);
    copy->sentinel_login.tls =
                          ngx_http_dsem_tls_ref(settings->sentinel_login.tls);

    copy->sentinel_login.pairs = 1;

    copy->servers = ngx_palloc(pool, settings->nservers
                                     * sizeof(ngx_http_dsem_server_t));

    if (copy->servers == NULL
        || ngx_http_dsem_settings_string(&copy->master, &settings->master,
                                         pool) != NGX_OK
        || ngx_http_dsem_secret_copy(&copy->login.auth,
                                     &settings->login.auth) != NGX_OK
        || ngx_http_dsem_secret_copy(&copy->sentinel_login.auth,
                                     &settings->sentinel_login.auth)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < settings->nservers; i++) {
        if (ngx_http_dsem_settings_server(&copy->servers[i],
                                          &settings->servers[i], pool)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_dsem_settings_server(ngx_http_dsem_server_t *copy,
    ngx_http_dsem_server_t *server, ngx_pool_t *pool)
{
    ngx_uint_t   i;
    ngx_addr_t  *addr;

    *copy = *server;

    copy->addrs = ngx_palloc(pool, server->naddrs * sizeof(ngx_addr_t));

    if (copy->addrs == NULL
        || ngx_http_dsem_settings_string(&copy->name, &server->name, pool)
           != NGX_OK
        || ngx_http_dsem_settings_string(&copy->host, &server->host, pool)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < server->naddrs; i++) {
        addr = &copy->addrs[i];
        *addr = server->addrs[i];

        addr->sockaddr = ngx_palloc(pool, sizeof(ngx_sockaddr_t));
        if (addr->sockaddr == NULL) {
            return NGX_ERROR;
        }

        ngx_memcpy(addr->sockaddr, server->addrs[i].sockaddr, addr->socklen);

        if (ngx_http_dsem_settings_string(&addr->name,
                                          &server->addrs[i].name, pool)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* with a zero at the end, which is not counted */

static ngx_int_t
ngx_http_dsem_settings_string(ngx_str_t *copy, ngx_str_t *value,
    ngx_pool_t *pool)
{
    copy->data = ngx_pnalloc(pool, value->len + 1);
    if (copy->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(copy->data, value->data, value->len);
    copy->data[value->len] = '\0';
    copy->len = value->len;

    return NGX_OK;
}


/* what is not in the pool */

void
ngx_http_dsem_settings_free(ngx_http_dsem_redis_settings_t *copy)
{
    ngx_http_dsem_secret_free(&copy->login.auth);
    ngx_http_dsem_secret_free(&copy->sentinel_login.auth);

    ngx_http_dsem_tls_free(copy->login.tls);
    ngx_http_dsem_tls_free(copy->sentinel_login.tls);
}


/* room for "size" bytes; NGX_ERROR: no memory, logged */

ngx_int_t
ngx_http_dsem_secret_create(ngx_http_dsem_secret_t *secret, size_t size)
{
    u_char  *p;

    size = ngx_align(size, ngx_pagesize);

    p = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANON, -1, 0);

    if (p == MAP_FAILED) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, ngx_errno,
                      "mmap(MAP_ANON, %uz) failed", size);
        return NGX_ERROR;
    }

#ifdef MADV_DONTDUMP
    (void) madvise(p, size, MADV_DONTDUMP);
#endif

    secret->data = p;
    secret->len = 0;
    secret->size = size;

    return NGX_OK;
}


/* NGX_ERROR: no memory, logged */

static ngx_int_t
ngx_http_dsem_secret_copy(ngx_http_dsem_secret_t *copy,
    ngx_http_dsem_secret_t *secret)
{
    ngx_memzero(copy, sizeof(ngx_http_dsem_secret_t));

    if (secret->data == NULL) {
        return NGX_OK;
    }

    if (ngx_http_dsem_secret_create(copy, secret->size) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memcpy(copy->data, secret->data, secret->len);
    copy->len = secret->len;

    return NGX_OK;
}


void
ngx_http_dsem_secret_free(void *data)
{
    ngx_http_dsem_secret_t *secret = data;

    if (secret->data) {
        ngx_explicit_memzero(secret->data, secret->size);
        (void) munmap(secret->data, secret->size);
    }

    ngx_memzero(secret, sizeof(ngx_http_dsem_secret_t));
}
