#!/usr/bin/perl

# Redis is gone, and the fence is far away: a request that is heavier than all
# permits that its worker has waits for Redis. It holds up none of the requests
# behind it, which these permits serve. One that they cover is waited for.

use lib 't/lib';
use Dsem::Test;

use JSON::PP qw(decode_json);

my $t = Dsem::Test->new(lease => 60);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 500ms;
dsem_lease 60s;
dsem_reuse off;
location /db {
    dsem db limit=6 queue=20 timeout=60s weight=$arg_weight;
    proxy_pass http://%%UPSTREAM%%;
}
location /reject {
    dsem db limit=6 queue=20;
    dsem_on_error reject;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ { dsem_api; }
EOF_CONF
my $node = $t->node('a', $conf, REDIS => $proxy->address);

sub said { join ' ', @{ $node->logged($_[0]) }{qw(status dsem_status)} }
sub waiting {
    return $_->{local}{waiting} for
        @{ decode_json($node->get('/dsem/semaphores')->body)->{semaphores} };
}
sub waits {
    my ($n, $weight) = @_;
    my $request = $node->begin("/db?hang=1&weight=$weight");
    wait_for { waiting() == $n } 15, "$n waiting";
    return $request;
}
sub starts {
    my ($request) = @_;
    wait_for { grep { $_ eq $request->nonce } $up->order } 15, 'it starts';
}
sub ends {
    my ($request) = @_;
    $up->release_nonce($request->nonce);
    is $request->wait->status, 200, 'served';
}

my @runs = map { $node->begin('/db?hang=1&weight=1') } 1, 2;
wait_for { $up->now == 2 } 15, 'two permits in use';
my $four = $node->begin('/db?hang=1&weight=4');
wait_for { $up->now == 3 } 15, 'all permits in use';
ends($four);
wait_for { $t->state->held('db') == 2 } 15, 'four are given back';

$proxy->refuse;
$proxy->cut;
wait_for { $node->grep_log(qr/unavailable \(/) } 15, 'redis unavailable';

my $heavy = waits(1, 3);
my $light = waits(2, 1);
ends($runs[0]);
starts($light);
ends($light);
is said($node->get('/db?weight=1')), '200 PASSED', 'another one served';
is said($node->get('/reject')), '200 PASSED', 'and one of reject';

# in order

my $pair = waits(2, 2);
my $last = waits(3, 1);
is $up->now, 1, 'nobody passes what the permits cover';
ends($runs[1]);
starts($pair);
ends($pair);
starts($last);
ok !$heavy->done, 'heavy one waits';

$proxy->refuse(0);
starts($heavy);
ends($_) for $last, $heavy;

$t->done;
