#!/usr/bin/perl

# Two nodes with other bounds: the number found is between the lower ones, and
# each node states one within its own, also when Redis has lost its state. With
# the node gone that has the lower bounds, the number is within the others at
# once, without any request.

use lib 't/lib';
use Dsem::Test;

my $FOUND = 5;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
location /both {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# the first one states where the number begins
my @nodes = $t->node('low', $conf);
wait_for { (limit() // 0) == 10 } 15, 'the first node';
push @nodes, $t->node('high', $conf =~ s/max=100/min=12 max=200/r);
wait_for { keys %{ $t->state->configurations } == 2 && limit() == 10 } 15,
    'both nodes';
$t->state->set_found('api', $FOUND);

# far fewer requests than permits: the rule does not move it
my $load = load(2, 't=20');
served(20);
is limit(), $FOUND, 'below the higher minimum';

my $gen = $t->state->shard('gen');
$redis->cmd('FLUSHALL');
wait_for { ($t->state->shard('gen') // $gen) ne $gen && !$redis->recovering }
    15, 'recovery';
served(20);
is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'all requests served';

# it may have begun with the number that the other node states
$load = load(40, 't=20&knee=1');
served(20);
eventually { limit() > 0 && limit() <= 8 } 'below it again', 45;
is_deeply [ keys %{ $load->stop->wait->{statuses} } ], [200],
    'all requests served';
is scalar($_->grep_log(qr/\[error\].*dsem|DSEM/)), 0, 'no error logged'
    for @nodes;

# until the last sample has been sent
my ($since, $last) = (now, '');
wait_for {
    my $sample = sample();
    ($since, $last) = (now, $sample) if $sample ne $last;
    now - $since > 0.5;
} 15, 'no samples';
$nodes[0]->quit;
eventually { limit() >= 12 } 'minimum of the other node';

$t->done;

sub load {
    my ($clients, $backend) = @_;
    return $t->load_start(clients => $clients, seconds => 600,
        urls => [ map { $_->url("/both?$backend") } @nodes ]);
}

# So many more requests of each node, and a sample.
sub served {
    my ($n) = @_;
    my ($sample, $served) = (sample(), $up->served);
    wait_for { $up->served > $served + 2 * $n && sample() ne $sample } 30,
        'the load';
}

sub sample { return $t->state->sample('api') }

sub limit { return $t->state->lowest_limit('api') }
