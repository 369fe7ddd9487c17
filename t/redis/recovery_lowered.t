#!/usr/bin/perl

# Redis has lost its sessions, and recovers for long, as a worker is missing.
# Orders are kept: in a pause, or above a lower limit, a permit that comes free
# serves no request of its worker. It does as soon as the order has ended, also
# for requests that came in the recovery; and the next order holds, too.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
location / {
    dsem $arg_name limit=4 queue=20 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $state = $t->state;
my %all;
sub begin_requests {
    my ($name, $what, $n) = @_;
    push @{$all{$name}}, map { $node->begin("/?hang=1&name=$name",
        'X-Nonce' => "$name $what $_") } 1 .. $n;
}
sub started {
    my ($name) = @_;
    return scalar grep { /^\Q$name\E (?:waits|comes)/ } $up->order;
}
# more commands than two polls and heartbeats have
sub polled {
    my $end = $redis->calls->{evalsha} + 14;
    wait_for { $redis->calls->{evalsha} >= $end } 15, 'two polls';
}
sub end_running {
    my ($name, @n) = @_;
    $up->release_nonce("$name runs $_") for @n;
    is $all{$name}[ $_ - 1 ]->wait->status, 200, "$name: one ends" for @n;
}

$redis->all_beat(2);
# of the last one none waits before Redis loses its sessions
my @names = qw(paused one later free alone);
begin_requests($_, 'runs', 4) for @names;
wait_for { $up->now == 20 } 15, 'all limits are reached';
my %order = (paused => '- 1', one => '1 0', later => '3 0', alone => '- 1');
$state->order($_, $order{$_}) for sort keys %order;
begin_requests($_, 'waits', 2) for @names[0 .. 3];
for my $name (@names[0 .. 3]) {
    wait_for { $state->waiting($name) == 2 } 15, "$name: two wait";
}
my $leaves = $node->begin('/?name=alone');
wait_for { $state->waiting('alone') == 1 } 15, 'one waits';
$leaves->close;
wait_for { $state->waiting('alone') == 0 } 15, 'and leaves';
is $node->get('/?name=last')->status, 200, 'no reply awaited';

$other->freeze($_) for $other->workers;
# at once: the first reply of the recovery has the orders again
$redis->cmd('EVAL', "redis.call('DEL', KEYS[1])
    return redis.call('HSET', KEYS[1], unpack(ARGV))", 1, $state->key,
    map { ("order:$_", $order{$_}) } sort keys %order);
wait_for { scalar $node->grep_log(qr/lost its state/) } 15, 'lost';
wait_for { !grep { $state->held($_) != 4 } @names } 15, 'declared';
polled();
end_running($_, 1 .. 4) for qw(paused one free alone);
eventually { started('free') == 2 } 'without an order both are served';
eventually { started('one') == 1 } 'one is below the limit';
begin_requests($_, 'comes', 1) for qw(paused alone free);
eventually { started('free') == 3 } 'and the next one';
is started('one'), 1, 'no other one';
is started($_), 0, "none in a pause: $_" for qw(paused alone);

$state->order('later', '2 0');
polled();
end_running('later', 1, 2, 3);
eventually { started('later') == 1 } 'the limit is lower meanwhile';
begin_requests('free', 'last', 1);
eventually { $up->now >= 7 } 'the next one';
is started('later'), 1, 'no other one';
ok $redis->recovering, 'Redis recovers';

$state->drop_orders;
eventually { started('paused') == 3 } 'the end of a pause ends it';
eventually { started('alone') == 1 } 'also for one that Redis has not queued';
eventually { started('one') == 2 } 'so does a raise';
ok $redis->recovering, 'Redis still recovers';

$other->thaw($_) for $other->workers;
wait_for { $up->release_all; !grep { !$_->done } map { @$_ } values %all } 60,
    'all end';
is scalar(grep { $_->status != 200 } map { @$_ } values %all), 0, 'all served';

$t->done;
