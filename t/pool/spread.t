#!/usr/bin/perl

# Idle permits of several servers: a request has one of the server at which its
# worker has fewest in use, and those that are not needed go back from each.
# Where a request fails all of its server go back.

use lib 't/lib';
use Cpanel::JSON::XS qw(decode_json);
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my @up = sort { $a->address cmp $b->address } map { $t->upstream } 1, 2;
my @addresses = map { $_->address } @up;
my $servers = join ' ', map { "server $_ fail_timeout=3600;" } @addresses;

my $node = $clock->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_lease 10m;
dsem_redis_timeout 30s;
dsem_reuse 60s;
upstream gpus {
    $servers
    dsem gpus limit=2/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Node a;
    location / { proxy_pass http://gpus; }
    location /asks {
        dsem asks limit=1 queue=1;
        dsem_reuse off;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /dsem/ { dsem_api write=on; }
}
EOF_CONF

sub order {
    my ($limit) = @_;
    my $answer = $node->get("/dsem/semaphores/gpus/servers/$addresses[1]",
        -method => 'PATCH', -body => qq({"limit":$limit}),
        'Content-Type' => 'application/json');
    $answer->close;
    is $answer->status, 200, "ordered: $limit";
}

# permits of each server that Redis counts
sub held {
    my $head = $redis->cmd('HGET', $t->state->semaphore_key('gpus'), '.') // '';
    my ($at) = $head =~ m{ /.*;([^;]*)$};
    my %held = ($at // '') =~ /(\S+)=(\d+)/g;
    return join ' ', map { $held{$_} // 0 } @addresses;
}

# permits that lie idle in the worker
sub idle {
    my $all = decode_json($node->get('/dsem/semaphores')->body);
    my ($pool) = grep { $_->{name} eq 'gpus' } @{ $all->{semaphores} };
    return $pool->{local}{idle} // 0;
}

sub running { return join ' ', map { $_->now } @up }

sub used {
    my ($n, $expected, $name) = @_;
    my @requests = map { $node->begin('/?hang=1') } 1 .. $n;
    eventually { running() eq $expected } $name;
    $_->release_all for @up;
    is scalar(grep { $_->wait->status != 200 } @requests), 0, 'served';
}

# two of the first server, and one of the other
sub two_and_one {
    order(1);
    my @requests = map { $node->begin('/?hang=1') } 1 .. 3;
    eventually { running() eq '2 1' } 'two at one server, one at the other';
    order('null');
    $_->release_all for @up;
    is scalar(grep { $_->wait->status != 200 } @requests), 0, 'served';
    eventually { idle() == 3 && held() eq '2 1' } 'their permits are idle';
}

two_and_one();
used(2, '1 1', 'one at each server');

# a request that asks shows that what the worker has sent has come

wait_for {
    $clock->step(5);
    $node->get('/asks');
    held() ne '2 1';
} 15, 'one is not needed';
is held(), '1 1', 'of each server one stays';
used(2, '1 1', 'and serves');

two_and_one();
$up[0]->refuse('a');
is $node->get('/')->status, 502, 'one fails';
eventually { held() eq '0 1' } 'the other permit of its server goes back, too';
is $node->get('/')->status, 200, 'the next one is for the other server';

$node->quit;
eventually { !$t->state->exists('gpus') } 'all go back';

$t->done;
