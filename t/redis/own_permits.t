#!/usr/bin/perl

# Redis is gone: until the fence a worker's own permits serve its requests,
# whatever dsem_on_error says, and what it had is remembered when the last of
# them has come free. Beyond that, and after the fence, dsem_on_error decides.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my $LEASE = 8;

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $node = $t->node('a', <<'EOF_CONF', REDIS => $proxy->address);
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_redis_connect_timeout 200ms;
    dsem_node %%NODE%%;
    dsem_lease 8s;
    dsem_reuse off;
    dsem_status 503 error=500;
    server {
        listen 127.0.0.1:%%PORT%%;
        proxy_set_header X-Sem $dsem_name;
        location /reject {
            dsem reject limit=100 queue=10 timeout=20s;
            dsem_on_error reject;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /pass {
            dsem pass limit=100 queue=10 timeout=20s;
            dsem_on_error pass;
            proxy_pass http://%%UPSTREAM%%;
        }
        location /local {
            dsem local limit=100 queue=10 timeout=20s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
my @modes = qw(reject pass local);

sub said { join ' ', @{ $node->logged($_[0]) }{qw(status dsem_status)} }

my %runs;
for my $mode (@modes) {
    $runs{$mode} = [ map { $node->begin("/$mode?hang=1") } 1, 2 ];
    wait_for { $up->now($mode) == 2 } 15, 'two requests running';
}

my $lost = now;
$proxy->refuse;
$proxy->cut;
eventually { $node->grep_log(qr/unavailable \(/) } 'redis unavailable', 5;

# the account empties, and its two permits serve the next two requests

$up->release_all;
is $_->wait->status, 200, 'running request served'
    for map { @$_ } values %runs;

my %next;
for my $mode (@modes) {
    $next{$mode} = [ map { $node->begin("/$mode?hang=1") } 1, 2 ];
    eventually { $up->now($mode) == 2 } "$mode: two own permits in use";
}
is said($node->get('/reject')), '500 ERROR', 'reject: no third';
is said($node->get('/pass')), '200 DEGRADED', 'pass: third passes';
my $third = $node->begin('/local');
cmp_ok now - $lost, '<', $LEASE * 3 / 4, 'before the fence';
is $up->now('local'), 2, 'local: no third';

$up->release_all;
is said($_->wait), '200 PASSED', 'on own permits: PASSED'
    for map { @$_ } values %next;
is said($third->wait), '200 PASSED', 'local: third waited for an own permit';

# after the fence nothing is certain

eventually { said($node->get('/reject')) eq '500 ERROR' }
    'reject: no own permit after the fence', $LEASE;
cmp_ok now - $lost, '>', $LEASE / 2, 'own permits until the fence';
is said($node->get('/pass')), '200 DEGRADED', 'pass: DEGRADED after the fence';
is said($node->get('/local')), '200 DEGRADED', 'local: local permits then';

$proxy->refuse(0);
eventually { said($node->get('/reject')) eq '200 PASSED' }
    'granted again', 15;

$t->done;
