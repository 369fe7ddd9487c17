
/*
 * The fuzzer of the guard: types and functions that its files share.
 */


#ifndef _FUZZ_H_INCLUDED_
#define _FUZZ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_http_dsem_guard.h"


#define FUZZ_NAME      "node-1:0:0123456789abcdef"
#define FUZZ_CHANNEL   "dsem:{0}:c:node-1:0:0123456789abcdef"

/* bytes of one turn; a reply that does not fit is cut */
#define FUZZ_TEXT_LEN  (128 * 1024)

/* bytes of one reply that the adapter reads at most */
#define FUZZ_MAX_REPLY  (4 * 1024 * 1024)

#define FUZZ_MAX_CALLS  64


typedef struct {
    size_t                   len;
    u_char                   data[FUZZ_TEXT_LEN];
} fuzz_text_t;


typedef struct fuzz_connection_s  fuzz_connection_t;


typedef struct {
    fuzz_connection_t       *connection;
    ngx_uint_t               number;
    ngx_uint_t               replies;
    ngx_uint_t               lost;      /* called with no reply */
} fuzz_call_t;


/* all zero but for the settings: not connected */
struct fuzz_connection_s {
    redisAsyncContext       *ac;        /* NULL: gone */
    ngx_http_dsem_guard_t    guard;
    int                      peer;      /* Redis' end */

    fuzz_call_t              calls[FUZZ_MAX_CALLS];
    ngx_uint_t               ncalls;
    ngx_uint_t               nreplies;

    /* NULL: none; called first, with each reply */
    void                   (*look)(fuzz_connection_t *connection,
                                   redisReply *reply);

    unsigned                 unguarded:1;
    unsigned                 subscribed:1;
    unsigned                 pairs:1;          /* replies of Sentinel */
    unsigned                 owner_closes:1;   /* in the next callback */
    unsigned                 owner_sends:1;    /* likewise */
    unsigned                 numbered:1;       /* replies say their call */
    unsigned                 misled:1;         /* not only by good replies */
};


/* connection.c */

void fuzz_listen(void);
void fuzz_unlisten(void);
ngx_int_t fuzz_connect(fuzz_connection_t *connection);
ngx_int_t fuzz_send(fuzz_connection_t *connection);
ngx_int_t fuzz_subscribe(fuzz_connection_t *connection);
void fuzz_write(fuzz_connection_t *connection);
void fuzz_receive(fuzz_connection_t *connection, u_char *data, size_t len);
void fuzz_eof(fuzz_connection_t *connection);
void fuzz_close(fuzz_connection_t *connection);
void fuzz_finish(fuzz_connection_t *connection);

/* reply.c */

void fuzz_seed(uint64_t seed, uint64_t round);
ngx_uint_t fuzz_below(ngx_uint_t n);
void fuzz_add(fuzz_text_t *text, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void fuzz_good_reply(fuzz_text_t *text, ngx_uint_t number);
void fuzz_good_message(fuzz_text_t *text, const char *kind,
    const char *third);
void fuzz_replies(fuzz_text_t *text, fuzz_connection_t *connection,
    ngx_uint_t pending, ngx_uint_t evil);

/* memory.c */

extern size_t      fuzz_memory_used;
extern size_t      fuzz_memory_peak;
extern ngx_uint_t  fuzz_memory_fail_at;
extern ngx_uint_t  fuzz_memory_fail_all;
extern ngx_uint_t  fuzz_memory_failed;

ngx_uint_t fuzz_memory_walk(void);

/* corpus.c */

ngx_uint_t fuzz_corpus(void);

/* guard.c */

void fuzz_fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));
void fuzz_show(const char *what, u_char *data, size_t len);


#endif /* _FUZZ_H_INCLUDED_ */
