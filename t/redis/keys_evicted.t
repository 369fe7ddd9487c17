#!/usr/bin/perl

# Redis is full and evicts keys of dsem, as with any maxmemory-policy but
# noeviction. During evictions the limit is not promised, but every request
# ends. After the evictions the limit holds again, and no permit is left over.

use warnings;
use strict;

use Test::More;

use FindBin;
use List::Util qw(sum0);
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $LIMIT = 4;
# evicted keys of dsem
my $EVICTED = $ENV{DSEM_LONG} ? 100 : 8;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis(args => [qw(--maxmemory-samples 64)]);
# a Redis of 32 bits without a maxmemory begins with noeviction
$redis->cmd(qw(CONFIG SET maxmemory-policy allkeys-random));
my $up = $t->upstream(service => 0.020);

my @fleet = $t->fleet(2, <<'EOF_CONF');
worker_processes 1;
dsem_lease 1s;
location /evicted {
    dsem api limit=4 queue=100 timeout=5s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub load {
    return $t->load_start(urls => [ map { $_->url('/evicted') } @fleet ],
        clients => 12, seconds => 600, timeout => 20);
}

sub evicted {
    return $redis->cmd(qw(INFO stats)) =~ /evicted_keys:(\d+)/ ? $1 : 0;
}

# evicted keys of dsem, as Redis reports them
my $listens = $t->connect;
$redis->cmd(qw(CONFIG SET notify-keyspace-events Ee));
$listens->cmd('SUBSCRIBE', '__keyevent@0__:evicted');

my @long = map { $_->begin('/evicted?hang=1') } @fleet;
wait_for { $up->now == 2 } 15, 'long requests';
my $load = load();
wait_for { $up->peak == $LIMIT } 15, 'load';

# room for a few more keys, and a client that always adds new ones

my ($used) = $redis->cmd(qw(INFO memory)) =~ /used_memory:(\d+)/;
$redis->cmd(qw(CONFIG SET maxmemory), $used + 200_000);
my ($n, %ours) = 0;

# own evicted keys, of all messages until now
sub ours {
    $redis->cmd('PUBLISH', '__keyevent@0__:evicted', 'now');
    while ((my $key = $listens->reply->[2]) ne 'now') {
        $ours{$key}++ if $key =~ /^dsem:/;
    }
    return sum0 values %ours;
}

wait_for {
    for (1 .. 50) {
        eval { $redis->cmd('SET', 'filler:' . $n++ % 100, 'x' x 10_000) };
    }
    ours() >= $EVICTED;
} 60, 'own keys to be evicted';
$redis->cmd(qw(CONFIG SET maxmemory 0));
ours();
cmp_ok evicted(), '>', 10, 'keys evicted';
cmp_ok scalar(keys %ours), '>', 0, 'own keys evicted';
note join ', ', map { "$_ $ours{$_}" } sort keys %ours;

# evictions have ended; each worker finds what is lost, and all is declared: of
# the semaphore itself when it compares counts, a second or a lease later

my $served = $up->served;
eventually { $up->served > $served + 30 } 'service continues', 5;
wait_for { $t->state->session_count == 2 && !$redis->recovering } 15,
    'any recovery to end';
my @results = $load->stop->wait;
wait_for {
    join(' ', map { "$_->{held} $_->{waiting}" }
        values %{ $t->state->accounts('api') }) eq '1 0 1 0'
        && !$redis->recovering;
} 15, 'the long requests, and nothing else, to be counted';
$up->reset;
$load = load();
wait_for { $up->served > 30 && $up->peak >= $LIMIT } 15, 'load';
is $up->peak, $LIMIT, 'limit reached, never exceeded again';
is $up->release_all, 2, 'long requests still running';
is $_->wait->status, 200, 'long requests served' for @long;
for my $result (@results, $load->stop->wait) {
    is_deeply [ grep { !/^(?:200|503)$/ } keys %{ $result->{statuses} } ], [],
        'every request answered' or diag explain $result->{statuses};
    is $result->{mismatched}, 0, 'each response complete';
    note join ', ', map { "$_ $result->{statuses}{$_}" }
        sort keys %{ $result->{statuses} };
}
eventually { !$t->state->exists('api') } 'nothing held, none waiting', 5;
eventually { $t->state->session_count == 2 } 'one session per worker', 2;

$t->done;
