#!/usr/bin/perl

# The requests of the noisy tenant take ten times as long as those of the
# others. It has no more permits in use for that: its requests cost ten times
# as much as soon as their hold times are known.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $LIMIT = 6;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    proxy_set_header X-Sem $arg_k;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /fair {
            dsem shared limit=6 queue=100 timeout=20s fair=$arg_k;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /plain {
            dsem plain limit=6 queue=100 timeout=20s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

# permits that each has in use, in the mean of some time
sub used {
    my ($path) = @_;
    $up->reset;
    my @load = map {
        my ($who, $time) = @$_;
        $t->load_start(clients => 16, seconds => 600,
            urls => [map { $_->url("$path?k=$who&t=$time") } @fleet]);
    } ['slow', 400], ['quick', 40];
    wait_for { $up->served > 60 } 15, 'hold times';
    $up->reset;
    my $from = now;
    wait_for { now - $from > 1.5 } 15, 'some time';
    my $to = now;
    my %used = (slow => 0, quick => 0);
    for my $request ($up->log) {
        my ($start, $end) = @$request{qw(start end)};
        $end = $to if !defined $end || $end > $to;
        $used{ $request->{sem} } += $end - $start if $end > $start;
    }
    is $up->peak, $LIMIT, "$path: limit reached, never exceeded";
    is_deeply [keys %{ $_->stop->wait->{statuses} }], [200],
        "$path: all served" for @load;
    $used{$_} /= $to - $from for keys %used;
    note sprintf '%s: slow %.2f, quick %.2f', $path, @used{qw(slow quick)};
    return \%used;
}

# a round that the machine has not disturbed will do
my ($fair, $plain);
for my $round (1 .. 3) {
    ($fair, $plain) = map { used($_) } '/fair', '/plain';
    last if $fair->{slow} < 0.7 * $LIMIT
        && $plain->{slow} > 1.25 * $fair->{slow}
        && $fair->{quick} > 2 * $plain->{quick};
}
cmp_ok $fair->{slow}, '<', 0.7 * $LIMIT, 'fair: slow tenant keeps its share';
cmp_ok $plain->{slow}, '>', 1.25 * $fair->{slow},
    'plain: slow tenant has more';
cmp_ok $fair->{quick}, '>', 2 * $plain->{quick},
    'fair: quick tenant has its own';

$t->done;
