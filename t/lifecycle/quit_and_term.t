#!/usr/bin/perl

# A node is stopped in order. QUIT: running and waiting requests are served
# first. TERM: requests end at once, and so do the sessions.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my ($leaves, $stays) = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
location /left {
    dsem api limit=2 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub waiting { $t->state->waiting('api') }

sub sessions {
    my ($node) = @_;
    return grep { /^$node:/ } $t->state->sessions;
}

sub two_running_two_waiting {
    my @requests = map { $leaves->begin('/left?hang=1') } 1, 2;
    eventually { $up->now == 2 } 'two requests running';
    push @requests, map { $leaves->begin('/left?t=1') } 1, 2;
    eventually { waiting() == 2 } 'two requests queued';
    return @requests;
}

# QUIT

my @requests = two_running_two_waiting();
my @old = $leaves->workers;
$leaves->signal('QUIT');
eventually { !$leaves->workers } 'nginx exiting';
ok !$_->done, 'requests not ended' for @requests;
is waiting(), 2, 'tickets still waiting';
is $up->now, 2, 'requests still running';
my $after = $stays->begin('/left?t=1');
eventually { waiting() == 3 } 'other node queued behind';

$up->release_all;
is $_->wait->status, 200, 'running requests served' for @requests;
is $after->wait->status, 200, 'queued requests served';
eventually { !$leaves->alive } 'nginx gone';
eventually { !sessions('n1') } 'sessions removed';
eventually { $t->state->exists('api') == 0 } 'permits returned';
is $up->peak, 2, 'limit reached, never exceeded';

# TERM

$leaves->start;
eventually { sessions('n1') == 2 } 'node restarted';
@requests = two_running_two_waiting();
$after = $stays->begin('/left?t=1');
eventually { waiting() == 3 } 'other node queued';
my $stopped = now;
$leaves->signal('TERM');
eventually { sessions('n1') == 0 } 'sessions removed';
eventually { !$leaves->alive } 'nginx gone at once';
cmp_ok took($stopped), '<', 3, 'exit before lease expiry';
is $after->wait->status, 200, 'permits returned';
cmp_ok took($stopped), '<', 4, 'permits returned at once';
eventually { $t->state->exists('api') == 0 } 'no permit held';
is $up->peak, 2, 'limit never exceeded';

$t->done;
