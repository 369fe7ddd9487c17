#!/usr/bin/perl

# A reload keeps the limit that was found, also with other bounds, and goes on
# from there. One with a lower "max" has it at once.

use lib 't/lib';
use Dsem::Test;

my $FOUND = 20;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 2;
location /reloaded {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $node = $t->node('a', $conf);
my %seen;

wait_for { $t->state->session_count == 2 && limit() } 15, 'both sessions';
$t->state->set_found('api', $FOUND);
# a worker sends its next sample when it has had the reply to the last one
my %samples;
wait_for {
    $node->get('/reloaded?t=1');
    my $sample = $t->state->sample('api');
    $samples{$sample}++ if $sample;
    keys %samples == 3;
} 15, 'samples';
is $t->state->rule('api')->{found}, $FOUND, 'the limit that was found';

$node->reload($conf =~ s/max=100/max=95/r);
wait_for { !$node->draining } 15, 'old workers to exit';
eventually { limit() == $FOUND } 'kept with other bounds';

# far fewer requests than permits: the rule does not move it
my $load = load(3);
wait_for { $up->served > 10 } 15, 'a load';
%seen = ();
$node->reload($conf =~ s/max=100/max=90/r);
wait_for { !$node->draining } 15, 'old workers to exit';
wait_for { $t->state->lowest_limit('api') } 15, 'new workers to state it';
my $served = $up->served;
wait_for { limit(); $up->served > $served + 50 } 30, 'the load to go on';
is_deeply [ keys %seen ], [$FOUND], 'does not begin anew';
is found(), $FOUND, 'nor does the rule';
$load->stop->wait;

# all of them are used
$load = load(60);
wait_for { $up->now > 5 } 15, 'the load again';
$node->reload($conf =~ s/max=100/max=8/r);
eventually { limit() <= 8 } 'a lower max';
eventually { found() <= 8 } 'nothing above it is found';
# none that was granted before is still on its way
wait_for { $t->state->held('api') <= 8 && $up->now <= 8 } 15, 'drained to it';
$up->reset;
$served = $up->served;
wait_for { $up->served > $served + 150 } 30, 'the load to go on';
my $result = $load->stop->wait;
cmp_ok $up->peak, '<=', 8, 'max never exceeded';
is_deeply [ keys %{ $result->{statuses} } ], [200], 'all requests served'
    or diag explain $result->{statuses};

$t->done;

sub load {
    my ($clients) = @_;
    return $t->load_start(clients => $clients, seconds => 600,
        urls => [ $node->url('/reloaded?t=40&knee=20') ]);
}

sub found { return $t->state->rule('api')->{found} // 999 }

sub limit {
    my $limit = $t->state->lowest_limit('api');
    $seen{$limit}++;
    return $limit;
}
