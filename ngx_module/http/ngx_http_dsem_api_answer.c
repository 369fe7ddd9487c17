
/*
 * Answers of the API: status, headers and body, and errors as JSON.
 *
 * No answer may be stored by a cache or taken for another type.  A body that
 * the client has sent and that is not read is discarded, so that the
 * connection can be kept alive.
 *
 * Called by: all of the API; headers: hold and refusal, too; cleanups: hold,
 * and handler for a request that runs its post_action.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include "ngx_http_dsem_api_answer.h"
#include "ngx_http_dsem_api_json.h"


/* of a sentence */
#define NGX_HTTP_DSEM_API_SENTENCE  512


/* ends what a content handler waits for */
typedef struct {
    ngx_http_request_t   *request;
    ngx_pool_cleanup_pt   handler;
    void                 *data;
} ngx_http_dsem_answer_cleanup_t;


static void ngx_http_dsem_answer_cleanup_handler(void *data);


/*
 * Sends a whole answer.
 *
 * type   of the content, a literal; what follows ";" is a parameter
 */

ngx_int_t
ngx_http_dsem_answer_send(ngx_http_request_t *r, ngx_uint_t status,
    const char *type, ngx_http_dsem_api_text_t *text)
{
    off_t         size;
    ngx_int_t     rc;
    ngx_chain_t  *out;

    static ngx_str_t  no_store = ngx_string("no-store");
    static ngx_str_t  nosniff = ngx_string("nosniff");

    out = ngx_http_dsem_api_text_end(text, &size);
    if (out == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    r->headers_out.status = status;
    r->headers_out.content_length_n = size;

    /* no condition makes another answer of it: a change may have been made */

    r->disable_not_modified = 1;

    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = ngx_strlen(type);
    r->headers_out.content_type_len = strcspn(type, ";");
    r->headers_out.content_type_lowcase = NULL;

    if (ngx_http_dsem_answer_header(r, "Cache-Control", &no_store) != NGX_OK
        || ngx_http_dsem_answer_header(r, "X-Content-Type-Options", &nosniff)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    text->buf->last_buf = (r == r->main);
    text->buf->last_in_chain = 1;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    return ngx_http_output_filter(r, out);
}


/* one sentence, in the format of ngx_sprintf() */

ngx_int_t
ngx_http_dsem_answer_error(ngx_http_request_t *r, ngx_uint_t status,
    const char *fmt, ...)
{
    u_char                     buf[NGX_HTTP_DSEM_API_SENTENCE];
    va_list                    args;
    ngx_str_t                  sentence;
    ngx_http_dsem_api_text_t   text;

    va_start(args, fmt);
    sentence.data = buf;
    sentence.len = ngx_vslprintf(buf, buf + sizeof(buf), fmt, args) - buf;
    va_end(args);

    ngx_http_dsem_api_text_init(&text, r->pool);

    ngx_http_dsem_json_open(&text, NULL, "{");
    ngx_http_dsem_json_string(&text, "error", &sentence);
    ngx_http_dsem_json_number(&text, "status", status);
    ngx_http_dsem_json_close(&text, "}");
    ngx_http_dsem_api_text_put(&text, "\n");

    return ngx_http_dsem_answer_send(r, status, NGX_HTTP_DSEM_API_JSON, &text);
}


/*
 * The answer comes later: a content handler returns what this does.  A client
 * that leaves ends the request, a subrequest is ended by its main request.
 */

ngx_int_t
ngx_http_dsem_answer_later(ngx_http_request_t *r)
{
    ngx_event_t  *rev;

    r->write_event_handler = ngx_http_request_empty_handler;

    if (r == r->main) {
        rev = r->connection->read;
        r->read_event_handler = ngx_http_test_reading;

        /* a close that came before gives no further event */

        if (rev->ready) {
            ngx_post_event(rev, &ngx_posted_events);

        } else if (ngx_handle_read_event(rev, 0) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }

    r->main->count++;

    return NGX_DONE;
}


/*
 * A content handler is to be called by other events than those of its request:
 * "handler" ends that.  It is called with "data" when the request ends, and
 * before when it runs a post_action: twice, then.
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_answer_cleanup(ngx_http_request_t *r,
    ngx_pool_cleanup_pt handler, void *data)
{
    ngx_http_cleanup_t              *cln;
    ngx_http_dsem_answer_cleanup_t  *cleanup;

    cln = ngx_http_cleanup_add(r, sizeof(ngx_http_dsem_answer_cleanup_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cleanup = cln->data;

    cleanup->request = r;
    cleanup->handler = handler;
    cleanup->data = data;

    cln->handler = ngx_http_dsem_answer_cleanup_handler;

    return NGX_OK;
}


static void
ngx_http_dsem_answer_cleanup_handler(void *data)
{
    ngx_http_dsem_answer_cleanup_t *cleanup = data;

    cleanup->handler(cleanup->data);
}


/* the request runs its post_action, which has a content handler of its own */

void
ngx_http_dsem_answer_abandon(ngx_http_request_t *r)
{
    ngx_http_cleanup_t              *cln;
    ngx_http_dsem_answer_cleanup_t  *cleanup;

    for (cln = r->main->cleanup; cln; cln = cln->next) {

        if (cln->handler != ngx_http_dsem_answer_cleanup_handler) {
            continue;
        }

        cleanup = cln->data;

        if (cleanup->request == r) {
            cleanup->handler(cleanup->data);
        }
    }
}


/*
 * Adds a header to the answer.
 *
 * key     a literal
 * value   its bytes live as long as the request
 *
 * Returns NGX_OK, or NGX_ERROR when there is no memory.
 */

ngx_int_t
ngx_http_dsem_answer_header(ngx_http_request_t *r, const char *key,
    ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    h->key.data = (u_char *) key;
    h->key.len = ngx_strlen(key);
    h->value = *value;

    return NGX_OK;
}


/*
 * The next header that has this name, of those of a request or of an answer.
 *
 * cursor   zeros before the first one; as many headers as a client likes are
 *          searched once
 *
 * One that a module has cleared is none, as in the variables of nginx.
 *
 * Returns its value, or NULL.
 */

ngx_str_t *
ngx_http_dsem_answer_sent(ngx_list_t *headers, const char *key,
    ngx_http_dsem_answer_cursor_t *cursor)
{
    size_t            len;
    ngx_table_elt_t  *h;

    len = ngx_strlen(key);

    if (cursor->part == NULL) {
        cursor->part = &headers->part;
    }

    for ( ;; ) {

        while (cursor->next < cursor->part->nelts) {
            h = cursor->part->elts;
            h += cursor->next++;

            if (h->hash
                && h->key.len == len
                && ngx_strncasecmp(h->key.data, (u_char *) key, len) == 0)
            {
                return &h->value;
            }
        }

        if (cursor->part->next == NULL) {
            return NULL;
        }

        cursor->part = cursor->part->next;
        cursor->next = 0;
    }
}
