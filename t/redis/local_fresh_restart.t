#!/usr/bin/perl

# A whole fleet begins beside a Redis that was started with its state on disk,
# and Redis becomes unavailable while it still recovers. The workers have their
# shares by the number of those that have come.

use lib 't/lib';
use Dsem::Test;

my $LIMIT = 4;

my $t = Dsem::Test->new(lease => 6);
my $redis = $t->redis(args => [qw(--dbfilename dump.rdb)]);
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_redis_connect_timeout 200ms;
dsem_lease 6s;
location / {
    dsem api limit=4 queue=20 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my $old = $t->node('old', $conf);
$redis->all_beat(1);
$old->quit;
wait_for { $t->state->session_count == 0 } 15, 'the fleet to end';
$redis->cmd('SAVE');
$redis->kill->start;

my %proxy = map { $_ => $t->proxy($redis->address) } qw(a b);
my @node = map { $t->node($_, $conf, REDIS => $proxy{$_}->address) } qw(a b);
# the first has seen the other
$redis->all_beat(2);
ok $redis->recovering, 'it recovers';
$_->refuse, $_->cut for values %proxy;

my @load = map { $t->load_start(urls => [ $_->url('/?t=100') ], clients => 8,
    seconds => 60) } @node;
wait_for { $up->served > 40 } 25, 'all shares to be served';
is $up->peak, $LIMIT, 'the limit is reached, and kept';

$_->refuse(0) for values %proxy;
$_->stop for @load;
eventually { $t->state->session_count == 2 } 'both are back', 15;
$t->done;
