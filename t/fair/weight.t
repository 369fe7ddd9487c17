#!/usr/bin/perl

# A key whose requests take several permits each has no more permits in use
# than one whose requests take one.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 8;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
proxy_set_header X-Sem $arg_k;
proxy_set_header X-Weight $arg_w;
location / {
    dsem api limit=8 queue=100 timeout=20s weight=$arg_w fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /first {
    dsem first limit=8 queue=100 timeout=20s weight=$arg_w fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# Places, as long as no hold time is known: each request of weight 4 costs as
# much as four of weight 1.
my @first = map { $fleet[0]->begin('/first?k=holder&w=1&hang=1') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'holders';
for my $ask ((['heavy', 4]) x 3, (['light', 1]) x 10) {
    my ($who, $weight) = @$ask;
    push @first, $fleet[0]->begin("/first?k=$who&w=$weight&hang=1");
    wait_for { $t->state->waiting('first') == @first - $LIMIT } 15, 'a place';
}
my @queue = @{ $redis->cmd('ZRANGE', $t->state->queue_key('first'), 0, -1) };
is join(' ', map { /^\w+:.* (\w+)$/ ? $1 : () } @queue),
    'heavy light light light heavy light light light light heavy light light '
    . 'light', 'four light ones to a heavy one';
$_->abort for @first;
wait_for { $up->now == 0 } 15, 'all left';

my @load = map {
    my ($who, $weight) = @$_;
    $t->load_start(clients => 24, seconds => 600,
        urls => [map { $_->url("/?k=$who&w=$weight") } @fleet]);
} ['heavy', 4], ['light', 1];
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
