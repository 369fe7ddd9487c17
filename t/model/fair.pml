/*
 * The queue of a semaphore with "fair=": tags, the drop at a full queue, and how
 * it travels to the worker.  All that can happen within small bounds; the
 * protocol around it (leases, recovery, own permits) is in protocol.pml.
 * t/model/README.md maps it to the scripts; t/model/check runs it.
 *
 * A ticket is one request of one key and one session, with one life.  All
 * weights are 1, all requests cost COST.  A session has one unanswered sync.
 *
 * Counts:  the worker and Redis agree about permits and tickets.
 * Drop:    no ticket is both dropped and granted, the longest backlog pays.
 * Order:   first come, first served inside a key; tags of grants never fall.
 * Service: when nothing else can happen, checks find each waiting request's end.
 */

#ifndef TICKETS
#define TICKETS     4
#endif
#ifndef LIMIT
#define LIMIT       1
#endif
#ifndef QUEUE
#define QUEUE       2
#endif
#define SESSIONS    2
#define KEYS        2
#define COST        2
#define NONE        255

/* session and key of a ticket */

#ifdef ALONE
#define OWNER(t)    ((t) == 3 -> 0 : 1)
#else
#define OWNER(t)    ((t) == 0 || (t) == 3 -> 0 : 1)
#endif
#ifndef KEY
#define KEY(t)      ((t) == 2 -> 1 : 0)
#endif

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
#ifndef FLOSSES
#define FLOSSES     0           /* the key of the tags lost */
#endif

/* Redis */

byte held[SESSIONS], waiting[SESSIONS];     /* the accounts */
bool queued[TICKETS];
byte tag[TICKETS];                          /* of the place */
bool unheard[TICKETS];                      /* dropped, its session not told */
bool declared[TICKETS];                     /* its place was declared */
byte V;
byte F[KEYS];
byte credit[KEYS];
byte seq, arrival[TICKETS];                 /* order, for the assertions */

/* the commands, replies and messages on their way */

#define C_NONE      0
#define C_SENT      1
#define C_ANSWERED  2

byte command[SESSIONS];
byte release_sent[SESSIONS];
bool asked[TICKETS], cancelled[TICKETS], checked[TICKETS];
byte answer[TICKETS];                       /* A_... */
bool told_granted[TICKETS], told_dropped[TICKETS];
byte told_held[SESSIONS], told_waiting[SESSIONS];
bool message[TICKETS];                      /* granted */
bool hint[SESSIONS];                        /* something was dropped */
bool disturbed[SESSIONS];                   /* message read since the sync */

#define A_NONE      0
#define A_GRANTED   1
#define A_QUEUED    2
#define A_REJECTED  3
#define A_LATE      4
#define A_REMOVED   5
#define A_WAITS     6

/* the workers */

#define T_NONE      0
#define T_NEW       1           /* acquire not sent */
#define T_ASKED     2
#define T_LEFT      3           /* left, while the acquire has no answer */
#define T_QUEUED    4
#define T_CANCEL    5           /* left, cancel not sent */
#define T_CANCELED  6
#define T_RUNS      7
#define T_END       8

byte state[TICKETS];
bool dropped[TICKETS], granted[TICKETS];    /* what the request was told */
byte release[SESSIONS];

byte leaves = LEAVES, losts = LOST, checks = CHECKS;
byte breaks = BREAKS, flosses = FLOSSES;

/* used inside a step */

hidden byte i, j, n, first, last, was, sum;
bool changed;


/* the tags */

inline backlog(k)
{
    n = 0;
    for (j : 0 .. TICKETS - 1) {
        if
        :: queued[j] && KEY(j) == k -> n++
        :: else
        fi
    }
}

/* a key pays for what waits, and for its last grant, and for no more; where a
   connection broke, also for requests that left at that time */

inline check_tags()
{
#if BREAKS == 0
    for (i : 0 .. KEYS - 1) {
        backlog(i);
        assert(F[i] <= V + credit[i] + COST * (n + 1))
    }
    i = 0;
    j = 0;
#endif
    n = 0
}

/* R7: queue order */
inline find_first()
{
    first = NONE;
    for (j : 0 .. TICKETS - 1) {
        if
        :: queued[j] && (first == NONE || tag[j] < tag[first]) -> first = j
        :: else
        fi
    }
}

inline find_last()
{
    last = NONE;
    for (j : 0 .. TICKETS - 1) {
        if
        :: queued[j] && (last == NONE || tag[j] >= tag[last]) -> last = j
        :: else
        fi
    }
}

/* R8: start tag */
inline set_tag(t)
{
    tag[t] = F[KEY(t)];
#ifndef NO_FLOOR
    if
    :: tag[t] < V -> tag[t] = V
    :: else
    fi
#endif
}

inline queue(t)
{
    queued[t] = 1;
    declared[t] = 0;
    printf("redis: %d queued, tag %d\n", t, tag[t]);
    waiting[OWNER(t)]++;
    arrival[t] = seq;
    seq++;
#ifdef NO_CHARGE
    F[KEY(t)] = tag[t];
#else
    F[KEY(t)] = tag[t] + COST;
    if
    :: credit[KEY(t)] >= COST ->
        F[KEY(t)] = tag[t] + 1;
        credit[KEY(t)] = credit[KEY(t)] - (COST - 1)
    :: else ->
        F[KEY(t)] = F[KEY(t)] - credit[KEY(t)];
        credit[KEY(t)] = 0
    fi;
#endif
    answer[t] = A_QUEUED
}

/* it has left without a permit; only the last of a key gives its tag back */

inline refund(t)
{
#ifndef NO_REFUND
    if
    :: F[KEY(t)] <= V
    :: F[KEY(t)] > V && F[KEY(t)] <= tag[t] + COST -> F[KEY(t)] = tag[t]
    :: F[KEY(t)] > V && F[KEY(t)] > tag[t] + COST ->
        credit[KEY(t)] = credit[KEY(t)] + COST
    fi
#else
    skip
#endif
}

/* R9: drop from a full queue */
inline drop(t, by)
{
    backlog(KEY(t));
    was = n;
    backlog(KEY(by));
    assert(was > n);
    printf("redis: %d dropped by %d\n", t, by);
    queued[t] = 0;
    unheard[t] = 1;
#ifndef NO_COUNT
    waiting[OWNER(t)]--;
#endif
    if
    :: F[KEY(t)] > tag[t] -> F[KEY(t)] = tag[t]
    :: else
    fi;
    hint[OWNER(t)] = 1
}

/* the head has it; to the session of this call by its reply */

inline serve(s)
{
    find_first();
    do
    /* R1: room for a permit */
    :: held[0] + held[1] < LIMIT && first != NONE ->
        for (j : 0 .. TICKETS - 1) {
            assert(!(queued[j] && j != first && KEY(j) == KEY(first) &&
                     arrival[j] < arrival[first] && !declared[j]))
        }
        assert(tag[first] >= V || declared[first]);
        if
        :: tag[first] > V -> V = tag[first]
        :: else
        fi;
        printf("redis: %d granted, tag %d, V %d\n", first, tag[first], V);
        queued[first] = 0;
        waiting[OWNER(first)]--;
        held[OWNER(first)]++;
        assert(!unheard[first]);
        if
        :: OWNER(first) == s -> told_granted[first] = 1
        :: else -> message[first] = 1
        fi;
        find_first()
    :: else -> break
    od
}


/* a sync is executed */

inline acquire(s, t)
{
    set_tag(t);
    find_last();
    if
    /* R1: room for a permit */
    :: held[0] + held[1] < LIMIT && last == NONE ->
        printf("redis: %d granted at once\n", t);
        held[s]++;
        answer[t] = A_GRANTED
    :: !(held[0] + held[1] < LIMIT && last == NONE) &&
        waiting[0] + waiting[1] < QUEUE -> queue(t)
    :: !(held[0] + held[1] < LIMIT && last == NONE) &&
        waiting[0] + waiting[1] >= QUEUE ->
        if
        /* R2: full queue */
        :: last != NONE && tag[t] < tag[last] -> drop(last, t); queue(t)
        :: else ->
            printf("redis: %d rejected\n", t);
            answer[t] = A_REJECTED
        fi
    fi
}

inline cancel(t)
{
    printf("redis: cancel of %d\n", t);
    if
    :: queued[t] ->
        queued[t] = 0;
        waiting[OWNER(t)]--;
        refund(t);
        answer[t] = A_REMOVED
    :: !queued[t] && unheard[t] ->
        unheard[t] = 0;
#ifdef NO_DROPPED_CANCEL
        answer[t] = A_LATE
#else
        answer[t] = A_REMOVED
#endif
    :: !queued[t] && !unheard[t] -> answer[t] = A_LATE
    fi
}

inline execute(s)
{
    printf("redis: sync of session %d, %d released\n", s, release_sent[s]);
    assert(held[s] >= release_sent[s]);
    held[s] = held[s] - release_sent[s];
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && cancelled[i] -> cancel(i)
        :: else
        fi
    }
    serve(s);
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && asked[i] -> acquire(s, i)
        :: else
        fi
    }
    serve(s);
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && checked[i] ->
            answer[i] = (queued[i] -> A_WAITS : A_GRANTED)
        :: else
        fi;
#ifndef NO_TELL
        if
        :: OWNER(i) == s && unheard[i] ->
            unheard[i] = 0;
            told_dropped[i] = 1
        :: else
        fi
#endif
    }
#ifdef NO_KEEP
    /* what is empty is deleted, with all that a session was not told */
    if
    :: held[0] + held[1] + waiting[0] + waiting[1] == 0 ->
        for (i : 0 .. TICKETS - 1) {
            unheard[i] = 0
        }
    :: else
    fi;
#endif
    told_held[s] = held[s];
    told_waiting[s] = waiting[s];
    command[s] = C_ANSWERED;
    check_tags()
}


/* the worker */

inline is_granted(t)
{
    assert(!dropped[t]);
    if
    :: state[t] == T_ASKED || state[t] == T_QUEUED ->
        state[t] = T_RUNS;
        granted[t] = 1
    :: state[t] == T_LEFT || state[t] == T_CANCEL ->
        release[OWNER(t)]++;
        state[t] = T_END
    :: else
    fi
}

inline is_dropped(t)
{
    printf("%d is told its drop\n", t);
    assert(!granted[t]);
    dropped[t] = 1;
    state[t] = T_END
}

inline send(s, with_checks)
{
    release_sent[s] = release[s];
    release[s] = 0;
    disturbed[s] = 0;
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && state[i] == T_NEW ->
            state[i] = T_ASKED; asked[i] = 1
        :: OWNER(i) == s && state[i] == T_CANCEL ->
            state[i] = T_CANCELED; cancelled[i] = 1
        :: OWNER(i) == s && state[i] == T_QUEUED && with_checks ->
            checked[i] = 1
        :: else
        fi
    }
    i = 0;
    command[s] = C_SENT
}

inline read_ticket(t)
{
    if
    :: asked[t] && answer[t] == A_GRANTED -> is_granted(t)
    :: asked[t] && answer[t] == A_QUEUED ->
        if
        :: state[t] == T_ASKED -> state[t] = T_QUEUED
        :: state[t] == T_LEFT -> state[t] = T_CANCEL
        :: else     /* the message was faster */
        fi
    :: asked[t] && answer[t] == A_REJECTED -> state[t] = T_END
    :: cancelled[t] && answer[t] == A_LATE ->
        release[OWNER(t)]++;
        state[t] = T_END
    :: cancelled[t] && answer[t] == A_REMOVED -> state[t] = T_END
    :: else
    fi;
    if
    :: told_granted[t] -> is_granted(t)
    :: else
    fi;
    if
    :: told_dropped[t] -> is_dropped(t)
    :: else
    fi;
    if
    :: checked[t] && answer[t] == A_GRANTED && !told_granted[t] &&
        !told_dropped[t] -> is_granted(t)
    :: else
    fi;
    asked[t] = 0;
    cancelled[t] = 0;
    checked[t] = 0;
    answer[t] = A_NONE;
    told_granted[t] = 0;
    told_dropped[t] = 0
}

/* what the worker has of the semaphore, tickets that Redis does not know yet
   aside */

inline count_own(s)
{
    n = 0;
    sum = release[s];
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s && (state[i] == T_QUEUED || state[i] == T_CANCEL) ->
            n++
        :: OWNER(i) == s && state[i] == T_RUNS -> sum++
        :: else
        fi
    }
}

/* message: a grant that it does not know yet is among the tickets */

inline read(s)
{
    printf("session %d reads the reply\n", s);
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s -> read_ticket(i)
        :: else
        fi
    }
    count_own(s);
    assert(disturbed[s] || told_held[s] + told_waiting[s] == sum + n);
    assert(disturbed[s] || told_held[s] >= sum);
    told_held[s] = 0;
    told_waiting[s] = 0;
    disturbed[s] = 0;
    release_sent[s] = 0;
    command[s] = C_NONE;
    i = 0;
    n = 0;
    sum = 0
}

/*
 * The connection broke: the sync was executed, or not, its reply is lost, and so
 * are the messages.  The worker declares what it has, under a new epoch.
 */

inline reconnect(s)
{
    printf("session %d reconnects\n", s);
    held[s] = 0;
    waiting[s] = 0;
    release[s] = 0;
    for (i : 0 .. TICKETS - 1) {
        if
        :: OWNER(i) == s ->
            asked[i] = 0;
            cancelled[i] = 0;
            checked[i] = 0;
            answer[i] = A_NONE;
            told_granted[i] = 0;
            told_dropped[i] = 0;
            message[i] = 0;
            if
            :: state[i] == T_RUNS -> held[s]++
            :: state[i] == T_QUEUED && unheard[i] ->
                state[i] = T_NEW        /* acquired again */
            :: state[i] == T_QUEUED && !unheard[i] ->
                declared[i] = 1;
                queued[i] = 1;
                waiting[s]++
            :: state[i] == T_ASKED && queued[i] ->
                state[i] = T_QUEUED;
                waiting[s]++
            :: state[i] == T_ASKED && !queued[i] -> state[i] = T_NEW
            :: state[i] == T_LEFT || state[i] == T_CANCEL ||
                state[i] == T_CANCELED ->
                queued[i] = 0;
                state[i] = T_END
            :: else
            fi;
#ifndef NO_FORGET
            unheard[i] = 0;
#endif
        :: else
        fi
    }
    hint[s] = 0;
    command[s] = C_NONE;
    release_sent[s] = 0;
    disturbed[s] = 0;
    told_held[s] = 0;
    told_waiting[s] = 0;
    i = 0
}

/* the tags are gone, and begin anew behind all tickets that wait */

inline lose_tags()
{
    printf("redis: tags lost\n");
#ifdef NO_ANEW
    V = 0;
#else
    find_last();
    if
    :: last != NONE && tag[last] + 1 > V -> V = tag[last] + 1
    :: else
    fi;
#endif
    F[0] = 0;
    F[1] = 0;
    credit[0] = 0;
    credit[1] = 0;
    for (i : 0 .. TICKETS - 1) {
        declared[i] = queued[i]
    }
    i = 0;
    j = 0
}

#define MINE(s, t, x)   (OWNER(t) == (s) && state[t] == (x))
#define ANY(s, x)       (MINE(s, 0, x) || MINE(s, 1, x) || MINE(s, 2, x) \
                         || MINE(s, 3, x))
#define WORK(s)         (release[s] || hint[s] || ANY(s, T_NEW) \
                         || ANY(s, T_CANCEL))
#define DONE(t)         (state[t] == T_END)
#define ALL_DONE        (DONE(0) && DONE(1) && DONE(2) && DONE(3))

inline come(t)
{
    d_step { state[t] == T_NONE ->
        printf("%d comes, session %d, key %d\n", t, OWNER(t), KEY(t));
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
        release[OWNER(t)]++ }
}

inline hear(t)
{
    d_step { message[t] ->
        printf("message to %d\n", t);
        message[t] = 0;
        disturbed[OWNER(t)] = 1;
        is_granted(t) }
}

inline lose(t)
{
    d_step { losts && message[t] ->
        printf("message to %d is lost\n", t);
        losts--;
        message[t] = 0 }
}

init {
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

    :: d_step { command[0] == C_NONE && WORK(0) -> send(0, hint[0]);
        hint[0] = 0 }
    :: d_step { command[1] == C_NONE && WORK(1) -> send(1, hint[1]);
        hint[1] = 0 }
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
    :: d_step { losts && hint[0] -> losts--; hint[0] = 0 }
    :: d_step { losts && hint[1] -> losts--; hint[1] = 0 }
    :: losts -> losts--
#endif
#if CHECKS
    :: d_step { checks && command[0] == C_NONE && ANY(0, T_QUEUED) ->
        checks--; send(0, 1) }
    :: d_step { checks && command[1] == C_NONE && ANY(1, T_QUEUED) ->
        checks--; send(1, 1) }
    :: checks -> checks--
#endif
#if BREAKS
    :: d_step { breaks && command[0] != C_NONE -> breaks--; reconnect(0) }
    :: d_step { breaks && command[1] != C_NONE -> breaks--; reconnect(1) }
    :: breaks -> breaks--
#endif
#if FLOSSES
    :: d_step { flosses && waiting[0] + waiting[1] > 0 ->
        flosses--; lose_tags() }
    :: flosses -> flosses--
#endif

    /* nothing else can happen, and a second passes: each session checks */
    :: timeout ->
        d_step {
        printf("a second later\n");
        if
        :: ALL_DONE ->
            assert(held[0] + held[1] + waiting[0] + waiting[1] == 0)
        :: else
        fi;
#ifndef NO_POLL
        was = 0;
        for (last : 0 .. TICKETS - 1) {
            was = was + (state[last] == T_QUEUED -> 1 : 0)
        }
        last = 0;
        send(0, 1);
        execute(0);
        read(0);
        send(1, 1);
        execute(1);
        read(1);
        sum = 0;
        for (last : 0 .. TICKETS - 1) {
            sum = sum + (state[last] == T_QUEUED -> 1 : 0)
        }
#else
        was = 1;
        sum = 1;
#endif
        changed = 1;
        if
        :: !ALL_DONE -> assert(sum < was || message[0] || message[1] ||
                               message[2] || message[3])
        :: else -> changed = 0
        fi;
        was = 0;
        sum = 0;
        last = 0;
        first = 0
        }
        if
        :: changed -> changed = 0
        :: else -> break
        fi
    od
}
