#!/usr/bin/perl

# One tenant has more requests than there are permits and places, three others
# have one each at a time. With "fair" the others are never rejected and wait
# for a shorter time. Without it the noisy tenant fills the queue, and the
# others are rejected.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
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
EOF_CONF

sub load {
    my ($path, $who, $clients, %end) = @_;
    return $t->load_start(clients => $clients, keepalive => 1, %end,
        urls => [map { $_->url("$path?k=$who") } @fleet]);
}

sub crowd {
    my ($path) = @_;
    $up->reset;
    my $noisy = load($path, 'noisy', 34, seconds => 600);
    wait_for { $up->served > 60 } 15, 'noisy tenant';
    my @quiet = map { load($path, $_, 1, requests => 50) } qw(a b c);
    my %sum = (served => 0, rejected => 0, other => 0, p90 => 0);
    for my $load (map { $_->wait } @quiet) {
        my %status = %{ $load->{statuses} };
        $sum{served} += delete $status{200} // 0;
        $sum{rejected} += delete $status{503} // 0;
        $sum{other} += $_ for values %status;
        $sum{p90} = $load->{p90} if ($load->{p90} // 0) > $sum{p90};
    }
    $sum{noisy} = $noisy->stop->wait;
    my %noisy = (200 => 0, 503 => 0, %{ $sum{noisy}{statuses} });
    note "$path: $sum{served} served, $sum{rejected} rejected, p90 $sum{p90}, "
        . "noisy tenant: $noisy{200} served, $noisy{503} rejected, "
        . "p50 $sum{noisy}{p50}";
    is $sum{other}, 0, "$path: no other status";
    is $up->peak, $LIMIT, "$path: limit reached, never exceeded";
    cmp_ok $noisy{503}, '>', 50, "$path: noisy tenant rejected";
    cmp_ok $noisy{200}, '>', 50, "$path: noisy tenant served";
    return \%sum;
}

# a worker that is stopped for a moment makes a key's request a slow one
my $fair;
for (1 .. 3) {
    $fair = crowd('/fair');
    last if !$fair->{rejected} && $fair->{p90} < 0.7 * $fair->{noisy}{p50};
}
is $fair->{rejected}, 0, 'fair: others never rejected';
cmp_ok $fair->{p90}, '<', 0.7 * $fair->{noisy}{p50}, 'fair: waits stay short';

my $plain = crowd('/plain');
cmp_ok $plain->{rejected}, '>', 10, 'plain: others rejected';

$t->done;
