#!/usr/bin/perl

# Errors that come after early hints are errors. Needs nginx 1.29.

use lib 't/lib';
use Dsem::Test;

plan skip_all => 'no early hints before nginx 1.29'
    unless nginx_since('1.29');

my $t = Dsem::Test->new;
my $redis = $t->redis;
$t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location / {
    dsem api limit=auto max=100 queue=200 timeout=30s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# half of all requests fail
my $load = $t->load_start(clients => 40, seconds => 600,
    urls => [ map { $node->url("/?hints=1&t=20$_") } '', '&status=500' ]);
eventually { reason() == 4 } 'errors lower the limit', 30;
$load->stop->wait;

$t->done;

# the second field of the state
sub reason {
    my $state = $redis->cmd('HGET', $t->state->auto_key('api'), '.');
    return (split ' ', $state // '0 0')[1];
}
