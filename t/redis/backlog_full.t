#!/usr/bin/perl

# The unix socket of a Redis that accepts no connections, whose backlog is full:
# the connect fails at once, with a cause in the log. Newer versions of hiredis
# take it for one that goes on, and so it looks to one of the nodes.

use lib 't/lib';
use IO::Socket::UNIX;
use Socket qw(PF_UNIX SOCK_NONBLOCK SOCK_STREAM pack_sockaddr_un);

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $path = $t->dir . '/full.sock';
my $library = $t->dir . '/connect.so';

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis unix:%%PATH%%;
dsem_redis_connect_timeout 300ms;
location / {
    dsem api limit=2;
    dsem_on_error reject;
    return 204;
}
EOF_CONF

open my $cc, '|-', $ENV{CC} // 'cc', qw(-shared -fPIC -O1 -x c -o), $library,
    '-' or die "cc: $!";
print $cc <<'EOF_C';
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int
connect(int fd, const void *addr, unsigned len)
{
    int  rc;

    rc = syscall(SYS_connect, fd, addr, len);

    if (rc == -1 && errno == EAGAIN) {
        errno = EINPROGRESS;
    }

    return rc;
}
EOF_C
close $cc or die 'connect() cannot be compiled';

my $listen = IO::Socket::UNIX->new(Local => $path, Listen => 1) or die $!;
listen $listen, 0;
my @fill;
while (@fill < 9) {
    socket my $sock, PF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0 or die $!;
    connect $sock, pack_sockaddr_un($path) or last;
    push @fill, $sock;
}
ok $!{EAGAIN}, 'backlog full';

my %preload = (older => '', newer => $library);
my %node = map { $_ => node($_, $preload{$_}) } sort keys %preload;

for my $name (sort keys %node) {
    my $node = $node{$name};
    eventually { $node->grep_log(qr/unavailable \(/) == 1 }
        "$name: unavailable";
    my ($line) = $node->grep_log(qr/unavailable \(/);
    like $line, qr/\(connect failed: Resource temporarily unavailable\)/,
        "$name: cause named";
}

unlink $path;
symlink $redis->unix, $path or die $!;
for my $name (sort keys %node) {
    eventually { $node{$name}->grep_log(qr/available again/) == 1 }
        "$name: available again";
}

$t->done;

sub node {
    my ($name, $library) = @_;
    local $ENV{LD_PRELOAD} = join ' ', grep { $_ } $library, $ENV{LD_PRELOAD};
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:verify_asan_link_order=0"
        if $ENV{ASAN_OPTIONS};
    return $t->node($name, $conf, PATH => $path);
}
