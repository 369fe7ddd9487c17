
/*
 * The session: this worker process as Redis knows it, in one shard.
 */


#ifndef _NGX_HTTP_DSEM_SESSION_H_INCLUDED_
#define _NGX_HTTP_DSEM_SESSION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include "ngx_http_dsem_limits.h"
#include "ngx_http_dsem_monotonic.h"
#include "ngx_http_dsem_redis.h"
#include "ngx_http_dsem_zone.h"


typedef enum {
    NGX_HTTP_DSEM_SESSION_DOWN = 0,
    NGX_HTTP_DSEM_SESSION_HELLO,        /* hello is sent */
    NGX_HTTP_DSEM_SESSION_DECLARING,
    NGX_HTTP_DSEM_SESSION_DECLARED,     /* declared is sent */
    NGX_HTTP_DSEM_SESSION_READY
} ngx_http_dsem_session_state_e;


/* the session and its Redis, for people: the later, the worse */
typedef enum {
    NGX_HTTP_DSEM_CONDITION_CONNECTING = 0,
    NGX_HTTP_DSEM_CONDITION_AVAILABLE,
    NGX_HTTP_DSEM_CONDITION_RECOVERING,
    NGX_HTTP_DSEM_CONDITION_UNAVAILABLE
} ngx_http_dsem_condition_e;


/* 64 random bits in hex; messages of Redis begin with them */
#define NGX_HTTP_DSEM_SEAL_LEN  16

/* names with idle permits that a beat reports, and their bytes */
#define NGX_HTTP_DSEM_SESSION_NAMES  64
#define NGX_HTTP_DSEM_SESSION_IDLE                                            \
    (NGX_HTTP_DSEM_SESSION_NAMES                                              \
     * (NGX_HTTP_DSEM_MAX_NAME + NGX_INT_T_LEN + 2))


typedef struct ngx_http_dsem_session_s  ngx_http_dsem_session_t;


/* each of them concerns all accounts of a session */
typedef enum {
    /* all that Redis knew of this session is void */
    NGX_HTTP_DSEM_EVENT_RESET = 0,
    /*
     * all is declared; or Redis grants permits again, or has stepped over the
     * tickets of this silent session; or limits are higher
     */
    NGX_HTTP_DSEM_EVENT_READY,
    /* no request should wait for Redis */
    NGX_HTTP_DSEM_EVENT_UNAVAILABLE,
    /* Redis may count nothing for this session any more */
    NGX_HTTP_DSEM_EVENT_EXPIRED
} ngx_http_dsem_event_e;


/* for the floor above; data is the session */
typedef struct {
    void                    (*event)(ngx_http_dsem_session_t *session,
                                     ngx_http_dsem_event_e event);
    /*
     * declare accounts by "room" calls, or the few more that the last one
     * takes.  NGX_AGAIN: there are more; NGX_OK: that was all; NGX_ERROR:
     * a call failed
     */
    ngx_int_t               (*declare)(ngx_http_dsem_session_t *session,
                                       ngx_uint_t room, ngx_uint_t *calls);
    /* after ngx_http_dsem_redis_probe(): a reply has come, or is late */
    void                    (*replied)(void *data);
    /*
     * writes "<name> <idle> ..." of the names with most idle permits, at most
     * NGX_HTTP_DSEM_SESSION_IDLE bytes; returns the end
     */
    u_char                 *(*idle)(ngx_http_dsem_session_t *session,
                                    u_char *p);
    /* a message to this session; NULL: earlier ones may have been missed */
    void                    (*message)(void *data, ngx_str_t *text);
} ngx_http_dsem_session_handlers_t;


/* the lease of one session; for reading only, outside of lease */
typedef struct {
    ngx_msec_t  length;
    ngx_msec_t  longest;        /* of the whole fleet, in replies so far */
    uint64_t    renewed;        /* by this worker; 0: never */
    uint64_t    node_renewed;   /* or seen, before the session started */
    uint64_t    fence;
    uint64_t    own_fence;      /* of permits that are not granted anew */
} ngx_http_dsem_lease_t;


typedef struct {
    ngx_http_dsem_redis_settings_t     redis;
    ngx_msec_t                         lease;
    ngx_str_t                          node;
    ngx_str_t                          prefix;
    uint64_t                           space;    /* of the first shard */
    ngx_uint_t                         nshards;
    ngx_http_dsem_zone_t              *zone;     /* NULL: single process */
    ngx_uint_t                         workers;  /* of this node */
    ngx_uint_t                         configuration;  /* its number */
    ngx_http_dsem_limits_settings_t    limits;
} ngx_http_dsem_session_settings_t;


/*
 * The flags:
 *
 * started         has a name, and a connection or the next attempt
 *                 set by start; cleared when an unused one has left
 * lasting         is started also while nothing uses it
 *                 set when created; stays
 * leaving         its bye is sent
 *                 set by the beat, at exit; cleared by the reply, a new epoch,
 *                 a lost connection
 * refused         the prefix is used with another number of shards
 *                 set by an error of Redis; cleared by the reply to a hello
 * drained         an exiting worker has waited for it long enough
 *                 set by a timer; cleared when it is ready
 * all_sent        no account is left to be declared
 *                 set by declare; cleared by a new epoch
 * undeclared      a state that is new counts nothing for it until it has
 *                 declared
 *                 set by the reply to a hello; cleared by that to "declared"
 * entered         it was registered before, maybe under a name that it has lost
 *                 set by the reply to a hello; cleared with "started"
 * verify          keys of a semaphore may be lost
 *                 set by resync; cleared by the reply to a hello
 * lease_expired,  why there may be an overage now
 * keys_lost,      set by the reply to a hello; cleared by that to "declared",
 * state_lost      as an epoch may end before its declarations have replies
 * warned_process  a missing run id was logged
 *                 set by the reply to "declared"; stays
 * sealed          a message of this epoch had its seal
 *                 set by that message; cleared by a hello
 */
struct ngx_http_dsem_session_s {
    ngx_uint_t                         shard;    /* its number, from 0 */
    ngx_uint_t                         nshards;  /* of the prefix */

    /* kept by account and ledger */
    ngx_uint_t                         naccounts;
    ngx_int_t                          held;     /* permits, by requests */
    ngx_msec_t                         used;     /* last time of an account */

    ngx_http_dsem_redis_t             *redis;
    ngx_http_dsem_redis_handlers_t     redis_handlers;
    ngx_http_dsem_session_handlers_t  *handlers;

    ngx_http_dsem_session_state_e      state;
    ngx_http_dsem_condition_e          condition;
    uint64_t                           since;    /* of it, monotonic ms */
    ngx_http_dsem_identity_t           identity;
    u_char                             seal[NGX_HTTP_DSEM_SEAL_LEN]; /* of
                                                      messages to it */
    ngx_str_t                          node;

    int64_t                            generation; /* 0: none yet */
    int64_t                            term;       /* of it, 0: none yet */
    int64_t                            clock;      /* of it, ms, in the last
                                                      reply; before that
                                                      of the node, 0: none */
    ngx_msec_t                         recovery;   /* ms, in the last reply */
    ngx_uint_t                         nsessions;  /* live ones of the fleet;
                                                      0: unknown */
    ngx_uint_t                         counted;    /* of these, workers of the
                                                      node */
    ngx_uint_t                         registered; /* by replies to this
                                                      session */
    ngx_uint_t                         joined;     /* by the last message */
    uint64_t                           joined_at;  /* its time, monotonic ms */
    int64_t                            process;    /* of Redis, 0: unknown */
    int64_t                            accepted;   /* the one that accepted
                                                      this session last */

    ngx_http_dsem_lease_t              lease;
    ngx_http_dsem_limits_t             limits;

    ngx_http_dsem_zone_t              *zone;
    ngx_http_dsem_zone_own_t           zone_own;
    uint64_t                           space;    /* see zone */
    ngx_uint_t                         workers;
    ngx_uint_t                         configuration;

    ngx_event_t                        beat;
    uint64_t                           idle_until; /* beats report idle
                                                      permits, monotonic ms */
    ngx_event_t                        drain;
    ngx_uint_t                         declares;   /* unanswered */
    ngx_uint_t                         resyncs;    /* without success */

    /* see above */
    unsigned                           started:1;
    unsigned                           lasting:1;
    unsigned                           leaving:1;
    unsigned                           refused:1;
    unsigned                           drained:1;
    unsigned                           all_sent:1;
    unsigned                           undeclared:1;
    unsigned                           entered:1;
    unsigned                           verify:1;
    unsigned                           lease_expired:1;
    unsigned                           keys_lost:1;
    unsigned                           state_lost:1;
    unsigned                           warned_process:1;
    unsigned                           sealed:1;
};


ngx_int_t ngx_http_dsem_session_create(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_settings_t *settings,
    ngx_http_dsem_session_handlers_t *handlers);
void ngx_http_dsem_session_free(ngx_http_dsem_session_t *session);
void ngx_http_dsem_session_recall(ngx_http_dsem_session_t *session,
    ngx_msec_t length, ngx_msec_t longest, uint64_t seen);
ngx_int_t ngx_http_dsem_session_rename(ngx_http_dsem_session_t *session);
void ngx_http_dsem_session_note(ngx_http_dsem_session_t *session);
void ngx_http_dsem_session_set_state(ngx_http_dsem_session_t *session,
    ngx_http_dsem_session_state_e state);

ngx_uint_t ngx_http_dsem_session_unavailable(
    ngx_http_dsem_session_t *session);
ngx_uint_t ngx_http_dsem_session_nsessions(ngx_http_dsem_session_t *session);
ngx_uint_t ngx_http_dsem_session_newest(ngx_http_dsem_session_t *session);
uint64_t ngx_http_dsem_session_age(ngx_http_dsem_session_t *session);

void ngx_http_dsem_session_recovered(ngx_http_dsem_session_t *session);
void ngx_http_dsem_session_set_unavailable(void *data);
void ngx_http_dsem_session_registered(ngx_http_dsem_session_t *session,
    int64_t n);
void ngx_http_dsem_session_set_recovery(ngx_http_dsem_session_t *session,
    ngx_msec_t left);
ngx_msec_t ngx_http_dsem_session_interval(ngx_http_dsem_session_t *session);

void ngx_http_dsem_session_drain(ngx_http_dsem_session_t *session);
char *ngx_http_dsem_session_cause(ngx_http_dsem_session_t *session);
void ngx_http_dsem_session_overage(ngx_str_t *name, ngx_int_t excess,
    char *cause);


/* true once the hello of this epoch has its reply */

#define ngx_http_dsem_session_greeted(session)                                \
    ((session)->state >= NGX_HTTP_DSEM_SESSION_DECLARING)


#define ngx_http_dsem_session_ready(session)                                  \
    ((session)->state == NGX_HTTP_DSEM_SESSION_READY)


/* lease: how long Redis counts this worker without a heartbeat */

/*
 * True if no request may be admitted on a permit, as Redis may have ended
 * the lease.  A worker that was stopped finds out here, before it acts on
 * replies that are old.
 */

#define ngx_http_dsem_lease_fenced(lease)                                     \
    (ngx_http_dsem_monotonic() >= (lease)->fence)


/*
 * True if no request may be admitted on a permit that the worker had before:
 * while a new state waits for its declaration it counts nothing for this
 * worker.
 */

#define ngx_http_dsem_lease_own_fenced(lease)                                 \
    (ngx_http_dsem_monotonic() >= (lease)->own_fence)


void ngx_http_dsem_lease_init(ngx_http_dsem_lease_t *lease,
    ngx_msec_t length, ngx_msec_t longest, uint64_t node_renewed);
void ngx_http_dsem_lease_renew(ngx_http_dsem_lease_t *lease, uint64_t sent,
    ngx_msec_t longest, ngx_uint_t declared);
void ngx_http_dsem_lease_declared(ngx_http_dsem_lease_t *lease);

ngx_msec_t ngx_http_dsem_lease_heartbeat(ngx_http_dsem_lease_t *lease);
uint64_t ngx_http_dsem_lease_age(ngx_http_dsem_lease_t *lease);
uint64_t ngx_http_dsem_lease_node_age(ngx_http_dsem_lease_t *lease);
ngx_uint_t ngx_http_dsem_lease_over(ngx_http_dsem_lease_t *lease);


#endif /* _NGX_HTTP_DSEM_SESSION_H_INCLUDED_ */
