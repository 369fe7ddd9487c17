#!/usr/bin/perl

# Requests of a dry run do not wait, they are served beside their tickets: they
# take no place of those that dsem_max_waiting bounds. They have as many of
# their own.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_max_waiting 2;
dsem_reuse off;
location /tried {
    dsem one limit=1 queue=100 timeout=60s;
    dsem_dry_run on;
    proxy_pass http://%%UPSTREAM%%;
}
location / {
    dsem two limit=1 queue=100 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub said { join ' ', @{ $node->logged($_[0]) }{qw(status dsem_status)} }

my @tried;
for my $n (1 .. 3) {
    push @tried, $node->begin('/tried?hang=1');
    wait_for { $up->now == $n && $t->state->held('one')
        && $t->state->waiting('one') == $n - 1 } 15, "$n at the backend";
}
is said($node->get('/tried')), '200 REJECTED_DRY_RUN', 'no third one';

my $holder = $node->begin('/?hang=1');
eventually { $up->now == 4 } 'one that is limited has a permit' or die;
my @waits = map { $node->begin('/') } 1, 2;
wait_for { $t->state->waiting('two') == 2 } 15, 'two wait';
is said($node->get('/')), '503 REJECTED', 'no third one waits';

$up->release_all;
is $_->wait->status, 200, 'served' for @tried, $holder, @waits;

$t->done;
