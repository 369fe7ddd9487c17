#!/usr/bin/perl

# Redis rejects a command, and the next attempt to connect has no reply: the log
# names what Redis has replied, not that attempt, when requests stop waiting.

use lib 't/lib';
use IO::Socket::INET;
use Socket qw(SOCK_STREAM SOMAXCONN);

use Dsem::Test;

my $t = Dsem::Test->new;
my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1,
    ReuseAddr => 1) or die $!;
my $address = '127.0.0.1:' . $listen->sockport;

my $node = $t->node('a', <<'EOF_CONF', REDIS => $address);
worker_processes 1;
dsem_redis_connect_timeout 2s;
dsem_on_error reject;
location / {
    dsem api limit=2 queue=10 timeout=60s;
    return 204;
}
EOF_CONF

# that for commands and that for messages; the first one begins with INFO
my ($commands) = sort { length $b->{read} <=> length $a->{read} } map {
    my $sock = $listen->accept;
    sysread $sock, my $read, 65_536;
    { sock => $sock, read => $read };
} 1, 2;
like $commands->{read}, qr/INFO/, 'commands sent';

# from now on a connect has no reply
my @fill;
listen $listen, 0;
for (1 .. 3) {
    push @fill, IO::Socket::INET->new(PeerAddr => $address, Blocking => 0);
}
syswrite $commands->{sock},
    "-MASTERDOWN Link with MASTER is down\r\n";

eventually { $node->grep_log(qr/unavailable \(/) == 1 } 'unavailable';
my ($line) = $node->grep_log(qr/unavailable \(/);
like $line, qr/unavailable \(MASTERDOWN /, 'cause named by redis';

$t->done;
