#!/usr/bin/perl

# A master of a Cluster is lost, without a replica. Requests of names in shards
# on other masters are served as before, without delay; the others are handled
# by dsem_on_error. Each worker goes on with the permits that it has. The API
# shows what the other shards have, and nothing of the one that is lost.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0,
    args => [qw(--cluster-require-full-coverage no)]);
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_redis_connect_timeout 1s;
dsem_lease 2s;
dsem_reuse off;
dsem_status 503 error=500;
proxy_set_header X-Sem $dsem_name;
location /lost {
    dsem one limit=4 queue=10 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
location /rejected {
    dsem upload limit=4 queue=10 timeout=5s;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /kept {
    dsem a limit=2 queue=10 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
location /late {
    dsem "$arg_n" limit=2 queue=10 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

my ($lost, $kept) = map { $cluster->at($_) } qw(one a);
my $master = $lost->owner;
isnt $kept->owner, $master, 'different masters';
is $cluster->at('upload')->owner, $master, 'the same one';
eventually { Dsem::State->new($lost)->session_count == 2 } 'registered';
eventually { Dsem::State->new($kept)->session_count == 2 } 'in both shards';

my @running = map { $_->begin('/lost?hang=1') } @fleet;
push @running, map { $_->begin('/kept?hang=1') } @fleet;
eventually { $up->now == @running } 'permits in both shards';
my $waiting = $fleet[0]->begin('/kept?t=1');
eventually { Dsem::State->new($kept)->waiting('a') == 1 } 'request queued';

my $killed = now;
$master->kill;

# one of "kept" is released by the other node: the message arrives
$up->release_nonce($running[3]->nonce);
is $waiting->wait->status, 200, 'kept: granted while the other shard is lost';
$_->wait for $running[3];

my @latency;
wait_for {
    for my $node (@fleet) {
        my $response = $node->get('/kept?t=1');
        is $response->status, 200, 'kept: served' if $response->status != 200;
        push @latency, $response->took;
    }
    @latency > 100 && @fleet == grep { $_->grep_log(qr/unavailable \(/) }
        @fleet;
} 15, 'many requests, also when the loss was noticed';
# one may be, by other load of the machine
@latency = sort { $b <=> $a } @latency;
cmp_ok $latency[ @latency / 50 ], '<', 0.5, 'kept: none delayed';
note sprintf '%d requests, longest %.3f s', scalar @latency, $latency[0];
is scalar(grep { $_->{dsem_name} eq 'a' && $_->{dsem_status} !~ /^[PQ]/ }
    map { $_->access_log } @fleet), 0, 'kept: Redis never unavailable';

my $address = $master->address;
for my $node (@fleet) {
    my $name = $node->name;
    # or none, where the search for it took longer
    like +($node->grep_log(qr/unavailable \(/))[0],
        qr/\Qredis $address \E|\(no node replies\)/,
        "$name: that master is named";
    is $node->get('/rejected?t=1')->status, 500, "$name: lost: rejected";
}

my $figures = decode_json($fleet[0]->get('/dsem/semaphores')->body);
my %shown = map { $_->{name} => $_ } @{ $figures->{semaphores} };
is join(' ', map { $_ // 'null' } @{ $shown{one} }{qw(in_use waiting limit)}),
    'null null null', 'lost: not known';
is $shown{one}{local}{in_use}, 1, 'lost: this node knows its own';
is $shown{a}{limit}, 2, 'kept: known';
ok $figures->{fleet}{partial}, 'a shard is missing';

# after the lease each worker has its share, 2 of 4; one is in use
wait_for { now > $killed + 2.6 } 5, 'the end of the lease';
my @local = map { $_->begin('/lost?hang=1') } @fleet;
eventually { $up->now('one') == 4 } 'lost: local shares';
is $fleet[0]->get('/late?t=1&n=d')->status, 200, 'another shard begins';
is $up->peak('one'), 4, 'lost: limit never exceeded';

$cluster->start($master);
for my $node (@fleet) {
    eventually { $node->grep_log(qr/available again/) }
        $node->name . ': available again';
}
eventually { Dsem::State->new($lost)->held('one') == 4 } 'declared';
$up->release_all;
is $_->wait->status, 200, 'request served' for @running[0 .. 2], @local;
eventually { $fleet[0]->get('/lost?t=1')->status == 200 } 'granted again';

$t->done;
