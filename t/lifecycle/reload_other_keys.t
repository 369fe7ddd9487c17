#!/usr/bin/perl

# A reload with another dsem_prefix, database or server: what the node remembers
# of the old keys says nothing about the new ones, where permits are granted at
# once. Sessions of killed workers are removed where they are, by workers that
# are there, and by no others.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 3600);
my $other = $t->redis;
my $redis = $t->redis;
my $up = $t->upstream;

sub conf {
    my ($server, $prefix) = @_;
    return <<"EOF_CONF";
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis $server;
    dsem_prefix $prefix;
    dsem_lease 1h;
    server {
        listen 127.0.0.1:%%PORT%% reuseport;
        location / {
            dsem api limit=40 queue=4 timeout=10s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
}

my $node = $t->node('a', conf('%%REDIS%%', 'one'));
my $one = Dsem::State->new($redis, 'one:{0}');
my $two = Dsem::State->new($redis, 'two:{0}');
wait_for { $one->session_count == 2 } 15, 'sessions';

# each of the two workers has a request: the port of a client selects it
my @first;
wait_for {
    push @first, $node->begin('/?hang=1') if @first < 30;
    keys %{ $one->accounts('api') } == 2;
} 15, 'requests of both old workers';
wait_for { $up->now == @first } 15, 'all permits out';

for (['db', conf('%%REDIS%% db=1', 'one')],
    ['server', conf($other->address, 'one')],
    ['prefix', conf('%%REDIS%%', 'two')])
{
    my ($what, $conf) = @$_;
    $node->reload($conf);
    my $request = $node->begin('/?t=1');
    is $request->wait->status, 200, "$what: granted";
    cmp_ok $request->took, '<', 5, "$what: at once";
}
is_deeply [ $node->grep_log(qr/lost its state/) ], [], 'no loss logged';

# a worker that drains is killed: the other one is still at the old keys
my @drain;
eventually { (@drain = $node->draining) == 2 } 'two workers drain';
$node->kill_worker($drain[0]);
eventually { $one->session_count == 1 } 'session removed where it was';
is scalar(grep { $_->{bar} } values %{ $two->entries }), 0,
    'and not elsewhere';

# now none is there, until a reload goes back
$node->kill_worker($drain[1]);
wait_for { !$node->draining } 15, 'the last one gone';
$redis->beats(4, 'heartbeats elsewhere');
is $one->session_count, 1, 'its session waits';
is scalar(grep { $_->{bar} } values %{ $two->entries }), 0,
    'and is not looked for elsewhere';
my ($last) = $one->sessions;
$node->reload(conf('%%REDIS%%', 'one'));
eventually { !grep { $_ eq $last } $one->sessions } 'and then removed';
is $node->get('/?t=1')->status, 200, 'its permits released';
$up->release_all;

$t->done;
