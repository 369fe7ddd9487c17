
/*
 * The corpus: single replies that the guard must not let in, one by one.
 *
 * Each is sent to a connection that has one command pending, or to one that
 * is subscribed, and has to end it.
 *
 * Called by: guard.
 */


#include "fuzz.h"


#define FUZZ_MESSAGE(kind, channel, third)                                    \
    "*3\r\n" kind "\r\n" channel "\r\n" third "\r\n"

#define FUZZ_SELF  "$36\r\n" FUZZ_CHANNEL

#define FUZZ_X64                                                              \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"


static ngx_uint_t fuzz_corpus_reply(ngx_uint_t subscribed, const char *text);


static const char  *fuzz_corpus_commands[] = {
    /* no command of ours has such a reply */
    "$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345\r\n",
    "=5\r\ntxt:a\r\n", "!3\r\nERR\r\n", "%1\r\n$1\r\na\r\n:1\r\n",
    "~2\r\n$1\r\na\r\n:1\r\n", ">2\r\n$1\r\na\r\n:1\r\n", "|1\r\n+a\r\n+b\r\n",
    ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", "%0\r\n", "~0\r\n",
    ">0\r\n",

    /* lengths */
    "*262145\r\n", "*2147483647\r\n", "*2147483648\r\n", "*4294967295\r\n",
    "*4611686018427387904\r\n", "*9223372036854775807\r\n", "*-2\r\n",
    "*\r\n", "* 2\r\n", "$-2\r\n", "$9223372036854775808\r\n", "$+1\r\n",

    /* elements */
    "*1\r\n*0\r\n", "*2\r\n$1\r\na\r\n*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
    "*2\r\n*2\r\n$1\r\na\r\n:1\r\n:1\r\n", "*2\r\n+a\r\n:1\r\n",
    "*2\r\n-a\r\n:1\r\n", "*2\r\n$-1\r\n:1\r\n",
    "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\na\r\n$-1\r\n",
    "*2\r\n$1\r\na\r\n*-1\r\n", "*2\r\n$1\r\na\r\n+b\r\n",
    "*2\r\n$1\r\na\r\n:9223372036854775808\r\n", "*2\r\n$1\r\na\r\n:\r\n",
    "*2\r\n(1\r\n:1\r\n", "*2\r\n=5\r\ntxt:a\r\n:1\r\n",
    "*2\r\n$1\r\na\r\n,1\r\n", "*2\r\n$1\r\na\r\n#t\r\n",
    "*2\r\n$1\r\na\r\n_\r\n",
    "*2\r\n$129\r\n" FUZZ_X64 FUZZ_X64 "x\r\n:1\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
};


static const char  *fuzz_corpus_messages[] = {
    /* not a message */
    "-ERR\r\n", "+OK\r\n", ":1\r\n", "$2\r\nOK\r\n", "$-1\r\n", "*-1\r\n",
    "_\r\n", "#t\r\n", ",1\r\n", "*0\r\n", "*1\r\n$7\r\nmessage\r\n",
    "*2\r\n$7\r\nmessage\r\n" FUZZ_SELF "\r\n", "*4\r\n", "*2147483647\r\n",
    ">3\r\n$7\r\nmessage\r\n" FUZZ_SELF "\r\n$1\r\nx\r\n",
    "~3\r\n$7\r\nmessage\r\n" FUZZ_SELF "\r\n$1\r\nx\r\n",
    "*2\r\n$4\r\npong\r\n$0\r\n\r\n",

    /* of another kind */
    FUZZ_MESSAGE("$7\r\nMESSAGE", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE("$8\r\nmessages", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE("$0\r\n", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE("$-1", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE(":1", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE("+message", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE("*1\r\n$7\r\nmessage", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE("$8\r\npmessage", FUZZ_SELF, "$1\r\nx"),
    FUZZ_MESSAGE("$10\r\npsubscribe", FUZZ_SELF, ":1"),
    FUZZ_MESSAGE("$11\r\nunsubscribe", FUZZ_SELF, ":0"),
    FUZZ_MESSAGE("$11\r\nunsubscribe", FUZZ_SELF, "$1\r\n0"),
    FUZZ_MESSAGE("$12\r\npunsubscribe", "$-1", ":0"),
    FUZZ_MESSAGE("$11\r\nunsubscribe", "$-1", ":0"),

    /* of another channel */
    FUZZ_MESSAGE("$7\r\nmessage", "$1\r\nx", "$1\r\nx"),
    FUZZ_MESSAGE("$9\r\nsubscribe", "$1\r\nx", ":1"),
    FUZZ_MESSAGE("$9\r\nsubscribe", "$0\r\n", ":1"),
    FUZZ_MESSAGE("$7\r\nmessage", "$-1", "$1\r\nx"),
    FUZZ_MESSAGE("$7\r\nmessage", ":1", "$1\r\nx"),
    FUZZ_MESSAGE("$7\r\nmessage", "+" FUZZ_CHANNEL, "$1\r\nx"),
    FUZZ_MESSAGE("$7\r\nmessage", "$37\r\n" FUZZ_CHANNEL "x", "$1\r\nx"),

    /* with another text */
    FUZZ_MESSAGE("$7\r\nmessage", FUZZ_SELF, "$-1"),
    FUZZ_MESSAGE("$7\r\nmessage", FUZZ_SELF, "*-1"),
    FUZZ_MESSAGE("$7\r\nmessage", FUZZ_SELF, "*0"),
    FUZZ_MESSAGE("$7\r\nmessage", FUZZ_SELF, "*3\r\n:1\r\n:1\r\n:1"),
    FUZZ_MESSAGE("$7\r\nmessage", FUZZ_SELF, "+x"),
    FUZZ_MESSAGE("$7\r\nmessage", FUZZ_SELF, "-x")
};


/* returns how many replies there are; each of them has ended a connection */

ngx_uint_t
fuzz_corpus(void)
{
    ngx_uint_t  i, n;

    n = 0;

    for (i = 0; i < sizeof(fuzz_corpus_commands) / sizeof(char *); i++) {
        n += fuzz_corpus_reply(0, fuzz_corpus_commands[i]);
    }

    for (i = 0; i < sizeof(fuzz_corpus_messages) / sizeof(char *); i++) {
        n += fuzz_corpus_reply(1, fuzz_corpus_messages[i]);
    }

    return n;
}


static ngx_uint_t
fuzz_corpus_reply(ngx_uint_t subscribed, const char *text)
{
    size_t      i, used, len;
    ngx_uint_t  slices;

    static fuzz_connection_t  connection;

    len = strlen(text);
    used = fuzz_memory_used;

    /* whole, and byte by byte */

    for (slices = 0; slices < 2; slices++) {

        ngx_memzero(&connection, sizeof(fuzz_connection_t));

        if (fuzz_connect(&connection) != NGX_OK
            || (subscribed ? fuzz_subscribe(&connection)
                           : fuzz_send(&connection)) != NGX_OK)
        {
            fuzz_fail("no connection");
        }

        fuzz_write(&connection);

        if (slices) {
            for (i = 0; i < len; i++) {
                fuzz_receive(&connection, (u_char *) text + i, 1);
            }

        } else {
            fuzz_receive(&connection, (u_char *) text, len);
        }

        if (connection.ac || connection.nreplies) {
            fuzz_fail("let in: \"%s\"", text);
        }

        fuzz_finish(&connection);

        if (fuzz_memory_used != used) {
            fuzz_fail("%zu bytes in use became %zu: \"%s\"", used,
                      fuzz_memory_used, text);
        }
    }

    return 1;
}
