#!/usr/bin/perl

# Redis is emptied while the worker with all permits is disconnected. The first
# ask comes from a worker that has never held a permit, or from a new worker
# whose node remembers a generation. It waits until the other workers have
# declared.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1.5);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 1500ms;
location /asks {
    dsem api limit=4 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $holds = $t->node('holds', $conf, REDIS => $proxy->address);
my $asks = $t->node('asks', $conf);

# a new node remembers nothing
$redis->all_beat(2);

sub meta { return $t->state->shard($_[0]) // 0 }
sub of { return $t->state->figure('api', $_[0]) }

sub first {
    my ($how, $before) = @_;
    $up->reset;
    my @long = map { $holds->begin('/asks?hang=1') } 1 .. 4;
    wait_for { $up->now == 4 } 15, 'all permits out';

    $proxy->freeze;
    $redis->cmd('FLUSHALL');
    $before->();
    my $first = $asks->begin('/asks?t=1');
    eventually { meta('gen') } "$how: new generation";
    eventually { meta('recover_until') > meta('clock') }
        "$how: recovery started";
    $proxy->thaw;
    eventually { of('held') == 4 } "$how: holders declare";
    eventually { of('waiting') == 1 } "$how: new request queued";
    is $up->peak, 4, "$how: limit reached, never exceeded";
    $up->release(1);
    is $first->wait->status, 200, "$how: request served in turn";
    $up->release_all;
    is $_->wait->status, 200, "$how: running requests served" for @long;
}

first('old worker', sub { });
first('new worker', sub { $asks->reload });

$t->done;
