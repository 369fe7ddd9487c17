#!/usr/bin/perl

# A worker is killed with permits of several shards, for which its successor has
# no requests. The successor removes its session from each of them, so that
# requests on another node are served at once.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my ($dies, $lives) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_lease 10s;
proxy_set_header X-Sem $dsem_name;
location / {
    dsem "$arg_n" limit=1 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @NAMES = qw(one d a);
my %state = map { $_ => Dsem::State->new($cluster->at($_)) } @NAMES;

my @lost = map { $dies->begin("/?hang=1&n=$_") } @NAMES;
eventually { $up->now == @NAMES } 'permits of three shards';
my @waiting = map { $lives->begin("/?t=1&n=$_") } @NAMES;
for my $name (@NAMES) {
    eventually { $state{$name}->waiting($name) == 1 } "$name: request queued";
}

my $killed = now;
$dies->kill_worker;
wait_for { $_->done } 15, 'the end of the connections' for @lost;
is $_->wait->status, 200, 'permit returned' for @waiting;
my $took = took($killed);
# a lease is 10 s
cmp_ok $took, '<', 5, 'returned at once';
note sprintf 'permits %.3f s', $took;
# it logs them when Redis has replied
eventually {
    @NAMES == $dies->grep_log(qr/removed session \S+ of a dead worker/)
} 'sessions removed by successor';
is $up->peak($_), 1, "$_: limit never exceeded" for @NAMES;

$t->done;
