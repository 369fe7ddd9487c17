
/*
 * The identity: a name that no other process has, and random numbers.
 *
 * Neither pids nor clocks tell processes apart: containers share the first,
 * and a copied machine the second.
 *
 * Called by: session, handshake.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/random.h>
#include "ngx_http_dsem_identity.h"


/*
 * Makes <node>:<worker>:<64 random bits> and puts it in the place of "name",
 * which is freed; the caller frees the new one.  NGX_ERROR: no memory or no
 * random numbers, the old name stays.
 */

ngx_int_t
ngx_http_dsem_identity_name(ngx_str_t *node, ngx_str_t *name)
{
    u_char    *p;
    uint64_t   bits;

    if (ngx_http_dsem_identity_random(&bits, sizeof(bits)) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_alloc(node->len + 2 + NGX_INT64_LEN + 16, ngx_cycle->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_free(name->data);

    name->data = p;
    name->len = ngx_sprintf(p, "%V:%ui:%016xL", node, ngx_worker, bits) - p;

    return NGX_OK;
}


/* from the kernel; NGX_ERROR: there are none */

ngx_int_t
ngx_http_dsem_identity_random(void *buf, size_t len)
{
    if (getrandom(buf, len, 0) == (ssize_t) len) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                  "dsem: getrandom() failed");

    return NGX_ERROR;
}
