
/*
 * "limit=auto" in the answers of the API: the limit found, why it is what it
 * is, and how it got there.
 *
 * Called by: api_semaphores (JSON), api_metrics (words).
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_api_auto.h"
#include "ngx_http_dsem_api_json.h"


static void ngx_http_dsem_api_auto_time(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_int_t us);
static void ngx_http_dsem_api_auto_word(ngx_http_dsem_api_text_t *text,
    const char *key, ngx_int_t reason);


/* in the order of AUTO_REASON in lua/include/auto_rule.lua */
static const char *const  ngx_http_dsem_api_auto_reasons[] = {
    "starting", "not used", "probing", "latency", "errors", "bound"
};


/* the word of a reason; Redis may have newer scripts than this node */

const char *
ngx_http_dsem_api_auto_reason(ngx_int_t reason)
{
    if (reason < 0 || reason >= NGX_HTTP_DSEM_API_REASONS) {
        return "unknown";
    }

    return ngx_http_dsem_api_auto_reasons[reason];
}


/* as the member "auto" of a semaphore; found may be NULL */

void
ngx_http_dsem_api_auto(ngx_http_dsem_api_text_t *text,
    ngx_http_dsem_found_t *found)
{
    ngx_uint_t             i;
    ngx_http_dsem_move_t  *move;

    if (found == NULL) {
        ngx_http_dsem_json_literal(text, "auto", "null");
        return;
    }

    ngx_http_dsem_json_open(text, "auto", "{");
    ngx_http_dsem_json_maybe(text, "min", found->min);
    ngx_http_dsem_json_maybe(text, "max", found->max);
    ngx_http_dsem_json_maybe(text, "found", found->limit);
    ngx_http_dsem_api_auto_word(text, "reason", found->reason);
    ngx_http_dsem_api_auto_time(text, "floor", found->floor);
    ngx_http_dsem_api_auto_time(text, "latency", found->latency);

    ngx_http_dsem_json_open(text, "history", "[");

    move = found->moves.elts;

    for (i = 0; i < found->moves.nelts; i++) {
        ngx_http_dsem_json_open(text, NULL, "{");
        ngx_http_dsem_json_seconds(text, "age", ngx_max(move[i].age, 0));
        ngx_http_dsem_json_maybe(text, "limit", move[i].limit);
        ngx_http_dsem_api_auto_word(text, "reason", move[i].reason);
        ngx_http_dsem_json_close(text, "}");
    }

    ngx_http_dsem_json_close(text, "]");
    ngx_http_dsem_json_close(text, "}");
}


/* seconds; null where it is unknown */

static void
ngx_http_dsem_api_auto_time(ngx_http_dsem_api_text_t *text, const char *key,
    ngx_int_t us)
{
    char  value[2 * NGX_INT_T_LEN + 3];

    if (us <= 0) {
        ngx_http_dsem_json_literal(text, key, "null");
        return;
    }

    ngx_sprintf((u_char *) value, "%i.%06i%Z", us / 1000000, us % 1000000);

    ngx_http_dsem_json_literal(text, key, value);
}


static void
ngx_http_dsem_api_auto_word(ngx_http_dsem_api_text_t *text, const char *key,
    ngx_int_t reason)
{
    ngx_str_t  word;

    word.data = (u_char *) ngx_http_dsem_api_auto_reason(reason);
    word.len = ngx_strlen(word.data);

    ngx_http_dsem_json_string(text, key, &word);
}
