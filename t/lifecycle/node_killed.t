#!/usr/bin/perl

# A node is lost with permits held and tickets waiting: nobody is left to say
# good-bye. Its tickets hold up nobody for longer than two heartbeats, its
# permits are free again when its lease has ended, and not before.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my ($LEASE, $HEARTBEAT) = (3, 0.6);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;

my ($dies, $lives) = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 3s;
    server {
        listen 127.0.0.1:%%PORT%%;
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
    }
}
EOF_CONF

sub waiting {
    my ($name) = @_;
    return $redis->cmd('HGET', "dsem:{0}:s:$name", 'waiting') // 0;
}

my @lost = map { $dies->begin('/permits?hang=1') } 1 .. 4;
my $holder = $lives->begin('/tickets?hang=1');
eventually { $up->now == 5 } 'permits out';
push @lost, map { $dies->begin('/tickets') } 1 .. 3;
eventually { waiting('tickets') == 3 } 'three at the head';
my $behind = $lives->begin('/tickets?t=1');
eventually { waiting('tickets') == 4 } 'living behind them';
is $lives->get('/asked?t=1')->status, 503, 'no permit left';

my $killed = now;
$dies->kill;
wait_for { $_->done } 15, 'the end of the connections' for @lost;

# a permit comes free when two heartbeats have not been heard

wait_for { now >= $killed + 2 * $HEARTBEAT } 15, 'two heartbeats';
my $released = now;
$up->release_nonce($holder->nonce);
is $holder->wait->status, 200, 'holder served';
is $behind->wait->status, 200, 'served from behind the dead';
my $held_up = now - $released;
cmp_ok $held_up, '<', 1, 'not held up by tickets';
cmp_ok now - $killed, '<', $LEASE - $HEARTBEAT, 'before the lease ends';

eventually { $lives->get('/asked?t=1')->status == 200 }
    'permits of the dead are free';
my $freed = now - $killed;
cmp_ok $freed, '>', $LEASE - $HEARTBEAT - 0.1, 'but not while it may live';
cmp_ok $freed, '<', $LEASE + $HEARTBEAT + 1.5, 'as soon as the lease is over';
note sprintf 'tickets %.3f s, permits %.2f s', $held_up, $freed;

is $up->peak('permits'), 4, 'permits: limit reached, never exceeded';
is $up->peak('tickets'), 1, 'tickets: limit reached, never exceeded';
is scalar(grep { $_->{node} eq 'n1' && $_->{sem} eq 'tickets' } $up->log), 0,
    'no dead request served';
eventually { $redis->cmd('ZCARD', 'dsem:{0}:sessions') == 2 }
    'sessions of the living only';
is scalar($lives->grep_log(qr/lease of [12] sessions expired/)) > 0, 1,
    'logged by those who noticed';

# the node comes back

$dies->start;
my @four = map { $dies->begin('/permits?hang=1') } 1 .. 4;
eventually { $up->now == 4 } 'all permits are there';
$up->release_all;
is $_->wait->status, 200, 'served when it is back' for @four;

$t->done;
