#!/usr/bin/perl

# A worker is killed with permits held and tickets waiting. Its successor
# removes its session: its permits are released at once, and its tickets delay
# no request.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my ($dies, $lives) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 10s;
proxy_set_header X-Sem $dsem_name;
proxy_set_header X-Node %%NODE%%;
location /permits {
    dsem permits limit=2 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
location /tickets {
    dsem tickets limit=1 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub waiting {
    my ($name) = @_;
    return $t->state->waiting($name);
}

sub sessions { $t->state->sessions }

# the worker holds all permits of one semaphore and heads the other queue

my @lost = map { $dies->begin('/permits?hang=1') } 1, 2;
my $holder = $lives->begin('/tickets?hang=1');
eventually { $up->now == 3 } 'all permits out';
push @lost, map { $dies->begin('/tickets') } 1 .. 3;
eventually { waiting('tickets') == 3 } 'three tickets at the head';
my $behind = $lives->begin('/tickets?t=1');
my $next = $lives->begin('/permits?t=1');
eventually { waiting('tickets') == 4 && waiting('permits') == 1 }
    'live requests behind';
my ($dead) = grep { /^n1:/ } sessions();

my $killed = now;
$dies->kill_worker;
wait_for { $_->done } 15, 'the end of the connections' for @lost;

is $next->wait->status, 200, 'dead permits returned';
my $freed = took($killed);
# a lease is 10 s
cmp_ok $freed, '<', 5, 'returned at once';
eventually { $dies->grep_log(qr/removed session $dead of a dead worker/) == 1 }
    'session removed by successor';

my $released = now;
$up->release_nonce($holder->nonce);
is $holder->wait->status, 200, 'holder served';
is $behind->wait->status, 200, 'live requests served';
my $held_up = took($released);
cmp_ok $held_up, '<', 3, 'no delay by dead tickets';
note sprintf 'permits %.3f s, tickets %.3f s', $freed, $held_up;

is $up->peak('permits'), 2, 'permits: limit reached, never exceeded';
is $up->peak('tickets'), 1, 'tickets: limit reached, never exceeded';
is $dies->get('/permits?t=1')->status, 200, 'successor serves';
is scalar(grep { $_->{node} eq 'n1' && $_->{sem} eq 'tickets' } $up->log), 0,
    'no dead request at backend';
is scalar(grep { $_ eq $dead } sessions()), 0, 'dead session removed';
is scalar(sessions()), 2, 'only live sessions';

$t->done;
