#!/usr/bin/perl

# More requests wait in a worker than one check compares, and the message about
# one of the others, which was dropped, is lost: the check finds it, and the
# counts agree.

use lib 't/lib';
use Dsem::Test;

my $DROP = '^\*3\r\n\$7\r\nmessage\r\n(?s:.*)\r\n[0-9a-f]{16} drop ';

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
worker_processes 1;
worker_connections 2048;
dsem_log_level info;
location / {
    dsem api limit=1 queue=300 timeout=60s fair=$arg_k;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF
my $one = $t->node('n1', $conf, REDIS => $proxy->address);
my $two = $t->node('n2', $conf);

$proxy->swallow(match => $DROP);

my $holder = $two->begin('/?k=holder&hang=1');
wait_for { $up->now == 1 } 15, 'the holder';

my @heavy = map { $one->begin("/?k=heavy&n=$_") } 1 .. 300;
wait_for { $t->state->waiting('api') == 300 } 15, 'in the queue';

my $light = $two->begin('/?k=light');
eventually { grep { $_->done } @heavy } 'one rejected by the check';
eventually { $proxy->swallowed } 'message really lost';
ok !$light->done, 'new request waits';

$up->release_all;
my %got;
$got{ $_->wait->status }++ for $holder, $light, @heavy;
is_deeply \%got, { 200 => 301, 503 => 1 }, 'all others served';
is $up->peak, 1, 'limit reached, never exceeded';
is scalar $_->grep_log(qr/counts differ/), 0, 'counts agree' for $one, $two;

$t->done;
