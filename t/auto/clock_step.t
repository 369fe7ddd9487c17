#!/usr/bin/perl

# The clock of the Redis host is set by an hour, either way, under load. The
# limit in force stays, and goes on following the backend: forward by an hour
# Redis deletes what the rule has kept, backward nothing waits for the time to
# come again.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $FOUND = 20;

my $t = Dsem::Test->new;
my $clock = Dsem::Clock->new($t);
my $redis = $clock->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /stepped {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

wait_for { $t->state->session_count == 2 && limit() } 15, 'both sessions';
$t->state->set_found('api', $FOUND);

# far fewer requests than permits: the rule does not move it
my $load = load(3, 't=50');
for my $step (3600, -3600, -3600) {
    my %seen;
    $clock->step($step);
    my ($samples, $served) = (samples(), $up->served);
    wait_for {
        $seen{ limit() }++;
        samples() >= $samples + 3 && $up->served > $served + 20;
    } 30, "the load after $step s";
    is_deeply [ keys %seen ], [$FOUND], "$step s: the limit stays";
}
$load->stop->wait;

# the backend gets worse after a step back, and better after one forward

$clock->step(-3600);
$load = load(60, 't=20&knee=4');
eventually { limit() <= 14 } 'lowered after a step back', 30;
$load->stop->wait;
my $lowered = limit();
$clock->step(3600);
$load = load(30, 't=200&knee=30');
wait_for { $t->state->rule('api')->{found} } 15, 'its first sample';
# a latency without queueing that this machine keeps even when it is busy
$t->state->set_rule('api', floor => 265_000, latency => 265_000);
eventually { limit() > $lowered } 'raised after a step forward', 30;
is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'all requests served';
is scalar($node->grep_log(qr/lease of|resynchronizing/)), 0,
    'no lease expired';

$t->done;

sub load {
    my ($clients, $backend) = @_;
    return $t->load_start(clients => $clients, seconds => 600,
        urls => [ $node->url("/stepped?$backend") ]);
}

sub limit { return $t->state->lowest_limit('api') }

# each of them sets the expiry of its key anew
sub samples { return $redis->calls->{pexpire} // 0 }
