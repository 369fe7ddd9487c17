
/*
 * What a server reports about itself, and whether it suits.
 *
 * A store that is unfit works until the day on which it does not: it evicts
 * keys, or a replica accepts writes that its master never sees.  The operator
 * learns it at start, and of each server that follows: another master, or one
 * that has restarted.  What a server does not report is no fault of it.
 *
 * Called by: script, with the reply to INFO; redis, once a session is
 * accepted.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_script.h"


#define ngx_http_dsem_info_version(major, minor, patch)                       \
    (((major) * 1000 + (minor)) * 1000 + (patch))


/* the first version with all commands of the scripts: ZMSCORE */
#define NGX_HTTP_DSEM_INFO_OLDEST      ngx_http_dsem_info_version(6, 2, 0)

/* the first one whose scripts obey "min-replicas-to-write" */
#define NGX_HTTP_DSEM_INFO_REPLICATED  ngx_http_dsem_info_version(6, 2, 7)


static ngx_uint_t ngx_http_dsem_info_number(ngx_str_t *version);
static ngx_uint_t ngx_http_dsem_info_field(char *text, const char *field,
    ngx_str_t *value);


/* text: of INFO, whole or in part; empty where it is denied */

void
ngx_http_dsem_info_read(ngx_http_dsem_info_t *info, char *text)
{
    u_char      *p;
    ngx_str_t    value;
    const char  *name;

    ngx_memzero(info, sizeof(ngx_http_dsem_info_t));

    /* Valkey reports the version of Redis that it is like, too */

    name = "Valkey";

    if (!ngx_http_dsem_info_field(text, "valkey_version:", &value)) {
        name = "Redis";

        if (ngx_http_dsem_info_field(text, "redis_version:", &value)) {
            info->version = ngx_http_dsem_info_number(&value);

        } else {
            ngx_str_set(&value, "of unknown version");
        }
    }

    p = ngx_snprintf(info->server_buf, NGX_HTTP_DSEM_SERVER_LEN, "%s %V",
                     name, &value);

    info->server.data = info->server_buf;
    info->server.len = p - info->server_buf;

    if (ngx_http_dsem_info_field(text, "run_id:", &value)) {
        info->run = ngx_crc32_short(value.data, value.len);
    }

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


/*
 * What the operator should change; name: of the server.  "replicated": a
 * replica may be promoted while this master can still be reached.
 */

void
ngx_http_dsem_info_log(ngx_http_dsem_info_t *info, ngx_str_t *name,
    ngx_uint_t replicated)
{
    if (info->version && info->version < NGX_HTTP_DSEM_INFO_OLDEST) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "dsem: redis %V is too old (%V), version 6.2 is needed",
                      name, &info->server);

    } else if (replicated
               && info->version
               && info->version < NGX_HTTP_DSEM_INFO_REPLICATED)
    {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "dsem: redis %V is too old (%V), its scripts ignore "
                      "min-replicas-to-write before version 6.2.7",
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
}
