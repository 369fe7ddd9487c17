#!/usr/bin/perl

# First come, first served over three nodes: requests sent to the nodes in turn
# reach the backend in the order of their places in Redis, also while permits
# are released and new requests arrive. A released permit does not stay with a
# worker that has a new request.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 1000 : 60;

# A worker serves its own next request while a reply of Redis is late, which it
# may be on a busy machine: the clock of the workers stands.

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
$proxy->delay(0.005, 's2c');

my $conf = <<'EOF_CONF';
worker_connections 4096;
dsem_lease 10m;
location /in_turn {
    dsem in_turn limit=1 queue=2000 timeout=60s;
    proxy_set_header X-Node %%NODE%%;
    proxy_pass http://%%UPSTREAM%%;
}
location /accepted {
    return 204;
}
EOF_CONF

my @fleet = $clock->fleet(3, $conf, REDIS => $proxy->address);
# what Redis has published is at a worker when Redis answers the next command
my @near = map { $clock->node("near$_", $conf, REDIS => $redis->address) } 1, 2;

wait_for { $t->state->subscribed == 5 } 15, 'all to be told of grants';
$clock->stop;

my $turn = in_turn();
is_deeply($turn->{statuses}, { 200 => $REQUESTS }, 'all served');
is($turn->{peak}, 1, 'one at a time');
like($turn->{seen}, qr/the end/, 'monitor saw the end')
    or diag $turn->{error};
is($turn->{tickets}, $REQUESTS, 'position reported each');
is($turn->{holder}, 'holder', 'holder first');
is_deeply($turn->{order}, $turn->{expected}, 'served in ticket order');
is(inversions($turn->{order}, $turn->{expected}), 0, 'no inversions');
note inversions($turn->{order}, [0 .. $REQUESTS - 1]),
    ' inversions by sending';

# an ask in the same turn of the event loop as the release

$turn = same_turn();
like($turn->{third}, qr/^HTTP\S+ 200 /, 'holder served');
is($_->status, 200, 'waiting requests served') for @{ $turn->{others} };
is_deeply($turn->{order}, [qw(first second third)], 'own worker not first');

$clock->go;
done_testing();

sub waiting { $t->state->waiting('in_turn') }

# One round: all requests but the first wait, and are served.
sub in_turn {
    $up->reset;
    my $holder = $fleet[0]->begin('/in_turn?hang=1', 'X-Nonce' => 'holder');
    wait_for { $up->now == 1 };

    # Redis reports the places one after the other

    my $monitor = monitor();

    my $load = $t->load_start(rate => 125, requests => $REQUESTS,
        urls => [map { $_->url('/in_turn?hang=1') } @fleet]);
    wait_for { waiting() >= $REQUESTS / 2 };
    for my $served (0 .. $REQUESTS) {
        # a request that finds the queue empty has no place in it
        wait_for { $up->now == 1 && ($served == $REQUESTS || waiting()) };
        $up->release(1);
    }
    my $result = $load->wait;
    $holder->wait;

    my $seen = seen($monitor);
    my $queue = $t->state->queue_key('in_turn');
    my @tickets = map { /"\d+" "(n\d:\S+ \d+ \d+) 1"/g }
        $seen =~ /"ZADD" "\Q$queue\E"(.*)/g;

    # a node's tickets are in the order of its requests, i, i + 3, i + 6...

    my %next = map { ("n$_" => $_ - 1) } 1 .. 3;
    my @expected = map {
        my ($node) = /^(n\d)/;
        my $i = $next{$node};
        $next{$node} += 3;
        $i;
    } @tickets;
    my ($first, @order) = map { /(\w+)$/ } $up->order;

    return {
        statuses => $result->{statuses}, peak => $up->peak, seen => $seen,
        error => $monitor->error, tickets => scalar @tickets,
        holder => $first, order => \@order, expected => \@expected,
    };
}

# A permit is released on the first node, which has a new request, while one of
# another node waits.
sub same_turn {
    $up->reset;
    my $first = $near[0]->begin('/in_turn?hang=1', 'X-Nonce' => 'first');
    wait_for { $up->now == 1 };
    my $second = $near[1]->begin('/in_turn', 'X-Nonce' => 'second');
    wait_for { waiting() == 1 };
    my $third = $near[0]->raw;
    # connections are accepted in order
    is($near[0]->get('/accepted')->status, 204, 'connection established');
    $near[0]->freeze;
    $up->release_all;
    $third->send("GET /in_turn HTTP/1.0\r\nX-Nonce: third\r\n\r\n");
    $near[0]->thaw;
    return {
        third => $third->read_eof, others => [map { $_->wait } $first, $second],
        order => [$up->order],
    };
}

sub monitor {
    my $monitor = $t->client->raw('127.0.0.1', $redis->port);
    $monitor->send("MONITOR\r\n")->read_until(qr/OK/);
    return $monitor;
}

# The commands until now.
sub seen {
    my ($monitor) = @_;
    $redis->cmd('ECHO', 'the end');
    return $monitor->read_until(qr/the end/);
}

sub inversions {
    my ($order, $expected) = @_;
    my %place = map { $expected->[$_] => $_ } 0 .. $#$expected;
    my @places = map { $place{$_} } @$order;
    my $n = 0;
    for my $i (0 .. $#places) {
        $n += grep { $places[$_] < $places[$i] } $i + 1 .. $#places;
    }
    return $n;
}
