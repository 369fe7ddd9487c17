#!/usr/bin/perl

# queue=auto with limit=auto: as many requests wait as the limit that was found
# serves in time, also where a worker has no reply of Redis that shows it: in a
# burst after a pause, and in an outage. Nor does a lower limit count that is
# tried for a moment. In an outage a lower order counts, of plain limits, too.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# Permits are held for 1 s or more: 456 requests wait for 100 permits, 36 for 10,
# 9 for 3; if the machine is slow, fewer.
my ($FOUND, $TRIED, $BURST) = (100, 3, 160);

my $t = Dsem::Test->new(lease => 1);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $clock->node('a', <<'EOF_CONF');
worker_processes 1;
worker_connections 1024;
dsem_max_waiting 400;
dsem_lease 1s;
dsem_reuse off;
dsem_redis_connect_timeout 200ms;
add_header X-Dsem $dsem_status always;
location /pause {
    dsem pause limit=auto max=200 queue=auto timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
location /tried {
    dsem tried limit=auto max=200 queue=auto timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
location /outage {
    dsem outage limit=auto max=200 queue=auto timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
location /plain {
    dsem plain limit=100 queue=auto timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
location /poke { return 204; }
EOF_CONF

for my $name (qw/pause tried outage/) {
    wait_for { $t->state->lowest_limit($name) } 15, 'the session';
    $t->state->set_found($name, $FOUND);
    is $node->get("/$name?t=1000")->status, 200, "$name: a request";
    wait_for { ($t->state->rule($name)->{found} // 0) == $FOUND } 15,
        'its sample';
}
$t->state->order('plain', '3 0');
is $node->get('/plain?t=1000')->status, 200, 'plain: a request';

wait_for { !$t->state->exists('pause') } 15, 'all permits are free';
$clock->stop;
$redis->freeze;
my @burst = burst('pause', $BURST);
$redis->thaw;
wait_for { $up->now == $FOUND } 15, 'as many as were found';
is_deeply served(@burst), { PASSED => $FOUND, QUEUED => $BURST - $FOUND },
    'a burst after a pause: the others wait';
$clock->go;

tried();
$clock->stop;
my @first = burst('tried', $TRIED);
wait_for { $up->now == $TRIED } 15, 'the limit is reached';
is $t->state->limit('tried'), $TRIED, 'a lower limit is tried';
@burst = burst('tried', $BURST - $TRIED);
is_deeply served(@first, @burst),
    { PASSED => $TRIED, QUEUED => $BURST - $TRIED }, 'the others wait';
$clock->go;

$node->clear_logs;
$redis->stop;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';
wait_for { $node->get('/other')->status == 200 } 15, 'the lease is over';
$clock->stop;
@burst = burst('outage', $BURST);
wait_for { $up->now >= $FOUND } 15, 'in an outage: as many as were found';
is_deeply served(@burst), { DEGRADED => $BURST }, 'the others wait';
my $plain = served(burst('plain', $BURST));
cmp_ok $plain->{DEGRADED}, '<=', 3 + 9, 'a lower order: fewer wait';
is $plain->{REJECTED}, $BURST - $plain->{DEGRADED}, 'others are rejected';
$clock->go;
$redis->start;

$t->done;

# Requests that the worker has read: of connections that came later it has
# answered two.
sub burst {
    my ($name, $n) = @_;
    my @requests = map { $node->begin("/$name?hang=1&n=$_") } 1 .. $n;
    $node->get('/poke') for 1, 2;
    return @requests;
}

# How many have each status, when all have ended.
sub served {
    my @requests = @_;
    wait_for { $up->release_all; !grep { !$_->done } @requests } 15,
        'all have ended';
    my %count = (DEGRADED => 0, REJECTED => 0);
    $count{ $_->header('X-Dsem') }++ for @requests;
    return { map { $count{$_} ? ($_ => $count{$_}) : () } keys %count };
}

# A lower limit is tried, and requests during it are too few to end that.
sub tried {
    wait_for {
        $t->state->set_rule('tried', mode => 1, base => $FOUND, changed => 0,
            mean => 0, count => 0);
        $t->state->set_found('tried', $TRIED);
        $node->get('/tried?t=1000');
        wait_for {
            $t->state->rule('tried')->{count} || !$t->state->rule('tried')->{mode}
        } 15, 'a sample';
        $t->state->rule('tried')->{mode};
    } 15, 'a probe';
    # the reply to the sample comes before that of a later call
    $node->get('/other');
    return;
}
