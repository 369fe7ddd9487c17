#!/usr/bin/perl

# The scripts in Redis are flushed ten times a second under load: every request
# is served.

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

my $SECONDS = $ENV{DSEM_LONG} ? 20 : 1.2;
# four workers, two connections each
wait_for { $t->state->subscribed == 4 && $t->state->session_count == 4 } 15,
    'connections';
my $connected = $redis->cmd('INFO', 'stats') =~ /connections_received:(\d+)/
    && $1;

# $flush: forgets them ten times a second
sub round {
    my ($flush, $seconds) = @_;
    $up->reset;
    my $load = $t->load_start(urls => [ map { $_->url('/forgotten') } @fleet ],
        clients => 40, seconds => $seconds, keepalive => 1, records => 1,
        timeout => 70);
    my $end = now + $seconds;
    my $flushed = 0;
    while ($flush && now < $end) {
        my $next = now + 0.1;
        wait_for { now >= $next } 15, 'the next flush';
        $redis->cmd(qw(SCRIPT FLUSH));
        $flushed++;
    }

    my $result = $load->wait;
    my $info = $redis->cmd('INFO', 'stats') . $redis->cmd('INFO', 'errorstats');
    my $noscript = $info =~ /errorstat_NOSCRIPT:count=(\d+)/ ? $1 : 0;
    my ($now_connected) = $info =~ /connections_received:(\d+)/;

    cmp_ok $noscript, '>=', $flushed / 2, 'scripts really missing' if $flush;
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
    return ($used, $longest);
}

# a call without its script that waited for a poll would cost nearly all, and a
# second
my ($before) = round(0, $SECONDS / 2);
my ($used, $longest) = round(1, $SECONDS);
cmp_ok $used, '>', $before / 8, 'service continues';
cmp_ok $longest, '<', 1, 'waits bounded';
is scalar(map { $_->grep_log(qr/\[(?:warn|error)\]/) } @fleet), 0,
    'nothing logged';

$t->done;
