package Dsem::Late;

# Workers that read late from Redis. With DSEM_LATE=odd:25 in the environment
# each worker with an odd number stands still for 25 ms before it reads from a
# connection to Redis; even:25 are the workers with an even number, all:25 are
# all. Redis executes a command in time, but the worker does not know the reply.
# No read is late with TLS, where OpenSSL reads.
#
#   Dsem::Late::preloaded(sub { ... });     # starts nginx
#
# Called by: Dsem::Node; Dsem::Node::Conf for the environment of a new binary.

use strict;
use warnings;

use Carp qw(croak);
use File::Basename qw(dirname);

# What nginx must have in its environment.
sub names { return $ENV{DSEM_LATE} ? qw(DSEM_LATE LD_PRELOAD) : () }

sub preloaded {
    my ($start) = @_;
    return $start->() if !$ENV{DSEM_LATE};
    croak "DSEM_LATE=$ENV{DSEM_LATE}: no such workers"
        if $ENV{DSEM_LATE} !~ /^(?:odd|even|all):\d+$/;
    local $ENV{LD_PRELOAD} = join ' ', library(), $ENV{LD_PRELOAD} // ();
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    return $start->();
}

my $source;

# One for all files of a run.
sub library {
    my $library = dirname($ENV{DSEM_METRONOME}) . '/late.so';
    return $library if -e $library;
    $source //= do { local $/; <DATA> };
    open my $cc, '|-', $ENV{CC} // 'cc', qw(-shared -fPIC -O1 -x c -o),
        "$library.$$", '-' or croak "cc: $!";
    print $cc $source;
    close $cc or croak 'the library cannot be compiled';
    rename "$library.$$", $library or croak "$library: $!";
    return $library;
}

1;

__DATA__
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULE  "ngx_http_dsem_module"

extern unsigned long  ngx_process, ngx_worker;
#pragma weak ngx_process
#pragma weak ngx_worker

/* NGX_PROCESS_WORKER */
#define WORKER  3

static char      late_workers[8];
static unsigned  late_ms;

__attribute__((constructor)) static void
late_init(void)
{
    /* nginx removes the environment later */
    sscanf(getenv("DSEM_LATE"), "%7[a-z]:%u", late_workers, &late_ms);
}

static int
late_worker(void)
{
    if (!&ngx_process || ngx_process != WORKER) {
        return 0;
    }

    return strcmp(late_workers, "all") == 0
           || (strcmp(late_workers, "odd") == 0) == (ngx_worker % 2);
}

/* hiredis is part of the module, which reads from no other socket */
static int
late_connection(int fd, void *caller)
{
    int        type;
    Dl_info    info;
    socklen_t  len;

    len = sizeof(type);

    return dladdr(caller, &info) && strstr(info.dli_fname, MODULE)
           && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
}

static void
late(int fd, void *caller)
{
    if (late_worker() && late_connection(fd, caller)) {
        usleep(late_ms * 1000);
    }
}

/* hiredis 0.14 calls read(), 1.x recv() */

ssize_t
read(int fd, void *buf, size_t size)
{
    late(fd, __builtin_return_address(0));

    return syscall(SYS_read, fd, buf, size);
}

ssize_t
recv(int fd, void *buf, size_t size, int flags)
{
    late(fd, __builtin_return_address(0));

    return syscall(SYS_recvfrom, fd, buf, size, flags, NULL, NULL);
}
