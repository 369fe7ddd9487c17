#!/usr/bin/perl

# One tenant sends ten times its share, three others half of theirs. With
# "fair" the others are never rejected and wait a short time. Without it the
# noisy tenant fills the queue, and the others are rejected.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_log_level info;
    proxy_set_header X-Sem $arg_k;
    server {
        listen 127.0.0.1:%%PORT%%;
        error_log error.log warn;
        location /fair {
            dsem shared limit=4 queue=24 timeout=20s fair=$arg_k;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /plain {
            dsem plain limit=4 queue=24 timeout=20s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub load {
    my ($path, $who, $rate, $seconds) = @_;
    return $t->load_start(rate => $rate, seconds => $seconds,
        urls => [map { $_->url("$path?k=$who") } @fleet]);
}

# what this machine serves in a second, at most, divided by four
sub share {
    my $full = $t->load(clients => 12, seconds => 0.5,
        urls => [map { $_->url('/fair?k=first') } @fleet]);
    my $share = $full->{statuses}{200} / $full->{seconds} / 4;
    note sprintf 'a share is %.1f requests a second', $share;
    return $share;
}

sub crowd {
    my ($path) = @_;
    my $share = share();
    $up->reset;
    my $noisy = load($path, 'noisy', 10 * $share, 20);
    wait_for { $up->served > 60 } 15, 'noisy tenant';
    my @quiet = map { load($path, $_, $share / 2, 1.2) } qw(a b c);
    my %sum = (served => 0, rejected => 0, other => 0, p99 => 0);
    for my $load (map { $_->wait } @quiet) {
        my %status = %{ $load->{statuses} };
        $sum{served} += delete $status{200} // 0;
        $sum{rejected} += delete $status{503} // 0;
        $sum{other} += $_ for values %status;
        $sum{p99} = $load->{p99} if ($load->{p99} // 0) > $sum{p99};
    }
    $sum{noisy} = $noisy->stop->wait->{statuses};
    $sum{noisy}{$_} //= 0 for 200, 503;
    note "$path: $sum{served} served, $sum{rejected} rejected, p99 $sum{p99}, "
        . "noisy tenant: $sum{noisy}{200} served, $sum{noisy}{503} rejected";
    is $sum{other}, 0, "$path: no other status";
    is $up->peak, $LIMIT, "$path: limit reached, never exceeded";
    return \%sum;
}

# A machine that serves less than a moment before makes the others noisy, too,
# and one that serves more makes no tenant noisy: a round that is good will do.
sub rounds {
    my ($path, $good) = @_;
    my $sum;
    for my $round (1 .. 4) {
        $sum = crowd($path);
        last if $sum->{noisy}{503} > 50 && $good->($sum);
    }
    cmp_ok $sum->{noisy}{503}, '>', 50, "$path: noisy tenant rejected";
    cmp_ok $sum->{noisy}{200}, '>', 50, "$path: noisy tenant served";
    return $sum;
}

my $fair = rounds('/fair', sub { !$_[0]{rejected} && $_[0]{p99} < 1 });
is $fair->{rejected}, 0, 'fair: others never rejected';
cmp_ok $fair->{p99}, '<', 1, 'fair: waits stay short';

my $plain = rounds('/plain', sub { $_[0]{rejected} > 10 });
cmp_ok $plain->{rejected}, '>', 10, 'plain: others rejected';

$t->done;
