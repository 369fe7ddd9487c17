#!/usr/bin/perl

# A lower limit is rolled out under load, node by node. It is in force for all
# nodes with the first reload. The others say so in their logs, once each.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.020);

my $conf = <<'EOF_CONF';
worker_processes 2;
location /cut {
    dsem api limit=12 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @nodes = $t->fleet(3, $conf);
my $load = $t->load_start(urls => [ map { $_->url('/cut') } @nodes ],
    clients => 60, seconds => 600);
wait_for { $up->peak == 12 } 15, 'load at the old limit';

for my $node (@nodes) {
    my $name = $node->name;
    $node->reload($conf =~ s/limit=12/limit=5/r);
    wait_for { lowest() == 5 } 15, 'the new limit';
    # requests admitted before the first reload end
    wait_for { held() <= 5 && $up->now <= 5 } 15, 'the new limit in force';
    $up->reset;
    wait_for { $up->served > 100 && $up->peak >= 5 } 30,
        'the load to go on, at the limit';
    is $up->peak, 5, "$name reloaded: new limit for all";
}

my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};

my ($first, @others) = @nodes;
is scalar($first->grep_log(qr/dsem: limit of/)), 0, 'the first: no warning';
for my $node (@others) {
    my @said = $node->grep_log(qr/dsem: limit of/);
    is scalar(@said), 1, $node->name . ': one warning' or diag @said;
    like $said[0], qr/\[warn\].* limit of "api" is 5 in force \(node n\d asks for it\), this node asks for 12/,
        $node->name . ': both limits and a node';
}

$t->done;

sub held { return $t->state->held('api') }

# the lowest limit that a live configuration asks for
sub lowest { return $t->state->lowest_limit('api') }
