#!/usr/bin/perl

# Redis hangs for longer than dsem_redis_timeout and then executes all commands
# received meanwhile. Running requests continue, new requests are refused in
# time, and no permit is granted twice afterwards.

use lib 't/lib';
use Dsem::Test;

my $TIMEOUT = 0.5;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
worker_connections 1024;
dsem_redis_timeout 500ms;
proxy_set_header X-Sem $dsem_name;
location /reject {
    dsem api limit=3 queue=100 timeout=10s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /pass {
    dsem other limit=1 queue=100 timeout=10s;
    dsem_on_error pass;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub held { return $t->state->held('api') }
sub refused { return grep { $_->{dsem_status} eq 'ERROR' } $_[0]->access_log }

# where the scripts take longer than the timeout, Redis is unavailable at first
wait_for { $_->grep_log(qr/connected to redis/) } 15, 'sessions open'
    for $one, $two;

# two permits out, one free; of the other semaphore none is free

my @running = map { $_->begin('/reject?hang=1') } $one, $two;
push @running, $one->begin('/pass?hang=1');
eventually { $up->now == 3 } 'three are running';
my $waiting = $two->begin('/pass?t=1');
eventually { $t->state->waiting('other') == 1 } 'one is waiting';

$redis->freeze;
my $frozen = now;

my @asked = map { $_->begin('/reject?t=1') } $one, $two, $one;
for my $asked (@asked) {
    is $asked->wait->status, 503, 'asked while frozen';
    cmp_ok $asked->took, '<', $TIMEOUT + 1.5, 'refused in time';
}
is $waiting->wait->status, 200, 'passed while frozen';

my $load = $t->load(urls => [ map { $_->url('/reject') } $one, $two ],
    clients => 4, requests => 40);
is_deeply [ keys %{ $load->{statuses} } ], [503], 'refused while unavailable';
my $size = $one->resident;
$load = $t->load(urls => [ $one->url('/reject') ], clients => 4,
    requests => 500, records => 1);
is_deeply [ keys %{ $load->{statuses} } ], [503], 'refused again';
# none waits for Redis; a worker that was stopped for a moment delays four
cmp_ok scalar(grep {
        took($_->{start}, $_->{start} + $_->{latency}) > $TIMEOUT / 2
    } @{ $load->{records} }), '<', 50, 'refused at once';
wait_for { now > $frozen + 3 * $TIMEOUT } 15, 'some attempts to connect';
cmp_ok $one->resident, '<', $size + 2**20 * ($ENV{DSEM_TIME_FACTOR} || 1),
    'memory bounded';
is $up->now, 3, 'running requests kept';

my %said;
$said{"$_->{dsem_status} $_->{status}"}++
    for map { $_->access_log } $one, $two;
is_deeply [ sort keys %said ], [ 'DEGRADED 200', 'ERROR 503' ],
    'dsem_on_error applied';

# the asks of the dead connections are carried out now, and are void

$redis->thaw;
my $answer;
eventually { ($answer = $one->get('/reject?t=1'))->status == 200 }
    'request served after thaw';
eventually { held() == 2 } 'dead requests hold nothing';
my $third = $one->begin('/reject?hang=1');
eventually { $up->now('api') == 3 } 'third permit out';
is held(), 3, 'no permit lost';
$up->release_all;
is $_->wait->status, 200, 'running requests served'
    for @running, $third;

# once more under load

$up->reset;
$load = $t->load_start(urls => [ map { $_->url('/reject') } $one, $two ],
    rate => 140, seconds => 60);
wait_for { $up->now('api') == 3 } 15, 'load';
$_->clear_logs for $one, $two;
$redis->freeze;
# own permits serve some of them
$frozen = now;
wait_for { now > $frozen + 2 * $TIMEOUT && refused($one) + refused($two) > 10 }
    15, 'requests without redis';
$redis->thaw;
my $thawed = now;
sub resumed { return scalar grep { $_->{start} > $thawed } $up->log }
eventually { resumed() > 40 } 'service resumes';
my $result = $load->stop->wait;
is_deeply [ sort keys %{ $result->{statuses} } ], [ 200, 503 ],
    'every request answered';
is $up->peak('api'), 3, 'limit reached, never exceeded';

$t->done;
