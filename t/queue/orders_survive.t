#!/usr/bin/perl

# The operator's orders are stored apart from the semaphore. The next ask obeys
# a limit or a pause, which overrides the configuration. Orders survive idle
# semaphores, the end of a session or of all connections, and a clock jump in
# Redis.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.010);

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
add_header X-Status $dsem_status always;
add_header X-Limit $dsem_limit always;
location /ordered {
    dsem api limit=4 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /at-once {
    dsem api limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub order {
    my ($limit, $paused) = @_;
    return $t->state->order('api', "$limit $paused");
}

sub semaphore { return $t->state->exists('api') }
sub waiting { return $t->state->waiting('api') }

sub is_limit {
    my ($limit, $name) = @_;
    wait_for { !Dsem::Teardown::left_in($redis) } 15, 'no permit held';
    $up->reset;
    my @requests = map { $node->begin('/ordered?hang=1') } 1 .. 10;
    wait_for { $up->now == $limit && waiting() == 10 - $limit } 15,
        "$limit of ten served";
    wait_for { $up->release_all; !grep { !$_->done } @requests } 15,
        'all served';
    is $up->peak, $limit, $name;
    is scalar(grep { $_->status == 200 } @requests), 10, "$name, all served";
}

is_limit(4, 'as configured');
order(2, 0);
is_limit(2, 'lower');
order(7, 0);
is_limit(7, 'higher');
order('-', 0);
is_limit(4, 'none');
order(2, 0);

# events that the order survives

wait_for { !semaphore() } 15, 'no permit held';
is_limit(2, 'after idleness');
is $redis->cmd('PTTL', ($t->state->shard_keys)[1]), -1, 'for ever';
$redis->client_kill;
is_limit(2, 'after a reconnect');
$node->reload;
is_limit(2, 'after a reload');
for my $step (3600, -7200, 3600) {
    $t->state->step_wall(-1000 * $step);
    is_limit(2, "after a clock step of $step s");
}

# under load, raised and lowered: no grant above it from then on

order(6, 0);
$up->reset;
my $load = $t->load_start(urls => [ $node->url('/ordered?t=50') ],
    clients => 12, seconds => 600);
wait_for { $up->peak == 6 } 15, 'six at a time';
order(2, 0);
# none that was granted before is still on its way
wait_for { $t->state->held('api') <= 2 && $up->now <= 2 } 15,
    'the others to end';
$up->reset;
my $served = $up->served;
wait_for { $up->served > $served + 20 } 15, 'more';
is $up->peak, 2, 'order applied under load';
is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'all requests served';

# a pause

order('-', 1);
my @waiting = map { $node->begin('/ordered') } 1 .. 6;
eventually { waiting() == 6 } 'paused: all queued';
my $refused = $node->get('/at-once');
is $refused->status, 503, 'paused: queue=0 rejects';
is $refused->header('X-Status'), 'REJECTED', 'paused: status is REJECTED';
$redis->client_kill;
eventually { waiting() == 6 } 'paused: tickets kept';
is $up->now, 0, 'paused: none running';
order('-', 0);
is $_->wait->status, 200, 'resumed: requests served' for @waiting;
wait_for { !Dsem::Teardown::left_in($redis) } 15, 'no permit held';
is $node->get('/at-once')->status, 200, 'resumed: other name served';

# limit=0: every request is rejected

order(0, 0);
is $node->get('/ordered')->status, 503, 'zero: rejected at once';
$t->state->drop_orders;
is $node->get('/ordered')->status, 200, 'zero: order removed';

$t->done;
