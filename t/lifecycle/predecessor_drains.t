#!/usr/bin/perl

# An old worker drains after a reload, with a long request. Its session is not
# removed by other workers, not even when a new worker is killed and its
# successor looks for dead processes. Its permit stays counted.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $other) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 10s;
location /drains {
    dsem api limit=2 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub sessions {
    my ($node) = @_;
    return grep { /^$node:/ } $t->state->sessions;
}

sub farewells { scalar $node->grep_log(qr/of a dead worker/) }
sub held { $t->state->held('api') }

my $old;
wait_for { ($old) = sessions('n1') } 15, 'the first session';
my $long = $node->begin('/drains?hang=1');
eventually { $up->now == 1 } 'long request running';
$node->reload;
my ($drains) = $node->draining;
ok $drains, 'old worker drains';
eventually { sessions('n1') == 2 } "new worker's session";

my $lost = $node->begin('/drains?hang=1');
eventually { $up->now == 2 } 'both permits out';
my $waits = $other->begin('/drains?hang=1');
eventually { $t->state->waiting('api') == 1 } 'one request queued';

# the killed worker's permit, and no other, goes to the waiting request

$node->kill_worker;
eventually { $up->started == 3 } "killed worker's permit returned", 5;
eventually { farewells() == 1 } 'one session removed';
eventually { sessions('n1') == 2 } "successor's session open";
ok scalar(grep { $_ eq $old } sessions('n1')), "old worker's session kept";

# once more, with a killed worker that holds nothing

my $after = $other->begin('/drains?hang=1');
$node->kill_worker;
eventually { farewells() == 2 } 'second session removed', 5;
eventually { sessions('n1') == 2 } "successor's session open";
$redis->beats(6, 'two heartbeats');
ok scalar(grep { $_ eq $old } sessions('n1')), "old worker's session kept";
is held(), 2, "old worker's permit counted";
is $up->now, 2, 'last request queued';
is $up->peak, 2, 'limit reached, never exceeded';
ok !$long->done, 'long request still running';

$up->release_nonce($long->nonce);
is $long->wait->status, 200, 'long request served';
eventually { $up->started == 4 } 'permit returned';
eventually { !$node->draining } 'old worker gone';
is scalar(grep { $_ eq $old } sessions('n1')), 0, 'session removed';
is farewells(), 2, 'no further removal logged';

$up->release_all;
is $_->wait->status, 200, 'other requests served' for $waits, $after;
is $up->peak, 2, 'limit never exceeded';

$t->done;
