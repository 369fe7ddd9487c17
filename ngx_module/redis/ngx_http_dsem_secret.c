
/*
 * Secrets: memory that is in no core.
 *
 * A password is kept in pages of its own, which the kernel leaves out of a
 * core, and is wiped before they go.  A copy elsewhere is wiped by the code
 * that made it.
 *
 * Called by: conf_redis, when a password is read; settings; connection, to
 * send it.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/mman.h>
#include "ngx_http_dsem_secret.h"


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

ngx_int_t
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
ngx_http_dsem_secret_free(ngx_http_dsem_secret_t *secret)
{
    if (secret->data) {
        ngx_explicit_memzero(secret->data, secret->size);
        (void) munmap(secret->data, secret->size);
    }

    ngx_memzero(secret, sizeof(ngx_http_dsem_secret_t));
}
