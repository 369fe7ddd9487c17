/*
 * The protocol between workers and Redis, for one semaphore: all that can
 * happen within small bounds.  t/model/README.md maps it to the scripts and
 * the C files, and tells what is left out and why; t/model/check runs it.
 *
 * A session is a worker process.  A ticket is one request, with one life: it
 * comes, waits, runs, ends.  All weights are 1.
 *
 * Safety:  no admission makes the requests that run more than the limit,
 *          except those that DESIGN 2, S2 names (marked: excused).
 * Counts:  a comparison of counts never differs, unless keys were lost.
 * Service: all requests end, and all permits come back (claim "settled").
 */

/* bounds; BUSY: all tickets are there from the beginning */

#ifndef SESSIONS
#define SESSIONS    2           /* 3: the last is the successor of the first */
#endif
#define TICKETS     2           /* per session, at most */
#ifndef COME0                   /* tickets that come: a bit each */
#define COME0       3
#endif
#ifndef COME1
#define COME1       1
#endif
#ifndef COME2
#define COME2       0
#endif
#define COME(w)     ((w) == 0 -> COME0 : ((w) == 1 -> COME1 : COME2))
#ifndef LIMIT
#define LIMIT       1
#endif
#ifndef QUEUE
#define QUEUE       9
#endif
#ifndef INFLIGHT
#define INFLIGHT    1           /* unanswered syncs of a session */
#endif

#ifdef FIRST                    /* only the first is broken or stopped */
#define BOTH        0
#else
#define BOTH        1
#endif

/* faults of each kind that may happen, in any order, or not */

#ifndef BREAKS
#define BREAKS      0           /* connections broken */
#endif
#ifndef LOST
#define LOST        0           /* messages lost */
#endif
#ifndef LEAVES
#define LEAVES      0           /* requests that leave while they wait */
#endif
#ifndef TICKS
#define TICKS       0           /* sessions not heard from, 3/4 lease, lease */
#endif
#ifndef SILENT
#define SILENT      0           /* sessions not heard from for two heartbeats */
#endif
#ifndef CRASHES
#define CRASHES     0           /* workers killed */
#endif
#ifndef LOSSES
#define LOSSES      0           /* all keys of Redis lost */
#endif
#ifndef QLOSSES
#define QLOSSES     0           /* the queue's key lost */
#endif
#ifndef FAILS
#define FAILS       0           /* failovers to an older copy of the state */
#endif
#ifndef BACKS
#define BACKS       0           /* the former master is named again */
#endif
#ifndef RELOADS
#define RELOADS     0           /* sessions that change their limit */
#endif

#define TIMED       (TICKS + CRASHES > 0)
#define NT          (SESSIONS * TICKETS)
#if TICKS + SILENT + LOSSES + QLOSSES + FAILS + CRASHES + RELOADS
#define ROOM        (INFLIGHT + 2)      /* with a beat, and a new hello */
#else
#define ROOM        INFLIGHT
#endif

/* a mechanism that is removed is a switch of its own: NO_... */

#ifdef NO_EPOCHS
#define EPOCHS      0
#else
#define EPOCHS      1
#endif
#ifdef NO_FENCE
#define FENCE       0
#else
#define FENCE       1
#endif


/* the state in Redis; a failover copies all of it */

typedef Shard {
    byte gen;                   /* 0: no state */
    byte process;               /* the process that wrote it */
    byte term;                  /* raised by each process that takes over */
    bool reg[SESSIONS];         /* registry: entries */
    byte epoch[SESSIONS];
    byte declared[SESSIONS];
    bool barred[SESSIONS];
    bool silent[SESSIONS];      /* missed two heartbeats */
    byte limit[SESSIONS];       /* literal limit of its configuration */
    bool ended;                 /* entries in the log that are not seen */

    byte held[SESSIONS];        /* accounts */
    byte waiting[SESSIONS];
    byte aepoch[SESSIONS];

    bool marker;                /* the queue has its first member */
    bool queued[NT];            /* members of the queue, their epochs */
    byte qepoch[NT];
    bool parked[NT];

    bool recovering;
    bool open;                  /* the census, for a lease */
    bool lost;                  /* it is about a loss */
    bool any;                   /* of the same generation, too */
    bool complete;              /* such a one was complete once */
    byte size;                  /* of the registry that survived */
    byte told[SESSIONS];        /* number that a member brings, 0: none */
    bool counted[SESSIONS];     /* it has declared */
};

Shard R;
#if FAILS
Shard Copy;
bool copied;
#endif
#if BACKS
Shard Former;                   /* the state of the other master */
hidden Shard Swapped;
byte former;                    /* its process, 0: there is none */
bool back;                      /* named again, and no hello since */
#endif

byte process = 1;               /* run id of the Redis that runs */
byte processes = 1;
byte gens = 1;                  /* generations given out */
byte seq;                       /* last place given out */
byte place[NT];                 /* of a ticket, when it was queued */


/* the workers */

#define S_OFF       0           /* not started, or dead */
#define S_DOWN      1           /* not connected */
#define S_HELLO     2
#define S_DECLARING 3
#define S_DECLARED  4
#define S_READY     5

#define T_NONE      0
#define T_NEW       1           /* ask not sent */
#define T_ASKED     2
#define T_QUEUED    3           /* its place is known */
#define T_CANCEL    4           /* owner gone, cancel not sent */
#define T_CANCELED  5           /* cancel sent */
#define T_END       6

byte state[SESSIONS];
byte epoch[SESSIONS];
byte gen[SESSIONS];
byte told[SESSIONS];            /* sessions, in the last hello or beat; 0: none,
                                   or unknown */
byte term[SESSIONS];            /* in the last hello */
byte limit[SESSIONS];
byte ticket[NT];
byte running[SESSIONS];         /* requests upstream */
byte excused[SESSIONS];         /* of these: an exception of S2 */
byte release[SESSIONS];         /* permits to give back */
byte unclaimed[SESSIONS];       /* of these: never used, a late cancel */
byte inflight[SESSIONS];        /* syncs */
byte sent[SESSIONS];            /* releases in them */
bool synced[SESSIONS];          /* declared in this epoch */
bool paused[SESSIONS];          /* Redis recovers: nothing is asked */
byte bye[SESSIONS];             /* the dead session to remove, + 1 */

byte reported[SESSIONS];        /* what Redis counts of an undeclared one */
bool disowned[SESSIONS];
bool undeclared[SESSIONS];      /* hello to a state that recovers */
byte accepted[SESSIONS];        /* Redis process that it declared to */
byte process_of[SESSIONS];      /* that has answered hello */

/*
 * Time since the last answered hello or beat was sent: 0, 1: 3/4 of a lease,
 * 2: a lease.  age: of the fence; own: of the fence for own permits; flight:
 * of the renewal on its way.
 */
byte age[SESSIONS], own[SESSIONS], flight[SESSIONS];
bool renewing[SESSIONS];        /* one is on its way */
bool executed[SESSIONS];        /* and was executed */
bool certain[SESSIONS];         /* and will renew the fence of own permits */
#if TICKS && LOSSES + FAILS
bool stale[SESSIONS];           /* a fresher answer than its fence is known */
bool fresher[SESSIONS];         /* one on its way to this session would be */
bool fresher2[SESSIONS];        /* even if the other's is answered before */
bool unknown[SESSIONS];         /* no other was told of it before the loss */
byte heard[SESSIONS];           /* number in the last answer sent to it */
bool uncounted[SESSIONS];       /* so the census has ended without it */
#endif
bool declares[SESSIONS];        /* must declare before a recovery may end */


/* the network: commands, replies, late commands, messages */

mtype = { HELLO, DECLARE, DECLARED, SYNC, BEAT, BYE }

/* op, epoch, generation, number, cancels, asks, checks, sum */
chan command[SESSIONS] = [ROOM] of { mtype, byte, byte, byte, byte, byte,
    byte, byte };
#if BREAKS + CRASHES + FAILS
chan late[SESSIONS] = [ROOM] of { mtype, byte, byte, byte, byte, byte,
    byte, byte };
#endif

#define OK          0
#define RESYNC      1
#define GONE        2

/* op, epoch, status, gen, flags, number, cancels, removed, asks, granted,
   queued, absent */
chan reply[SESSIONS] = [ROOM] of { mtype, byte, byte, byte, byte, byte, byte,
    byte, byte, byte, byte, byte };

#define F_RECOVERING 1
#define F_REGISTERED 2
#define F_KEPT       4          /* the limit is kept */
#define F_CHECK      8
#define F_DIFFERS    16
#define F_OLDER      32         /* the state is, than the session */

byte message[NT];               /* grant of a ticket: epoch, 0: none */

bool begun;

/* what is left of each fault */
byte breaks = BREAKS, losts = LOST, leaves = LEAVES, ticks = TICKS,
    silents = SILENT, crashes = CRASHES, losses = LOSSES, qlosses = QLOSSES,
    fails = FAILS, backs = BACKS, reloads = RELOADS;

/* scratch of one step, no state */
hidden byte i, j, k, n, m, v, best, wanted, present;
hidden mtype c_op, r_op;
hidden byte c_epoch, c_gen, c_num, c_cancel, c_ask, c_check, c_sum;
hidden byte r_epoch, r_status, r_gen, r_flags, r_num, r_cancel,
    r_removed, r_ask, r_granted, r_queued, r_absent;
hidden byte lim;
hidden byte lose, again;


#define T(w, t)     ((w) * TICKETS + (t))
#define OWNER(i)    ((i) / TICKETS)
#define BIT(i)      (1 << ((i) % TICKETS))
#define HAS(mask, i) ((mask) & BIT(i))
#define WAITS(i)    (ticket[i] == T_NEW || ticket[i] == T_ASKED || \
                     ticket[i] == T_QUEUED)
#define SENT(i)     (ticket[i] >= T_ASKED && ticket[i] <= T_CANCELED)

#if SESSIONS == 3
#define SUM(x)      (x[0] + x[1] + x[2])
#else
#define SUM(x)      (x[0] + x[1])
#endif
#if NT == 6
#define SUMT(x)     (x[0] + x[1] + x[2] + x[3] + x[4] + x[5])
#else
#define SUMT(x)     (x[0] + x[1] + x[2] + x[3])
#endif
#define ANY(p, w)   (p(T(w, 0)) || p(T(w, 1)))


/* ------------------------------------------------------------------ Redis */

/* the limit in force; c_limit: that of the session that calls */

inline limit_in_force(w)
{
#if RELOADS
#ifdef NO_LOWEST
    lim = limit[w];
#else
    lowest();
#endif
#else
    lim = LIMIT;
#endif
}

/* R16: limit in force */
inline lowest()
{
    lim = 99;
    for (k : 0 .. SESSIONS - 1) {
        if
        :: R.reg[k] && R.limit[k] < lim -> lim = R.limit[k]
        :: else
        fi
    }
}

/* a grant: with limits that differ it must be below the lowest */

inline granted_one(w)
{
    R.held[w]++;
#if RELOADS
    n = lim;
    lowest();
    assert(SUM(R.held) <= lim);
    lim = n;
#endif
}

inline forget_account(w)
{
    R.held[w] = 0;
    R.waiting[w] = 0;
    R.aepoch[w] = 0;
}

/* the first look at the accounts since sessions have ended */

inline drop_ended()
{
    if
    :: R.ended ->
        for (k : 0 .. SESSIONS - 1) {
            if
            :: R.held[k] + R.waiting[k] > 0 &&
               (!R.reg[k] || R.aepoch[k] < R.declared[k]) ->
                forget_account(k);
                for (n : T(k, 0) .. T(k, TICKETS - 1)) { R.parked[n] = 0 }
            :: else
            fi
        }
        R.ended = 0
    :: else
    fi
}

inline log_ended()
{
    skip;
#ifndef NO_ENDED
    R.ended = 1;
#endif
}

/* nobody waits: the queue is deleted, whatever is in it */

inline tidy_queue()
{
    if
    :: SUM(R.waiting) == 0 ->
        R.marker = 0;
        for (k : 0 .. NT - 1) {
            R.queued[k] = 0;
            R.qepoch[k] = 0;
            R.parked[k] = 0
        }
    :: else
    fi
    for (k : 0 .. SESSIONS - 1) {
        if
        :: R.held[k] + R.waiting[k] == 0 -> R.aepoch[k] = 0
        :: else
        fi
    }
}

inline begin_census(size_)
{
    R.open = 1;
    R.size = size_;
    R.any = 0;
    R.complete = 0;
    for (k : 0 .. SESSIONS - 1) {
        R.told[k] = 0;
        R.counted[k] = 0;
        declares[k] = 1
    }
}

/* include/census.lua: recovers until all that were registered have declared */

#if TICKS && LOSSES + FAILS
#define STALE(k)    (stale[k] && SUM(R.told) > R.told[k])
#else
#define STALE(k)    0
#endif

inline judge_census()
{
    if
    :: R.open && R.lost ->
        wanted = R.size;
        present = 0;
        for (k : 0 .. SESSIONS - 1) {
            if
            :: R.told[k] && !STALE(k) ->
                wanted = (R.told[k] > wanted -> R.told[k] : wanted);
#ifdef NO_DECLARATIONS
                present++
#else
                present = present + R.counted[k]
#endif
            :: else
            fi
        }
#ifdef NO_NUMBER
        R.recovering = (present == 0);
#else
        R.recovering = !(wanted > 0 && present >= wanted);
#endif
#ifdef NO_CENSUS
        R.recovering = 1;
#endif
#ifdef NO_RECOVERY
        R.recovering = 0;
#endif
        if
        :: R.any && !R.recovering -> R.complete = 1
        :: else
        fi
        excuse_unknown()
    :: else
    fi
}

/* S2: a session that had come so short before the loss that no other knew */

inline excuse_unknown()
{
    skip;
#if TICKS && LOSSES + FAILS
    for (k : 0 .. SESSIONS - 1) {
        if
        :: !R.recovering && unknown[k] && declares[k] ->
            uncounted[k] = 1;
            excused[k] = running[k]
        :: else
        fi
    }
#endif
}

/* all that is known of the sessions is about to be lost */

inline note_unknown()
{
    skip;
#if TICKS && LOSSES + FAILS
    for (k : 0 .. SESSIONS - 1) {
        unknown[k] = (R.reg[k] && (told[1 - k] < 2 || heard[1 - k] < 2))
    }
#endif
}

inline settle_census(w)
{
    if
    :: R.open && R.recovering ->
        R.counted[w] = (R.told[w] > 0);
        judge_census()
    :: else
    fi
}

/* what a hello or beat tells: the sessions, with those that are missing */

inline census_size()
{
    r_num = SUM(R.reg);
    wanted = R.size;
    present = 0;
    for (k : 0 .. SESSIONS - 1) {
        if
        :: R.reg[k] && R.told[k] == 0 -> present++      /* came since then */
        :: else
        fi
        if
        :: !STALE(k) && R.told[k] > wanted -> wanted = R.told[k]
        :: else
        fi
    }
    if
    :: R.recovering && wanted && wanted + present > r_num ->
#ifdef NO_MISSING
        skip
#else
        r_num = wanted + present
#endif
    :: R.recovering && !wanted ->
#ifdef NO_UNKNOWN
        skip
#else
        r_num = 0                               /* unknown */
#endif
    :: else
    fi
}

/* the queue was lost: a new generation, the registry stays */

inline lose_state()
{
    gens++;
    R.gen = gens;
    n = SUM(R.reg);
    begin_census(n);
    R.lost = 1;
    judge_census();
}

/* a state with an older term than a session's: others were masters since */

#ifdef NO_TERM
#define OLDER       0
#else
#define OLDER       (c_sum > R.term && (c_gen == R.gen || !R.open))
#endif

inline raise_term()
{
    R.term = (c_sum > R.term -> c_sum : R.term) + 1
}

/* a session is missing, and nothing was granted since its process replied */

#define OLDER_STATE(w) \
    (!R.reg[w] && R.open && R.any && !R.complete && c_num > 0 && \
     c_gen == R.gen && R.term == c_sum + 1)

inline exec_hello(w)
{
    again = 0;
#if BACKS
    back = 0;
#endif
    if
    :: R.gen == 0 ->
        gens++;
        R.gen = gens;
        R.process = process;
        R.lost = 0;
        R.recovering = 0;
        raise_term();
        begin_census(0)
    :: R.gen != 0 && (R.process != process || OLDER) ->
        R.process = process;
#ifndef NO_RUN_ID
        raise_term();
        n = SUM(R.reg);
        begin_census(n);
        R.lost = 1;
        R.any = 1;
#endif
    :: else
    fi
    if
    :: R.barred[w] -> r_status = GONE
    :: else ->
        if
        :: R.reg[w] && R.epoch[w] >= c_epoch && EPOCHS -> r_status = RESYNC
        :: else ->
            again = (c_gen != 0 && c_gen != R.gen);
            if
            :: again && R.open -> R.lost = 1
            :: else
            fi
            if
            /* the first hello decides: a later one knows the new state */
            :: R.open && c_num > 0 && R.told[w] == 0 &&
               (again || R.any && c_gen != 0) -> R.told[w] = c_num
            :: else
            fi
            r_flags = (R.reg[w] -> F_REGISTERED : 0);
            n = OLDER_STATE(w);
            if
            :: !R.reg[w] -> R.declared[w] = 0
            :: else
            fi
            R.reg[w] = 1;
            R.epoch[w] = c_epoch;
            R.silent[w] = 0;
            R.limit[w] = limit[w];
            judge_census();
            r_flags = r_flags + (n && R.recovering -> F_OLDER : 0);
            r_gen = R.gen;
            r_removed = R.term;
            census_size()
        fi
    fi
}

inline exec_declare(w)
{
    if
    :: !R.reg[w] || R.epoch[w] != c_epoch && EPOCHS -> r_status = RESYNC
    :: else ->
        drop_ended();
        n = SUM(R.waiting);
#ifdef NO_MARKER
        lose = 0;
#else
        lose = (n > R.waiting[w] && !R.marker && !R.recovering);
#endif
        if
        :: lose -> lose_state(); r_status = RESYNC
        :: else ->
            R.held[w] = c_num;
            R.waiting[w] = 0;
            R.aepoch[w] = c_epoch;
            for (i : T(w, 0) .. T(w, TICKETS - 1)) {
                R.parked[i] = 0;
                if
                :: HAS(c_ask, i) && (R.queued[i] || HAS(c_check, i)) ->
                    R.queued[i] = 1;
                    R.qepoch[i] = c_epoch;
                    R.waiting[w]++;
                    R.marker = 1;
                    r_queued = r_queued | BIT(i)
                :: else
                fi
            }
            r_ask = c_ask;
            tidy_queue()
        fi
    fi
}

inline exec_declared(w)
{
    if
    :: !R.reg[w] || R.epoch[w] != c_epoch && EPOCHS -> r_status = RESYNC
    :: else ->
        if
        :: c_epoch > 1 && R.declared[w] < c_epoch -> log_ended()
        :: else
        fi
        R.declared[w] = c_epoch;
        declares[w] = 0;
#if TICKS && LOSSES + FAILS
        unknown[w] = 0;
#ifdef STRICT                   /* the exception ends as soon as it can */
        uncounted[w] = 0;
#endif
#endif
        settle_census(w)
    fi
}

inline exec_beat(w)
{
    if
    :: !R.reg[w] || R.epoch[w] != c_epoch && EPOCHS || R.gen != c_gen ->
        r_status = RESYNC
    :: else ->
        R.silent[w] = 0;
        census_size()
    fi
}

/* c_num: the session that leaves */

inline exec_bye()
{
    if
    :: R.gen ->
#ifndef NO_BAR
        R.barred[c_num] = 1;
#endif
        R.reg[c_num] = 0;
        R.silent[c_num] = 0;
        declares[c_num] = 0;
        log_ended();
        settle_census(c_num)
    :: else
    fi
}

/* include/serve.lua: free permits to the head; a ticket that cannot take one
   is parked, or dropped where its session or epoch has ended */

#define CANNOT(i, o, w) \
    (R.qepoch[i] != R.epoch[o] || R.declared[o] != R.epoch[o] || \
     R.qepoch[i] != R.aepoch[o] || R.silent[o] && (o) != (w))

/* R1: room for a permit */

inline serve(w)
{
    do
    :: R.recovering || SUM(R.held) >= lim -> break
    :: else ->
        best = NT;
        for (k : 0 .. NT - 1) {
            if
            :: R.queued[k] && !R.parked[k] &&
               (best == NT || place[k] < place[best]) -> best = k
            :: else
            fi
        }
        if
        :: best == NT -> break
        :: else
        fi;
        v = OWNER(best);
        if
        :: !R.reg[v] || R.held[v] + R.waiting[v] == 0 ||
           R.qepoch[best] < R.declared[v] ->
            R.queued[best] = 0;
            if
            :: R.aepoch[v] == R.qepoch[best] && R.waiting[v] ->
                R.waiting[v]--
            :: else
            fi
        :: else ->
            if
            :: CANNOT(best, v, w) ->
#ifdef NO_STEP_OVER
                break
#else
                R.parked[best] = 1
#endif
            :: else ->
                R.queued[best] = 0;
                R.waiting[v]--;
                granted_one(v);
                if
                :: v == w -> r_granted = r_granted | BIT(best)
                :: else -> message[best] = R.qepoch[best]
                fi
            fi
        fi
    od
}

/* one ask: granted, queued, rejected, or "recovering" */

inline exec_ask(w, a)
{
    if
    :: R.recovering -> skip
    /* R1: room for a permit */
    :: !R.recovering && SUM(R.held) < lim &&
       SUM(R.waiting) == SUMT(R.parked) ->
        granted_one(w);
        r_granted = r_granted | BIT(a)
    :: else ->
        if
        /* R2: full queue */
        :: SUM(R.waiting) >= QUEUE -> skip
        :: else ->
            seq++;
            /* R7: queue order */
            place[a] = seq;
            R.queued[a] = 1;
            R.qepoch[a] = c_epoch;
            R.marker = 1;
            R.waiting[w]++;
            r_queued = r_queued | BIT(a)
        fi
    fi
}

/* whether it would be noticed that the queue is gone */

#ifdef NO_MARKER
#define QUEUE_GONE  0
#else
#define QUEUE_GONE \
    (SUM(R.waiting) > 0 && !R.marker && !R.recovering && \
     (c_cancel || c_check || SUM(R.held) - c_num < lim || \
         c_ask && SUM(R.waiting) < QUEUE))
#endif

inline exec_sync(w)
{
    if
    :: !R.reg[w] || R.epoch[w] != c_epoch && EPOCHS || R.gen != c_gen ->
        r_status = RESYNC
    :: else ->
        drop_ended();
        limit_in_force(w);
        if
        :: R.aepoch[w] < c_epoch ->
            forget_account(w);
            R.aepoch[w] = c_epoch;
            for (n : T(w, 0) .. T(w, TICKETS - 1)) { R.parked[n] = 0 }
        :: else
        fi
        lose = QUEUE_GONE;
        if
        :: c_num > R.held[w] ->
            assert(QLOSSES || !EPOCHS);
            r_status = RESYNC
        :: c_num <= R.held[w] && lose -> lose_state(); r_status = RESYNC
        :: else ->
            R.held[w] = R.held[w] - c_num;
#ifndef NO_RESTORE
            for (n : T(w, 0) .. T(w, TICKETS - 1)) { R.parked[n] = 0 }
#endif
            for (i : T(w, 0) .. T(w, TICKETS - 1)) {
                if
                :: HAS(c_cancel, i) && R.queued[i] && R.qepoch[i] == c_epoch ->
                    R.queued[i] = 0;
                    R.parked[i] = 0;
                    R.waiting[w]--;
                    r_removed = r_removed | BIT(i)
                :: else
                fi
            }
            serve(w);
            for (i : T(w, 0) .. T(w, TICKETS - 1)) {
                if
                :: HAS(c_ask, i) -> exec_ask(w, i)
                :: else
                fi
            }
            n = 0;
            m = 0;
            for (i : T(w, 0) .. T(w, TICKETS - 1)) {
                if
                :: HAS(c_check, i) ->
                    if
                    :: R.queued[i] && R.qepoch[i] == c_epoch -> n++
                    :: else -> m++; r_absent = r_absent | BIT(i)
                    fi
                :: else
                fi
            }
            r_flags = (SUM(R.held) <= lim -> F_KEPT : 0);
#if TICKS && LOSSES + FAILS
            uncounted[w] = (uncounted[w] && (R.recovering || !r_flags));
#endif
            if
            :: c_check ->
                r_flags = r_flags + F_CHECK;
                /* compared by the worker, with what it had when it asked */
                if
                :: c_sum + m != R.held[w] || n != R.waiting[w] ->
                    r_flags = r_flags + F_DIFFERS
                :: else
                fi
            :: else
            fi
            r_cancel = c_cancel;
            r_ask = c_ask;
            r_num = c_num;
            tidy_queue()
        fi
    fi
}

/* one command, as one atomic step; what Redis replies is in r_... */

inline execute(w)
{
    r_op = c_op; r_epoch = c_epoch; r_status = OK; r_gen = 0; r_flags = 0;
    r_num = 0; r_cancel = 0; r_removed = 0; r_ask = 0; r_granted = 0;
    r_queued = 0; r_absent = 0;
    if
    :: c_op == HELLO -> exec_hello(w)
    :: c_op == DECLARE -> exec_declare(w)
    :: c_op == DECLARED -> exec_declared(w)
    :: c_op == SYNC -> exec_sync(w)
    :: c_op == BEAT -> exec_beat(w)
    :: c_op == BYE -> exec_bye()
    fi;
    if
    :: r_status == OK -> r_flags = r_flags + R.recovering
    :: else
    fi;
    printf("    redis: %e of %d, epoch %d: number %d cancels %d asks %d check %d\n",
        c_op, w, c_epoch, c_num, c_cancel, c_ask, c_check);
    printf("        status %d removed %d granted %d queued %d absent %d\n",
        r_status, r_removed, r_granted, r_queued, r_absent);
    printf("        held %d %d, waiting %d %d, recovers %d\n",
        R.held[0], R.held[1], R.waiting[0], R.waiting[1], R.recovering)
}

proctype Redis(byte w)
{
end:
    do
    :: d_step {
        command[w] ? c_op, c_epoch, c_gen, c_num, c_cancel, c_ask, c_check,
            c_sum ->
        execute(w);
        if
        :: r_status == OK && (c_op == HELLO || c_op == BEAT) ->
            executed[w] = 1;
#if TICKS && LOSSES + FAILS
            heard[w] = r_num;
#endif
            certain[w] = (c_op == BEAT || !R.recovering || !declares[w])
        :: else
        fi
        reply[w] ! r_op, r_epoch, r_status, r_gen, r_flags, r_num, r_cancel,
            r_removed, r_ask, r_granted, r_queued, r_absent;
        skip
       }
    od
}


/* ----------------------------------------------------------------- worker */

#define RUNNING     (SUM(running) - SUM(excused))

inline admit(w)
{
    running[w]++;
#if TICKS && LOSSES + FAILS
    excused[w] = excused[w] + uncounted[w];
#endif
    printf("%d admits a request, %d %d run\n", w, running[0], running[1]);
#if RELOADS == 0
    assert(RUNNING <= LIMIT);
#endif
}

/* what a worker may use without asking */

#ifdef NO_OWN_FENCE
#define FENCED_OWN(w)   (age[w] > 0)
#else
#define FENCED_OWN(w)   (own[w] > 0 && FENCE)
#endif

#define PENDING(w)  (release[w] > unclaimed[w] -> release[w] - unclaimed[w] : 0)
#define NOT_USED(w) (reported[w] > running[w] -> reported[w] - running[w] : 0)
#define OWN(w)      (FENCED_OWN(w) || disowned[w] -> 0 \
                     : (synced[w] -> PENDING(w) : NOT_USED(w)))

/* a new epoch, or none: all that was sent is void */

inline forget(w)
{
    if
    :: synced[w] ->
#ifdef OWNPERMITS
        reported[w] = running[w] + PENDING(w);
#ifdef NO_SENT
        reported[w] = reported[w] + sent[w];
#endif
#endif
        synced[w] = 0
    :: else
    fi
    release[w] = 0;
    unclaimed[w] = 0;
    paused[w] = 0;
    inflight[w] = 0;
    sent[w] = 0;
    renewing[w] = 0;
    executed[w] = 0;
    certain[w] = 0;
    flight[w] = 0;
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: ticket[j] == T_CANCEL || ticket[j] == T_CANCELED ->
            ticket[j] = T_END
        :: else
        fi
    }
}

inline renew(w)
{
    renewing[w] = 1;
    executed[w] = 0;
    certain[w] = 0;
    flight[w] = 0;
#if TICKS && LOSSES + FAILS
    fresher[w] = (age[1 - w] > 0);
    fresher2[w] = (flight[1 - w] > 0);
#endif
}

/* the renewal was answered */

inline renewed(w)
{
    age[w] = flight[w];
    flight[w] = 0;
    renewing[w] = 0;
    executed[w] = 0;
    certain[w] = 0;
#if TICKS && LOSSES + FAILS
    stale[w] = 0;
    if
    :: fresher[w] -> stale[1 - w] = 1
    :: else
    fi
    fresher[w] = 0;
    fresher[1 - w] = fresher2[1 - w];
    fresher2[w] = 0;
    fresher2[1 - w] = 0;
#endif
}

inline say_hello(w)
{
    printf("%d says hello\n", w);
    forget(w);
    epoch[w]++;
    assert(epoch[w] < 50);
    state[w] = S_HELLO;
    if
    :: bye[w] -> command[w] ! BYE, epoch[w], 0, bye[w] - 1, 0, 0, 0, 0
    :: else
    fi
    renew(w);
    command[w] ! HELLO, epoch[w], gen[w], told[w], 0, 0, 0, term[w]
}

inline expired(w)
{
    skip;
#ifdef OWNPERMITS
#ifndef NO_DISOWN
    disowned[w] = 1;
    if
    :: !synced[w] -> reported[w] = 0
    :: else
    fi
#endif
#endif
}

inline read_hello(w)
{
    /* n: Redis has counted what this worker has all the time */
    n = ((r_flags & F_REGISTERED) && r_gen == gen[w] && !undeclared[w] &&
         process == accepted[w] && age[w] < 2);
    process_of[w] = process;
    again = (gen[w] != 0 && gen[w] != r_gen);
    m = (r_flags & F_RECOVERING);
    undeclared[w] = (m && !n);
    if
    :: !n && (accepted[w] && !again &&
                 !(r_flags & (F_REGISTERED + F_OLDER)) ||
              again && !m || own[w] > 0) -> expired(w)
    :: else
    fi
    gen[w] = r_gen;
    term[w] = r_removed;
    told[w] = r_num;
    renewed(w);
#ifdef NO_OWN_FENCE
    own[w] = age[w];
#else
    if
    :: !undeclared[w] -> own[w] = age[w]
    :: else
    fi
#endif
    state[w] = S_DECLARING;
    declare(w)
}

inline declare(w)
{
    release[w] = (m -> OWN(w) : 0);
    reported[w] = 0;
    paused[w] = m;
    synced[w] = 1;
    n = 0;
    k = 0;
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: ticket[j] == T_ASKED -> n = n | BIT(j)
        :: ticket[j] == T_QUEUED -> n = n | BIT(j); k = k | BIT(j)
        :: else
        fi
    }
    if
    :: n || running[w] + release[w] ->
        command[w] ! DECLARE, epoch[w], 0, running[w] + release[w], 0, n, k, 0
    :: else ->
        state[w] = S_DECLARED;
        command[w] ! DECLARED, epoch[w], 0, 0, 0, 0, 0, 0
    fi
}

inline read_declare(w)
{
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: HAS(r_ask, j) ->
            if
            :: HAS(r_queued, j) && ticket[j] == T_ASKED -> ticket[j] = T_QUEUED
            :: !HAS(r_queued, j) && WAITS(j) -> ticket[j] = T_NEW
            :: !HAS(r_queued, j) && ticket[j] == T_CANCEL -> ticket[j] = T_END
            :: else
            fi
        :: else
        fi
    }
    state[w] = S_DECLARED;
    command[w] ! DECLARED, epoch[w], 0, 0, 0, 0, 0, 0
}

inline read_declared(w)
{
    accepted[w] = process_of[w];
    if
    :: undeclared[w] ->
        undeclared[w] = 0;
        if
        :: own[w] > 0 -> expired(w)
        :: else
        fi
        own[w] = age[w]
    :: else
    fi
    state[w] = S_READY
}

/* a ticket was granted; n: the fence has passed, begin anew */

inline grant(w, t)
{
    if
    :: WAITS(t) && age[w] > 0 && FENCE -> n = 1
    :: WAITS(t) && !(age[w] > 0 && FENCE) ->
        ticket[t] = T_END;
        admit(w)
    :: ticket[t] == T_CANCEL ->
        ticket[t] = T_END;
        release[w]++;
        unclaimed[w]++
    :: else
    fi
}

inline read_ask(w, t)
{
    if
    :: HAS(r_granted, t) -> grant(w, t)
    :: HAS(r_queued, t) ->
        if
        :: ticket[t] == T_ASKED -> ticket[t] = T_QUEUED
        :: else
        fi
    :: else ->
        /* rejected, or Redis recovers: it is not in the queue */
        if
        :: ticket[t] == T_CANCEL || ticket[t] == T_CANCELED ->
#ifndef NO_CANCEL_RULE
            ticket[t] = T_END
#else
            skip
#endif
        :: WAITS(t) && (r_flags & F_RECOVERING) ->
            ticket[t] = T_NEW;
            paused[w] = 1
        :: WAITS(t) && !(r_flags & F_RECOVERING) -> ticket[t] = T_END
        :: else
        fi
    fi
}

/* leaves n: begin anew */

inline read_sync(w)
{
    inflight[w]--;
    sent[w] = sent[w] - r_num;
    n = 0;
    if
    :: (r_flags & F_KEPT) && !(r_flags & F_RECOVERING) ->
        disowned[w] = 0
    :: else
    fi
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: HAS(r_cancel, j) && ticket[j] == T_CANCELED ->
            ticket[j] = T_END;
            if
            :: HAS(r_removed, j)
            :: else -> release[w]++; unclaimed[w]++
            fi
        :: else
        fi
    }
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: HAS(r_ask, j) && !n -> read_ask(w, j)
        :: else
        fi
    }
    if
    :: !n && (r_flags & F_DIFFERS) ->
        /* only lost keys may be the cause */
        assert(QLOSSES + LOSSES || !EPOCHS);
        n = 1
    :: else
    fi
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: !n && !HAS(r_ask, j) && HAS(r_granted | r_absent, j) -> grant(w, j)
        :: else
        fi
    }
}

inline read_reply(w)
{
    printf("%d reads the reply to %e of epoch %d\n", w, r_op, r_epoch);
    if
    :: r_op == BYE -> bye[w] = 0
    :: r_op != BYE && r_epoch != epoch[w] && EPOCHS -> skip
    :: r_op != BYE && !(r_epoch != epoch[w] && EPOCHS) ->
        if
        :: r_status != OK -> say_hello(w)
        :: else ->
            if
            :: r_op == HELLO && state[w] == S_HELLO -> read_hello(w)
            :: r_op == DECLARE -> read_declare(w)
            :: r_op == DECLARED -> read_declared(w)
            :: r_op == BEAT ->
                renewed(w);
                own[w] = age[w];
                told[w] = r_num
            :: r_op == SYNC ->
                read_sync(w);
                if
                :: n -> say_hello(w)
                :: else
                fi
            :: else
            fi
        fi
    fi;
    /* what a new epoch has made void tells nothing */
    tidy_messages(w)
}

inline tidy_messages(w)
{
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: message[j] && (message[j] != epoch[w] && EPOCHS ||
                          ticket[j] == T_END) -> message[j] = 0
        :: else
        fi
    }
}

#define IS_NEW(i)       (ticket[i] == T_NEW)
#define IS_CANCEL(i)    (ticket[i] == T_CANCEL)
#define MESSAGE(i)      (message[i] != 0)

#define CAN_SEND(w) \
    (state[w] == S_READY && inflight[w] < INFLIGHT && \
     (!paused[w] && (release[w] || ANY(IS_NEW, w)) || ANY(IS_CANCEL, w)))

inline send(w)
{
    printf("%d sends its changes\n", w);
    n = 0;
    k = 0;
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: ticket[j] == T_NEW && !paused[w] ->
            ticket[j] = T_ASKED;
            n = n | BIT(j)
        :: ticket[j] == T_CANCEL ->
            ticket[j] = T_CANCELED;
            k = k | BIT(j)
        :: else
        fi
    }
    m = (paused[w] -> 0 : release[w]);
    take_release(w);
    command[w] ! SYNC, epoch[w], gen[w], m, k, n, 0, 0
}

inline take_release(w)
{
    release[w] = release[w] - m;
    if
    :: release[w] == 0 -> unclaimed[w] = 0
    :: else
    fi
    sent[w] = sent[w] + m;
    inflight[w]++
}

/* the poll: which tickets are in the queue, what does Redis count */

#define CAN_CHECK(w) \
    (state[w] == S_READY && inflight[w] == 0 && !CAN_SEND(w) && !paused[w] && \
     ANY(SENT, w))

inline check(w)
{
    printf("%d checks\n", w);
    n = 0;
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        if
        :: SENT(j) -> n = n | BIT(j)
        :: else
        fi
    }
    m = 0;
    inflight[w]++;
    command[w] ! SYNC, epoch[w], gen[w], 0, 0, 0, n, running[w] + release[w]
}

/* a heartbeat that would change nothing is left out */

#define CAN_BEAT(w) \
    (state[w] == S_READY && !renewing[w] && \
     (age[w] || R.silent[w] || !R.reg[w] || R.gen != gen[w] || \
         told[w] != SUM(R.reg) && !R.recovering))

inline beat(w)
{
    printf("%d sends a beat\n", w);
    renew(w);
    command[w] ! BEAT, epoch[w], gen[w], 0, 0, 0, 0, 0
}

/* local: own permits serve the oldest that waits */

#ifdef OWNPERMITS
#define CAN_SERVE(w) \
    (state[w] != S_OFF && OWN(w) > 0 && ANY(WAITS, w) && \
     (state[w] != S_READY || paused[w] || inflight[w] > 0))
#else
#define CAN_SERVE(w) 0
#endif

inline serve_own(w)
{
    printf("%d serves a request with an own permit\n", w);
    j = (WAITS(T(w, 0)) -> T(w, 0) : T(w, 1));
    if
    :: ticket[j] == T_NEW || !synced[w] -> ticket[j] = T_END
    :: else -> ticket[j] = T_CANCEL
    fi
    if
    :: synced[w] -> release[w]--
    :: else
    fi
    admit(w)
}

inline read_message(w)
{
    printf("%d reads a grant message\n", w);
    j = (message[T(w, 0)] -> T(w, 0) : T(w, 1));
    m = message[j];
    message[j] = 0;
    n = 0;
    if
    :: m == epoch[w] || !EPOCHS -> grant(w, j)
    :: else
    fi
    if
    :: n -> say_hello(w)
    :: else
    fi
    tidy_messages(w)
}

proctype Worker(byte w)
{
end:
    do
    :: d_step {
        reply[w] ? r_op, r_epoch, r_status, r_gen, r_flags, r_num, r_cancel,
            r_removed, r_ask, r_granted, r_queued, r_absent ->
        read_reply(w); skip }
    :: d_step { state[w] == S_DOWN -> say_hello(w); skip }
    :: d_step { state[w] > S_DOWN && ANY(MESSAGE, w) -> read_message(w); skip }
    :: d_step { CAN_SEND(w) -> send(w); skip }
#ifndef NO_CHECK
    :: d_step { CAN_CHECK(w) -> check(w); skip }
#endif
    :: d_step { CAN_BEAT(w) -> beat(w); skip }
    :: d_step { CAN_SERVE(w) -> serve_own(w); skip }
    od
}


/* ------------------------------------------- clients, time, and the faults */

#define ALIVE(w)    (state[w] != S_OFF)

#if BREAKS + CRASHES + FAILS

inline cut(w)
{
    printf("connection of %d breaks\n", w);
    if
    :: state[w] > S_DOWN ->
        state[w] = S_DOWN;
        do
        :: len(command[w]) > 0 ->
            command[w] ? c_op, c_epoch, c_gen, c_num, c_cancel, c_ask,
                c_check, c_sum;
            late[w] ! c_op, c_epoch, c_gen, c_num, c_cancel, c_ask, c_check,
                c_sum
        :: else -> break
        od;
        do
        :: len(reply[w]) > 0 ->
            reply[w] ? r_op, r_epoch, r_status, r_gen, r_flags, r_num,
                r_cancel, r_removed, r_ask, r_granted, r_queued, r_absent
        :: else -> break
        od;
        forget(w)
    :: else
    fi
}

inline drop_late(w)
{
    do
    :: len(late[w]) > 0 ->
        late[w] ? c_op, c_epoch, c_gen, c_num, c_cancel, c_ask, c_check, c_sum
    :: else -> break
    od
}

/* a worker is killed; its requests end, and what it sent may come late */

inline crash(w)
{
    printf("%d is killed\n", w);
    cut(w);
    state[w] = S_OFF;
    running[w] = 0;
    excused[w] = 0;
    reported[w] = 0;
    disowned[w] = 0;
    undeclared[w] = 0;
    bye[w] = 0;
    age[w] = 0;
    own[w] = 0;
    for (j : T(w, 0) .. T(w, TICKETS - 1)) {
        ticket[j] = T_END;
        message[j] = 0
    }
#if SESSIONS == 3
    if
    :: w == 0 ->
        state[2] = S_DOWN;
        gen[2] = gen[0];
        term[2] = term[0];
#ifndef NO_BYE
        bye[2] = 1
#endif
    :: else
    fi
#endif
}

#endif

/* all keys are gone */

inline wipe()
{
    printf("all state is lost\n");
    note_unknown();
    R.gen = 0;
    R.process = 0;
    R.term = 0;
    R.ended = 0;
    R.marker = 0;
    R.recovering = 0;
    R.open = 0;
    R.lost = 0;
    R.any = 0;
    R.complete = 0;
    R.size = 0;
    seq = 0;
    for (k : 0 .. SESSIONS - 1) {
        R.reg[k] = 0;
        R.epoch[k] = 0;
        R.declared[k] = 0;
        R.barred[k] = 0;
        R.silent[k] = 0;
        R.told[k] = 0;
        R.counted[k] = 0;
        forget_account(k)
    }
    for (k : 0 .. NT - 1) {
        R.queued[k] = 0;
        R.qepoch[k] = 0;
        R.parked[k] = 0;
        seq = (place[k] > seq -> place[k] : seq)
    }
}

inline copy(to, from)
{
    to.gen = from.gen;
    to.process = from.process;
    to.term = from.term;
    to.ended = from.ended;
    to.marker = from.marker;
    to.recovering = from.recovering;
    to.open = from.open;
    to.lost = from.lost;
    to.any = from.any;
    to.complete = from.complete;
    to.size = from.size;
    for (k : 0 .. SESSIONS - 1) {
        to.reg[k] = from.reg[k];
        to.epoch[k] = from.epoch[k];
        to.declared[k] = from.declared[k];
        to.barred[k] = from.barred[k];
        to.silent[k] = from.silent[k];
        to.limit[k] = from.limit[k];
        to.held[k] = from.held[k];
        to.waiting[k] = from.waiting[k];
        to.aepoch[k] = from.aepoch[k];
        to.told[k] = from.told[k];
        to.counted[k] = from.counted[k]
    }
    for (k : 0 .. NT - 1) {
        to.queued[k] = from.queued[k];
        to.qepoch[k] = from.qepoch[k];
        to.parked[k] = from.parked[k]
    }
}

/* the lease of a session ends: it was not heard from for longer than its
   worker knows to be safe.  What a living one runs is excused: overage. */

#define LEASE_OVER(w) \
    (!ALIVE(w) || own[w] == 2 && age[w] == 2 && !(executed[w] && flight[w] < 2))

inline expire(w)
{
    printf("lease of %d ends\n", w);
    R.reg[w] = 0;
    R.silent[w] = 0;
    log_ended();
    excused[w] = running[w]
}

/* the recovery, and its census, end a lease after they began.  A session that
   has not declared by then was not heard from for a lease. */

#define MISSING_OK(w) \
    (!declares[w] || !ALIVE(w) || own[w] == 2 && !(certain[w] && flight[w] < 2))
#if SESSIONS == 3
#define ALL_MISSING_OK  (MISSING_OK(0) && MISSING_OK(1) && MISSING_OK(2))
#else
#define ALL_MISSING_OK  (MISSING_OK(0) && MISSING_OK(1))
#endif

inline end_recovery()
{
    printf("the recovery's lease ends\n");
    R.open = 0;
    R.recovering = 0;
    R.size = 0;
    R.any = 0;
    R.complete = 0;
    for (k : 0 .. SESSIONS - 1) {
        R.told[k] = 0;
        R.counted[k] = 0;
        if
        :: declares[k] -> excused[k] = running[k]
        :: else
        fi
    }
}

/* 3/4 of a lease, or the rest of it, pass for a worker.  A fence that is
   further behind passes first. */

#define UP(x)       (x == 2 -> 2 : x + 1)

/* R3: fence */
inline tick(w, fence, fly)
{
    printf("time passes for %d\n", w);
    ticks--;
    own[w] = UP(own[w]);
    if
    :: fence -> age[w] = UP(age[w])
    :: else
    fi
    if
    :: fly -> flight[w] = UP(flight[w])
    :: else
    fi
}

/* LATE: not to a new session before the last loss, see excuse_unknown() */

#ifdef LATE
#define COMES(w)    (w < 2 || losses == 0)
#else
#define COMES(w)    1
#endif

inline come(w, t)
{
    d_step {
        ticket[T(w, t)] == T_NONE && ALIVE(w) && (COME(w) & (1 << t)) &&
        (t == 0 || ticket[T(w, 0)] != T_NONE) && COMES(w) ->
        ticket[T(w, t)] = T_NEW
    }
}

/* a request has ended */

inline finished(w)
{
    printf("a request of %d ends\n", w);
    if
    :: synced[w] -> release[w]++
    :: else
    fi
}

/* the owner of a waiting ticket is gone; "annihilate" where nothing was sent */

inline leave(t)
{
    printf("the owner of ticket %d leaves\n", t);
    if
    :: ticket[t] == T_NEW || !synced[OWNER(t)] -> ticket[t] = T_END
    :: else -> ticket[t] = T_CANCEL
    fi
}

#if BREAKS + CRASHES

inline exec_late(w)
{
    printf("a late command of %d\n", w);
    late[w] ? c_op, c_epoch, c_gen, c_num, c_cancel, c_ask, c_check, c_sum;
    execute(w)
}

#endif

#ifdef QLOSS_ANY
#define QLOSS_WHEN
#else
#define QLOSS_WHEN && !R.recovering
#endif

inline lose_queue()
{
    printf("the queue is lost\n");
    R.marker = 0;
    for (k : 0 .. NT - 1) {
        R.queued[k] = 0;
        R.qepoch[k] = 0
    }
}

#if FAILS
inline failover()
{
    printf("a replica takes over\n");
#if BACKS
    former = process;
    copy(Former, R);
#endif
    processes++;
    process = processes;
    note_unknown();
    copy(R, Copy);
    cut(0);
    cut(1);
    drop_late(0);
    drop_late(1)
}
#endif

#if BACKS
/*
 * It was no replica meanwhile: its state, its process.  Each session has been
 * answered by the other one; else there are two masters at once, an exception
 * of S2.
 */

#define ANSWERED(w) (!ALIVE(w) || state[w] > S_HELLO && term[w] == R.term)

inline name_former()
{
    printf("the former master is named again\n");
    note_unknown();
    copy(Swapped, R);
    copy(R, Former);
    copy(Former, Swapped);
    n = process;
    process = former;
    former = n;
    back = 1;
    cut(0);
    cut(1);
    drop_late(0);
    drop_late(1)
}
#endif

inline reload(w)
{
    printf("%d reloads\n", w);
    limit[w] = 3 - limit[w];
    say_hello(w)
}


/* all requests have ended, and no permit is out */

#define ENDED(w) \
    (!ALIVE(w) || running[w] == 0 && \
     (!(COME(w) & 1) || ticket[T(w, 0)] == T_END) && \
     (!(COME(w) & 2) || ticket[T(w, 1)] == T_END))
#define BACK(w) \
    (!R.reg[w] || R.aepoch[w] < R.declared[w] || R.held[w] == 0)

#if SESSIONS == 3
#define SETTLED (begun && ENDED(0) && ENDED(1) && ENDED(2) && \
                 BACK(0) && BACK(1) && BACK(2))
#else
#define SETTLED (begun && ENDED(0) && ENDED(1) && BACK(0) && BACK(1))
#endif

#ifdef SERVICE
/* violated by a run in which this never comes */
never {
accept:
    do
    :: !(SETTLED)
    od
}
#endif

init {
    d_step {
        R.gen = 1;
        R.process = 1;
        R.term = 1;
        for (i : 0 .. 1) {
            limit[i] = LIMIT;
#if RELOADS
            limit[i] = i + 1;
#endif
            state[i] = S_READY;
            epoch[i] = 1;
            gen[i] = 1;
            told[i] = 2;
            term[i] = 1;
#if TICKS && LOSSES + FAILS
            heard[i] = 2;
#endif
            synced[i] = 1;
            accepted[i] = 1;
            process_of[i] = 1;
            R.reg[i] = 1;
            R.epoch[i] = 1;
            R.declared[i] = 1;
            R.limit[i] = limit[i]
        }
#ifdef BUSY
        ticket[T(0, 0)] = (COME0 & 1 -> T_NEW : T_NONE);
        ticket[T(0, 1)] = (COME0 & 2 -> T_NEW : T_NONE);
        ticket[T(1, 0)] = (COME1 & 1 -> T_NEW : T_NONE);
        ticket[T(1, 1)] = (COME1 & 2 -> T_NEW : T_NONE);
#endif
        i = 0
    }
    atomic {
        run Redis(0);
        run Redis(1);
        run Worker(0);
        run Worker(1);
#if SESSIONS == 3
        run Redis(2);
        run Worker(2);
#endif
        begun = 1
    }

    /* what goes on for ever, fairly: requests come and end, leases of the dead
       end.  Faults may happen, or be given up. */

end:
    do
    :: come(0, 0)
    :: come(0, 1)
    :: come(1, 0)
    :: come(1, 1)
#if SESSIONS == 3
    :: come(2, 0)
#endif
    :: d_step { running[0] > excused[0] -> running[0]--; finished(0); skip }
    :: d_step { running[1] > excused[1] -> running[1]--; finished(1); skip }
#if TICKS
    :: d_step { excused[0] -> excused[0]--; running[0]--; finished(0); skip }
    :: d_step { excused[1] -> excused[1]--; running[1]--; finished(1); skip }
#endif
    :: d_step { paused[0] && state[0] == S_READY -> paused[0] = 0; skip }
    :: d_step { paused[1] && state[1] == S_READY -> paused[1] = 0; skip }
#if SESSIONS == 3
    :: d_step { running[2] -> running[2]--; finished(2); skip }
    :: d_step { paused[2] && state[2] == S_READY -> paused[2] = 0; skip }
#endif

    /* late commands are executed, in order, or lost */
#if BREAKS + CRASHES
    :: d_step { len(late[0]) > 0 -> exec_late(0); skip }
    :: d_step { len(late[1]) > 0 -> exec_late(1); skip }
    :: d_step { len(late[0]) > 0 -> drop_late(0); skip }
    :: d_step { len(late[1]) > 0 -> drop_late(1); skip }
#endif

#ifndef LONG_LEASE
#if TIMED
    :: d_step { R.gen && R.reg[0] && LEASE_OVER(0) -> expire(0); skip }
    :: d_step { R.gen && R.reg[1] && LEASE_OVER(1) -> expire(1); skip }
#endif
#if LOSSES + FAILS + QLOSSES
    :: d_step { R.open && ALL_MISSING_OK -> end_recovery(); skip }
#endif
#if FAILS
    /* leases in the copy are older */
    :: d_step { R.reg[0] && R.process != process ->
        R.reg[0] = 0; log_ended(); skip }
    :: d_step { R.reg[1] && R.process != process ->
        R.reg[1] = 0; log_ended(); skip }
#endif
#if BACKS
    :: d_step { back && R.reg[0] -> R.reg[0] = 0; log_ended(); skip }
    :: d_step { back && R.reg[1] -> R.reg[1] = 0; log_ended(); skip }
#endif
#endif

    /* faults */
#if BREAKS
    :: d_step { breaks && state[0] > S_DOWN && len(late[0]) == 0 ->
        breaks--; cut(0); skip }
    :: d_step { breaks && BOTH && state[1] > S_DOWN && len(late[1]) == 0 ->
        breaks--; cut(1); skip }
    :: breaks -> breaks--
#endif
#if LOST
    :: d_step { losts && message[0] -> losts--; message[0] = 0; skip }
    :: d_step { losts && message[1] -> losts--; message[1] = 0; skip }
    :: d_step { losts && message[2] -> losts--; message[2] = 0; skip }
    :: d_step { losts && message[3] -> losts--; message[3] = 0; skip }
    :: losts -> losts--
#endif
#if LEAVES
    :: d_step { leaves && WAITS(0) -> leaves--; leave(0); skip }
    :: d_step { leaves && WAITS(1) -> leaves--; leave(1); skip }
    :: d_step { leaves && WAITS(2) -> leaves--; leave(2); skip }
    :: d_step { leaves && WAITS(3) -> leaves--; leave(3); skip }
    :: leaves -> leaves--
#endif
#if TICKS
    :: d_step { ticks && ALIVE(0) && undeclared[0] -> tick(0, 0, 0); skip }
    :: d_step { ticks && ALIVE(0) -> tick(0, 1, 0); skip }
    :: d_step { ticks && ALIVE(0) && renewing[0] -> tick(0, 1, 1); skip }
    :: d_step { ticks && BOTH && ALIVE(1) && undeclared[1] ->
        tick(1, 0, 0); skip }
    :: d_step { ticks && BOTH && ALIVE(1) -> tick(1, 1, 0); skip }
    :: d_step { ticks && BOTH && ALIVE(1) && renewing[1] ->
        tick(1, 1, 1); skip }
    :: ticks -> ticks--
#endif
#if SILENT
    :: d_step { silents && R.reg[0] -> silents--; R.silent[0] = 1; skip }
    :: d_step { silents && BOTH && R.reg[1] ->
        silents--; R.silent[1] = 1; skip }
    :: silents -> silents--
#endif
#if CRASHES
#ifdef SILENT_NODE
    /* a node that held nothing died, and its last commands came to nothing */
    :: d_step { crashes && R.held[1] == 0 && state[1] == S_READY ->
        crashes--;
        crash(1);
        drop_late(1);
        R.silent[1] = 1; skip }
#else
    :: d_step { crashes && ALIVE(0) && len(late[0]) == 0 ->
        crashes--; crash(0); skip }
#endif
    :: crashes -> crashes--
#endif
#if LOSSES
    :: d_step { losses && R.gen -> losses--; wipe(); skip }
    :: losses -> losses--
#endif
#if QLOSSES
    :: d_step { qlosses && R.marker QLOSS_WHEN ->
        qlosses--; lose_queue(); skip }
    :: qlosses -> qlosses--
#endif
#if FAILS
#ifdef PLANNED                  /* a replica with all writes */
    :: d_step { fails -> fails--; copy(Copy, R); failover(); skip }
#else
    :: d_step { fails && !copied -> copied = 1; copy(Copy, R); skip }
    :: d_step { fails && copied -> fails--; failover(); skip }
#endif
    :: fails -> fails--
#endif
#if BACKS
    :: d_step { backs && former && ANSWERED(0) && ANSWERED(1) ->
        backs--; name_former(); skip }
    :: backs -> backs--
#endif
#if RELOADS
    :: d_step { reloads && state[0] == S_READY -> reloads--; reload(0); skip }
    :: d_step { reloads && state[1] == S_READY -> reloads--; reload(1); skip }
    :: reloads -> reloads--
#endif
    od
}
