#!/usr/bin/perl

# The API, the metrics and the page have the limit that was found, why it is
# what it is, and how it got there.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);

use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
dsem_lease 60s;
location /shown {
    dsem shown limit=auto min=4 max=14 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
location /plain {
    dsem plain limit=3;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF

# before any request that ended

my $first = $node->begin('/shown?hang=1');
wait_for { $up->now == 1 } 15, 'a request';
is $node->get('/plain')->status, 200, 'a plain limit';
is semaphore('shown')->{limit}, 10, 'the limit in force';
is semaphore('shown')->{auto}, undef, 'nothing is known yet';
$up->release_all;
is $first->wait->status, 200, 'request served';
my $auto;
eventually { $auto = semaphore('shown')->{auto} } 'known after a sample';
is_deeply [ @$auto{qw(min max found reason)} ], [4, 14, 10, 'starting'],
    'bounds, start, reason';
is_deeply [ @$auto{qw(floor latency)} ], [undef, undef], 'no latency yet';
is semaphore('plain')->{auto}, undef, 'a plain limit has nothing of it';

# as the rule writes it: clock, limit, reason of each change
$t->state->advance(10_000);
my $clock = $t->state->shard('clock');
my @moves = ([$clock - 5000, 12, 2], [$clock - 3000, 7, 3],
    [$clock - 2000, 7, 1], [$clock - 1000, 14, 5]);
$t->state->set_found('shown', 14);
$t->state->set_rule('shown', reason => 5, floor => 30_000, latency => 31_000);
$redis->cmd('HSET', $t->state->auto_key('shown'), 'history',
    join '', map { " @$_" } @moves);
eventually {
    $auto = semaphore('shown')->{auto};
    ($auto->{reason} // '') eq 'bound' && @{ $auto->{history} } == @moves
} 'at max';
is $auto->{found}, 14, 'max found';
is $auto->{floor}, 0.030, 'floor in seconds';
is $auto->{latency}, 0.031, 'latency in seconds';
my @history = @{ $auto->{history} };
is "@{[ map { $_->{limit} } @history ]}", '12 7 7 14', 'changes in order';
is join(', ', map { $_->{reason} } @history),
    'probing, latency, not used, bound', 'reasons';
my @age = map { $_->{age} } @history;
cmp_ok $age[0], '>=', 5, 'age in seconds';
cmp_ok $age[0], '<', 60, 'not in other ones';
is_deeply [ map { sprintf '%.1f', $_ - $age[3] } @age ],
    [qw(4.0 2.0 1.0 0.0)], 'ages of the others';

my $metrics;
eventually {
    $metrics = $node->get('/dsem/metrics')->body;
    $metrics =~ /^dsem_auto_limit\{semaphore="shown"\} 14$/m
        && $metrics =~ /^dsem_auto_reason\{semaphore="shown",reason="bound"\} 1$/m
} 'limit and reason in the metrics';
like $metrics, qr/^dsem_auto_reason\{semaphore="shown",reason="errors"\} 0$/m,
    'no other one';
unlike $metrics, qr/^dsem_auto_\w+\{semaphore="plain"/m, 'nothing of the other';
eventually {
    $node->logged($node->get('/shown?t=1'))->{dsem_limit} == 14
} 'the number found in the log';

$t->done;

sub semaphore {
    my ($name) = @_;
    return decode_json($node->get("/dsem/semaphores/$name")->body)->{semaphore};
}
