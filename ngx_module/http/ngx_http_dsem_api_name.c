
/*
 * The name of a semaphore in the path of the API.
 *
 * It is as in keys, or plain: "%" with two hexadecimal digits is one byte, all
 * other bytes stand for themselves.  The form in keys is the same name again.
 *
 * Called by: api; t/fuzz.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_name.h"
#include "ngx_http_dsem_key.h"


static ngx_uint_t ngx_http_dsem_api_name_digest(ngx_str_t *name);


/* name: that in the path, then as it is in keys; NGX_ERROR: no memory */

ngx_int_t
ngx_http_dsem_api_name(ngx_pool_t *pool, ngx_str_t *name)
{
    u_char     *p, *last;
    ngx_int_t   byte;
    ngx_str_t   plain;

    if (ngx_http_dsem_api_name_digest(name)) {
        return NGX_OK;
    }

    plain.data = ngx_pnalloc(pool, name->len);
    if (plain.data == NULL) {
        return NGX_ERROR;
    }

    plain.len = 0;
    last = name->data + name->len;

    for (p = name->data; p < last; p++) {

        byte = *p;

        if (*p == '%' && last - p > 2) {
            byte = ngx_hextoi(p + 1, 2);

            if (byte == NGX_ERROR) {
                byte = '%';

            } else {
                p += 2;
            }
        }

        plain.data[plain.len++] = (u_char) byte;
    }

    return ngx_http_dsem_key_encode(pool, &plain, name);
}


/* of a long name: no plain name has "~" in its encoded form */

static ngx_uint_t
ngx_http_dsem_api_name_digest(ngx_str_t *name)
{
    size_t  i;

    if (name->len != NGX_HTTP_DSEM_KEY_DIGEST
        || name->data[NGX_HTTP_DSEM_KEY_HEAD] != '~')
    {
        return 0;
    }

    for (i = 0; i < NGX_HTTP_DSEM_KEY_HEAD; i++) {
        if (name->data[i] != '%' && !ngx_http_dsem_key_plain(name->data[i])) {
            return 0;
        }
    }

    for (i = NGX_HTTP_DSEM_KEY_HEAD + 1; i < name->len; i++) {
        if (!((name->data[i] >= '0' && name->data[i] <= '9')
              || (name->data[i] >= 'a' && name->data[i] <= 'f')))
        {
            return 0;
        }
    }

    return 1;
}
