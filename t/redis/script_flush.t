#!/usr/bin/perl

# The scripts in Redis are flushed ten times a second under load: every request
# is served.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

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
    server {
        listen 127.0.0.1:%%PORT%%;
        location /forgotten {
            dsem api limit=5 queue=100 timeout=5s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

my $seconds = $ENV{DSEM_LONG} ? 20 : 3;
# four workers, two connections each
wait_for { @{ $redis->cmd('PUBSUB', 'CHANNELS', '*') } == 4 } 15, 'connections';
my $connected = $redis->cmd('INFO', 'stats') =~ /connections_received:(\d+)/
    && $1;

sub round {
    $up->reset;
    my $load = $t->load_start(urls => [ map { $_->url('/forgotten') } @fleet ],
        clients => 40, seconds => $seconds, keepalive => 1);
    my $end = now + $seconds;
    my $flushed = 0;
    while (now < $end) {
        my $next = now + 0.1;
        wait_for { now >= $next } 1, 'the next flush';
        $redis->cmd(qw(SCRIPT FLUSH));
        $flushed++;
    }

    my $result = $load->wait;
    my $info = $redis->cmd('INFO', 'stats') . $redis->cmd('INFO', 'errorstats');
    my ($noscript) = $info =~ /errorstat_NOSCRIPT:count=(\d+)/;
    my ($now_connected) = $info =~ /connections_received:(\d+)/;

    cmp_ok $noscript, '>=', $flushed / 2, 'scripts really missing';
    is $now_connected, $connected, 'connections kept';
    is_deeply [ keys %{ $result->{statuses} } ], [200], 'every request answered'
        or diag explain $result->{statuses};
    is $up->peak, 5, 'limit reached, never exceeded';
    my ($first, @log) = $up->log;
    my $used = $up->goodput(5, $first->{start}, $log[-1]{start});
    note sprintf 'permits used %.1f %%, longest wait %.2f s', 100 * $used,
        $result->{max};
    return ($used, $result->{max});
}

# a machine that is busy with others lowers the result
my ($used, $longest);
for (1 .. 4) {
    ($used, $longest) = round();
    last if $used > 0.5 && $longest < 2;
    $redis->cmd(qw(CONFIG RESETSTAT));
    $connected = 0;
}
cmp_ok $used, '>', 0.5, 'service continues';
cmp_ok $longest, '<', 2, 'waits bounded';
is scalar(map { $_->grep_log(qr/\[(?:warn|error)\]/) } @fleet), 0,
    'nothing logged';

$t->done;
