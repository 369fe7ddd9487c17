#!/usr/bin/perl

# A link is so slow that a single script takes longer than dsem_redis_timeout: a
# worker connects, with one connection, and requests do not wait for that.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;
my $far = $t->proxy($redis->address);

# 50 KB/s at most: the longest script takes 1.2 s
$far->slice(1000, 0.020);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $far->address);
worker_processes 1;
dsem_redis_timeout 1s;
dsem_on_error reject;
add_header X-Status $dsem_status always;
location / {
    dsem api limit=2 queue=10 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

my @scripts = glob "$FindBin::Bin/../../lua/*.lua";

my $asked = $node->begin('/?t=1');
is $asked->wait->header('X-Status'), 'ERROR', 'no request waits for scripts';
is scalar($node->grep_log(qr/unavailable \(no reply in time\)/)), 1,
    'cause logged once';
eventually { $node->get('/?t=1')->header('X-Status') eq 'PASSED' } 'connected';
is $redis->calls->{'script|load'}, scalar(@scripts), 'loaded once';
is scalar($node->grep_log(qr/available again/)), 1, 'available again';

$t->done;
