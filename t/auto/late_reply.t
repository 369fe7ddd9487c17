#!/usr/bin/perl

# A worker that was busy reads its replies of before an order, and of before
# another limit was found, when its sibling has read newer ones: in an outage both
# know the newer.

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
    location /cut {
        dsem cut limit=auto max=100;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /found {
        dsem found limit=auto max=100;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /other {
        dsem other limit=20;
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

my @names = qw(cut found);
for (@names) {
    wait_for { $state->lowest_limit($_) } 15, 'the session';
    $state->set_found($_, 4);
}

# replies to releases and samples of one worker wait until its sibling has newer
for (0, 1) {
    send_request($connections{$two}[$_], "/$names[$_]?hang=1");
    wait_for { $up->now == $_ + 1 } 15, "a request of $names[$_]";
}
$proxy->freeze('s2c');
$up->release_all;
for my $name (@names) {
    wait_for { $state->held($name) == 0 } 15, 'released';
    wait_for { $state->sample($name) ne '' } 15, 'its sample';
}
$node->freeze($two);
$proxy->thaw;
$state->order('cut', '0 0');
$state->set_found('found', 8);
like got($one, '/cut'), qr/REJECTED/, 'the order in force';
my $sample = $state->sample('found');
like got($one, '/found'), qr/PASSED/, 'a request of the sibling';
wait_for { $state->sample('found') ne $sample } 15, 'its sample';
like got($one, '/other'), qr/PASSED/, 'the reply to it';
is $state->rule('found')->{found}, 8, 'another limit found';

$redis->stop;
$node->thaw($two);
$connections{$two}[$_]->read_until(qr/X-Dsem: \w+\r\n\r\n/) for 0, 1;
for my $pid ($one, $two) {
    wait_for { got($pid, '/other') =~ / 200 / } 15, 'the lease is over';
    is admitted($pid, '/cut'), 0, 'the order in force';
    is admitted($pid, '/found'), 4, 'half of the limit found';
}
$redis->start;

$t->done;

sub send_request {
    my ($raw, $path) = @_;
    return $raw->send("GET $path HTTP/1.1\r\nHost: a\r\n\r\n");
}

sub got {
    my ($pid, $path) = @_;
    return send_request($connections{$pid}[4], $path)
        ->read_until(qr/X-Dsem: \w+\r\n\r\n/);
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
