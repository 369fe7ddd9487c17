#!/usr/bin/perl

# Clients send thousands of names while Redis is unavailable. An account exists
# as long as it holds a permit or a ticket, as at all times: memory does not
# grow with the number of names.

use lib 't/lib';
use Dsem::Test;

my $NAMES = $ENV{DSEM_LONG} ? 50_000 : 6_000;

my $t = Dsem::Test->new(lease => 1);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);
$proxy->refuse;

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
worker_processes 1;
access_log off;
dsem_redis_connect_timeout 100ms;
dsem_lease 1s;
server {
    listen 127.0.0.1:%%PORT%%;
    location /named {
        dsem "tenant:$arg_name" limit=2;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my $names = 0;

sub load {
    my ($n) = @_;
    my $first = $names;
    $names += $n;
    my $url = $node->url('/named?name=' . 'x' x 100);
    return $t->load(clients => 4, requests => $n, keepalive => 1,
        request => sub { $url . ($first + $_[0]) })->{statuses};
}

eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable';
is_deeply load(1000), { 200 => 1000 }, 'served locally';
my $before = $node->resident;
is_deeply load($NAMES), { 200 => $NAMES }, 'all names served';
my $grown = $node->resident - $before;
cmp_ok $grown, '<', 100 * $NAMES, 'no accounts kept';
note sprintf '%d bytes a name', $grown / $NAMES;

$proxy->refuse(0);
eventually { $t->state->session_count == 1 } 'available again';
eventually { !@{ $redis->cmd('KEYS', '*tenant*') } } 'no names sent';

$t->done;
