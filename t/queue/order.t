#!/usr/bin/perl

# First come, first served over three nodes: requests sent to the nodes in turn
# reach the backend in the order of their places in Redis, also while permits
# are released and new requests arrive. A released permit does not stay with a
# worker that has a new request.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $REQUESTS = $ENV{DSEM_LONG} ? 1000 : 60;

# A worker serves its own next request while a reply of Redis takes four times
# as long as usual, and is later than 30 ms. A usual delay makes that rare on a
# busy machine; on a busier one, a longer one does.
my $delay = 0.015;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.009);
my $proxy = $t->proxy($redis->address);
$proxy->delay($delay, 's2c');

my @fleet = $t->fleet(3, <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
events { worker_connections 4096; }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /in_turn {
            dsem in_turn limit=1 queue=2000 timeout=60s;
            proxy_set_header X-Node %%NODE%%;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /accepted {
            return 204;
        }
    }
}
EOF_CONF

# No client leaves: a worker cancels a ticket only where it has served the
# request without a reply of Redis. Such a round shows nothing.

my $turn;
for my $attempt (1 .. 8) {
    $turn = in_turn();
    last if !$turn->{cancels};
    note "attempt $attempt: replies were late";
    $delay *= 2 if $delay < 0.2;
    $proxy->delay($delay, 's2c');
}

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

# An ask in the same turn of the event loop as the release: only a late reply
# may let it pass, on a machine that stalls.

for my $attempt (1 .. 8) {
    my $begun = now;
    $turn = same_turn();
    last if $turn->{order}[1] eq 'second'
        || took($begun) > (now - $begun) / 2;
    note "attempt $attempt: own worker first";
}
like($turn->{third}, qr/^HTTP\S+ 200 /, 'holder served');
is($_->status, 200, 'waiting requests served') for @{ $turn->{others} };
is_deeply($turn->{order}, [qw(first second third)], 'own worker not first');

done_testing();

sub waiting { $t->state->waiting('in_turn') }

# One round: all requests but the first wait, and are served.
sub in_turn {
    $up->reset;
    my $holder = $fleet[0]->begin('/in_turn?hang=1', 'X-Nonce' => 'holder');
    wait_for { $up->now == 1 };

    # Redis reports the places one after the other

    my $monitor = monitor();

    my $load = $t->load_start(urls => [map { $_->url('/in_turn') } @fleet],
        rate => 125, requests => $REQUESTS);
    wait_for { waiting() >= $REQUESTS / 2 };
    $up->release_all;
    my $result = $load->wait;
    $holder->wait;

    my $seen = seen($monitor);
    my $queue = $t->state->queue_key('in_turn');
    my @tickets = $seen
        =~ /"ZADD" "\Q$queue\E" (?:"-inf" "queue" )?"\d+" "(n\d:\S+ \d+ \d+) 1"/g;

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
        cancels => $t->state->canceled('in_turn', $seen),
    };
}

# A permit is released on the first node, which has a new request, while one of
# another node waits.
sub same_turn {
    $up->reset;
    my $first = $fleet[0]->begin('/in_turn?hang=1', 'X-Nonce' => 'first');
    wait_for { $up->now == 1 };
    my $second = $fleet[1]->begin('/in_turn', 'X-Nonce' => 'second');
    wait_for { waiting() == 1 };
    my $third = $fleet[0]->raw;
    # connections are accepted in order
    is($fleet[0]->get('/accepted')->status, 204, 'connection established');
    $fleet[0]->freeze;
    $up->release_all;
    $third->send("GET /in_turn HTTP/1.0\r\nX-Nonce: third\r\n\r\n");
    $fleet[0]->thaw;
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
