#!/usr/bin/perl

# The message that recalls an idle permit is lost. A request that waits for it
# is served after its next check, which recalls again, or once the holder has
# subscribed again: long before the permit would be released unasked.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_reuse %%REUSE%%;
location / {
    dsem api limit=2 queue=10 timeout=50s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $proxy = $t->proxy($redis->address);
my $keeps = $t->node('keeps', $conf, REDIS => $proxy->address,
    REUSE => '60s');
# a check that crosses its grant would let it keep a permit
my $asks = $t->node('asks', $conf, REUSE => 'off');
wait_for { $t->state->session_count == 2 } 15, 'sessions open';

sub idle_kept {
    eventually {
        is($keeps->get('/?t=1')->status, 200, 'request served')
            if $t->state->held('api') == 0;
        $t->state->held('api') == 1 && $up->now == 0;
    } 'one permit stays', 15;
}

for my $way ('check', 'subscription') {
    idle_kept();
    my $lost = $proxy->swallowed;
    $proxy->swallow(match => ' recall ', $way eq 'check' ? (count => 1) : ());
    my $running = $asks->begin('/?hang=1');
    eventually { $up->now == 1 } "$way: other permit used";
    my $waits = $asks->begin('/?hang=1');
    wait_for { $proxy->swallowed > $lost } 15, 'recall lost';
    my $begun = now;
    if ($way eq 'subscription') {
        $redis->beats(2, 'checks', 15);
        is $up->now, 1, 'recalls lost: waiting';
        $begun = now;
        $redis->cmd(qw(CLIENT KILL TYPE pubsub));
    }
    eventually { $up->now == 2 } "$way: waiting request served", 20;
    cmp_ok took($begun), '<', 10, "$way: soon";
    $proxy->swallow;
    $up->release_all;
    is $_->wait->status, 200, 'request served' for $running, $waits;
    eventually { $t->state->held('api') == 0 } "$way: permits back", 30;
}
is $up->peak, 2, 'limit reached, never exceeded';

$t->done;
