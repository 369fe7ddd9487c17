
/*
 * What a server tells about itself, and whether it suits.
 *
 * A store that is unfit works until the day on which it does not: it evicts
 * keys, or a replica accepts writes that its master never sees.  The operator
 * learns it at start.  What a server does not tell is no fault of it.
 *
 * Called by: script, with the reply to INFO; redis, once a session is
 * accepted.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_info.h"


#define ngx_http_dsem_info_version(major, minor, patch)                       \
    (((major) * 1000 + (minor)) * 1000 + (patch))


/* the first version with all commands of the scripts: ZMSCORE */
#define NGX_HTTP_DSEM_INFO_OLDEST  ngx_http_dsem_info_version(6, 2, 0)


/* CVE-2025-49844: the first version of a line without it */
typedef struct {
    ngx_uint_t  line;
    ngx_uint_t  mended;
} ngx_http_dsem_info_hole_t;


static void ngx_http_dsem_info_hole(ngx_http_dsem_info_t *info,
    ngx_http_dsem_info_hole_t *hole, ngx_uint_t version);
static ngx_uint_t ngx_http_dsem_info_number(ngx_str_t *version);
static ngx_uint_t ngx_http_dsem_info_field(char *text, const char *field,
    ngx_str_t *value);


/* from the newest line down; a line that is not listed is that above it */

static ngx_http_dsem_info_hole_t  ngx_http_dsem_info_redis[] = {
    { ngx_http_dsem_info_version(8, 2, 0),
      ngx_http_dsem_info_version(8, 2, 2) },
    { ngx_http_dsem_info_version(8, 0, 0),
      ngx_http_dsem_info_version(8, 0, 4) },
    { ngx_http_dsem_info_version(7, 4, 0),
      ngx_http_dsem_info_version(7, 4, 6) },
    { ngx_http_dsem_info_version(6, 3, 0),
      ngx_http_dsem_info_version(7, 2, 11) },
    { 0, ngx_http_dsem_info_version(6, 2, 20) }
};


static ngx_http_dsem_info_hole_t  ngx_http_dsem_info_valkey[] = {
    { ngx_http_dsem_info_version(8, 1, 0),
      ngx_http_dsem_info_version(8, 1, 4) },
    { ngx_http_dsem_info_version(8, 0, 0),
      ngx_http_dsem_info_version(8, 0, 6) },
    { 0, ngx_http_dsem_info_version(7, 2, 11) }
};


/* text: of INFO, whole or in part; empty where it is denied */

void
ngx_http_dsem_info_read(ngx_http_dsem_info_t *info, char *text)
{
    u_char      *p;
    ngx_str_t    value;
    ngx_uint_t   number;
    const char  *name;

    ngx_memzero(info, sizeof(ngx_http_dsem_info_t));

    /* Valkey also tells the version of Redis that it is like */

    name = "Valkey";

    if (ngx_http_dsem_info_field(text, "valkey_version:", &value)) {
        number = ngx_http_dsem_info_number(&value);
        ngx_http_dsem_info_hole(info, ngx_http_dsem_info_valkey, number);

    } else {
        name = "Redis";

        if (ngx_http_dsem_info_field(text, "redis_version:", &value)) {
            number = ngx_http_dsem_info_number(&value);
            info->too_old = number && number < NGX_HTTP_DSEM_INFO_OLDEST;
            ngx_http_dsem_info_hole(info, ngx_http_dsem_info_redis, number);

        } else {
            ngx_str_set(&value, "of unknown version");
        }
    }

    p = ngx_snprintf(info->server_buf, NGX_HTTP_DSEM_SERVER_LEN, "%s %V",
                     name, &value);

    info->server.data = info->server_buf;
    info->server.len = p - info->server_buf;

    info->replica = ngx_http_dsem_info_field(text, "\nrole:", &value)
                    && value.len == 5
                    && ngx_memcmp(value.data, "slave", 5) == 0;

    if (ngx_http_dsem_info_field(text, "maxmemory_policy:", &value)) {
        p = ngx_snprintf(info->policy_buf, NGX_HTTP_DSEM_SERVER_LEN, "%V",
                         &value);

        info->policy.data = info->policy_buf;
        info->policy.len = p - info->policy_buf;
    }
}


static void
ngx_http_dsem_info_hole(ngx_http_dsem_info_t *info,
    ngx_http_dsem_info_hole_t *hole, ngx_uint_t version)
{
    while (version < hole->line) {
        hole++;
    }

    info->hole = version && version < hole->mended;
}


/* 0: it is no version of three numbers, like that of a service */

static ngx_uint_t
ngx_http_dsem_info_number(ngx_str_t *version)
{
    u_char      *p, *last;
    ngx_uint_t   n, i, number[3];

    p = version->data;
    last = p + version->len;

    for (i = 0; i < 3; i++) {
        n = 0;

        if (p == last || *p < '0' || *p > '9') {
            return 0;
        }

        while (p < last && *p >= '0' && *p <= '9' && n < 1000) {
            n = n * 10 + (*p++ - '0');
        }

        if (n >= 1000 || (i < 2 && (p == last || *p++ != '.'))) {
            return 0;
        }

        number[i] = n;
    }

    return ngx_http_dsem_info_version(number[0], number[1], number[2]);
}


/* the value of a line, as far as it is printable; 0: there is none */

static ngx_uint_t
ngx_http_dsem_info_field(char *text, const char *field, ngx_str_t *value)
{
    char  *p;

    p = ngx_strstr(text, field);

    if (p == NULL) {
        return 0;
    }

    value->data = (u_char *) p + ngx_strlen(field);

    for (value->len = 0; value->data[value->len] > ' '; value->len++) {
        if (value->data[value->len] > '~') {
            break;
        }
    }

    return 1;
}


/* what the operator should change; name: of the server */

void
ngx_http_dsem_info_log(ngx_http_dsem_info_t *info, ngx_str_t *name)
{
    if (info->too_old) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V is too old (%V), version 6.2 is needed",
                      name, &info->server);
    }

    if (info->replica) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V is a replica, permits belong on the "
                      "master", name);
    }

    if (info->policy.len
        && (info->policy.len != sizeof("noeviction") - 1
            || ngx_memcmp(info->policy.data, "noeviction",
                          info->policy.len) != 0))
    {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis %V may evict permits "
                      "(maxmemory-policy %V), set it to noeviction",
                      name, &info->policy);
    }

    if (info->hole) {
        ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0,
                      "dsem: redis %V (%V) has a hole in its Lua "
                      "(CVE-2025-49844), unless its distributor has mended it",
                      name, &info->server);
    }
}
