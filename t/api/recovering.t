#!/usr/bin/perl

# While Redis has lost its state and a node has not declared its permits yet,
# health, figures and metrics of the others say so; and say when it is over.

use JSON::PP qw(decode_json);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 30);
my $redis = $t->redis;
my $up = $t->upstream;

my ($node, $silent) = $t->fleet(2, <<'EOF_CONF');
dsem_lease 30s;
location / {
    dsem a limit=2 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /dsem/ {
    dsem_api;
}
EOF_CONF

sub health { return $node->get('/dsem/health') }
sub shown { decode_json($node->get('/dsem/semaphores')->body)->{redis} }
sub metric {
    my ($name) = @_;
    my ($value) = $node->get('/dsem/metrics')->body =~ /^$name (\S+)$/m;
    return $value;
}

eventually { health()->status == 200 } 'healthy';
is decode_json(health()->body)->{status}, 'ok', 'status';
is metric('dsem_redis_recovering'), 0, 'metric';

my $running = $silent->begin('/?hang=1');
wait_for { $up->now == 1 } 15, 'request of the other node';
# both know the size of the fleet from a heartbeat
$redis->all_beat(2);
$silent->freeze;
$redis->cmd('FLUSHALL');

my $said;
eventually {
    my $health = health();
    $said = decode_json($health->body);
    $health->status == 503 && $said->{status} eq 'recovering';
} 'not healthy';
like $said->{reason}, qr/lost state is being declared/, 'reason';
is shown()->{state}, 'recovering', 'state shown';
is metric('dsem_redis_recovering'), 1, 'metric while recovering';
is metric('dsem_redis_up'), 0, 'redis not available';

$silent->thaw;
eventually { health()->status == 200 } 'healthy when all have declared';
is shown()->{state}, 'available', 'available again';
is metric('dsem_redis_recovering'), 0, 'metric at the end';

$up->release_all;
is $running->wait->status, 200, 'request served';

$t->done;
