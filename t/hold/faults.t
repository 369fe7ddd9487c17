#!/usr/bin/perl

# Twenty programs hold their permits while Redis is restarted, emptied and
# frozen and nginx is reloaded: no hold ends, and no more are granted.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 20;
my $RELOADS = $ENV{DSEM_LONG} ? 50 : 5;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_on_error reject;
location /jobs {
    dsem jobs limit=20 queue=100 timeout=100s;
    dsem_hold interval=500ms;
}
EOF_CONF

my @holders = map { $fleet[$_ % 2]->hold('/jobs') } 1 .. $LIMIT;
my @waiting = map { $_->ask('/jobs') } @fleet;
eventually { $t->state->waiting('jobs') == 2 } 'two wait';

# those who still hold, and those who were granted beside them

sub holding { return scalar grep { $_->read(0); !$_->eof } @holders }
sub granted { return scalar grep { $_->read(0) =~ /granted/ } @waiting }

sub stable {
    my ($name) = @_;
    eventually { $t->state->held('jobs') == $LIMIT } "$name: all counted";
    $redis->beats(2 * map({ $_->workers } @fleet), 'heartbeats');
    is holding(), $LIMIT, "$name: none has ended";
    # those that waited may have been refused while Redis was away
    $_->close for @waiting;
    eventually { $t->state->waiting('jobs') == 0 } "$name: none waits";
    @waiting = map { $_->ask('/jobs') } @fleet;
    eventually { $t->state->waiting('jobs') == 2 } "$name: two wait";
    $redis->beats(2 * map({ $_->workers } @fleet), 'heartbeats');
    is granted(), 0, "$name: none beside them";
}

$redis->stop->start;
stable('restarted');

$redis->cmd('FLUSHALL');
stable('emptied');

$redis->freeze;
my $frozen = now;
wait_for { now - $frozen > 6 } 15, 'longer than the lease';
$redis->thaw;
stable('frozen');

for (1 .. $RELOADS) {
    $_->reload for @fleet;
}
stable('reloaded');

my ($next, $last) = @waiting;
$last->close;
eventually { $t->state->waiting('jobs') == 1 } 'one waits';
$holders[0]->close;
like $next->read_until(qr/granted\n/), qr/granted/, 'and has its turn';
$_->close for @holders, $next;

$t->done;
