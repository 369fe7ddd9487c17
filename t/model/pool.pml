/*
 * A pool: permits with a server each, one queue.  Which server a grant names,
 * and how the worker learns it, also of grants whose message was lost.  All that
 * can happen within small bounds; the protocol around it (leases, recovery, own
 * permits) is in protocol.pml.  t/model/README.md maps it to the scripts;
 * t/model/check runs it.
 *
 * A ticket is one request of one session.  Each server has one permit.  A
 * session has one unanswered sync, and a list of the servers that it can use.
 * With IDLE, a permit may stay with its worker for the next request.
 *
 * S1:      no server has two requests.
 * Counts:  at a check, what Redis counts at the servers and the worker does not
 *          know is what the granted tickets have; in the end Redis counts nothing.
 * Queue:   no ticket waits beside a free server of its list.
 * Usable:  no request begins at a server that its worker cannot use.
 * Service: when nothing else can happen, checks find each waiting request's end.
 */

#define SESSIONS    2
#define SERVERS     2
#define TICKETS     4
#define LIMIT       1           /* of each server */
#define NONE        255

#ifdef UNEVEN
#define OWNER(t)    ((t) / 3)
#else
#define OWNER(t)    ((t) / 2)
#endif
#define AT(s, k)    ((s) * SERVERS + (k))
#define BIT(k)      (1 << (k))
#define ALL         3

/* events that may happen, at any moment, or not */

#ifndef LEAVES
#define LEAVES      0           /* requests that leave while they wait */
#endif
#ifndef LOST
#define LOST        0           /* messages lost */
#endif
#ifndef CHECKS
#define CHECKS      0           /* checks before all else is done */
#endif
#ifndef BREAKS
#define BREAKS      0           /* connections broken */
#endif
#ifndef DOWNS
#define DOWNS       0           /* a session cannot use a server, for some time */
#endif
#ifndef IDLE
#define IDLE        0           /* permits that stay after their request */
#endif

/* Redis */

byte at[SESSIONS * SERVERS];    /* the accounts: permits by server */
bool queued[TICKETS];
byte place[TICKETS];
byte list[SESSIONS];            /* BIT(k): of the last sync */
byte turn;
byte reuse[SESSIONS];           /* R_... */

#define R_NONE      0
#define R_ACTIVE    1           /* it may have idle permits */
#define R_RECALLED  2

/* the commands, replies and messages on their way; a server is k + 1 */

#define C_NONE      0
#define C_SENT      1
#define C_ANSWERED  2

byte command[SESSIONS];
byte release_sent[SESSIONS * SERVERS];
byte list_sent[SESSIONS];
bool asked[TICKETS], cancelled[TICKETS], checked[TICKETS];
byte answer[TICKETS];           /* A_... */
byte told[TICKETS];             /* granted by this reply */
byte told_at[SESSIONS * SERVERS];
byte message[TICKETS];          /* granted */
bool may_keep[SESSIONS];        /* told by the reply */
bool recall[SESSIONS];          /* message: idle permits are wanted */

#define A_NONE      0
#define A_QUEUED    1
#define A_LATE      2
#define A_REMOVED   3
#define A_WAITS     4
#define A_ABSENT    5

/* the workers */

#define T_NONE      0
#define T_NEW       1           /* acquire not sent */
#define T_ASKED     2
#define T_LEFT      3           /* left, while the acquire has no answer */
#define T_QUEUED    4
#define T_CANCEL    5           /* left, cancel not sent */
#define T_CANCELED  6
#define T_RUNS      7
#define T_LATE      8           /* its cancel came too late, at which server? */
#define T_END       9

byte state[TICKETS];
byte server[TICKETS];                       /* of one that runs */
byte release[SESSIONS * SERVERS];
byte usable[SESSIONS] = ALL;
byte record[SESSIONS * SERVERS];            /* what it had at its sync */
byte named[TICKETS];                        /* by messages since then */
byte idle[SESSIONS * SERVERS];
bool keep_allowed[SESSIONS] = 1;
bool keep_sent[SESSIONS], keep_acked[SESSIONS];
bool refresh[SESSIONS];                     /* a sync in any case */

byte leaves = LEAVES, losts = LOST, checks = CHECKS;
byte breaks = BREAKS, downs = DOWNS, idles = IDLE;

/* used inside a step */

hidden byte i, j, k, n, first, was, sum, chosen;
hidden short unnamed[SERVERS];
bool changed;


#define MINE(s, t, x)   (OWNER(t) == (s) && state[t] == (x))
#define ANY(s, x)       (MINE(s, 0, x) || MINE(s, 1, x) || MINE(s, 2, x) \
                         || MINE(s, 3, x))
#define TOTAL(k)    (at[AT(0, k)] + at[AT(1, k)])

/* R1: room for a permit, at a server of the session's list */
#define ROOM(s, k)  ((list[s] & BIT(k)) && TOTAL(k) < LIMIT)

inline choose(s)
{
    chosen = NONE;
    if
    :: ROOM(s, turn) -> chosen = turn
    :: !ROOM(s, turn) && ROOM(s, 1 - turn) -> chosen = 1 - turn
    :: else
    fi
}

inline take(t)
{
    printf("redis: %d granted at server %d\n", t, chosen);
    at[AT(OWNER(t), chosen)]++;
    turn = 1 - chosen
}

inline queue(t)
{
    sum = 0;
    for (j : 0 .. TICKETS - 1) {
        sum = (place[j] > sum -> place[j] : sum)
    }
    queued[t] = 1;
    place[t] = sum + 1;
    sum = 0;
    printf("redis: %d queued\n", t)
}

inline unqueue(t)
{
    queued[t] = 0;
    place[t] = 0
}

/* R7: queue order */
/* to the session of this call by its reply, to others by a message */

inline serve(s)
{
    was = 0;
    do
    :: true ->
        first = NONE;
        for (j : 0 .. TICKETS - 1) {
            if
            :: queued[j] && place[j] > was &&
                (first == NONE || place[j] < place[first]) -> first = j
            :: else
            fi
        }
        if
        :: first == NONE -> break
        :: else
        fi;
        was = place[first];
        choose(OWNER(first));
        if
        :: chosen != NONE ->
            take(first);
            unqueue(first);
            if
            :: OWNER(first) == s -> told[first] = chosen + 1
            :: else -> message[first] = chosen + 1
            fi
        :: else ->
#ifdef NO_STEP_SERVER
            break
#else
            skip
#endif
        fi
    od;
    was = 0;
    first = 0
}


/* the session stays with its permits; others are wanted while tickets wait */

inline exec_recall(s)
{
    reuse[s] = (keep_sent[s] && (at[AT(s, 0)] || at[AT(s, 1)])
                -> R_ACTIVE : R_NONE);
    sum = 0;
    n = 0;
    for (j : 0 .. TICKETS - 1) {
        sum = sum + queued[j];
        n = n + (OWNER(j) == s && checked[j] -> 1 : 0)
    }
    may_keep[s] = (sum == 0);
#ifdef NO_AGAIN
    n = 0;
#endif
#ifndef NO_RECALL
    if
    :: sum && (reuse[1 - s] == R_ACTIVE ||
               reuse[1 - s] == R_RECALLED && n) ->
        printf("redis: recall to session %d\n", 1 - s);
        reuse[1 - s] = R_RECALLED;
        recall[1 - s] = 1
    :: else
    fi;
#endif
    sum = 0;
    n = 0
}


/* a sync is executed */

inline execute(s)
{
    printf("redis: sync of session %d\n", s);
    list[s] = list_sent[s];
    for (k : 0 .. SERVERS - 1) {
        assert(at[AT(s, k)] >= release_sent[AT(s, k)]);
        at[AT(s, k)] = at[AT(s, k)] - release_sent[AT(s, k)]
    }
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && cancelled[i] ->
            answer[i] = (queued[i] -> A_REMOVED : A_LATE);
            unqueue(i)
        :: else
        fi
    }
    serve(s);
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && asked[i] ->
            choose(s);
            if
            :: chosen != NONE -> take(i); told[i] = chosen + 1
            :: else -> queue(i); answer[i] = A_QUEUED
            fi
        :: OWNER(i) == s && checked[i] ->
            answer[i] = (queued[i] -> A_WAITS : A_ABSENT)
        :: else
        fi
    }
    for (i : 0 .. TICKETS - 1) {
        choose(OWNER(i));
        assert(!queued[i] || chosen == NONE)
    }
    for (k : 0 .. SERVERS - 1) {
        told_at[AT(s, k)] = at[AT(s, k)]
    }
#if IDLE
    exec_recall(s);
#endif
    command[s] = C_ANSWERED;
    i = 0;
    k = 0;
    chosen = 0
}


/* the worker */

inline admit(t, at_server)
{
    printf("%d runs at server %d\n", t, at_server);
    state[t] = T_RUNS;
    server[t] = at_server;
    sum = 0;
    for (j : 0 .. TICKETS - 1) {
        if
        :: state[j] == T_RUNS && server[j] == at_server -> sum++
        :: else
        fi
    }
    assert(sum <= LIMIT);
    assert(usable[OWNER(t)] & BIT(at_server));
    sum = 0
}

inline give_back_idle(s)
{
    for (k : 0 .. SERVERS - 1) {
        release[AT(s, k)] = release[AT(s, k)] + idle[AT(s, k)];
        idle[AT(s, k)] = 0
    }
    k = 0
}

inline is_granted(t, at_server)
{
    if
    :: (state[t] == T_ASKED || state[t] == T_QUEUED) &&
        (usable[OWNER(t)] & BIT(at_server)) -> admit(t, at_server)
    :: (state[t] == T_ASKED || state[t] == T_QUEUED) &&
        !(usable[OWNER(t)] & BIT(at_server)) ->
        /* another ticket: messages to this one are for no one */
        release[AT(OWNER(t), at_server)]++;
        message[t] = 0;
        state[t] = T_NEW
    :: state[t] == T_LEFT || state[t] == T_CANCEL || state[t] == T_LATE ->
        release[AT(OWNER(t), at_server)]++;
        state[t] = T_END
    :: else         /* its cancel is on its way, or it is granted already */
    fi
}

/* all tickets are checked, or none */

inline send(s, with_checks)
{
    list_sent[s] = usable[s];
    keep_sent[s] = (IDLE -> keep_allowed[s] : 0);
    refresh[s] = 0;
    for (k : 0 .. SERVERS - 1) {
        if
        :: idle[AT(s, k)] && !(usable[s] & BIT(k)) && ANY(s, T_NEW) ->
            release[AT(s, k)]++;
            idle[AT(s, k)] = 0
        :: else
        fi;
        release_sent[AT(s, k)] = release[AT(s, k)];
        release[AT(s, k)] = 0;
#ifdef NO_IDLE_RECORD
        record[AT(s, k)] = 0
#else
        record[AT(s, k)] = idle[AT(s, k)]
#endif
    }
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s ->
            named[i] = 0;
            if
            :: state[i] == T_NEW -> state[i] = T_ASKED; asked[i] = 1
            :: state[i] == T_CANCEL -> state[i] = T_CANCELED; cancelled[i] = 1
            :: (state[i] == T_QUEUED || state[i] == T_LATE) && with_checks ->
                checked[i] = 1
            :: state[i] == T_RUNS -> record[AT(s, server[i])]++
            :: else
            fi
        :: else
        fi
    }
    i = 0;
    k = 0;
    command[s] = C_SENT
}

#define LATE(t)     (cancelled[t] && answer[t] == A_LATE)
#define ABSENT(t)   (checked[t] && answer[t] == A_ABSENT && !told[t])

#ifdef NO_NAMED
#define NAMED(t)    0
#else
#define NAMED(t)    named[t]
#endif

/*
 * What Redis counts beyond the record, and beyond what this reply and messages
 * have named, is of tickets whose message was lost: any of them.
 */

inline look_up(s)
{
    n = 0;
    sum = 0;
    for (k : 0 .. SERVERS - 1) {
#ifdef NO_RECORD
        record[AT(s, k)] = release[AT(s, k)] + idle[AT(s, k)];
        for (i : 0 .. TICKETS - 1) {
            record[AT(s, k)] = record[AT(s, k)] +
                (OWNER(i) == s && state[i] == T_RUNS && server[i] == k -> 1 : 0)
        }
#endif
        unnamed[k] = told_at[AT(s, k)];
        unnamed[k] = unnamed[k] - record[AT(s, k)]
    }
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && checked[i] -> sum++
        :: else
        fi;
        if
        :: OWNER(i) == s && told[i] -> unnamed[told[i] - 1]--
        :: OWNER(i) == s && ABSENT(i) && NAMED(i) -> unnamed[NAMED(i) - 1]--
        :: OWNER(i) == s && ABSENT(i) && !NAMED(i) -> n++
        :: else
        fi
    }
    assert(sum == 0 || unnamed[0] >= 0 && unnamed[1] >= 0 &&
           unnamed[0] + unnamed[1] == n);
    sum = 0
}

inline forget_answer(t)
{
    asked[t] = 0;
    cancelled[t] = 0;
    checked[t] = 0;
    answer[t] = A_NONE;
    told[t] = 0;
    named[t] = 0
}

inline read_ticket(t)
{
    if
    :: told[t] -> is_granted(t, told[t] - 1)
    :: LATE(t) && named[t] ->
        release[AT(OWNER(t), named[t] - 1)]++;
        state[t] = T_END
    :: LATE(t) && !named[t] -> state[t] = T_LATE
    /* else the message has granted it */
    :: ABSENT(t) && !NAMED(t) ->
#ifdef NO_SERVERS
        chosen = 0;
#else
        chosen = (unnamed[0] > 0 -> 0 : 1);
        unnamed[chosen]--;
#endif
        is_granted(t, chosen)
    :: cancelled[t] && answer[t] == A_REMOVED -> state[t] = T_END
    :: asked[t] && answer[t] == A_QUEUED ->
        if
        :: state[t] == T_ASKED -> state[t] = T_QUEUED
        :: state[t] == T_LEFT -> state[t] = T_CANCEL
        :: else     /* the message was faster */
        fi
    :: else
    fi;
    forget_answer(t)
}

inline forget_command(s)
{
    for (k : 0 .. SERVERS - 1) {
        release_sent[AT(s, k)] = 0;
        told_at[AT(s, k)] = 0;
        record[AT(s, k)] = 0
    }
    command[s] = C_NONE;
    i = 0;
    k = 0;
    n = 0;
    chosen = 0;
    unnamed[0] = 0;
    unnamed[1] = 0
}

inline read(s)
{
    printf("session %d reads the reply\n", s);
    look_up(s);
#if IDLE
    keep_acked[s] = keep_sent[s];
    keep_allowed[s] = may_keep[s];
#ifndef NO_MAY_KEEP
    if
    :: !may_keep[s] -> give_back_idle(s)
    :: else
    fi;
#endif
    may_keep[s] = 0;
#endif
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s -> read_ticket(i)
        :: else
        fi
    }
    forget_command(s)
}

/*
 * The connection broke: the sync was executed, or not, its reply is lost, and so
 * are the messages.  The worker declares what it has, by server, under a new
 * epoch; permits of the old one are void.
 */

inline reconnect(s)
{
    printf("session %d reconnects\n", s);
    for (k : 0 .. SERVERS - 1) {
        release[AT(s, k)] = 0;
#ifndef NO_IDLE_VOID
        idle[AT(s, k)] = 0;
#endif
#ifndef NO_VOID
        at[AT(s, k)] = 0
#endif
    }
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s ->
            forget_answer(i);
            message[i] = 0;
            if
            :: state[i] == T_RUNS ->
#ifdef NO_DECLARED_AT
                at[AT(s, 0)]++
#else
                at[AT(s, server[i])]++
#endif
            :: state[i] == T_QUEUED && !queued[i] -> queue(i)
            :: state[i] == T_ASKED ->
                state[i] = (queued[i] -> T_QUEUED : T_NEW)
            :: state[i] == T_LEFT || state[i] == T_CANCEL ||
                state[i] == T_CANCELED || state[i] == T_LATE ->
                unqueue(i);
                state[i] = T_END
            :: else
            fi
        :: else
        fi
    }
#if IDLE
    reuse[s] = R_NONE;
    recall[s] = 0;
    may_keep[s] = 0;
    keep_sent[s] = 0;
    keep_acked[s] = 0;
    keep_allowed[s] = !(ANY(s, T_ASKED) || ANY(s, T_QUEUED));
    refresh[s] = 1;
#endif
    list[s] = usable[s];
    list_sent[s] = usable[s];
    forget_command(s)
}

#define NEWS(s)         (ANY(s, T_NEW) || ANY(s, T_CANCEL))
#define WORK(s)         (release[AT(s, 0)] || release[AT(s, 1)] \
                         || NEWS(s) || ANY(s, T_LATE) || refresh[s] \
                         || ANY(s, T_QUEUED) && list_sent[s] != usable[s])
/* which server has a permit that came too late? */
#define LOOKS(s)        (ANY(s, T_LATE) && !NEWS(s))
#define HAS_IDLE(s, k)  (idle[AT(s, k)] && (usable[s] & BIT(k)))
/* idle permits serve new requests before these are sent */
#define SENDS(s)        (command[s] == C_NONE && WORK(s) && !(ANY(s, T_NEW) && \
                         (HAS_IDLE(s, 0) || HAS_IDLE(s, 1))))
#ifdef NO_KEEP_ACK
#define KEEPS(s)        (keep_allowed[s] && !refresh[s])
#else
#define KEEPS(s)        (keep_allowed[s] && !refresh[s] && keep_sent[s] && \
                         keep_acked[s])
#endif
#define DONE(t)         (state[t] == T_END)
#define ALL_DONE        (DONE(0) && DONE(1) && DONE(2) && DONE(3))

inline come(t)
{
    d_step { state[t] == T_NONE ->
        printf("%d comes, session %d\n", t, OWNER(t));
        state[t] = T_NEW }
}

inline leave(t)
{
    d_step { leaves && (state[t] == T_NEW || state[t] == T_ASKED ||
                        state[t] == T_QUEUED) ->
        leaves--;
        printf("%d leaves\n", t);
        state[t] = (state[t] == T_NEW -> T_END :
                    (state[t] == T_ASKED -> T_LEFT : T_CANCEL)) }
}

inline finish(t)
{
    d_step { state[t] == T_RUNS ->
        printf("%d ends\n", t);
        state[t] = T_END;
        release[AT(OWNER(t), server[t])]++;
        server[t] = 0 }
}

/* the permit may also go back: there are more reasons than KEEPS has */

inline keep(t)
{
    d_step { idles && state[t] == T_RUNS && KEEPS(OWNER(t)) &&
             (usable[OWNER(t)] & BIT(server[t])) ->
        idles--;
        printf("%d ends, its permit stays\n", t);
        state[t] = T_END;
        idle[AT(OWNER(t), server[t])]++;
        server[t] = 0 }
}

#ifdef NO_IDLE_USABLE
#define REUSES(s, k)    idle[AT(s, k)]
#else
#define REUSES(s, k)    HAS_IDLE(s, k)
#endif

inline reuse_idle(t, k)
{
    d_step { state[t] == T_NEW && REUSES(OWNER(t), k) ->
        idle[AT(OWNER(t), k)]--;
#ifdef NO_IDLE_AT
        admit(t, 0)
#else
        admit(t, k)
#endif
        }
}

inline hear_recall(s)
{
    d_step { recall[s] ->
        printf("recall heard by session %d\n", s);
        recall[s] = 0;
        refresh[s] = 1;
        if
        :: idle[AT(s, 0)] || idle[AT(s, 1)] -> give_back_idle(s)
        :: else -> keep_allowed[s] = 0
        fi }
}

inline lose_recall(s)
{
    d_step { losts && recall[s] ->
        printf("recall to session %d is lost\n", s);
        losts--;
        recall[s] = 0 }
}

/* those that wait compare */

inline poll(s)
{
    if
    :: ANY(s, T_QUEUED) -> send(s, 1); execute(s); read(s)
    :: else
    fi
}

inline hear(t)
{
    d_step { message[t] ->
        printf("message to %d: server %d\n", t, message[t] - 1);
        k = message[t] - 1;
        message[t] = 0;
        named[t] = (command[OWNER(t)] == C_NONE -> 0 : k + 1);
        is_granted(t, k);
        k = 0 }
}

inline lose(t)
{
    d_step { losts && message[t] ->
        printf("message to %d is lost\n", t);
        losts--;
        message[t] = 0 }
}

inline down(s, k)
{
    d_step { downs && usable[s] == ALL ->
        printf("session %d cannot use server %d\n", s, k);
        downs--;
        usable[s] = ALL - BIT(k) }
}

init {
    d_step {
        list[0] = ALL;
        list[1] = ALL;
        list_sent[0] = ALL;
        list_sent[1] = ALL;
#ifdef THREE
        state[3] = T_END;           /* three requests */
#endif
    }
    do
    :: come(0)
    :: come(1)
    :: come(2)
    :: come(3)
    :: finish(0)
    :: finish(1)
    :: finish(2)
    :: finish(3)
    :: hear(0)
    :: hear(1)
    :: hear(2)
    :: hear(3)

    :: d_step { SENDS(0) && !LOOKS(0) -> send(0, 0) }
    :: d_step { command[0] == C_NONE && LOOKS(0) -> send(0, 1) }
    :: d_step { SENDS(1) && !LOOKS(1) -> send(1, 0) }
    :: d_step { command[1] == C_NONE && LOOKS(1) -> send(1, 1) }
    :: d_step { command[0] == C_SENT -> execute(0) }
    :: d_step { command[1] == C_SENT -> execute(1) }
    :: d_step { command[0] == C_ANSWERED -> read(0) }
    :: d_step { command[1] == C_ANSWERED -> read(1) }

#if LEAVES
    :: leave(0)
    :: leave(1)
    :: leave(2)
    :: leave(3)
    :: leaves -> leaves--
#endif
#if LOST
    :: lose(0)
    :: lose(1)
    :: lose(2)
    :: lose(3)
    :: losts -> losts--
#endif
#if CHECKS
    :: d_step { checks && command[0] == C_NONE && ANY(0, T_QUEUED) &&
                !NEWS(0) -> checks--; send(0, 1) }
    :: d_step { checks && command[1] == C_NONE && ANY(1, T_QUEUED) &&
                !NEWS(1) -> checks--; send(1, 1) }
    :: checks -> checks--
#endif
#if BREAKS
    :: d_step { breaks && command[0] != C_NONE -> breaks--; reconnect(0) }
    :: d_step { breaks && command[1] != C_NONE -> breaks--; reconnect(1) }
    :: breaks -> breaks--
#endif
#if DOWNS
    :: down(0, 0)
    :: down(0, 1)
    :: down(1, 0)
    :: down(1, 1)
    :: d_step { usable[0] != ALL -> usable[0] = ALL }
    :: d_step { usable[1] != ALL -> usable[1] = ALL }
    :: downs -> downs--
#endif

#if IDLE
    :: keep(0)
    :: keep(1)
    :: keep(2)
    :: keep(3)
    :: reuse_idle(0, 0)
    :: reuse_idle(0, 1)
    :: reuse_idle(1, 0)
    :: reuse_idle(1, 1)
    :: reuse_idle(2, 0)
    :: reuse_idle(2, 1)
    :: reuse_idle(3, 0)
    :: reuse_idle(3, 1)
    :: hear_recall(0)
    :: hear_recall(1)
#if LOST
    :: lose_recall(0)
    :: lose_recall(1)
#endif
#endif

    /* nothing else can happen, and a second passes: each session checks */
    :: timeout ->
        d_step {
        printf("a second later\n");
        if
        :: ALL_DONE ->
            assert(TOTAL(0) + TOTAL(1) == idle[AT(0, 0)] + idle[AT(0, 1)]
                                          + idle[AT(1, 0)] + idle[AT(1, 1)])
        :: else
        fi;
        changed = !ALL_DONE;
        poll(0);
        poll(1);
        assert(!changed || ANY(0, T_RUNS) || ANY(1, T_RUNS) ||
               WORK(0) || WORK(1) || recall[0] || recall[1] ||
               message[0] || message[1] || message[2] || message[3])
        }
        if
        :: changed -> changed = 0
        :: else -> break
        fi
    od
}
