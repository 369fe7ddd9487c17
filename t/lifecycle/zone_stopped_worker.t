#!/usr/bin/perl

# A worker stops while it looks for dead workers of its node, in the middle of
# the shared zone, as under a debugger. It delays no other process: the other
# workers serve requests and keep their leases, a session of a killed worker is
# removed, a reload replaces all workers but the stopped one.

use lib 't/lib';
use Dsem::Test;

my $HEARTBEAT = 0.4;

my $t = Dsem::Test->new(lease => 2);
$t->redis;
my $up = $t->upstream;

my $library = $t->dir . '/stop.so';
my $armed = $t->dir . '/armed';
compile();

my $node = do {
    local $ENV{LD_PRELOAD} = $library;
    local $ENV{DSEM_ARMED} = $armed;
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    $t->node('a', <<'EOF_CONF');
worker_processes 3;
dsem_lease 2s;
location /plain {
    return 204;
}
location /limited {
    dsem api limit=2 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
};

eventually { sessions() == 3 } 'three sessions';
is $node->get('/limited?t=1')->status, 200, 'request served';

# the library stops the first worker that looks at another one

open my $fh, '>', $armed or die "$armed: $!";
close $fh;
my $stopped = wait_for { (grep { stopped($_) } $node->workers)[0] } 15,
    'a stopped worker';
$node->freeze($stopped);
my ($sibling, $victim) = grep { $_ != $stopped } $node->workers;
my $at = now;

wait_for { now > $at + 3 * $HEARTBEAT } 15, 'three heartbeats';
answered('stopped');
eventually { sessions() == 2 } 'only the stopped session expired';

# a worker is killed: its successor starts and finds its session

$node->kill_worker($victim);
eventually { $node->grep_log(qr/removed session .* of a dead worker/) }
    'session of killed worker removed';
eventually { sessions() == 2 } 'session of its successor';
answered('killed');

# a reload: two old workers leave, three new ones start

my @old = grep { $_ != $stopped } $node->workers;
$node->signal('HUP');
eventually { new_workers() == 3 } 'reload: three new workers';
eventually { my %there = map { $_ => 1 } $node->workers, $node->draining;
    !grep { $there{$_} } @old } 'reload: other old workers gone';
eventually { sessions() == 3 } 'reload: three sessions';
answered('reload');

$node->thaw($stopped);
eventually { !grep { $_ == $stopped } $node->workers, $node->draining }
    'stopped worker continues and exits';
is $node->get('/limited?t=1')->status, 200, 'request served';

$t->done;

###############################################################################

sub sessions { return $t->state->session_count }

sub new_workers {
    my %old = map { $_ => 1 } @old, $stopped;
    return scalar grep { !$old{$_} } $node->workers;
}

sub stopped {
    my ($pid) = @_;
    open my $stat, '<', "/proc/$pid/stat" or return 0;
    return <$stat> =~ /\) T /;
}

# by the workers that are not stopped
sub answered {
    my ($when) = @_;
    my @requests = map { $node->begin($_) }
        ('/plain', '/limited?t=1') x 10;
    eventually { !grep { !$_->done } @requests } "$when: requests answered";
    is scalar(grep { $_->done && $_->status =~ /^20[04]$/ } @requests), 20,
        "$when: requests served";
}

sub compile {
    local $/;
    open my $cc, '|-', $ENV{CC} // 'cc', qw(-shared -fPIC -O1 -x c -o),
        $library, '-' or die "cc: $!";
    print $cc scalar <DATA>;
    close $cc or die 'the library cannot be compiled';
}

__DATA__
#define _GNU_SOURCE
#include <linux/fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char  armed[4096];

__attribute__((constructor)) static void
stop_init(void)
{
    /* nginx removes the environment later */
    snprintf(armed, sizeof(armed), "%s", getenv("DSEM_ARMED"));
}

/* the first process that opens the stat file of another one stops itself */

static int
stop_open(const char *path, int flags, mode_t mode)
{
    int   pid;
    char  word[8];

    if (sscanf(path, "/proc/%d/%7s", &pid, word) == 2
        && strcmp(word, "stat") == 0
        && pid != getpid()
        && unlink(armed) == 0)
    {
        raise(SIGSTOP);
    }

    return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int
open(const char *path, int flags, mode_t mode)
{
    return stop_open(path, flags, mode);
}

int
open64(const char *path, int flags, mode_t mode)
{
    return stop_open(path, flags | O_LARGEFILE, mode);
}
