#!/usr/bin/perl

# Every connection to Redis is killed repeatedly under load. The next hello
# settles the open commands of a dead connection: no permit too many, no permit
# lost, no request without a response. DSEM_LONG=2 is five minutes.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

# the second node is distant, so that kills often hit its declarations
my $far = $t->proxy($redis->address);
$far->delay(0.010);

my $conf = <<'EOF_CONF';
worker_processes 2;
keepalive_timeout 1h;
# a connection is good after 200 ms, and the next one is made at once
dsem_lease 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /killed {
        dsem api limit=5 queue=100 timeout=10s;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my @fleet = ($t->node('near', $conf),
    $t->node('far', $conf, REDIS => $far->address));

my $KILLS = (8, 50, 750)[ $ENV{DSEM_LONG} || 0 ];
my $workers = 4;

sub connections {
    return scalar(() = $redis->cmd(qw(CLIENT LIST)) =~ /name=dsem/g);
}

my $load = $t->load_start(urls => [ map { $_->url('/killed') } @fleet ],
    clients => 40, seconds => 3600, keepalive => 1);
wait_for { $up->peak == 5 } 15, 'load';

my ($killed, $lost) = (0, 0);
for (1 .. $KILLS) {
    my ($at, $served) = (now, $up->served);
    # hello
    $redis->all_beat($workers);
    wait_for { connections() > $workers && $up->served > $served + 25 } 15,
        'the next kill';
    $lost += took($at);
    # two heartbeats: every connection is good
    $redis->all_beat($workers) for 1, 2;
    $killed += $redis->client_kill;
}

# a worker is connected again at once
cmp_ok $lost, '<', 0.8 * $KILLS, 'service continues';

my $result = $load->stop->wait;
cmp_ok $killed, '>', $KILLS * $workers, 'most connections killed';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'every request answered'
    or diag explain $result->{statuses};
is $result->{mismatched}, 0, 'each response complete';
is $up->peak, 5, 'limit reached, never exceeded';
is scalar(map { $_->grep_log(qr/unavailable \(/) } @fleet), 0,
    'redis stays available';

$t->done;
