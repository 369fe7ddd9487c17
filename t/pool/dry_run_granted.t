#!/usr/bin/perl

# In one turn of the event loop a request of a dry run has its grant, and its
# response redirects it to the same pool without a dry run: it goes to the server
# of its permit, and its status is that of one that was queued.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new(lease => 60);
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 1;
dsem_lease 60s;
dsem_reuse off;
upstream servers {
    server %%UPSTREAM%%;
    dsem one limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://servers;
    }
    location /tried {
        dsem_dry_run on;
        proxy_intercept_errors on;
        error_page 418 = @kept;
        proxy_pass http://servers;
    }
    location @kept {
        proxy_pass http://servers;
    }
}
EOF_CONF

my ($a, $b) = map { $t->node($_, $conf) } qw(a b);

my $holder = $b->begin('/?hang=1', 'X-Nonce' => 'holder');
wait_for { $up->now == 1 } 15, 'the holder';
my $tried = $a->begin('/tried?hang=1&status=418', 'X-Nonce' => 'tried');
wait_for { $t->state->waiting('one') == 1 && $up->now == 2 } 15,
    'the request at the backend, its ticket in the queue';

$a->freeze;
$up->release_nonce('holder');
is $holder->wait->status, 200, 'the permit comes free';
wait_for { $t->state->counts('one') eq '1 0' } 15, 'the grant';
my $served = $up->served;
$up->release_nonce('tried');
wait_for { $up->served > $served } 15, 'the response';
$a->thaw;

# the backend answers the second time as it does the first
wait_for { $up->now == 1 || $tried->done } 15, 'the request, redirected';
$up->release_all;
is $tried->wait->status, 418, 'served';
is $a->logged($tried)->{dsem_status}, 'QUEUED', 'as one that was queued';

$t->done;
