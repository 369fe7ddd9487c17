
/*
 * The replies of a hostile Redis: good ones, and mutations of them.
 *
 * Knows the grammar: an element is replaced by one of any type and depth, a
 * length by one that is negative, huge or badly written, a name by one that
 * hiredis takes for another; then bytes are changed, cut, repeated.  All of
 * it follows from the seed.
 *
 * Called by: guard, memory.
 */


#include "fuzz.h"
#include <stdio.h>


#define FUZZ_MAX_DEPTH  11


static const char *fuzz_one_of(const char **words, ngx_uint_t n);
static void fuzz_length(fuzz_text_t *text, ngx_uint_t n, ngx_uint_t evil);
static void fuzz_string(fuzz_text_t *text, const char *str,
    ngx_uint_t evil);
static void fuzz_value(fuzz_text_t *text, ngx_uint_t depth);
static void fuzz_junk(fuzz_text_t *text);
static void fuzz_array(fuzz_text_t *text, ngx_uint_t evil);
static void fuzz_pair(fuzz_text_t *text, ngx_uint_t evil);
static void fuzz_message(fuzz_text_t *text, ngx_uint_t evil);
static void fuzz_bytes(fuzz_text_t *text);

#define fuzz_any(words)                                                       \
    fuzz_one_of(words, sizeof(words) / sizeof(words[0]))


static const char  *fuzz_numbers[] = {
    "0", "1", "2", "3", "4", "5", "-1", "-2", "-0", "00", "01", "+3", " 3",
    "3 ", "", "-", "?", "1e3", "0x10", "127", "128", "129", "255", "256",
    "65535", "65536", "262144", "262145", "524288", "1048576", "2147483647",
    "2147483648", "-2147483648", "4294967295", "4294967296",
    "9007199254740993", "1152921504606846976", "4611686018427387904",
    "9223372036854775806", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "99999999999999999999999999"
};

static const char  *fuzz_kinds[] = {
    "message", "subscribe", "unsubscribe", "pmessage", "psubscribe",
    "punsubscribe", "ssubscribe", "smessage", "sunsubscribe", "MESSAGE",
    "Subscribe", "UNSUBSCRIBE", "invalidate", "", "p", "P", "m", "s",
    "messages", "messag", "subscribe ", "monitor", "pong", "psubscrib"
};

static const char  *fuzz_channels[] = {
    FUZZ_CHANNEL, FUZZ_CHANNEL, FUZZ_CHANNEL, FUZZ_CHANNEL "x", "",
    "dsem:{0}:c:node-1:0:0123456789abcde", "dsem:{0}:c:*", "*",
    "DSEM:{0}:c:node-1:0:0123456789abcdef"
};

static const char  *fuzz_texts[] = {
    "OK", "PONG", "", "1", "x", FUZZ_NAME, "message", "subscribe",
    "ERR unknown command", "NOSCRIPT No matching script.", "NOAUTH",
    "MOVED 0 127.0.0.1:1", "0123456789012345678901234567890123456789",
    "%s%n%n", "txt:abc", "\r", "\n", "-ERR", "*3", "$-1"
};

static uint64_t  fuzz_state;


void
fuzz_seed(uint64_t seed, uint64_t round)
{
    fuzz_state = seed * 0x9e3779b97f4a7c15 ^ round * 0xd1b54a32d192ed03;
}


/* splitmix64 */

ngx_uint_t
fuzz_below(ngx_uint_t n)
{
    uint64_t  z;

    fuzz_state += 0x9e3779b97f4a7c15;

    z = fuzz_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;

    return (z ^ (z >> 31)) % n;
}


void
fuzz_add(fuzz_text_t *text, const char *fmt, ...)
{
    int      n;
    size_t   left;
    va_list  args;

    left = FUZZ_TEXT_LEN - text->len;

    va_start(args, fmt);
    n = vsnprintf((char *) text->data + text->len, left, fmt, args);
    va_end(args);

    /* the last byte is a NUL, which the async API wants behind a command */
    text->len += ngx_min((size_t) n, left - 1);
}


static const char *
fuzz_one_of(const char **words, ngx_uint_t n)
{
    return words[fuzz_below(n)];
}


/* as our scripts reply */

void
fuzz_good_reply(fuzz_text_t *text, ngx_uint_t number)
{
    fuzz_add(text, "*6\r\n$%zu\r\n%s\r\n:7\r\n:%lu\r\n:0\r\n:100\r\n:-1\r\n",
             sizeof(FUZZ_NAME) - 1, FUZZ_NAME, (unsigned long) number);
}


void
fuzz_good_message(fuzz_text_t *text, const char *kind, const char *third)
{
    fuzz_add(text, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n%s\r\n", strlen(kind),
             kind, sizeof(FUZZ_CHANNEL) - 1, FUZZ_CHANNEL, third);
}


/* evil 0: exactly the replies expected; 3: hardly one of them is right */

void
fuzz_replies(fuzz_text_t *text, fuzz_connection_t *connection,
    ngx_uint_t pending, ngx_uint_t evil)
{
    ngx_uint_t  i, n, subscribed;

    subscribed = connection->subscribed;
    n = subscribed ? 1 : pending;

    if (evil) {
        /* none, too few or too many */
        n = fuzz_below(4) ? n + fuzz_below(3) : fuzz_below(n + 1);
    }

    for (i = 0; i < n; i++) {

        if (evil && fuzz_below(8) < evil) {
            fuzz_value(text, 0);

        } else if (evil && fuzz_below(32) < evil) {
            fuzz_junk(text);

        } else if (subscribed ? !evil || fuzz_below(16)
                              : evil && fuzz_below(16) == 0)
        {
            fuzz_message(text, evil);

        } else if (fuzz_below(4)) {

            if (connection->pairs) {
                fuzz_pair(text, evil);

            } else {
                fuzz_array(text, evil);
            }

        } else if (fuzz_below(2)) {
            fuzz_add(text, "%c%s\r\n", fuzz_below(2) ? '+' : '-', "OK");

        } else {
            fuzz_string(text, "0123456789", evil);
        }
    }

    if (evil && fuzz_below(4) < evil) {
        fuzz_bytes(text);
    }
}


/* usually n, and rarely right when evil */

static void
fuzz_length(fuzz_text_t *text, ngx_uint_t n, ngx_uint_t evil)
{
    if (evil && fuzz_below(24) < evil) {

        if (fuzz_below(2)) {
            n += fuzz_below(3) - 1;

        } else {
            fuzz_add(text, "%s\r\n", fuzz_any(fuzz_numbers));
            return;
        }
    }

    fuzz_add(text, "%ld\r\n", (long) n);
}


static void
fuzz_string(fuzz_text_t *text, const char *str, ngx_uint_t evil)
{
    static const char  types[] = "$$$$$$=+-(";

    if (evil && fuzz_below(64) < evil) {
        fuzz_value(text, 1);
        return;
    }

    fuzz_add(text, "%c", evil ? types[fuzz_below(10)] : '$');

    if (text->data[text->len - 1] == '$' || text->data[text->len - 1] == '=') {
        fuzz_length(text, strlen(str), evil);
    }

    fuzz_add(text, "%s\r\n", str);
}


/* a value of any type, complete or not */

static void
fuzz_value(fuzz_text_t *text, ngx_uint_t depth)
{
    u_char       type;
    ngx_uint_t   i, n;
    const char  *str;

    static const u_char  types[] = "*$:+-*$:*%~>|_,#(=!^";
    static const char   *doubles[] = {
        "1.5", "inf", "-inf", "nan", "1e999", "", "0x1p3", "-0"
    };

    type = types[fuzz_below(sizeof(types) - 1)];
    fuzz_add(text, "%c", type);

    switch (type) {

    case '*':
    case '%':
    case '~':
    case '>':
    case '|':
        n = fuzz_below(5);
        fuzz_length(text, n, 2);

        if (type == '%' || type == '|') {
            n *= 2;
        }

        for (i = 0; i < n && depth < FUZZ_MAX_DEPTH; i++) {

            if (fuzz_below(4)) {
                /* short, so that whole ones happen */
                fuzz_add(text, fuzz_below(2) ? ":1\r\n" : "$1\r\na\r\n");

            } else {
                fuzz_value(text, depth + 1);
            }
        }

        /* one inside of another, deeper than hiredis 0.14 goes */

        while (n && depth < FUZZ_MAX_DEPTH && fuzz_below(4) == 0) {
            fuzz_add(text, "*1\r\n");
            depth++;
        }

        return;

    case '$':
    case '=':
    case '!':
        str = fuzz_any(fuzz_texts);
        fuzz_length(text, strlen(str), 2);
        fuzz_add(text, "%s\r\n", str);
        return;

    case ':':
    case '(':
        fuzz_add(text, "%s\r\n", fuzz_any(fuzz_numbers));
        return;

    case ',':
        fuzz_add(text, "%s\r\n", fuzz_any(doubles));
        return;

    case '#':
        fuzz_add(text, "%c\r\n", "tfTFx1"[fuzz_below(6)]);
        return;

    case '_':
        fuzz_add(text, fuzz_below(8) ? "\r\n" : "x\r\n");
        return;

    default:
        fuzz_add(text, "%s\r\n", fuzz_any(fuzz_texts));
    }
}


static void
fuzz_junk(fuzz_text_t *text)
{
    ngx_uint_t  n;

    static const u_char  marks[] = "\r\n*$:+->%~";

    for (n = 1 + fuzz_below(40); n && text->len < FUZZ_TEXT_LEN - 1; n--) {
        text->data[text->len++] = fuzz_below(4) ? fuzz_below(256)
                                                : marks[fuzz_below(10)];
    }
}


/* as a sentinel replies: a host and a port, or nil */

static void
fuzz_pair(fuzz_text_t *text, ngx_uint_t evil)
{
    if (fuzz_below(8) == 0) {
        fuzz_add(text, fuzz_below(2) ? "*-1\r\n" : "$-1\r\n");
        return;
    }

    fuzz_add(text, "*");
    fuzz_length(text, 2, evil);
    fuzz_string(text, "127.0.0.1", evil);
    fuzz_string(text, "6379", evil);
}


/* as a script replies: its session's name, and integers */

static void
fuzz_array(fuzz_text_t *text, ngx_uint_t evil)
{
    ngx_uint_t  i, n;

    static const char  types[] = "*****>~%|";

    n = 4 + (fuzz_below(8) ? fuzz_below(12) : fuzz_below(400));

    fuzz_add(text, "%c", evil && fuzz_below(16) < evil
                         ? types[fuzz_below(sizeof(types) - 1)] : '*');
    fuzz_length(text, n, evil);

    for (i = 0; i < n; i++) {

        if (evil && fuzz_below(16 * n) < evil) {
            fuzz_value(text, 1);

        } else if (i == 0 && evil && fuzz_below(32) < evil) {
            /* longer than a session's name can be */
            fuzz_add(text, "$%d\r\n%0*d\r\n", 130, 130, 0);

        } else if (i == 0) {
            fuzz_string(text, FUZZ_NAME, evil);

        } else {
            fuzz_add(text, ":%ld\r\n", (long) fuzz_below(3) - 1);
        }
    }
}


static void
fuzz_message(fuzz_text_t *text, ngx_uint_t evil)
{
    ngx_uint_t   i, n;
    const char  *part;

    static const char  types[] = "****>>~%";

    if (evil == 0) {

        if (fuzz_below(4)) {
            fuzz_good_message(text, "message", "$2\r\n17");

        } else {
            fuzz_good_message(text, "subscribe", ":1");
        }

        return;
    }

    n = fuzz_below(8) < evil ? fuzz_below(6) : 3;

    fuzz_add(text, "%c", fuzz_below(12) < evil
                         ? types[fuzz_below(sizeof(types) - 1)] : '*');
    fuzz_length(text, n, evil);

    for (i = 0; i < n; i++) {

        if (fuzz_below(12) < evil) {
            fuzz_value(text, 1);
            continue;
        }

        switch (i) {

        case 0:
            part = fuzz_below(6) < evil ? fuzz_any(fuzz_kinds) : "message";
            break;

        case 1:
            part = fuzz_below(8) < evil ? fuzz_any(fuzz_channels)
                                        : FUZZ_CHANNEL;
            break;

        default:

            if (fuzz_below(4) == 0) {
                fuzz_add(text, ":%s\r\n", fuzz_any(fuzz_numbers));
                continue;
            }

            part = fuzz_any(fuzz_texts);
        }

        fuzz_add(text, "$%zu\r\n%s\r\n", strlen(part), part);
    }
}


/* below the grammar */

static void
fuzz_bytes(fuzz_text_t *text)
{
    size_t      at, len;
    ngx_uint_t  n;

    for (n = 1 + fuzz_below(3); n && text->len; n--) {

        at = fuzz_below(text->len);
        len = 1 + fuzz_below(ngx_min(text->len - at, 32));

        switch (fuzz_below(5)) {

        case 0:
            text->data[at] ^= 1 << fuzz_below(8);
            break;

        case 1:
            text->data[at] = fuzz_below(256);
            break;

        case 2:
            /* cut */
            text->len = at;
            break;

        case 3:
            /* left out */
            ngx_memmove(text->data + at, text->data + at + len,
                        text->len - at - len);
            text->len -= len;
            break;

        default:
            /* twice */
            if (text->len + len < FUZZ_TEXT_LEN) {
                ngx_memmove(text->data + at + len, text->data + at,
                            text->len - at);
                text->len += len;
            }
        }
    }
}
