#!/usr/bin/perl

# The message about a dropped request is lost: the next check of its worker
# finds that it is not in the queue any more. A client that leaves in between
# costs nothing.

use lib 't/lib';
use Dsem::Clock;
use Dsem::Test;

my $DROP = '^\*3\r\n\$7\r\nmessage\r\n(?s:.*)\r\n[0-9a-f]{16} drop ';

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_log_level info;
location / {
    dsem api limit=1 queue=4 timeout=20s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $one = $clock->node('n1', $conf, REDIS => $proxy->address);
my $two = $t->node('n2', $conf);

sub said { join ' ', @{ $_[0]->logged($_[1]) }{qw(status dsem_status)} }

$proxy->swallow(match => $DROP);

my $holder = $two->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my @heavy;
for my $n (1 .. 4) {
    push @heavy, $one->begin("/?k=heavy&t=2&n=$n");
    wait_for { $t->state->waiting('api') == $n } 15, 'in the queue';
}

my $light = $two->begin('/?k=light&t=2');
is said($one, $heavy[3]->wait), '503 REJECTED', 'rejected by the check';
eventually { $proxy->swallowed } 'message really lost';

# its client leaves before the check: nothing is counted twice

$clock->stop;
my $third = $two->begin('/?k=third&t=2');
wait_for { $proxy->swallowed == 2 } 15, 'another one dropped';
$heavy[2]->abort;
is said($one, $heavy[2]), '499 ABORTED', 'its client has left';
$clock->go;
$redis->all_beat(2);
is $t->state->waiting('api'), 4, 'one place for one request';
ok !$third->done, 'third waits';

$up->release_all;
is $_->wait->status, 200, 'all others served'
    for $holder, @heavy[0, 1], $light, $third;
is $up->peak, 1, 'limit reached, never exceeded';
is scalar $one->grep_log(qr/counts differ/), 0, 'counts agree';
is scalar $two->grep_log(qr/counts differ/), 0, 'on both nodes';

$t->done;
