#!/usr/bin/perl

# A replica takes over: normal grants begin when all workers have declared, not
# after a lease. If a node dies with the master, they begin after a lease.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 60);

my $t = Dsem::Test->new(lease => $LEASE);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease %%LEASE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /waits {
            dsem api limit=4 queue=100 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub of { return Dsem::State->new($_[0])->figure('api', $_[1]) }

# $lost: dies with the master
sub failover {
    my ($how, $lease, $lost) = @_;
    my $master = $t->redis(args => [qw(--repl-diskless-sync-delay 0)]);
    my $replica = $t->redis(args => [
        '--replicaof', split /:/, $master->address ]);
    my $way = $t->proxy($master->address);
    my ($one, $two) = map { $t->node("$_-$how", $conf, LEASE => "${lease}s",
        REDIS => $way->address) } qw(one two);
    $up->reset;
    my @long = map { $_->begin('/waits?hang=1') } $one, $one, $two, $two;
    wait_for { $up->now == $LIMIT } 15, 'all permits out';
    wait_for {
        Dsem::State->new($replica)->session_count == 2
            && of($replica, 'held') == $LIMIT
    } 20, 'replication';
    $master->beats(5, 'heartbeats', 20);

    $master->kill;
    $two->kill if $lost;
    $replica->cmd(qw(REPLICAOF NO ONE));
    my $back = now;
    $way->retarget($replica->address);
    my @asked = map { $one->begin('/waits?hang=1') } 1, 2;
    eventually { of($replica, 'held') + of($replica, 'waiting') >= 4 + 2
        || $up->started >= 6 } "$how: service resumes", $lease + 15;
    my $resumed = now - $back;
    is $up->peak, $LIMIT, "$how: limit reached, never exceeded";
    wait_for { $up->release_all; $_->done } 30, 'the end' for @asked, @long;
    is_deeply [ map { $_->status } @asked ], [ 200, 200 ],
        "$how: every request served";
    note sprintf '%s: after %.2f s', $how, $resumed;
    $_->alive && $_->quit for $one, $two;
    return $resumed;
}

cmp_ok failover('alive', $LEASE, 0), '<', $LEASE / 2, 'not after a lease';
cmp_ok failover('missing', 2, 1), '>', 1, 'missing session waited for';

$t->done;
