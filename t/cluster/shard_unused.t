#!/usr/bin/perl

# A worker leaves a shard that it has not used for ten leases: its session is
# removed and its connections are closed. The next request is served, under a
# new session, also one that arrives before Redis has replied to the bye. A
# shard with literal limits is not left, as these limits count.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
# it freezes a master for a second, which is not to be taken for dead
my $cluster = Dsem::Cluster->new($t, replicas => 0,
    args => [qw(--cluster-node-timeout 10000)]);
my $up = $t->upstream;

my $node = $t->node('n', <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%% mode=cluster;
    dsem_lease 1s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /literal {
            dsem c limit=3;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /named {
            dsem "$arg_n" limit=2 queue=100 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
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

eventually { counts() eq '1 0 0' } 'registered for a literal limit';
# a connection that asks for the slots ends with the answer
eventually { connections() == 0 } 'no connection yet', 3;

my $held = $node->begin('/named?hang=1&n=one');
is $node->get('/named?t=1&n=a')->status, 200, 'served';
my $last = now;
eventually { counts() eq '1 1 1' } 'registered where used';
eventually { connections() == 2 } 'connected';
my ($session) = $state[2]->sessions;
is $node->get('/named?t=1&n=d')->status, 200, 'served in another shard';
my ($late_session) = $late_state->sessions;

wait_for { now > $last + 9 } 15, 'nine leases';
is counts(), '1 1 1', 'not left before';
my $master = $late->owner;
wait_for { now > $last + 9.8 } 5, 'almost ten';
$master->freeze;
wait_for { now > $last + 11 } 5, 'the bye';
my $arrived = $node->begin('/named?t=1&n=d');
$master->thaw;
is $arrived->wait->status, 200, 'request between bye and reply served';
is $late_state->session_count, 1, 'registered again';
isnt +($late_state->sessions)[0], $late_session, 'under a new name';

eventually { counts() eq '1 1 0' } 'unused shard left', 20;
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
