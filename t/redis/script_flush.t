#!/usr/bin/perl

# The scripts in Redis are flushed under load, after each 20 requests: every
# request is served.

use lib 't/lib';
use List::Util qw(max);

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 2;
location /forgotten {
    dsem api limit=5 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $FLUSHES = $ENV{DSEM_LONG} ? 200 : 12;
# four workers, two connections each
wait_for { $t->state->subscribed == 4 && $t->state->session_count == 4 } 15,
    'connections';
my $connected = $redis->cmd('INFO', 'stats') =~ /connections_received:(\d+)/
    && $1;

sub round {
    my ($times, $flush) = @_;
    $up->reset;
    my $load = $t->load_start(urls => [ map { $_->url('/forgotten') } @fleet ],
        clients => 40, seconds => 3600, keepalive => 1, records => 1,
        timeout => 70);
    for (1 .. $times) {
        my $served = $up->served;
        wait_for { $up->served >= $served + 20 } 15, 'the load to go on';
        $flush->();
    }
    wait_for { $up->peak >= 5 } 15, 'the limit';

    my $result = $load->stop->wait;
    my $info = $redis->cmd('INFO', 'stats') . $redis->cmd('INFO', 'errorstats');
    my $noscript = $info =~ /errorstat_NOSCRIPT:count=(\d+)/ ? $1 : 0;
    my ($now_connected) = $info =~ /connections_received:(\d+)/;

    is $now_connected, $connected, 'connections kept';
    is_deeply [ keys %{ $result->{statuses} } ], [200], 'every request answered'
        or diag explain $result->{statuses};
    is $up->peak, 5, 'limit reached, never exceeded';
    my ($first, @log) = $up->log;
    my $used = $up->goodput(5, $first->{start}, $log[-1]{start});
    my $longest = max map { took($_->{start}, $_->{start} + $_->{latency}) }
        @{ $result->{records} };
    note sprintf 'permits used %.1f %%, longest wait %.2f s', 100 * $used,
        $longest;
    return ($used, $longest, $noscript);
}

# a call without its script that waited for a poll would cost nearly all, and a
# second; one that is sent again costs some replies
my ($before, $wait) = round($FLUSHES / 2, sub { });
my ($used, $longest, $noscript) = round($FLUSHES,
    sub { $redis->cmd(qw(SCRIPT FLUSH)) });
cmp_ok $noscript, '>=', $FLUSHES / 2, 'scripts really missing';
cmp_ok $used, '>', $before / 8, 'service continues';
cmp_ok $longest, '<', max(1, 4 * $wait), 'waits bounded';
is scalar(map { $_->grep_log(qr/\[(?:warn|error)\]/) } @fleet), 0,
    'nothing logged';

$t->done;
