#!/usr/bin/perl

# The reply to a request of a key is lost, so the worker does not know by which
# limit its place was computed. Its client leaves: the key pays nothing, though
# another limit than the one of the configuration is in force.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $proxy = $t->proxy($redis->address);

my $node = $clock->node('n1', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
dsem_redis_timeout 30s;
location / {
    dsem api limit=40 queue=50 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 1 } 15, 'the session';
$t->state->order('api', '1 0');
my $holder = $node->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

# it asks no more while a reply is late: none is
$clock->stop;
$proxy->freeze('s2c');
$node->freeze;
my @leave = map { $node->begin("/?k=leave&t=2&n=$_") } 1 .. 8;
$node->thaw;
wait_for { $t->state->waiting('api') == 8 } 15, 'a key waiting';
my ($epoch) = $t->state->declared;
$clock->go;
$proxy->reset;
$proxy->thaw;
wait_for { ($t->state->declared)[0] > $epoch } 15, 'another epoch';
is $t->state->waiting('api'), 8, 'and still waiting';

my @stay = map { $node->begin("/?k=stay&t=2&n=$_") } 1 .. 8;
wait_for { $t->state->waiting('api') == 16 } 15, 'two keys waiting';
$_->abort for @leave;
wait_for { $t->state->waiting('api') == 8 } 15, 'one key waiting';
my $again = $node->begin('/?k=leave&t=2&n=9');
wait_for { $t->state->waiting('api') == 9 } 15, 'another request';
my $places = $t->state->places('api');
my ($place) = map { $places->{$_} } grep { / leave$/ } keys %$places;
cmp_ok scalar(grep { $_ < $place } values %$places), '<=', 1,
    'key has not paid for them' or note explain $places;

$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @stay, $again;
is $up->peak, 1, 'limit reached, never exceeded';

$t->done;
