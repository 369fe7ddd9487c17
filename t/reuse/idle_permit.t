#!/usr/bin/perl

# dsem_reuse: a permit released while no request waits stays with its worker
# for the next request, which then needs no command. An unused permit is
# released to Redis.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_lease 60s;
dsem_redis_timeout 30s;
location /kept {
    dsem kept limit=4 queue=10;
    dsem_reuse 2s;
    proxy_pass http://%%UPSTREAM%%;
}
location /off {
    dsem off_ limit=4 queue=10;
    dsem_reuse off;
    proxy_pass http://%%UPSTREAM%%;
}
location /none {
    dsem none limit=4;
    dsem_reuse 2s;
    proxy_pass http://%%UPSTREAM%%;
}
location /short {
    dsem short limit=4 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /heavy {
    dsem kept limit=4 queue=10 weight=3;
    dsem_reuse 2s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub calls { return ($redis->calls->{evalsha} // 0) }

sub held { return $t->state->held($_[0]) }

# how many commands twenty requests cost, one after the other
sub cost {
    my ($path) = @_;
    my $before = calls();
    is_deeply([map { $node->get($path)->status } 1 .. 20], [(200) x 20],
        "$path: served");
    return calls() - $before;
}

# Seconds of the worker's clock until it has released an idle permit. A request
# of another name is its occasion to look at the clock.
sub idle_for {
    my ($name) = @_;
    my $seconds = 0;
    $clock->stop;
    wait_for {
        $clock->step(1);
        $seconds++;
        $node->get('/off');
        !held($name);
    } 15, "$name: no idle permit";
    $clock->go;
    return $seconds;
}

my $cost = cost('/kept');
cmp_ok($cost, '<', 12, 'kept: few commands');
is(held('kept'), 1, 'kept: permit stays idle');
# the last release may be on its way
cmp_ok(cost('/off'), '>=', 39, 'off: two commands each');
cmp_ok(cost('/none'), '>=', 39, 'no queue: two commands each');
is($up->served, 60, 'all requests at upstream');

my $heavy = $node->begin('/heavy?hang=1');
wait_for { $up->now == 1 } 15, 'a heavy request';
is(held('kept'), 3, 'it acquires more');
$up->release_all;
is($heavy->wait->status, 200, 'heavy request served');
cmp_ok(idle_for('kept'), '<=', 6, 'unused permit released');

cost('/short');
is(held('short'), 1, 'default: permit stays idle');
my $idle = idle_for('short');
cmp_ok($idle, '>=', 5, 'default: for some seconds');
cmp_ok($idle, '<=', 13, 'not longer');

my ($line) = grep { $_->{request_uri} eq '/kept' }
    reverse $node->access_log;
is($line->{dsem_status}, 'PASSED', 'request passed');
is($line->{dsem_limit}, 4, 'limit reported');
is($line->{dsem_in_use}, 1, 'in_use reported');

$t->done;
