#!/usr/bin/perl

# Nodes ask for different limits, and Redis loses its state under load. Nothing is
# granted above the lower limit, neither meanwhile nor afterwards.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 2);
my $redis = $t->redis;
my $up = $t->upstream(service => 0.050);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 2s;
location /lost {
    dsem api limit=15 queue=200 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $high = $t->node('high', $conf);
my $low = $t->node('low', $conf =~ s/limit=15/limit=6/r);
wait_for { lowest() == 6 } 15, 'both nodes registered';
# each has seen the other: else the census would not wait for it
$redis->all_beat(2);
my $load = $t->load_start(urls => [ map { $_->url('/lost') } $high, $low ],
    clients => 40, seconds => 3600);
wait_for { $up->peak == 6 } 15, 'load at the lower limit';
$up->reset;

my %lose = (
    'all keys' => sub { $redis->cmd('FLUSHALL') },
    'one key' => sub { $t->state->delete_shard },
);
for my $lost (sort keys %lose) {
    my ($generation, $served) = (generation(), $up->served);
    $lose{$lost}->();
    eventually { (generation() // $generation) ne $generation }
        "$lost: state lost";
    eventually { lowest() == 6 } "$lost: limits stated again";
    wait_for { $up->served > $served + 70 } 60, 'the load to go on';
    is $up->peak, 6, "$lost: lower limit reached, never exceeded";
}
is scalar($high->grep_log(qr/limit of "api" is 6/)), 1, 'no second warning';
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};

$t->done;

sub generation { return $t->state->shard('gen') }

# the lowest limit that a live configuration asks for
sub lowest { return $t->state->lowest_limit('api') }
