#!/usr/bin/perl

# The figures of a fleet whose semaphores are spread over the shards of a
# Cluster: those of all shards are together, also of shards that this worker
# has not used. An order reaches the shard of its name, and a session is
# removed wherever it is.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t, replicas => 0);
my $up = $t->upstream;

my ($one, $two) = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
location /literal {
    dsem c limit=3 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /named {
    dsem "$arg_n" limit=2 queue=10 timeout=10s;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api write=on;
}
EOF_CONF

# asked by who sends requests: a worker without any has a session for that

my $idle = $t->node('n3', <<'EOF_CONF');
worker_processes 1;
dsem_redis %%REDIS%% mode=cluster;
dsem_lease 1s;
location /dsem/ {
    dsem_api;
}
EOF_CONF
eventually { $idle->get('/dsem/health')->status == 200 } 'health without use';
$idle->get('/dsem/metrics');
is $idle->get('/dsem/health')->status, 200, 'while other shards are connected';
$idle->quit;

# one name in each shard
my @NAMES = qw(one c d a);
is_deeply [ map { Dsem::State::shard_of($_) } @NAMES ], [0 .. 3], 'shards';
my %state = map { $_ => Dsem::State->new($cluster->at($_)) } @NAMES;

sub figures { return decode_json($_[0]->get('/dsem/semaphores')->body) }

# name => permits in use in the fleet
sub in_use {
    my ($node) = @_;
    return { map { $_->{name} => $_->{in_use} }
        @{ figures($node)->{semaphores} } };
}

sub change {
    my ($node, $method, $path, $body) = @_;
    my $asked = $node->get("/dsem/$path", -method => $method,
        'Content-Type' => 'application/json', -body => $body);
    return ($asked->status, decode_json($asked->body));
}

my @running;
for my $name (@NAMES) {
    push @running, $two->begin("/named?hang=1&n=$name");
    wait_for { $up->now == @running } 5, 'request running';
}
is $state{a}->session_count, 1, 'one node in the last shard';

# that node knows the names; the other one those with literal limits or orders

eventually {
    my $seen = in_use($two);
    4 == grep { ($seen->{$_} // 0) == 1 } @NAMES;
} 'all shards together';
$state{a}->order('a', '2 0');
eventually {
    my $seen = in_use($one);
    ($seen->{a} // 0) == 1 && ($seen->{c} // 0) == 1 && !$seen->{d};
} 'names of the shards';
eventually { !figures($one)->{fleet}{partial} } 'no shard is missing';
my ($status, $answer) = (0, {});
my $asked = $one->get('/dsem/semaphores/d');
is decode_json($asked->body)->{semaphore}{in_use}, 1, 'a single name';

# orders

push @running, map { $two->begin('/named?hang=1&n=d') } 1 .. 3;
eventually { $state{d}->waiting('d') == 2 } 'two requests wait';
($status, $answer) = change($one, 'PATCH', 'semaphores/d', '{"limit": 4}');
is $status, 200, 'limit raised';
is "@$answer{qw(limit in_use waiting)}", '4 4 0', 'queue served';
eventually { $up->now == @running } 'requests running';
is $state{d}->ordered('d'), '4 0', 'in the shard of the name';

# a session in the last shard

my ($session) = grep { /^n2:/ } $state{a}->sessions;
($status) = change($one, 'DELETE', "sessions/$session", '');
is $status, 409, 'session heard from';
($status) = change($one, 'DELETE', "sessions/$session", '{"force": true}');
is $status, 200, 'session removed';
eventually { !grep { $_ eq $session } $state{a}->sessions } 'not there';
eventually { 1 == grep { /^n2:/ } $state{a}->sessions } 'back by itself';
($status) = change($one, 'DELETE', 'sessions/n9:0:0123456789abcdef', '');
is $status, 404, 'in no shard';

$up->release_all;
is $_->wait->status, 200, 'request served' for @running;

$t->done;
