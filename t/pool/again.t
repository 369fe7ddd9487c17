#!/usr/bin/perl

# An error page of a failed request may be the same pool again: the request gives
# the permit of the failed server back and asks for one of the others, once, and
# waits for it where these are taken.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my @up = map { $t->upstream } 1, 2;
my $servers = join ' ', map {
    'server ' . $_->address . ' fail_timeout=3600;'
} @up;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=10 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    proxy_set_header X-Node a;
    add_header X-Tries \$upstream_addr always;
    location / {
        error_page 502 504 = \@again;
        proxy_pass http://gpus;
    }
    location \@again {
        proxy_pass http://gpus;
    }
}
EOF_CONF

# one server is taken, the other one fails

my $held = $node->begin('/?hang=1');
wait_for { $up[0]->now + $up[1]->now == 1 } 15, 'one is taken';
my ($good, $bad) = $up[0]->now ? @up : reverse @up;
$bad->refuse('a');
my $again = $node->begin('/', -method => 'POST', -body => 'once more');
eventually { $t->state->counts('gpus') eq '1 1' } 'it waits for the other one';
is $good->now, 1, 'which is still taken';
$good->release(1);
is $held->wait->status, 200, 'request ended';
is $again->wait->status, 200, 'served then';
is $again->header('X-Tries'), $bad->address . ' : ' . $good->address,
    'a failed try, and that';
is $good->peak, 1, 'limit of a server not exceeded';

# both fail

$good->refuse('a');
$again = $node->get('/');
is $again->status, 502, 'no server is left';
# over a connection that was kept, which nginx does by default since 1.29.7, twice
my $address = quotemeta $good->address;
like $again->header('X-Tries'), qr/^$address(, $address)? : gpus$/,
    'asked for again once';
eventually { $t->state->counts('gpus') eq '0 0' } 'all permits are back';

$t->done;
