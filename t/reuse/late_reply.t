#!/usr/bin/perl

# A reply is late: an idle permit does not stay beside a request of the same
# worker that has asked. The oldest of the best class gets it, before one that
# comes later.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $node = $clock->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 60s;
dsem_reuse 60s;
dsem_lease 60s;
location / {
    dsem api limit=20 queue=10 timeout=60s priority=$arg_class;
    proxy_pass http://%%UPSTREAM%%;
}
location /free {
    return 204;
}
location /other {
    dsem other limit=1;
    empty_gif;
}
EOF_CONF

is $node->get('/')->status, 200, 'a permit stays';
wait_for { $t->state->figure('api', 'active') } 15, 'an idle permit';
my @runs = map { $node->begin('/?hang=1') } 1 .. 3;
wait_for { $up->now == 3 } 15, 'three at the backend';
$clock->stop;
is $node->get('/other')->status, 200, 'no reply awaited';
$proxy->freeze('s2c');

sub ask {
    my ($nonce, $class) = @_;
    return $node->begin("/?hang=1&class=$class", 'X-Nonce' => $nonce);
}
my @waits = (ask(early => 5), ask(later => 6));
wait_for { $t->state->held('api') == 5 } 15, 'they have asked';
$clock->go;
$up->release(1);
eventually { ($up->order)[-1] eq 'early' } 'the older one, when it is late'
    or die;
push @waits, ask(worst => 7), ask(best => 0);
is $node->get('/free')->status, 204, 'two more';
$up->release(1);
eventually { ($up->order)[-1] eq 'best' } 'the best class first';
$up->release(1);
eventually { ($up->order)[-1] eq 'later' } 'then the older one';
is $up->now, 3, 'on the permits that this worker has';

$proxy->thaw('s2c');
wait_for { $up->now == 4 } 15, 'all that asked';
$up->release_all;
is $_->wait->status, 200, 'served' for @runs, @waits;
# what is idle stays for a minute
$node->quit;

$t->done;
