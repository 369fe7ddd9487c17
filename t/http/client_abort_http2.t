#!/usr/bin/perl

# HTTP/2: a stream that is reset, or a connection that ends, gives back all
# that it had, whether it waited, was being asked for or was served. Streams
# that are opened and reset in one breath cost Redis nothing. The clock of the
# worker stands, so that no check gives anything back.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Http2;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $proxy = $t->proxy($redis->address);
my $up = $t->upstream;

my $node = $clock->node('n1', <<'EOF_CONF', SLOW_REDIS => $proxy->address);
worker_connections 4096;
dsem_redis %%SLOW_REDIS%%;
dsem_lease 10m;
http2_max_concurrent_streams 1000;
server {
    listen 127.0.0.1:%%PORT%% http2;
    location /streams {
        dsem streams limit=2 queue=1000 timeout=60s;
        proxy_set_header X-Nonce $arg_nonce;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

sub connection { Dsem::Http2->new($node->raw) }

my $h2 = connection();
is($h2->status($h2->get('/streams?nonce=first')), 200, 'a stream served');
wait_for { state() eq '0 0' && $t->state->subscribed == 1 };
$clock->stop;

# served and waiting

my @held = map { $h2->get("/streams?hang=1&nonce=held$_") } 1, 2;
eventually { $up->now == 2 } 'limit reached';
my @waiting = map { $h2->get("/streams?hang=1&nonce=waiting$_") } 1 .. 3;
eventually { state() eq '2 3' } 'three wait';

$h2->rst($waiting[1]);
eventually { state() eq '2 2' } 'reset while waiting';
$h2->rst($held[0]);
eventually { state() eq '2 1' && ($up->order)[-1] eq 'waiting1' }
    'reset while served, head of queue served';
ok(!$h2->ended($_), 'others still served') for $held[1], @waiting[0, 2];

# the connection ends with all its streams

for my $way (qw(close reset)) {
    my $other = connection();
    my @streams = map { $other->get('/streams?hang=1') } 1 .. 10;
    eventually { state() eq '2 11' } 'ten more wait';
    $other->$way;
    eventually { state() eq '2 1' } "streams ended with $way";
}
$h2->rst($_) for $held[1], $waiting[0];
eventually { state() eq '1 0' } 'last stream served';
my $other = connection();
$other->get('/streams?hang=1') for 1 .. 3;
eventually { state() eq '2 2' } 'served and waiting streams';
$h2->close;
eventually { state() eq '2 1' && $up->now == 2 } 'served streams closed';
$other->reset;
eventually { state() eq '0 0' && $up->now == 0 } 'served streams reset';
is($up->peak, 2, 'peak is the limit');

# reset while Redis is being asked

$h2 = connection();
$proxy->freeze('s2c');
my $stream = $h2->get('/streams');
eventually { state() eq '1 0' } 'permit requested';
$h2->rst($stream)->ping;
$proxy->thaw('s2c');
eventually { state() eq '0 0' } 'reset while asking';

# opened and reset in one breath

$up->reset;
my $before = $redis->calls->{evalsha};
for (1 .. 10) {
    my $bytes = '';
    for (1 .. 50) {
        my ($flooding, $frame) = $h2->request('/streams');
        $bytes .= $frame . $h2->rst_frame($flooding);
    }
    $h2->send($bytes);
}
is($h2->status($h2->get('/streams?nonce=after')), 200, 'served after a flood');
my $calls = $redis->calls->{evalsha} - $before;
$clock->go;
eventually { state() eq '0 0' } 'nothing left';
cmp_ok($calls, '<', 8, 'few commands of 500');
note("$calls calls");
is_deeply([$up->order], ['after'], 'no aborted stream at backend');
$h2->close;

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts('streams') }
