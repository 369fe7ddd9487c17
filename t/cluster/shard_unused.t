#!/usr/bin/perl

# A worker leaves a shard that it has not used for ten leases: its session is
# removed and its connections are closed. The next request is served, under a
# new session, also one that arrives before Redis has replied to the bye. A
# shard with literal limits is not left, as these limits count, nor is the first
# one, in which all workers are registered.

use List::Util qw(sum0);
use lib 't/lib';
use Dsem::Clock;
use Dsem::Cluster;
use Dsem::Test;

# seconds
my ($LEASE, $STEP) = (10, 4);

my $t = Dsem::Test->new(lease => $LEASE);
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

# of the worker; so many leases pass in a moment
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('n', <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_timeout 1m;
dsem_lease 10s;
proxy_read_timeout 1h;
server {
    listen 127.0.0.1:%%PORT%%;
    location /time {
        return 204;
    }
    location /literal {
        dsem c limit=3;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /named {
        dsem "$arg_n" limit=2 queue=100 timeout=10s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my ($literal, $used, $unused, $late) = map { $cluster->at($_) } qw(c one a d);
my @state = map { Dsem::State->new($_) } $literal, $used, $unused;
my $late_state = Dsem::State->new($late);

sub counts { join ' ', map { $_->session_count } @state }

sub connections {
    return scalar grep { /name=dsem-n-/ }
        split /\n/, $unused->owner->cmd(qw(CLIENT LIST));
}

# A part of a lease passes for the worker, and all its sessions send a beat.
sub pass_time {
    my $beats = beats();
    $clock->step($STEP);
    wait_for { $node->get('/time'); beats() >= $beats + 4 } 15, 'heartbeats';
}

# Each heartbeat publishes one message.
sub beats {
    return sum0 map { $_->calls->{publish} // 0 } $cluster->nodes;
}

eventually { counts() eq '1 1 0' } 'registered for a limit, and for the fleet';
# a connection that asks for the slots ends with the answer
eventually { connections() == 0 } 'no connection yet', 3;

my $held = $node->begin('/named?hang=1&n=one');
is $node->get('/named?t=1&n=d')->status, 200, 'served in another shard';
my ($late_session) = $late_state->sessions;
is $node->get('/named?t=1&n=a')->status, 200, 'served';
eventually { counts() eq '1 1 1' } 'registered where used';
eventually { connections() == 2 } 'connected';
my ($session) = $state[2]->sessions;

wait_for { !$state[2]->names && !$late_state->names } 15, 'no idle permit';
pass_time() for 1 .. 22;
is counts(), '1 1 1', 'not left before';
is $late_state->session_count, 1, 'nor the other one';
pass_time() for 1, 2;
my $master = $late->owner;
$master->freeze;
$clock->step($STEP);
# the same beat says bye to both shards; only one of them replies
wait_for { $node->get('/time'); $state[2]->session_count == 0 } 15, 'the byes';
my $arrived = $node->begin('/named?t=1&n=d');
# the worker has accepted that one before
$node->get('/time') for 1 .. 2;
$master->thaw;
is $arrived->wait->status, 200, 'request between bye and reply served';
is $late_state->session_count, 1, 'registered again';
isnt +($late_state->sessions)[0], $late_session, 'under a new name';

eventually { counts() eq '1 1 0' } 'unused shard left';
eventually { connections() == 0 } 'connections closed';
is $held->done, 0, 'request runs';
is $state[1]->held('one'), 1, 'permit held';

is $node->get('/named?t=1&n=a')->status, 200, 'served again';
is counts(), '1 1 1', 'registered again';
isnt +($state[2]->sessions)[0], $session, 'under a new name';
is scalar($node->grep_log(qr/\[(?:warn|error)\].*dsem: /)), 0,
    'no warning';

$up->release_all;
is $held->wait->status, 200, 'held request served';

$t->done;
