#!/usr/bin/perl

# A client leaves before Redis has replied. Its ticket is cancelled or its
# permit released as soon as the reply arrives. Commands that have not been
# sent are dropped. The clock of the worker stands, so that no check does it.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;

my $node = $clock->node('n1', <<'EOF_CONF', SLOW_REDIS => $proxy->address);
dsem_redis %%SLOW_REDIS%%;
dsem_redis_timeout 20s;
dsem_lease 10m;
dsem_reuse off;
location /asks {
    dsem asks limit=1 queue=500 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
location /accepted {
    return 204;
}
EOF_CONF

is($node->get('/asks')->status, 200, 'redis replies');
wait_for { state() eq '0 0' && $t->state->subscribed == 1 };
$clock->stop;

for my $direction (qw(s2c c2s)) {
    for my $way (qw(close abort)) {

        # granted after the client has left

        leaves($direction, $way, sub { state() eq '1 0' });
        eventually { state() eq '0 0' } "permit back, $direction, $way";

        # queued

        my $holder = $node->begin('/asks?hang=1');
        wait_for { $up->now == 1 };
        my $places = places();
        leaves($direction, $way, sub { places() > $places });
        eventually { state() eq '1 0' } "ticket gone, $direction, $way";
        $up->release_all;
        is($holder->wait->status, 200, 'holder served');
        eventually { state() eq '0 0' } 'permit returned';
    }
}

# many at once

# no reply before all have left
$proxy->freeze('s2c');
for my $i (1 .. 200) {
    my $leaver = $node->begin('/asks');
    $i % 2 ? $leaver->close : $leaver->abort;
}
wait_for {
    1 + 4 * 3 + 200 == grep { $_->{request_uri} =~ /asks/ } $node->access_log;
};
$proxy->thaw('s2c');
eventually { state() eq '0 0' } 'no ticket of 200 left';
is($node->get('/asks')->status, 200, 'permit free');
is($up->started, 1 + 4 + 1, 'no aborted request at backend');

$clock->go;
done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('asks') }

# handed out so far
sub places { $redis->calls->{zadd} // 0 }

# A client leaves while the command of its request is held, or its reply.
# Returns when Redis has executed the command, and the reply can arrive.
sub leaves {
    my ($direction, $way, $executed) = @_;
    $proxy->freeze($direction);
    my $leaver = $node->begin('/asks');
    if ($direction eq 's2c') {
        wait_for { $executed->() };
    } else {
        # connections are accepted in order
        is($node->get('/accepted')->status, 204, 'command sent');
    }
    $leaver->$way;
    is($node->logged($leaver)->{status}, 499, '499 at once');
    if ($direction eq 'c2s') {
        $proxy->freeze('s2c');
        $proxy->thaw('c2s');
        wait_for { $executed->() };
    }
    $proxy->thaw('s2c');
}
