package Dsem::Clock;

# A settable wall clock for a Redis server: a preloaded library adds an offset,
# which the test writes to a file, to the time that libc returns. The monotonic
# clock is unchanged, as on a host whose clock is set.
#
#   my $clock = Dsem::Clock->new($t);
#   my $redis = $clock->redis;          # same as $t->redis
#   $clock->step(-3600);
#
# With monotonic => 1 the monotonic clocks are moved instead, and the wall clock
# is unchanged: for timers of nginx. They are an hour ahead from the start, so
# that they can go back on a machine that was started just now, too.
#   my $node = $clock->node('a', $conf);    # same as $t->node
#   my @fleet = $clock->fleet(3, $conf);    # same as $t->fleet
#   $clock->stop;           # no reply is late, and no timer ends, until go
#   $clock->go;
# With far => $seconds it is so much farther ahead, also beyond the 292 years of
# a number of ns.
# With DSEM_CLOCK_BOOTTIME=1 in its environment a process has another offset of
# CLOCK_BOOTTIME only, as after the machine was suspended. A test with two
# clocks gives one of them a name.
#
# Called by: tests, Dsem::Cluster.

use strict;
use warnings;

use Carp qw(croak);
use File::Basename qw(dirname);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# ns
use constant SECOND => 1_000_000_000;
# s
use constant AHEAD => 3600;
# in place of a time: the process that reads the clock first stops it
use constant STOP => 1;

sub new {
    my ($class, $t, %opt) = @_;
    my $dir = $t->dir;
    # of all files of a run
    my $shared = $ENV{DSEM_METRONOME} ? dirname($ENV{DSEM_METRONOME}) : $dir;
    my $which = $opt{monotonic} ? 'monotonic' : 'wall';
    my $self = bless { t => $t, file => "$dir/" . ($opt{name} // 'clock'),
        offset => 0, stopped => 0, far => $opt{far} // 0,
        library => "$shared/$which.so" }, $class;
    $self->step($opt{monotonic} ? AHEAD : 0);
    $self->_compile($opt{monotonic} ? '-DMONOTONIC' : ())
        unless -e $self->{library};
    return $self;
}

my $source;

sub _compile {
    my ($self, @args) = @_;
    $source //= do { local $/; <DATA> };
    open my $cc, '|-', $ENV{CC} // 'cc', qw(-shared -fPIC -O1 -x c), @args,
        '-o', "$self->{library}.$$", '-' or croak "cc: $!";
    print $cc $source;
    close $cc or croak 'the clock cannot be compiled';
    rename "$self->{library}.$$", $self->{library} or croak "clock: $!";
}

sub redis { return shift->_start('redis', @_) }
sub node { return shift->_start('node', @_) }
sub fleet { return shift->_start('fleet', @_) }

sub _start {
    my ($self, $what, @args) = @_;
    local $ENV{LD_PRELOAD} = $self->{library};
    local $ENV{DSEM_CLOCK} = $self->{file};
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    return $self->{t}->$what(@args);
}

# Steps the clock, relative to its current time, in seconds.
sub step {
    my ($self, $seconds) = @_;
    $self->{stopped} = $self->_read if $self->{stopped};
    $self->{offset} += $seconds * SECOND;
    return $self->_write;
}

# A monotonic clock stays where it is. A process that reads it stops it, so that
# it goes back for none that has read it meanwhile.
sub stop {
    my ($self) = @_;
    $self->{stopped} ||= STOP;
    return $self->_write;
}

# It goes on from there.
sub go {
    my ($self) = @_;
    if ($self->{stopped}) {
        my $stopped = $self->_read;
        $self->{offset} -= _monotonic() - $stopped if $stopped != STOP;
    }
    $self->{stopped} = 0;
    return $self->_write;
}

sub _monotonic { return int SECOND * clock_gettime(CLOCK_MONOTONIC) }

# The time at which the clock stands.
sub _read {
    my ($self) = @_;
    open my $fh, '<', $self->{file} or croak "$self->{file}: $!";
    sysread $fh, my $bytes, 24;
    return (unpack 'qqq', $bytes)[1];
}

sub _write {
    my ($self) = @_;
    open my $fh, '+>>', $self->{file} or croak "$self->{file}: $!";
    truncate $fh, 24;
    close $fh;
    # in place: servers have mapped the file
    open $fh, '+<', $self->{file} or croak "$self->{file}: $!";
    syswrite $fh, pack 'qqq', @$self{qw(offset stopped far)};
    close $fh;
    return $self;
}

1;

__DATA__
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND  1000000000LL
#define STOP    1

/*
 * ns: what is added, and the time at which the clock stands if not 0;
 * s: what is added, too
 */
static volatile struct { int64_t  offset, stopped, far; }  *clock_file;

static int  boottime;

__attribute__((constructor)) static void
clock_init(void)
{
    int    fd;
    void  *p;

    fd = open(getenv("DSEM_CLOCK"), O_RDWR);
    p = mmap(NULL, sizeof(*clock_file), PROT_READ|PROT_WRITE, MAP_SHARED, fd,
             0);
    close(fd);

    if (p == MAP_FAILED) {
        abort();
    }

    clock_file = p;
    boottime = (getenv("DSEM_CLOCK_BOOTTIME") != NULL);
}

static int
clock_moves(clockid_t id)
{
#ifdef MONOTONIC
    return id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE
           || id == CLOCK_BOOTTIME;
#else
    return boottime ? id == CLOCK_BOOTTIME
                    : id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
#endif
}

/* what was read before the clock was told to stop is earlier */
static int64_t
clock_stop(clockid_t id)
{
    int64_t          ns;
    struct timespec  ts;

    syscall(SYS_clock_gettime, id, &ts);

    ns = ts.tv_sec * SECOND + ts.tv_nsec;
    __sync_bool_compare_and_swap(&clock_file->stopped, STOP, ns);

    return clock_file->stopped;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int      rc;
    int64_t  ns;

    rc = syscall(SYS_clock_gettime, id, ts);

    if (rc == 0 && clock_file && clock_moves(id)) {
        ns = clock_file->stopped;

        if (ns == STOP) {
            ns = clock_stop(id);
        }

        if (ns == 0) {
            ns = ts->tv_sec * SECOND + ts->tv_nsec;
        }

        ns += clock_file->offset;
        ts->tv_sec = ns / SECOND + clock_file->far;
        ts->tv_nsec = ns % SECOND;
    }

    return rc;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    int              rc;
    struct timespec  ts;

    rc = clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;

    return rc;
}

time_t
time(time_t *t)
{
    struct timespec  ts;

    clock_gettime(CLOCK_REALTIME, &ts);

    if (t) {
        *t = ts.tv_sec;
    }

    return ts.tv_sec;
}
