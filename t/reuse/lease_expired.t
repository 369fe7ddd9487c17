#!/usr/bin/perl

# An idle permit is valid as long as the lease of its worker. A worker that was
# stopped for longer admits no request on an idle permit, because Redis has
# granted that permit to another node.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 2s;
dsem_reuse 60s;
location / {
    dsem api limit=2 queue=10 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $keeps = $t->node('keeps', $conf);
my $takes = $t->node('takes', $conf);

sub held { return $t->state->held('api') }

# a request that finds an idle permit sends no command
sub reused {
    my $before = $redis->calls->{evalsha};
    return $keeps->get('/')->status == 200 && held() == 1
        && $redis->calls->{evalsha} == $before;
}

wait_for { $t->state->session_count == 2 } 15, 'sessions open';
eventually { reused() } 'one idle permit held', 15;

$keeps->freeze;
my @long = $takes->begin('/?hang=1');
wait_for { $t->state->session_count == 1 } 15, 'lease expired';
# nothing waits, so that no message recalls the idle permit
push @long, $takes->begin('/?hang=1');
eventually { $up->now == 2 } 'permit free after lease', 15;

# the request is there when the worker wakes up

my $late = $keeps->begin('/');
$keeps->thaw;
eventually { $t->state->waiting('api') == 1 } 'new request queued', 15;
is($up->peak, 2, 'limit reached, never exceeded');

$up->release_all;
is($_->wait->status, 200, 'request served') for @long, $late;
is($up->peak, 2, 'limit never exceeded');

# idle permits stay for a minute
$_->quit for $keeps, $takes;

$t->done;
