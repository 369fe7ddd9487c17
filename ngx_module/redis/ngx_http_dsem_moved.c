
/*
 * MOVED and ASK: where a node of a Cluster says that keys are.
 *
 * The text comes from the network and may be anything: what is not exactly
 * "MOVED slot host:port" is not understood, and leads nowhere.  An IPv6
 * address has no brackets there, so that the last colon is before the port.
 *
 * Called by: cluster.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_moved.h"


#define NGX_HTTP_DSEM_MOVED_SLOTS     16384

/* of a host: that of the longest name in DNS */
#define NGX_HTTP_DSEM_MOVED_HOST_LEN  255


static ngx_uint_t ngx_http_dsem_moved_host_char(u_char ch);
static ngx_int_t ngx_http_dsem_moved_number(u_char *p, u_char *last,
    ngx_int_t most);


/* the text of an error reply; NGX_DECLINED: it is another one */

ngx_int_t
ngx_http_dsem_moved_parse(ngx_http_dsem_moved_t *moved, const char *text)
{
    u_char     *p, *last, *host, *colon;
    ngx_int_t   slot, port;

    p = (u_char *) text;
    last = p + ngx_strlen(p);

    if (ngx_strncmp(p, "MOVED ", sizeof("MOVED ") - 1) == 0) {
        p += sizeof("MOVED ") - 1;
        moved->ask = 0;

    } else if (ngx_strncmp(p, "ASK ", sizeof("ASK ") - 1) == 0) {
        p += sizeof("ASK ") - 1;
        moved->ask = 1;

    } else {
        return NGX_DECLINED;
    }

    host = ngx_strlchr(p, last, ' ');

    if (host == NULL) {
        return NGX_DECLINED;
    }

    slot = ngx_http_dsem_moved_number(p, host, NGX_HTTP_DSEM_MOVED_SLOTS - 1);

    host++;

    for (colon = last; colon > host && *colon != ':'; colon--) {
        /* void */
    }

    if (slot == NGX_ERROR
        || *colon != ':'
        || colon - host > NGX_HTTP_DSEM_MOVED_HOST_LEN)
    {
        return NGX_DECLINED;
    }

    for (p = host; p < colon; p++) {
        if (!ngx_http_dsem_moved_host_char(*p)) {
            return NGX_DECLINED;
        }
    }

    port = ngx_http_dsem_moved_number(colon + 1, last, 65535);

    if (port == NGX_ERROR || port == 0) {
        return NGX_DECLINED;
    }

    moved->slot = slot;
    moved->port = (in_port_t) port;
    moved->host.data = host;
    moved->host.len = colon - host;

    return NGX_OK;
}


/* of an address, a name, or "?", which stands for a name that is not set */

static ngx_uint_t
ngx_http_dsem_moved_host_char(u_char ch)
{
    return (ch >= '0' && ch <= '9')
           || (ch >= 'a' && ch <= 'z')
           || (ch >= 'A' && ch <= 'Z')
           || ch == '.' || ch == ':' || ch == '-' || ch == '_' || ch == '?';
}


/* digits only, at least one */

static ngx_int_t
ngx_http_dsem_moved_number(u_char *p, u_char *last, ngx_int_t most)
{
    ngx_int_t  n;

    if (p == last) {
        return NGX_ERROR;
    }

    for (n = 0; p < last; p++) {

        if (*p < '0' || *p > '9') {
            return NGX_ERROR;
        }

        n = n * 10 + (*p - '0');

        if (n > most) {
            return NGX_ERROR;
        }
    }

    return n;
}
