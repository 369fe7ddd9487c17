#!/usr/bin/perl

# A worker that was busy reads its reply of before an order, or of before its
# end, when its sibling has read a newer one: in an outage both know the newer.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 4);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $state = $t->state;

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_redis_connect_timeout 200ms;
dsem_lease 4s;
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

# the place of an order is that of its name from the first reply with it
$state->order('ends', '2 0');
seen($one, 'ends');

# replies to releases of one worker wait until its sibling has newer ones
my @names = qw(begins ends);
for (0, 1) {
    send_request($connections{$two}[$_], "/?n=$names[$_]&hang=1");
    wait_for { $up->now == $_ + 1 } 15, "a request of $names[$_]";
}
$proxy->freeze('s2c');
$up->release_all;
wait_for { !grep { $state->held($_) } @names } 15, 'released';
$node->freeze($two);
$proxy->thaw;
$state->order('begins', '2 0');
$state->drop_order('ends');
seen($one, $_) for @names;
$node->thaw($two);
$connections{$two}[$_]->read_until(qr/X-Dsem: \w+\r\n\r\n/) for 0, 1;
$redis->all_beat(2) for 1, 2;

$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
for my $pid ($one, $two) {
    wait_for { got($pid, 'other') =~ / 200 / } 15, 'the lease is over';
    is admitted($pid, 'begins'), 1, 'half of the order';
    is admitted($pid, 'ends'), 5, 'the order has ended';
}
$redis->start;

$t->done;

sub send_request {
    my ($raw, $path) = @_;
    return $raw->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n");
}

sub got {
    my ($pid, $name) = @_;
    return send_request($connections{$pid}[4], "/?n=$name")
        ->read_until(qr/X-Dsem: \w+\r\n\r\n/);
}

# A worker has the reply to a request.
sub seen {
    my ($pid, $name) = @_;
    wait_for { got($pid, $name) =~ /PASSED/ } 15, "$name granted";
}

# How many of five requests are.
sub admitted {
    my ($pid, $name) = @_;
    my @raws = @{ $connections{$pid} };
    $node->clear_logs;
    send_request($_, "/?n=$name&hang=1") for @raws;
    wait_for {
        $up->now + (grep { $_->{status} == 503 } $node->access_log) == 5;
    } 15, 'each admitted or refused';
    my $now = $up->now;
    $up->release_all;
    $_->read_until(qr/X-Dsem: \w+\r\n\r\n/) for @raws;
    wait_for { $up->now == 0 } 15, 'none at the backend';
    return $now;
}
