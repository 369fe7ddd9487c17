#!/usr/bin/perl

# A worker with sessions in all shards exits while one master does not reply.
# The byes to the others are executed, and the worker waits for all replies
# together as long as for one.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0,
    args => [qw(--cluster-require-full-coverage no)]);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_timeout 5s;
dsem_lease 10s;
location / {
    dsem "$arg_n" limit=2 queue=100 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# two shards are at one master; a session of the first one is drained first
my @NAMES = qw(one c d a);
my %state = map { $_ => Dsem::State->new($cluster->at($_)) } @NAMES;
my $frozen = $cluster->at('c')->owner;
is $cluster->at('d')->owner, $frozen, 'two shards at one master';

sub used {
    my ($node) = @_;
    my @held = map { $node->begin("/?hang=1&n=$_") } @NAMES;
    eventually { $up->now == @NAMES } $node->name . ': all shards used';
    return @held;
}

# a busy machine may need longer now and then
my $took;
for my $name (qw(fast1 fast2 fast3)) {
    my $node = $t->node($name, $conf);
    my @held = used($node);
    $frozen->freeze;
    my $told = now;
    $node->signal('TERM');
    wait_for { !$node->alive } 15, 'the end';
    $took = took($told);
    cmp_ok now - $told, '>', 0.1, "$name: replies awaited";
    for my $shard (qw(one a)) {
        eventually { $state{$shard}->session_count == 0 }
            "$name: bye in the shard of $shard", 5;
    }
    note sprintf '%s: %.3f s', $name, $took;
    $frozen->thaw;
    $cluster->whole;
    eventually { $state{c}->session_count + $state{d}->session_count == 0 }
        "$name: byes executed after thaw", 5;
    $_->wait for @held;
    eventually { $up->now == 0 } "$name: backend free";
    last if $took < 0.29;
}
cmp_ok $took, '<', 0.29, 'fast: not for each session';

my $node = $t->node('slow', $conf);
my @held = used($node);
$frozen->freeze;
my $told = now;
$node->signal('QUIT');
$up->release_all;
wait_for { !$node->alive } 15, 'the end';
$took = took($told);
cmp_ok $took, '<', 3.5, 'graceful: not for each session';
is $state{$_}->session_count, 0, "graceful: bye in the shard of $_"
    for qw(one a);
note sprintf 'graceful: %.3f s', $took;
is scalar(grep { $_->wait->status != 200 } @held), 0,
    'graceful: requests served';
$frozen->thaw;
$cluster->whole;
eventually { $state{c}->session_count + $state{d}->session_count == 0 }
    'graceful: byes executed after thaw', 5;

$t->done;
