#!/usr/bin/perl

# More requests wait in a worker than one check compares. A request that asks
# behind the check is granted a permit by another node, and the message comes
# before the reply to the check: that has not counted the request, and no count is
# found to differ.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
worker_connections 2048;
dsem_redis_timeout 60s;
dsem_lease 60s;
dsem_reuse off;
proxy_set_header X-Sem $dsem_name;
location / {
    dsem api limit=2 queue=600 timeout=60s priority=$arg_class;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=100;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $far = $clock->node('far', $conf, REDIS => $proxy->address);
my $near = $clock->node('near', $conf);
$redis->all_beat(2);
wait_for { $t->state->subscribed == 2 } 15, 'both to be told of grants';

my @holders = map { $near->begin('/?class=0&hang=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'the limit reached';
my @last = map { $far->begin('/?class=7') } 1 .. 300;
wait_for { $t->state->waiting('api') == 300 } 15, 'more than one check has';

# timers end only when told, and no reply is late
$clock->stop;

my @newer;
for my $round (1, 2) {
    # no earlier check awaits its reply
    is $far->get('/other')->status, 200, "$round: another semaphore";
    # a reply to a check is a long one
    $proxy->hold('\*\d{3}\r\n\$\d+\r\nfar:');
    my $sent = $proxy->bytes->{c2s};
    # checks are a second apart
    $clock->step(1.1);
    wait_for { $proxy->bytes->{c2s} > $sent + 2000 } 15, 'a check';
    push @newer, $far->begin('/?class=0&hang=1');
    wait_for { $t->state->waiting('api') == 301 } 15, 'a newer request';
    $up->release(1);
    eventually { ($up->order)[-1] eq $newer[-1]->nonce }
        "$round: a message grants it a permit";
    $proxy->thaw('s2c');
}
is $far->get('/other')->status, 200, 'the replies have come';
is $far->grep_log(qr/counts differ/), 0, 'counts agree';
ok !(grep { $_->done } @last), 'the others wait';

$clock->go;
$up->release_all;
is $_->wait->status, 200, 'served' for @holders, @newer;
is_deeply [ grep { $_->wait->status != 200 } @last ], [], 'the others, too';
is $up->peak('api'), 2, 'limit reached, never exceeded';

$t->done;
