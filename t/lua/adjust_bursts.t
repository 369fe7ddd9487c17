#!/usr/bin/perl

# Requests in bursts, with more than a lease between them: the limit does not
# stay at what a probe has lowered it to for a moment.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Auto;
use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $state = $scripts->state;
my $redis = $scripts->redis;

for my $seconds (0.5, 1, 1.5, 2) {
    $redis->cmd('FLUSHALL');
    my $one = $scripts->session('one')->configured('a',
        { api => '20=1-1000' });
    my (@found, $kept);
    for my $burst (1 .. 12) {
        Dsem::Auto->new($scripts, 'api', [ $one ],
            latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) })
            ->run($seconds);
        push @found, $state->lowest_limit('api');
        # what expires meanwhile
        $kept = $redis->cmd('PTTL', $state->auto_key('api')) > 10_000;
        $redis->cmd('DEL', $state->auto_key('api')) unless $kept;
        $scripts->pass(10_000, $one);
    }
    my ($lowest) = sort { $a <=> $b } @found[4 .. $#found];
    cmp_ok $lowest, '>=', 5, "bursts of $seconds s: no ratchet"
        or diag "@found";
    my ($highest) = sort { $b <=> $a } @found[4 .. $#found];
    cmp_ok $highest, '>=', 15, "bursts of $seconds s: back after a probe"
        or diag "@found";
}

$scripts->done;
