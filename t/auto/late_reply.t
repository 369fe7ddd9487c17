#!/usr/bin/perl

# A worker that was busy reads its replies of before an order, and of before
# another limit was found, when its sibling has read newer ones: in an outage both
# know the newer.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;
use Dsem::Workers;

my $LEASE = 60;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $state = $t->state;
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 2;
dsem_redis_connect_timeout 200ms;
dsem_redis_timeout 60s;
dsem_lease 60s;
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

my $to = Dsem::Workers->new($node);
my ($one, $two) = $to->pids;

my @names = qw(cut found);
for (@names) {
    wait_for { $state->lowest_limit($_) } 15, 'the session';
    $state->set_found($_, 4);
}

# replies to releases and samples of one worker wait until its sibling has newer
for (0, 1) {
    $to->send($two, $_, "/$names[$_]?hang=1");
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
like $to->got($one, '/cut'), qr/REJECTED/, 'the order in force';
my $sample = $state->sample('found');
like $to->got($one, '/found'), qr/PASSED/, 'a request of the sibling';
wait_for { $state->sample('found') ne $sample } 15, 'its sample';
like $to->got($one, '/other'), qr/PASSED/, 'the reply to it';
is $state->rule('found')->{found}, 8, 'another limit found';

$redis->stop;
$node->thaw($two);
$to->answered($two, $_) for 0, 1;
wait_for { 2 == $node->grep_log(qr/unavailable \(/) } 15,
    'redis unavailable';
$clock->step($LEASE + 5);
for my $pid ($one, $two) {
    wait_for { $to->got($pid, '/other') =~ / 200 / } 15, 'the lease is over';
    is $to->admitted($pid, '/cut?', $up), 0, 'the order in force';
    is $to->admitted($pid, '/found?', $up), 4, 'half of the limit found';
}
$redis->start;

$t->done;
