#!/usr/bin/perl

# A key with many shares is charged for all that a request uses beyond what it
# was expected to, by its shares: with 501 of them a permit uses two us in a ms.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

# ms that the request runs, in steps that are too short for a stall
my ($SHARES, $TIME, $STEP) = (501, 1500, 10);

my $t = Dsem::Test->new(lease => 60);
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $clock->node('n1', <<'EOF_CONF', SHARES => $SHARES);
worker_processes 1;
dsem_lease 60s;
location / {
    dsem api limit=1 queue=50 timeout=60s fair=$arg_k share=%%SHARES%%;
    proxy_pass http://%%UPSTREAM%%;
}
location /other {
    dsem other limit=1;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

is $node->get('/?k=a&t=5')->status, 200, 'a request, for its time';
$clock->stop;
my @requests = $node->begin('/?k=a&hang=1');
wait_for { $up->now == 1 } 15, 'it has the permit';
for my $key (qw/a b/) {
    push @requests, $node->begin("/?k=$key&hang=1");
    wait_for { $t->state->waiting('api') == @requests - 1 } 15, 'one waits';
}
# its reply comes after the one by which they wait
is $node->get('/other')->status, 200, 'another name';
my $begun = tag();

# and those to its charges before the next ones are due
for (1 .. $TIME / $STEP) {
    $clock->step($STEP / 1000);
    $node->get('/other');
}
# 8 of a tag for a us; the last fourth of the time may not be charged yet
my $used = 8 * 1000 * $TIME / $SHARES;
eventually { tag() - $begun >= 0.7 * $used } 'charged for its time';
cmp_ok tag() - $begun, '<=', $used, 'and for no more';
$clock->go;

wait_for { $up->release_all; !grep { !$_->done } @requests } 15, 'the end';
is $_->status, 200, 'served' for @requests;

$t->done;

sub tag { return ($t->state->tags('api'))[0]{a} }
