#!/usr/bin/perl

# The host of Redis refuses connections for a moment, and then drops them: that
# one has hung for most of the time to connect is the cause, not the refusal.

use lib 't/lib';
use Dsem::Test;

use IO::Socket::INET;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
%%GLOBALS%%
error_log %%DIR%%/debug.log debug;
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 4s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=20;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
is $node->get('/')->status, 200, 'served';

$redis->kill;
wait_for { $node->grep_log(qr/ lost \(.*reconnecting/) } 15, 'the loss';
# without it the first attempt may hang, which proves less
wait_for { refused() } 15, 'an attempt that is refused' if $node->debug;

# connections beyond its backlog are dropped
my $host = IO::Socket::INET->new(Listen => 1, ReuseAddr => 1,
    LocalAddr => $redis->address) or die "listen: $!";
listen $host, 0 or die "backlog: $!";
my @others = map {
    IO::Socket::INET->new(Blocking => 0, PeerAddr => $redis->address)
} 1 .. 4;

wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
is scalar(grep { /\(connect timed out\)/ } $node->grep_log(qr/unavailable \(/)),
    1, 'its cause';

close $_ for $host, @others;
$redis->start;
$t->done;

sub refused {
    open my $log, '<', $node->dir . '/debug.log' or die "debug.log: $!";
    return grep { /dsem redis down: .*refused/ } <$log>;
}
