#!/usr/bin/perl

# Two nodes have the same name, as clones of one machine do. They still have
# separate sessions and keep one limit. When one node is lost, the permits of
# the other stay counted.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 2);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node same;
    dsem_lease 2s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /cloned {
            dsem api limit=4 queue=100 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my ($dies, $lives) = $t->fleet(2, $conf);

sub sessions { return $t->state->sessions }
sub published { return $redis->calls->{publish} // 0 }

eventually { sessions() == 2 } 'two sessions';
is scalar(grep { /^same:0:[0-9a-f]{16}$/ } sessions()), 2, 'same node name';

my $result = $t->load(urls => [ map { $_->url('/cloned') } $dies, $lives ],
    clients => 20, requests => 100);
is_deeply $result->{statuses}, { 200 => 100 }, 'all requests served';
is $up->peak, $LIMIT, 'limit reached, never exceeded';

# one node is lost, and restarts under its name

my @running = map { $lives->begin('/cloned?hang=1') } 1, 2;
my @lost = map { $dies->begin('/cloned?hang=1') } 1, 2;
eventually { $up->now == 4 } 'all permits out';
my @before = sessions();
my $started = $up->started;
# by a worker or two, five in a lease
my $later = published() + 12;
$dies->kill;
$dies->start;
my @next = map { $_->begin('/cloned?hang=1') } $dies, $lives, $dies;
eventually { $up->started == $started + 2 && $up->now == 4 }
    "killed node's permits returned";
is scalar(grep { my $one = $_; grep { $_ eq $one } @before } sessions()), 1,
    'one of the old sessions lives';
wait_for { published() >= $later } 15, 'more than a lease';
$redis->beats(4, 'two heartbeats');
is $up->now, 4, 'other permits still held';
is $up->peak, $LIMIT, 'limit never exceeded';
is scalar(grep { $_->done } @running), 0, 'surviving requests served';
eventually { sessions() == 2 } 'two sessions again';

wait_for { $up->release_all; !grep { !$_->done } @running, @next } 15,
    'the end';
is $_->wait->status, 200, 'request served' for @running, @next;

$t->done;
