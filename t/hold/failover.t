#!/usr/bin/perl

# Twenty programs hold their permits while Sentinel makes another server of
# Redis the master: no hold ends, no more are granted, and the new master
# grants what is given back.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $WORKERS) = (20, 4);
my $ROUNDS = $ENV{DSEM_LONG} ? 5 : 1;

my $t = Dsem::Test->new;
my $set = $t->sentinel;
my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
dsem_redis %%SENTINELS%% mode=sentinel master=%%MASTER%%;
dsem_on_error reject;
# those that wait stay, however long it takes to find the new master
dsem_redis_connect_timeout 20s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /jobs {
        dsem jobs limit=20 queue=100 timeout=100s;
        dsem_hold interval=500ms;
    }
}
EOF_CONF

sub state { return Dsem::State->new($set->master) }

wait_for { state()->session_count == $WORKERS } 30, 'all sessions';
my @holders = map { $fleet[$_ % 2]->hold('/jobs') } 1 .. $LIMIT;
my @waiting = map { $_->ask('/jobs') } @fleet;
eventually { state()->waiting('jobs') == 2 } 'two wait';

for my $n (1 .. $ROUNDS) {
    my $old = $set->master;
    $set->settle if $n > 1;
    $set->failover;
    my $new = $set->replaced($old)->{master};
    wait_for { $set->master == $new } 30, 'the new master named';

    eventually {
        my $state = state();
        !$state->recovering && $state->session_count == $WORKERS
            && $state->held('jobs') == $LIMIT && $state->waiting('jobs') == 2;
    } "$n: all counted by the new master", 30;
    $new->beats(2 * $WORKERS, 'heartbeats');
    is scalar(grep { $_->read(0); $_->eof } @holders), 0,
        "$n: none has ended";
    is scalar(grep { length $_->read(0) || $_->eof } @waiting), 0,
        "$n: none beside them";

    # the new master grants

    (shift @holders)->close;
    eventually { grep { $_->read(0) =~ /granted/ } @waiting }
        "$n: the next one has it";
    is state()->held('jobs'), $LIMIT, "$n: all in use again";
    $_->close for @waiting;
    push @holders, $fleet[0]->hold('/jobs');
    @waiting = map { $_->ask('/jobs') } @fleet;
    eventually { state()->waiting('jobs') == 2 } "$n: two wait again";
}

$_->close for @holders, @waiting;
$t->done;
