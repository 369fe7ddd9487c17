#!/usr/bin/perl

# Reload follows reload under load, faster than old workers can exit, because
# each generation has a long request. All generations keep the limit together,
# every request is served, and every live worker has exactly one session.

use lib 't/lib';
use Dsem::Test;

my ($LIMIT, $STAY) = (8, 4);
my $RELOADS = $ENV{DSEM_LONG} ? 100 : 8;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.020);

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /reloaded {
    dsem api limit=8 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub sessions { $t->state->session_count }

my $load = $t->load_start(urls => [ $node->url('/reloaded') ],
    clients => 20, seconds => 600);
wait_for { $up->now == $LIMIT } 15, 'load';

# each long request outlives so many generations

my (@long, $generations, $differ, $lost);
for (1 .. $RELOADS) {
    my $long = $node->begin('/reloaded?hang=1');
    wait_for { grep { $_ eq $long->nonce } $up->order } 15,
        'long request running';
    push @long, $long;
    $node->reload;
    my $draining = $node->draining;
    $generations = $draining if $draining > ($generations // 0);
    $differ++ unless eval {
        wait_for { sessions() == $node->workers + $node->draining } 10,
            'one session per worker';
    };
    next if @long < $STAY;
    my $oldest = shift @long;
    $up->release_nonce($oldest->nonce);
    $lost++ if $oldest->wait->status != 200;
}
is $differ, undef, 'one session per worker';
cmp_ok $generations, '>=', $STAY - 1, 'old workers still running';
is $lost, undef, 'long requests served';

$up->release_all;
is $_->wait->status, 200, 'last long request served' for @long;
my $result = $load->stop->wait;
is_deeply [ keys %{ $result->{statuses} } ], [200], 'no request lost'
    or diag explain $result->{statuses};
is $result->{mismatched}, 0, 'each response complete';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
eventually { !$node->draining } 'old workers gone';
eventually { sessions() == 2 } 'only live sessions';
eventually { !$t->state->exists('api') } 'nothing held, none waiting';
is scalar($node->grep_log(qr/\[warn\]|of a dead worker/)), 0,
    'no warning logged';

$t->done;
