#!/usr/bin/perl

# The connection to Redis is lost while a pool is paused, or has limit 0 by an
# order: a worker that has read it serves no more requests on its own permits
# then, nor while Redis recovers. Without an order it does.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;
my $proxy = $t->proxy($redis->address);
my @names = qw(free paused zero);

my $pools = join "\n", map { <<"EOF_POOL" } @names;
upstream $_ {
    $servers
    dsem $_ limit=1/server queue=10 timeout=60s;
}
EOF_POOL
my $locations = join "\n", map { <<"EOF_LOCATION" } @names;
    location /$_ {
        proxy_set_header X-Sem $_;
        proxy_pass http://$_;
    }
EOF_LOCATION
my ($node, $other) = $t->fleet(2, <<"EOF_CONF", REDIS => $proxy->address);
worker_processes 1;
dsem_reuse off;
dsem_lease 60s;
$pools
server {
    listen 127.0.0.1:%%PORT%%;
$locations
    location /last {
        dsem last limit=1;
        empty_gif;
    }
}
EOF_CONF

my $state = $t->state;
my (%runs, %waits, @new);
sub begin_requests {
    my ($name, $n) = @_;
    return map { $node->begin("/$name?hang=1") } 1 .. $n;
}
sub running {
    my ($name) = @_;
    return join ' ', map { $_->now($name) } @up;
}
sub at_all {
    my ($name) = @_;
    return $up[0]->now($name) + $up[1]->now($name);
}

$redis->all_beat(2);
$runs{$_} = [ begin_requests($_, 2) ] for @names;
wait_for { !grep { running($_) ne '1 1' } @names } 15, 'each server has one';
$state->order('paused', '- 1');
$state->order('zero', '0 0');
$waits{$_} = [ begin_requests($_, 2) ] for qw(free paused);
for my $name (qw(free paused)) {
    wait_for { $state->waiting($name) == 2 } 15, "$name: two wait";
}
is $node->get('/zero')->status, 503, 'rejected';
is $node->get('/last')->status, 200, 'no reply awaited';

sub no_own_permits {
    my ($when) = @_;
    for my $name (qw(zero paused free)) {
        $_->release_nonce($runs{$name}[0]->nonce) for @up;
        is shift(@{$runs{$name}})->wait->status, 200, "$name: one ends $when";
        push @new, begin_requests($name, 1) if $name eq 'zero';
    }
    eventually { running('free') eq '1 1' } "$when: one that waits is served";
    my $left = @{$runs{free}};
    is at_all($_), $left, "$when: no other of $_" for qw(paused zero);
}

$proxy->refuse(1);
$proxy->reset;
wait_for { scalar $node->grep_log(qr/redis \S+ unavailable/) } 15, 'no Redis';
no_own_permits('outage');

$other->freeze($_) for $other->workers;
$redis->cmd('DEL', $state->key('sessions'));
$state->order('paused', '- 1');
$state->order('zero', '0 0');
$proxy->refuse(0);
wait_for { scalar $node->grep_log(qr/available again/) } 15, 'Redis is back';
$redis->beats(3, 'a poll');
ok $redis->recovering, 'it recovers';
$state->order('paused', '- 1');
$state->order('zero', '0 0');
no_own_permits('recovery');

$state->drop_orders;
# the permit that came free in the outage has gone back
eventually { at_all('paused') == 1 } 'the end of the pause ends it';
$other->thaw($_) for $other->workers;
my @all = map { @$_ } values %runs, values %waits;
wait_for { $_->release_all for @up; !grep { !$_->done } @all, @new } 60,
    'all end';
is $_->status, 200, 'served' for @all;

$t->done;
