#!/usr/bin/perl

# Idle permits are released as soon as a request waits for them: a request on
# another node is served at once, before the permits' idle time is over, and
# without a check: the clock of the workers stands meanwhile. No request is
# rejected beside an idle permit.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_reuse 60s;
dsem_lease 10m;
location / {
    dsem api limit=4 queue=1 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $keeps = $clock->node('keeps', $conf);
my $asks = $clock->node('asks', $conf);

# sessions that may have idle permits, and those asked to release them
sub idle {
    return join ' ', @{ $t->state->figures('api') }{qw(active recalled)};
}

sub held { return $t->state->held('api') }

sub syncs { return $redis->calls->{evalsha} // 0 }

# two idle permits on one node: its share of four among two workers

wait_for { $t->state->subscribed == 2 } 15, 'sessions open';
eventually {
    my @two = map { $keeps->begin('/?hang=1') } 1, 2;
    wait_for { $up->now == 2 } 15, 'two at the backend';
    $up->release_all;
    $_->wait for @two;
    held() == 2;
} 'two permits stay', 15;

my $before = syncs();
is($keeps->get('/')->status, 200, 'permits used again');
is(held(), 2, 'permits kept again');

# four requests on the other node need the idle permits; one may wait

$up->reset;
$clock->stop;
my @four = map { $asks->begin('/?hang=1') } 1 .. 4;
eventually { $up->now == 4 } 'all four requests served';
$clock->go;
my $waits = $keeps->begin('/?t=1');
wait_for { $t->state->waiting('api') == 1 } 15, 'one request queued';
# until no session may have idle permits the queue may be longer
wait_for { idle() eq '0 0' } 15, 'all idle permits recalled';
is($keeps->get('/')->status, 503, 'next request rejected');
is($up->peak, 4, 'limit reached, never exceeded');
$up->release_all;
is($_->wait->status, 200, 'request served') for @four, $waits;

# no more than the fair share stays

eventually { held() <= 2 } 'idle permits released';

$_->quit for $keeps, $asks;
eventually { !$t->state->exists('api') } 'exiting worker releases all';

$t->done;
