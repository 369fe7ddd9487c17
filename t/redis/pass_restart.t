#!/usr/bin/perl

# dsem_on_error pass: every request is served while Redis restarts empty and
# recovers its state, and beyond the own permits of a worker at once.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 20);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.050);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_lease 20s;
dsem_on_error pass;
location / {
    dsem api limit=4 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my ($one, $two) = @fleet;

# the node that is left knows of the other one
$redis->all_beat(2);

my $load = $t->load_start(urls => [ map { $_->url('/') } @fleet ],
    clients => 20, seconds => 3600, records => 1,
    timeout => 70);
wait_for { $up->peak == 4 && $up->served > 20 } 15, 'load';

my $lost = now;
$redis->kill;
eventually { $one->grep_log(qr/unavailable \(/) } 'redis unavailable';
my $unavailable = now;
# a session that stays away keeps the state in recovery
$two->kill;
$redis->start;
eventually { $one->grep_log(qr/lost its state/) } 'redis recovers';
my $recovering = now;
my $served = $up->served;
wait_for { $up->served > $served + 150 } 15, 'service in the recovery';
ok $redis->recovering, 'state still recovers';
my $result = $load->stop->wait;

my @one = grep { $_->{url} eq $one->url('/') } @{ $result->{records} };
is_deeply [ grep { $_->{status} ne 200 } @one ], [],
    'every request of the node that is left was served';
my @passed = grep { $_->{start} > $recovering + 0.1 } @one;
cmp_ok scalar(@passed), '>', 50, 'requests while the state recovered';
my ($median) = (sort { $a <=> $b }
    map { took($_->{start}, $_->{start} + $_->{latency}) } @passed)
    [ @passed / 2 ];
cmp_ok $median, '<', 0.3, 'they did not wait for it';
my %said = map { $_->{dsem_status} => 1 } $one->access_log;
ok $said{DEGRADED}, 'beyond own permits: DEGRADED';
note sprintf '%d while recovering, median %.3f s', scalar(@passed), $median;

# the idle permits, before the recovery ends
$one->quit;
$t->done;
