#!/usr/bin/perl

# A node is killed together with Redis. Its requests may still run, so nothing
# is granted until a lease has passed. A node that connects late ends the
# recovery with its declaration. Permits that come free while Redis is away are
# declared with those in use, and released once.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 2);

my $t = Dsem::Test->new(lease => 60);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease %%LEASE%%;
location /missing {
    dsem api limit=4 queue=100 timeout=60s;
    proxy_set_header X-Sem api;
    proxy_pass http://%%UPSTREAM%%;
}
location /free {
    dsem free limit=3;
    proxy_set_header X-Sem free;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# each with a Redis of its own, as the other one's recovery is waited for
my ($redis, $other) = map { $t->redis } 1, 2;
my ($state, $others) = map { Dsem::State->new($_) } $redis, $other;

sub left {
    my ($until, $clock) = $_[0]->shard(qw(recover_until clock));
    return ($until // 0) - ($clock // 0);
}

# two nodes that know of each other: of three heartbeats one is of each
sub pair {
    my ($on, @node) = @_;
    wait_for { Dsem::State->new($on)->session_count == @node } 30,
        'all sessions';
    $on->all_beat(scalar @node);
    return @node;
}

my $up = $t->upstream;
my ($stays, $dies) = pair($redis, map { $t->node($_, $conf,
    LEASE => "${LEASE}s", REDIS => $redis->address) } qw(stays dies));

my @long = map { $stays->begin('/missing?hang=1') } 1 .. 2;
my @dead = map { $dies->begin('/missing?hang=1') } 1 .. 2;
wait_for { $up->now == $LIMIT } 15, 'all permits out';

$dies->kill;
$redis->empty;
my $back = now;
my @asked = map { $stays->begin('/missing?hang=1') } 1 .. 2;
eventually { ($state->figure('api', 'held') // 0) == 2 } 'survivor declares';
cmp_ok left($state), '>', 0, 'recovery goes on';

# cut off, with all permits, and back long before the end of the lease

my $up_late = $t->upstream;
my $proxy = $t->proxy($other->address);
my %address = (first => $other->address, late => $proxy->address);
my ($first, $late) = pair($other, map { $t->node($_, $conf, LEASE => '60s',
    REDIS => $address{$_}) } qw(first late));
my @cut = map { $late->begin('/missing?hang=1') } 1 .. $LIMIT;
my @free = map { $first->begin('/free?hang=1') } 1 .. 3;
wait_for { $up_late->now == $LIMIT + @free } 15, 'all permits out';

$proxy->freeze;
$other->kill;
$up_late->release_nonce($_->nonce) for @free[0, 1];
is $_->wait->status, 200, 'request served without redis' for @free[0, 1];
$other->start;
my @queued = map { $first->begin('/missing?hang=1') } 1 .. $LIMIT;
eventually { $others->census_declared == 1 } 'first node declares';
cmp_ok left($others), '>', 10000, 'late one missing';
is $others->held('free'), @free, 'permits that came free are declared';
$proxy->cut;
$proxy->thaw;
eventually { ($others->figure('api', 'held') // 0) == $LIMIT }
    'late node declares';
eventually { left($others) <= 0 } 'recovery ends';
eventually { $others->figure('api', 'waiting') == $LIMIT } 'asked ones queued';
eventually { $others->held('free') == 1 } 'and released once';
is $up_late->peak('api'), $LIMIT, 'limit reached, never exceeded';
wait_for { $up_late->release_all; $_->done } 15, 'the end'
    for @queued, @cut, @free;

# the lease of the killed one

eventually { $state->figure('api', 'held') == $LIMIT && $up->started == 6 }
    'granted in the end', $LEASE + 15;
my $granted = (sort { $a <=> $b } map { $_->{start} } $up->log)[4] - $back;
cmp_ok $granted, '>', $LEASE / 2, 'not before the lease has passed';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
note sprintf 'granted after %.2f s', $granted;
wait_for { $up->release_all; $_->done } 15, 'the end' for @asked, @long;
is_deeply [ map { $_->status } @asked, @long ], [ (200) x 4 ],
    'every request served';

$t->done;
