#!/usr/bin/perl

# The head of the queue is dead: a killed worker left hundreds of tickets, more
# than Redis drops in one call. Live tickets behind them are still granted one
# after the other, without delay. In the end no dead ticket is left.

use lib 't/lib';
use Dsem::Test;

my $DEAD = 450;
my $LEASE = 10;

my $t = Dsem::Test->new(lease => $LEASE);
$t->redis;
my $up = $t->upstream;

my ($dies, $lives) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
worker_connections 2048;
dsem_lease 10s;
location /queued {
    dsem api limit=2 queue=1000 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub state { return $t->state->figure('api', $_[0]) }

sub tickets {
    my ($node) = @_;
    return scalar grep { /^$node:/ } $t->state->queue('api');
}

my @holders = map { $lives->begin('/queued?hang=1') } 1, 2;
eventually { $up->now == 2 } 'all permits out';
my @lost = map { $dies->begin('/queued') } 1 .. $DEAD;
eventually { tickets('n1') == $DEAD } 'the head of the queue', 10;
my @behind = map { $lives->begin('/queued?hang=1', 'X-Nonce' => "b$_") }
    1 .. 6;
eventually { tickets('n2') == 6 } 'live requests behind';

$dies->kill_worker;
wait_for { $_->done } 5, 'the end of the connections' for @lost;
eventually { $dies->grep_log(qr/of a dead worker/) == 1 }
    'dead session removed';

# one permit at a time, while dead tickets are still queued

my @took;
for my $n (1 .. 6) {
    my ($oldest) = $n <= 2 ? $holders[ $n - 1 ] : $behind[ $n - 3 ];
    my $released = now;
    $up->release_nonce($oldest->nonce);
    is $oldest->wait->status, 200, "$n: served";
    wait_for { grep { $_ eq "b$n" } $up->order } 5, 'next request served';
    push @took, took($released);
}
my ($longest) = sort { $b <=> $a } @took;
cmp_ok $longest, '<', 1.5, 'no permit idle for long';
note 'handed over in ', join ', ', map { sprintf '%.3f s', $_ } @took;
is_deeply [ grep { /^b/ } $up->order ], [ map { "b$_" } 1 .. 6 ],
    'served in order';
is tickets('n1'), 0, 'no dead ticket left';
is state('waiting'), 0, 'no ticket waiting';
is $up->peak, 2, 'limit reached, never exceeded';
$up->release_all;
is $_->wait->status, 200, 'last requests served' for @behind[4, 5];

$t->done;
