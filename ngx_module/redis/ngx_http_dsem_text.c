
/*
 * Text: lines, words and numbers of what Redis sends as text, and the order of
 * names.
 *
 * Only arithmetic on strings that know their length: no byte behind the end is
 * read, whatever the text.  Each function takes what it returns off the front.
 *
 * Called by: script (the first line of a reply), fleet, roster and message; the
 * order of names: whatever has a sorted list of them.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_text.h"


/* fits any integer that a script can represent exactly */
#define NGX_HTTP_DSEM_TEXT_DIGITS  16


/* the next line, without its end; NGX_DONE: no more */

ngx_int_t
ngx_http_dsem_text_line(ngx_str_t *text, ngx_str_t *line)
{
    u_char  *p, *last;

    if (text->len == 0) {
        return NGX_DONE;
    }

    last = text->data + text->len;
    p = ngx_strlchr(text->data, last, LF);

    line->data = text->data;
    line->len = (p ? p : last) - text->data;

    text->data = p ? p + 1 : last;
    text->len = last - text->data;

    return NGX_OK;
}


/* the next word, up to a blank; it is empty if there is none */

ngx_str_t
ngx_http_dsem_text_word(ngx_str_t *line)
{
    u_char     *p, *last;
    ngx_str_t   word;

    last = line->data + line->len;
    p = ngx_strlchr(line->data, last, ' ');

    word.data = line->data;
    word.len = (p ? p : last) - line->data;

    line->data = p ? p + 1 : last;
    line->len = last - line->data;

    return word;
}


ngx_uint_t
ngx_http_dsem_text_is(ngx_str_t *word, const char *text)
{
    return word->len == ngx_strlen(text)
           && ngx_strncmp(word->data, text, word->len) == 0;
}


/* the next word, which is an integer; NGX_ERROR: it is none */

ngx_int_t
ngx_http_dsem_text_number(ngx_str_t *line, int64_t *value)
{
    int64_t     n;
    ngx_str_t   word;
    ngx_uint_t  negative;

    word = ngx_http_dsem_text_word(line);

    negative = (word.len && word.data[0] == '-');

    if (negative) {
        word.data++;
        word.len--;
    }

    if (word.len == 0 || word.len > NGX_HTTP_DSEM_TEXT_DIGITS) {
        return NGX_ERROR;
    }

    for (n = 0; word.len; word.data++, word.len--) {

        if (*word.data < '0' || *word.data > '9') {
            return NGX_ERROR;
        }

        n = n * 10 + (*word.data - '0');
    }

    *value = negative ? -n : n;

    return NGX_OK;
}


/* 0: equal; for strings, and elements that begin with a name */

int ngx_libc_cdecl
ngx_http_dsem_text_order(const void *one, const void *two)
{
    const ngx_str_t *first = one;
    const ngx_str_t *second = two;

    return (int) ngx_memn2cmp(first->data, second->data, first->len,
                              second->len);
}


/* the element of this name, of an array in that order; NULL: there is none */

void *
ngx_http_dsem_text_find(ngx_array_t *sorted, ngx_str_t *name)
{
    int          order;
    u_char      *element;
    ngx_uint_t   low, high, middle;

    low = 0;
    high = sorted->nelts;

    while (low < high) {
        middle = low + (high - low) / 2;
        element = (u_char *) sorted->elts + middle * sorted->size;

        order = ngx_http_dsem_text_order(name, element);

        if (order == 0) {
            return element;
        }

        if (order < 0) {
            high = middle;

        } else {
            low = middle + 1;
        }
    }

    return NULL;
}
