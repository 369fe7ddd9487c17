#!/usr/bin/perl

# While Redis is unavailable a worker knows of a lower order, or of its end, what
# any worker of its node has seen last, also if it has seen another limit itself
# before.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
dsem_redis_connect_timeout 200ms;
dsem_lease 1s;
dsem_reuse off;
server {
    listen 127.0.0.1:%%PORT%% reuseport;
    add_header X-Dsem $dsem_status always;
    location /pid {
        return 200 $pid,;
    }
    location / {
        dsem $arg_n limit=20;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /begins {
        dsem begins limit=20;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /ends {
        dsem ends limit=20;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# five connections to each worker
my ($one, $two) = $node->workers;
my %connections;
for (1 .. 200) {
    my $raw = $node->raw;
    send_request($raw, '/pid');
    my ($pid) = $raw->read_until(qr/\d+,$/) =~ /(\d+),$/;
    push @{ $connections{$pid} }, $raw if @{ $connections{$pid} // [] } < 5;
    last if 10 == map { @{$_} } values %connections;
}

$t->state->order('ends', '2 0');
seen($two, '/begins');
seen($two, '/ends');
seen($two, '/?n=after');    # its reply comes after those to the releases before
$t->state->order('begins', '2 0');
$t->state->drop_order('ends');
seen($one, '/begins');
seen($one, '/ends');
$redis->all_beat(2);

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
for my $pid ($one, $two) {
    wait_for { got($pid, '/?n=other') =~ / 200 / } 15, 'the lease is over';
    is admitted($pid, '/begins'), 1, 'half of the order';
    is admitted($pid, '/ends'), 5, 'the order has ended';
}
$redis->start;

$t->done;

sub send_request {
    my ($raw, $path) = @_;
    return $raw->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n");
}

sub got {
    my ($pid, $path) = @_;
    return send_request($connections{$pid}[0], $path)
        ->read_until(qr/X-Dsem: \w+\r\n\r\n/);
}

# Redis has granted a request of this worker.
sub seen {
    my ($pid, $path) = @_;
    wait_for { got($pid, $path) =~ /PASSED/ } 15, "$path granted";
}

# How many of five requests are.
sub admitted {
    my ($pid, $path) = @_;
    my @raws = @{ $connections{$pid} };
    $node->clear_logs;
    send_request($_, "$path?hang=1") for @raws;
    wait_for {
        $up->now + (grep { $_->{status} == 503 } $node->access_log) == 5;
    } 15, 'each admitted or refused';
    my $now = $up->now;
    $up->release_all;
    $_->read_until(qr/X-Dsem: \w+\r\n\r\n/) for @raws;
    wait_for { $up->now == 0 } 15, 'none at the backend';
    return $now;
}
