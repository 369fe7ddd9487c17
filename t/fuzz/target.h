
/*
 * A fuzz target: one function that gets bytes, and what it needs of nginx.
 *
 * It is linked with libFuzzer (make fuzz), and into the library that replays
 * the corpus (replay.c).
 */


#ifndef _FUZZ_TARGET_H_INCLUDED_
#define _FUZZ_TARGET_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* the only function of target/<name>.c that is not static; it returns 0 */
#ifdef FUZZ_REPLAY
#define FUZZ_TARGET(name)  int fuzz_target_##name
#else
#define FUZZ_TARGET(name)  int LLVMFuzzerTestOneInput
#endif


/* a promise that must hold whatever the bytes */
#define fuzz_check(promise)                                                   \
    if (!(promise)) fuzz_fail("%s:%d: not so: %s", __FILE__, __LINE__,        \
                              #promise)


FUZZ_TARGET(guard)(const uint8_t *data, size_t size);
#ifdef FUZZ_REPLAY
FUZZ_TARGET(api)(const uint8_t *data, size_t size);
FUZZ_TARGET(conf)(const uint8_t *data, size_t size);
FUZZ_TARGET(message)(const uint8_t *data, size_t size);
FUZZ_TARGET(name)(const uint8_t *data, size_t size);
FUZZ_TARGET(peers)(const uint8_t *data, size_t size);
FUZZ_TARGET(text)(const uint8_t *data, size_t size);
#endif

int LLVMFuzzerInitialize(int *argc, char ***argv);


/* target.c */

void fuzz_fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));
void fuzz_show(const char *what, u_char *data, size_t len);

/* memory that ends where the bytes do; free() */
void fuzz_copy(ngx_str_t *copy, const void *data, size_t size);

/* the first line, which is taken off the front */
void fuzz_line(ngx_str_t *line, const uint8_t **data, size_t *size);

/* what was logged since the log was emptied */
typedef struct {
    size_t                    len;
    u_char                    data[64 * 1024];
    ngx_uint_t                emerg;       /* lines at this level */
} fuzz_logged_t;

extern fuzz_logged_t  fuzz_logged;
extern ngx_cycle_t    fuzz_cycle;

ngx_uint_t fuzz_contains(ngx_str_t *text, const char *part);


#endif /* _FUZZ_TARGET_H_INCLUDED_ */
