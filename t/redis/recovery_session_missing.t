#!/usr/bin/perl

# A node is killed together with Redis. Its requests may still run, so nothing
# is granted until a lease has passed. A node that connects late ends the
# recovery with its declaration.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Test;

my ($LIMIT, $LEASE) = (4, 3);

my $t = Dsem::Test->new(lease => $LEASE);
my $redis = $t->redis;
my $up = $t->upstream;
my $proxy = $t->proxy($redis->address);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease %%LEASE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location /missing {
            dsem api limit=4 queue=100 timeout=60s;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF

sub of { return $t->state->shard($_[0]) // 0 }
sub api { return $t->state->figure('api', $_[0]) }

sub sessions {
    my ($n) = @_;
    # all know of each other two heartbeats later
    wait_for { $t->state->session_count == $n } 30, 'all sessions';
    $redis->beats(2 * $n, 'heartbeats', 30);
}

my %token = (LEASE => "${LEASE}s");
my $stays = $t->node('stays', $conf, %token);
my $dies = $t->node('dies', $conf, %token);
sessions(2);

my @long = map { $stays->begin('/missing?hang=1') } 1 .. 2;
my @dead = map { $dies->begin('/missing?hang=1') } 1 .. 2;
wait_for { $up->now == $LIMIT } 15, 'all permits out';

$dies->kill;
$redis->empty;
my $back = now;
my @asked = map { $stays->begin('/missing?hang=1') } 1 .. 2;
eventually { api('held') == 2 } 'survivor declares';
cmp_ok of('recover_until') - of('clock'), '>', 0, 'recovery goes on';
eventually { api('held') == $LIMIT } 'granted in the end', $LEASE + 15;
my $granted = now - $back;
cmp_ok $granted, '>', $LEASE / 2, 'not before the lease has passed';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
note sprintf 'granted after %.2f s', $granted;
wait_for { $up->release_all; $_->done } 15, 'the end' for @asked, @long;
is_deeply [ map { $_->status } @asked, @long ], [ (200) x 4 ],
    'every request served';
$stays->quit;
wait_for { $t->state->session_count == 0 } 15, 'bye';

# cut off, with all permits, and back long before the end of the lease

($LEASE, $token{LEASE}) = (60, '60s');
my $first = $t->node('first', $conf, %token);
my $late = $t->node('late', $conf, %token, REDIS => $proxy->address);
sessions(2);
$up->reset;
@long = map { $late->begin('/missing?hang=1') } 1 .. $LIMIT;
wait_for { $up->now == $LIMIT } 15, 'all permits out';

$proxy->freeze;
$redis->empty;
@asked = map { $first->begin('/missing?hang=1') } 1 .. $LIMIT;
eventually { $t->state->census_declared == 1 } 'first node declares';
cmp_ok of('recover_until') - of('clock'), '>', 10000, 'late one missing';
$proxy->cut;
$proxy->thaw;
eventually { api('held') == $LIMIT } 'late node declares';
eventually { of('recover_until') <= of('clock') } 'recovery ends';
eventually { api('waiting') == $LIMIT } 'asked ones queued';
is $up->peak, $LIMIT, 'limit reached, never exceeded';
wait_for { $up->release_all; $_->done } 15, 'the end' for @asked, @long;

$t->done;
