#!/usr/bin/perl

# One master of a Cluster loses all its keys. The shards on it recover: their
# permits in use are declared, and no limit is exceeded. The other shards grant
# permits all the time, and their state stays as it is.

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_reuse off;
proxy_set_header X-Sem $dsem_name;
location / {
    dsem "$arg_n" limit=3 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
location = /dsem/metrics { dsem_api; }
EOF_CONF

# the first two are at one master
my @NAMES = qw(c d one a);
my %at = map { $_ => $cluster->at($_) } @NAMES;
my %state = map { $_ => Dsem::State->new($at{$_}) } @NAMES;
my $master = $at{c}->owner;
is $at{d}->owner, $master, 'two shards at one master';
isnt $at{$_}->owner, $master, "$_: not at that one" for qw(one a);

my @held = map { my $n = $_; map { $_->begin("/?hang=1&n=$n") } @fleet } @NAMES;
eventually { $up->now == @held } 'permits in all shards';
my %before = map { $_ => scalar $state{$_}->shard('gen') } @NAMES;

$master->cmd('FLUSHALL');

my @latency;
for (1 .. 40) {
    for my $node (@fleet) {
        for my $name (qw(one a)) {
            my $response = $node->get("/?t=1&n=$name");
            push @latency, $response->took if $response->status == 200;
        }
    }
}
is scalar(@latency), 160, 'others: every request served';
# one may be, by other load of the machine
@latency = sort { $b <=> $a } @latency;
cmp_ok $latency[3], '<', 0.5, 'others: none delayed';

for my $name (qw(c d)) {
    eventually { $state{$name}->held($name) == 2 } "$name: permits declared", 5;
    isnt $state{$name}->shard('gen'), $before{$name}, "$name: new generation";
    is $fleet[0]->get("/?t=1&n=$name")->status, 200, "$name: granted again";
    is $up->peak($name), 3, "$name: limit reached, never exceeded";
}
for my $name (qw(one a)) {
    is $state{$name}->shard('gen'), $before{$name}, "$name: same generation";
    is $state{$name}->held($name), 2, "$name: permits still held";
}
for my $node (@fleet) {
    is scalar($node->grep_log(qr/redis lost its state/)), 2,
        $node->name . ': logged for each lost shard';
    like $node->get('/dsem/metrics')->body,
        qr/^dsem_redis_recoveries_total 1$/m, $node->name . ': counted once';
}

$up->release_all;
is scalar(grep { $_->wait->status != 200 } @held), 0, 'held requests served';

$t->done;
