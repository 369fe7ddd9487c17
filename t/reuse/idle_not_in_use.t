#!/usr/bin/perl

# $dsem_in_use counts the permits that requests hold. Idle permits of the
# worker are not in use, although Redis counts them as held.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
dsem_reuse 60s;
location / {
    dsem api limit=8 queue=10;
    proxy_pass http://%%UPSTREAM%%;
}
location /heavy {
    dsem api limit=8 queue=10 weight=6;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub held { return $t->state->held('api') }

sub in_use { return $node->logged($_[0])->{dsem_in_use} }

# four permits stay idle

my @four = map { $node->begin('/?hang=1') } 1 .. 4;
eventually { $up->now == 4 } 'four requests served';
$up->release_all;
$_->wait for @four;
is held(), 4, 'four permits idle';

# two requests reuse two of them

my $first = $node->begin('/?hang=1');
eventually { $up->now == 1 } 'first request served';
my $second = $node->begin('/?hang=1');
eventually { $up->now == 2 } 'second request served';
is held(), 4, 'redis counts all';

# the other two do not cover the next one, and go back with its ask

my $heavy = $node->begin('/heavy?hang=1');
eventually { $up->now == 3 } 'heavy request served';
$up->release_all;
is $_->wait->status, 200, 'request served' for $first, $second, $heavy;

is in_use($first), 1, 'first: only itself in use';
is in_use($second), 2, 'second: two in use';
is in_use($heavy), 8, 'heavy: all in use';

$node->quit;
$t->done;
