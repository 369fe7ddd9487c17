#!/usr/bin/perl

# The same with weights in units such as tokens or bytes: a request of millions
# of permits costs as many times what one permit does. Each key has requests at
# the backend all the time.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $HEAVY, $LIGHT) = (16_000_000, 4_000_000, 1_000_000);

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.020);

my $node = $t->node('n1', <<'EOF_CONF', LIMIT => $LIMIT);
worker_processes 1;
proxy_set_header X-Sem $arg_k;
proxy_set_header X-Weight $arg_w;
location / {
    dsem api limit=%%LIMIT%% queue=100 timeout=20s weight=$arg_w fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @load = map {
    my ($who, $weight) = @$_;
    $t->load_start(clients => 24, seconds => 600,
        urls => [$node->url("/?k=$who&w=$weight")]);
} ['heavy', $HEAVY], ['light', $LIGHT];
wait_for { $up->served > 100 } 15, 'hold times';

# Clients whose process is stopped for a moment want less: then the requests are
# counted anew.
my $part;
for (1 .. 3) {
    $up->reset;
    wait_for { $up->served > 400 } 30, 'many requests';
    my %used = (heavy => 0, light => 0);
    for my $request (grep { defined $_->{end} } $up->log) {
        $used{ $request->{sem} } += $request->{weight}
            * ($request->{end} - $request->{start});
    }
    $part = $used{heavy} / ($used{heavy} + $used{light});
    last if abs($part - 0.5) < 0.12;
}
is_deeply [keys %{ $_->stop->wait->{statuses} }], [200], 'all served'
    for @load;
cmp_ok abs($part - 0.5), '<', 0.12, 'heavy requests have half'
    or note "part $part";
is $up->peak, $LIMIT, 'limit reached, never exceeded';
note sprintf 'heavy %.3f', $part;

$t->done;
