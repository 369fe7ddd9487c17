#!/usr/bin/perl

# A node is lost with permits held and tickets waiting, and no worker is left
# to send bye. Its tickets delay other requests for two heartbeats at most. Its
# permits are released when its lease expires, and not before.

use lib 't/lib';
use Dsem::Test;

my ($LEASE, $HEARTBEAT) = (3, 0.6);

my $t = Dsem::Test->new(lease => $LEASE);
$t->redis;
my $up = $t->upstream;

my ($dies, $lives) = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_lease 3s;
proxy_set_header X-Sem $dsem_name;
proxy_set_header X-Node %%NODE%%;
location /permits {
    dsem permits limit=4 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
location /asked {
    dsem permits limit=4;
    proxy_pass http://%%UPSTREAM%%;
}
location /tickets {
    dsem tickets limit=1 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub waiting {
    my ($name) = @_;
    return $t->state->waiting($name);
}

my @lost = map { $dies->begin('/permits?hang=1') } 1 .. 4;
my $holder = $lives->begin('/tickets?hang=1');
eventually { $up->now == 5 } 'all permits out';
push @lost, map { $dies->begin('/tickets') } 1 .. 3;
eventually { waiting('tickets') == 3 } 'three tickets at the head';
my $behind = $lives->begin('/tickets?t=1');
eventually { waiting('tickets') == 4 } 'live requests behind';
is $lives->get('/asked?t=1')->status, 503, 'no free permit';

# s until the first lease of the node ends
sub lease_left {
    my $ends = $t->state->lease_ends;
    my ($clock, $wall) = $t->state->shard(qw(clock wall));
    my ($s, $us) = @{ $t->state->cmd('TIME') };
    my ($first) = sort { $a <=> $b }
        map { $ends->{$_} } grep { /^n1:/ } keys %$ends;
    return ($first - $clock + $wall) / 1000 - $s - $us / 1_000_000;
}

# a heartbeat may come until the end
my $kills = now;
my $left = lease_left();
$dies->kill;
my $killed = now;
wait_for { $_->done } 15, 'the end of the connections' for @lost;

# a permit is released after two missed heartbeats

wait_for { now >= $killed + 2 * $HEARTBEAT + 0.05 } 15, 'two heartbeats';
my $released = now;
$up->release_nonce($holder->nonce);
is $holder->wait->status, 200, 'holder served';
is $behind->wait->status, 200, 'live requests served';
my $held_up = took($released);
cmp_ok $held_up, '<', 2, 'no delay by dead tickets';
cmp_ok took($killed), '<', $LEASE - $HEARTBEAT, 'served before lease expiry';

eventually { $lives->get('/asked?t=1')->status == 200 }
    'dead permits returned';
my $freed = now - $kills;
cmp_ok $freed, '>', $left - 0.1, 'not before lease expiry';
cmp_ok took($killed), '<', $LEASE + $HEARTBEAT + 1.5, 'right after lease expiry';
note sprintf 'tickets %.3f s, permits %.2f s, lease %.2f s', $held_up, $freed,
    $left;

is $up->peak('permits'), 4, 'permits: limit reached, never exceeded';
is $up->peak('tickets'), 1, 'tickets: limit reached, never exceeded';
is scalar(grep { $_->{node} eq 'n1' && $_->{sem} eq 'tickets' } $up->log), 0,
    'no dead request at backend';
eventually { $t->state->session_count == 2 } 'only live sessions';
eventually { $lives->grep_log(qr/lease of [12] sessions expired/) }
    'expiry logged';

# the node comes back

$dies->start;
my @four = map { $dies->begin('/permits?hang=1') } 1 .. 4;
eventually { $up->now == 4 } 'all permits available';
$up->release_all;
is $_->wait->status, 200, 'restarted node serves' for @four;

$t->done;
