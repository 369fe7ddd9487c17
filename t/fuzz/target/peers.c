
/*
 * Target: what nodes of a Cluster and Sentinels say about addresses.
 *
 * Each line is "m" and the text of an error of Redis, or "s" and host and
 * port, with a blank between them.  What is understood as MOVED or ASK has a
 * slot, a port and a host in their bounds, and is that text again when it is
 * written; candidates stay bounded.  What a Sentinel names is an address.
 */


#include "target.h"
#include <ctype.h>
#include <stdio.h>
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_locate.h"
#include "ngx_http_dsem_reason.h"


#define PEERS_LEARNED  16


static void peers_moved(ngx_http_dsem_candidates_t *candidates,
    ngx_str_t *line);
static void peers_reason(const char *text);
static void peers_sentinel(ngx_str_t *line);


FUZZ_TARGET(peers)(const uint8_t *data, size_t size)
{
    ngx_str_t                       line;
    ngx_addr_t                      addr;
    ngx_sockaddr_t                  sa;
    ngx_http_dsem_server_t          server;
    ngx_http_dsem_candidates_t      candidates;
    ngx_http_dsem_redis_settings_t  settings;

    ngx_memzero(&sa, sizeof(ngx_sockaddr_t));
    sa.sockaddr_in.sin_family = AF_INET;
    sa.sockaddr_in.sin_port = htons(6379);
    sa.sockaddr_in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    ngx_memzero(&addr, sizeof(ngx_addr_t));
    addr.sockaddr = &sa.sockaddr;
    addr.socklen = sizeof(struct sockaddr_in);

    ngx_memzero(&server, sizeof(ngx_http_dsem_server_t));
    ngx_str_set(&server.host, "redis");
    server.port = 6379;
    server.addrs = &addr;
    server.naddrs = 1;

    ngx_memzero(&settings, sizeof(ngx_http_dsem_redis_settings_t));
    settings.servers = &server;
    settings.nservers = 1;

    ngx_memzero(&candidates, sizeof(ngx_http_dsem_candidates_t));
    fuzz_check(ngx_http_dsem_candidates_create(&candidates, &settings)
               == NGX_OK);

    while (size) {
        fuzz_line(&line, &data, &size);

        if (line.len == 0) {
            continue;
        }

        if (*line.data == 'm') {
            line.data++;
            line.len--;
            peers_moved(&candidates, &line);

        } else if (*line.data == 's') {
            line.data++;
            line.len--;
            peers_sentinel(&line);
        }
    }

    ngx_free(candidates.elts);

    return 0;
}


/* hiredis ends the text of an error with a zero */

static void
peers_moved(ngx_http_dsem_candidates_t *candidates, ngx_str_t *line)
{
    char                       *text, again[512];
    ngx_int_t                   rc;
    ngx_uint_t                  i;
    ngx_http_dsem_moved_t       moved;
    ngx_http_dsem_candidate_t  *candidate;

    text = malloc(line->len + 1);
    ngx_memcpy(text, line->data, line->len);
    text[line->len] = '\0';

    peers_reason(text);

    rc = ngx_http_dsem_candidates_parse(&moved, text);
    fuzz_check(rc == NGX_OK || rc == NGX_DECLINED);

    if (rc == NGX_OK) {
        fuzz_check(moved.slot < NGX_HTTP_DSEM_SLOTS && moved.port);
        fuzz_check(moved.host.len <= 255);

        for (i = 0; i < moved.host.len; i++) {
            fuzz_check(isalnum(moved.host.data[i])
                       || strchr(".:-_?", moved.host.data[i]));
        }

        snprintf(again, sizeof(again), "%s %lu %.*s:%d",
                 moved.ask ? "ASK" : "MOVED", (unsigned long) moved.slot,
                 (int) moved.host.len, moved.host.data, moved.port);

        /* but for zeros in front of the numbers */
        fuzz_check(strlen(again) <= strlen(text));
        fuzz_check(strstr(text, " 0") || strstr(text, ":0")
                   || strcmp(again, text) == 0);

        rc = ngx_http_dsem_candidates_learn(candidates, moved.slot, text,
                                            &candidates->elts->at.addr,
                                            &candidate);

        fuzz_check(rc == (moved.ask ? NGX_AGAIN : NGX_OK));
        fuzz_check(candidates->n <= candidates->nconfigured + PEERS_LEARNED);

        if (candidate) {
            fuzz_check(candidate >= candidates->elts
                       && candidate < candidates->elts + candidates->n);
            fuzz_check(ngx_inet_get_port(candidate->at.addr.sockaddr)
                       == moved.port);
            fuzz_check(candidate->at.addr.name.len
                       && candidate->at.addr.name.len <= NGX_SOCKADDR_STRLEN);
        }
    }

    free(text);
}


/* it can forge no line of the log */

static void
peers_reason(const char *text)
{
    u_char  *p;
    char    *reason;

    reason = malloc(NGX_HTTP_DSEM_REASON_LEN);

    ngx_http_dsem_reason(reason, "redis: %s", text);

    for (p = (u_char *) reason; *p; p++) {
        fuzz_check(*p >= ' ' && (*p < 0x7f || *p >= 0xa0));
    }

    fuzz_check((size_t) (p - (u_char *) reason) < NGX_HTTP_DSEM_REASON_LEN);

    free(reason);
}


/* the guard lets in pairs of strings only, of 255 bytes at most */

static void
peers_sentinel(ngx_str_t *line)
{
    u_char                *blank;
    ngx_str_t              host, port;
    in_port_t              number;
    ngx_http_dsem_addr_t   named;

    blank = memchr(line->data, ' ', line->len);

    if (blank == NULL) {
        return;
    }

    fuzz_copy(&host, line->data, blank - line->data);
    fuzz_copy(&port, blank + 1, line->data + line->len - blank - 1);

    number = ngx_http_dsem_addr_port(port.data, port.len);

    if (host.len <= 255
        && number
        && ngx_http_dsem_addr_parse(&named, &host, number) == NGX_OK)
    {
        fuzz_check(ngx_inet_get_port(named.addr.sockaddr)
                   == ngx_atoi(port.data, port.len));
        fuzz_check(named.addr.name.len
                   && named.addr.name.len <= NGX_SOCKADDR_STRLEN);
    }

    free(host.data);
    free(port.data);
}
