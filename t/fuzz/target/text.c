
/*
 * Target: what Redis sends as text for a display, and INFO.
 *
 * The first line says what the rest is: "f<n>" a reply of inspect that was
 * asked for the names s0, s1, ...; "r" replies of names, one after each empty
 * line; "i" one of INFO.  A text that is accepted gives names that were asked
 * for, and holders that are sessions; names that a roster keeps are
 * encoded names; what INFO tells is printable and bounded.
 */


#include "target.h"
#include <ctype.h>
#include <stdio.h>

#include "ngx_http_dsem_counters.h"

#define ngx_http_dsem_figures_names  text_counters

ngx_int_t text_counters(ngx_pool_t *pool, ngx_uint_t most,
    ngx_array_t *names);

#include "ngx_http_dsem_fleet.h"
#include "ngx_http_dsem_key.h"
#include "ngx_http_dsem_resp.h"
#include "ngx_http_dsem_roster.c"
#include "ngx_http_dsem_script.h"


#define TEXT_MAX_NAMES   32


static void text_inspect(ngx_uint_t n, ngx_str_t *text);
static void text_fleet(ngx_http_dsem_fleet_t *fleet, ngx_uint_t n);
static void text_semaphore(ngx_http_dsem_survey_semaphore_t *semaphore,
    ngx_uint_t n);
static void text_holders(ngx_array_t *holders);
static void text_names(ngx_str_t *text);
static void text_roster(void);
static void text_info(ngx_str_t *text);


FUZZ_TARGET(text)(const uint8_t *data, size_t size)
{
    ngx_str_t   line, text;
    ngx_uint_t  n;

    fuzz_line(&line, &data, &size);

    if (line.len == 0) {
        return 0;
    }

    fuzz_copy(&text, data, size);

    switch (line.data[0]) {

    case 'f':
        n = (line.len > 1) ? (u_char) (line.data[1] - '0') : 1;
        text_inspect(n % TEXT_MAX_NAMES, &text);
        break;

    case 'r':
        text_names(&text);
        break;

    case 'i':
        text_info(&text);
    }

    free(text.data);

    return 0;
}


static void
text_inspect(ngx_uint_t n, ngx_str_t *text)
{
    char                    buf[32];
    ngx_int_t               rc;
    ngx_str_t               name, rest;
    ngx_uint_t              i;
    ngx_http_dsem_fleet_t  *fleet;

    fleet = ngx_http_dsem_fleet_create();
    fuzz_check(fleet);

    for (i = 0; i < n; i++) {
        name.data = (u_char *) buf;
        name.len = sprintf(buf, "s%lu", (unsigned long) i);

        fuzz_check(ngx_http_dsem_fleet_add(fleet, &name, 0));
    }

    rest = *text;
    rc = ngx_http_dsem_inspect_read(fleet, 0, n, 1, &rest);

    fuzz_check(rc == NGX_OK || rc == NGX_DECLINED);

    if (rc == NGX_OK) {
        text_fleet(fleet, n);
    }

    ngx_http_dsem_fleet_destroy(fleet);
}


static void
text_fleet(ngx_http_dsem_fleet_t *fleet, ngx_uint_t n)
{
    ngx_uint_t                         i;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    ngx_http_dsem_fleet_complete(fleet);
    fuzz_check(fleet->survey.semaphores.nelts <= n);

    semaphore = fleet->survey.semaphores.elts;

    for (i = 0; i < fleet->survey.semaphores.nelts; i++) {
        text_semaphore(&semaphore[i], n);

        fuzz_check(ngx_http_dsem_text_find(&fleet->survey.semaphores,
                                           &semaphore[i].name)
                   == &semaphore[i]);
    }
}


static void
text_semaphore(ngx_http_dsem_survey_semaphore_t *semaphore, ngx_uint_t n)
{
    ngx_uint_t                     i;
    ngx_http_dsem_disagreement_t  *disagreement;

    fuzz_check(semaphore->in_redis);
    fuzz_check(semaphore->name.len > 1 && semaphore->name.data[0] == 's');
    fuzz_check((ngx_uint_t) ngx_atoi(semaphore->name.data + 1,
                                     semaphore->name.len - 1) < n);
    fuzz_check(semaphore->order == (semaphore->ordered != -1
                                    || semaphore->paused));
    fuzz_check(semaphore->limit >= -1 && semaphore->configured >= -1
               && semaphore->ordered >= -1);

    text_holders(&semaphore->holders);

    disagreement = semaphore->disagreements.elts;

    for (i = 0; i < semaphore->disagreements.nelts; i++) {
        fuzz_check(disagreement[i].node.len);
        fuzz_check(ngx_http_dsem_fleet_is_name(&disagreement[i].node)
                   || disagreement[i].node.len > NGX_HTTP_DSEM_MAX_NAME);
    }
}


static void
text_holders(ngx_array_t *holders)
{
    ngx_uint_t               i;
    ngx_http_dsem_holder_t  *holder, again;

    holder = holders->elts;

    for (i = 0; i < holders->nelts; i++) {
        fuzz_check(holder[i].session.len <= NGX_HTTP_DSEM_SESSION_LEN);
        fuzz_check(ngx_http_dsem_fleet_session(&holder[i].session, &again)
                   == NGX_OK);
        fuzz_check(again.node.len == holder[i].node.len
                   && again.worker == holder[i].worker
                   && memcmp(again.node.data, holder[i].node.data,
                             again.node.len) == 0);
    }
}


static void
text_names(ngx_str_t *text)
{
    u_char     *p, *end, *last;
    ngx_int_t   rc;
    ngx_str_t   reply, rest;

    ngx_http_dsem_roster_init();

    last = text->data + text->len;

    for (p = text->data; p < last; p = end + 2) {
        end = memmem(p, last - p, "\n\n", 2);
        end = end ? end : last;

        fuzz_copy(&reply, p, end - p);

        rest = reply;
        rc = ngx_http_dsem_roster_read(0, &rest);

        fuzz_check(rc == NGX_OK || rc == NGX_DECLINED);
        text_roster();

        free(reply.data);

        if (end == last) {
            break;
        }
    }

    ngx_http_dsem_roster_free();
}


static void
text_roster(void)
{
    ngx_str_t                         *cursor;
    ngx_uint_t                         i;
    ngx_http_dsem_fleet_t             *fleet;
    ngx_http_dsem_survey_semaphore_t  *semaphore;

    cursor = ngx_http_dsem_roster_cursor(0);
    fuzz_check(cursor->len && cursor->len <= NGX_HTTP_DSEM_ROSTER_CURSOR);

    for (i = 0; i < cursor->len; i++) {
        fuzz_check(isdigit(cursor->data[i]));
    }

    fleet = ngx_http_dsem_fleet_create();
    fuzz_check(fleet && ngx_http_dsem_roster_add(fleet, 1) == NGX_OK);

    fuzz_check(fleet->survey.semaphores.nelts
               <= NGX_HTTP_DSEM_ROSTER_MAX_NAMES);

    semaphore = fleet->survey.semaphores.elts;

    for (i = 0; i < fleet->survey.semaphores.nelts; i++) {
        fuzz_check(ngx_http_dsem_fleet_is_name(&semaphore[i].name));
    }

    ngx_http_dsem_fleet_destroy(fleet);
}


/* of this node: it has counted nothing */

ngx_int_t
text_counters(ngx_pool_t *pool, ngx_uint_t most, ngx_array_t *names)
{
    return ngx_array_init(names, pool, 1,
                          sizeof(ngx_http_dsem_counters_name_t));
}


static void
text_info(ngx_str_t *text)
{
    char                   *str;
    size_t                  i;
    ngx_http_dsem_info_t   *info;

    str = malloc(text->len + 1);
    ngx_memcpy(str, text->data, text->len);
    str[text->len] = '\0';

    info = malloc(sizeof(ngx_http_dsem_info_t));

    ngx_http_dsem_info_read(info, str);

    fuzz_check(info->server.len <= NGX_HTTP_DSEM_SERVER_LEN);
    fuzz_check(info->policy.len <= NGX_HTTP_DSEM_SERVER_LEN);

    for (i = 0; i < info->server.len; i++) {
        fuzz_check(info->server.data[i] >= ' ' && info->server.data[i] <= '~');
    }

    for (i = 0; i < info->policy.len; i++) {
        fuzz_check(info->policy.data[i] > ' ' && info->policy.data[i] <= '~');
    }

    ngx_http_dsem_info_log(info, &info->server, 1);

    free(info);
    free(str);
}
