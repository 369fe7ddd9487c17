#!/usr/bin/perl

# Three tenants with shares 1, 2 and 4, all with more requests than permits,
# over three nodes: each has permits in proportion to its share, and the cap
# is reached and kept.

use lib 't/lib';
use Dsem::Test;
use List::Util qw(sum);

my $LIMIT = 7;
my $REQUESTS = 2000;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(3, <<'EOF_CONF');
worker_processes 1;
proxy_set_header X-Sem $arg_k;
location /one {
    dsem api limit=7 queue=200 timeout=30s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
location /two {
    dsem api limit=7 queue=200 timeout=30s fair=$arg_k share=2;
    proxy_pass http://%%UPSTREAM%%;
}
location /four {
    dsem api limit=7 queue=200 timeout=30s fair=$arg_k share=4;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my %share = (one => 1, two => 2, four => 4);
my @load = map {
    my $who = $_;
    $t->load_start(urls => [map { $_->url("/$who?k=$who") } @fleet],
        clients => 24, seconds => 600);
} sort keys %share;
wait_for { $up->now == $LIMIT } 15, 'load';
wait_for { $t->state->waiting('api') > 30 } 15, 'queue';
wait_for { $up->served > 100 } 15, 'hold times';
$up->reset;
wait_for { $up->served >= $REQUESTS + 2 * $LIMIT } 60, 'many requests';
my @log = ($up->log)[0 .. $REQUESTS - 1];
# no key is charged for time in which a worker did not run
my ($from, $to) = ($log[0]{start}, $log[-1]{end});
my $lost = $LIMIT * ($to - $from - took($from, $to));
my %of;
# permit time: a key that runs longer gets fewer turns
$of{ $_->{sem} } += $_->{end} - $_->{start} for @log;
my $all = sum(values %of);
is_deeply [keys %{ $_->stop->wait->{statuses} }], [200], 'all requests served'
    for @load;
for my $who (sort keys %share) {
    my $fair = $all * $share{$who} / 7;
    cmp_ok abs($of{$who} - $fair), '<', 0.15 * $fair + $lost,
        "$who: permits by its share";
}
is $up->peak, $LIMIT, 'limit reached, never exceeded';
note join ', ', map { sprintf "$_ %.3f", $of{$_} / $all } sort keys %of;

$t->done;
