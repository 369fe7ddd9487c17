#!/usr/bin/perl

# All workers together send ten samples a second, however many requests there
# are, and none without requests.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
server {
    # all workers have requests
    listen 127.0.0.1:%%PORT%% reuseport;
    location /paced {
        dsem api limit=auto max=20 queue=200 timeout=30s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

# each sample sets the expiry of what is kept of the rule
$redis->cmd(qw(CONFIG SET notify-keyspace-events Kg));
my $listener = $t->connect;
my $channel = '__keyspace@0__:' . $t->state->auto_key('api');
$listener->cmd('SUBSCRIBE', $channel);
my $samples = 0;

my $load = $t->load_start(clients => 40, seconds => 600, keepalive => 1,
    urls => [ map { $_->url('/paced?t=10') } @fleet ]);
wait_for { ($t->state->rule('api')->{sessions} // 0) == 4 } 30,
    'the sessions to be counted';
# each worker learns that number with a reply to a sample of its own
my $known = samples();
wait_for { samples() >= $known + 12 } 30, 'samples in the pace of four';
my ($n, $begun, $ended);
# not fewer than three a second, unless the machine has something else to do
for (1 .. 3) {
    my ($before, $served) = (samples(), $up->served);
    $begun = now;
    wait_for { samples() >= $before + 20 } 30, 'twenty samples';
    $n = samples() - $before;
    $ended = now;
    # not more than twenty; those of four workers that stood may come at once
    cmp_ok $n, '<', 20 * ($ended - $begun) + 4, 'about ten samples a second';
    cmp_ok $up->served - $served, '>', 100, 'many requests';
    last if $n > 3 * took($begun, $ended);
}
cmp_ok $n, '>', 3 * took($begun, $ended), 'not fewer';
note sprintf '%.1f a second', $n / ($ended - $begun);
$load->stop->wait;

my ($since, $last) = (now, -1);
eventually {
    my $samples = samples();
    ($since, $last) = (now, $samples) if $samples != $last;
    now - $since > 1.2;
} 'none without requests';

$t->done;

# Samples so far.
sub samples {
    $redis->cmd('PUBLISH', $channel, 'until here');
    while ((my $event = $listener->reply->[2]) ne 'until here') {
        $samples++ if $event eq 'expire';
    }
    return $samples;
}
