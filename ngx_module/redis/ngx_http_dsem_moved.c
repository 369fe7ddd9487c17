
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
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_moved.h"


/* of a host: that of the longest name in DNS */
#define NGX_HTTP_DSEM_MOVED_HOST_LEN  255


static ngx_uint_t ngx_http_dsem_moved_host_char(u_char ch);


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

    slot = ngx_atoi(p, host - p);

    host++;

    for (colon = last; colon > host && *colon != ':'; colon--) {
        /* void */
    }

    if (slot < 0
        || slot >= NGX_HTTP_DSEM_SLOTS
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

    port = ngx_atoi(colon + 1, last - colon - 1);

    if (port < 1 || port > 65535) {
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
