#!/usr/bin/perl

# What is kept of dropped tickets in case that a reply is lost goes by itself: a
# minute after the last drop, or two of the longest registered leases where that
# is more. Clients may choose the names that have such a key.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my ($one, $two) = map { $scripts->session($_)->enter } qw/one two/;

# The time that is left when a ticket of the second session was just dropped, ms.
sub left {
    my ($name) = @_;
    $one->ask($name, 99, key => 'x');
    $two->ask($name, $_, queue => 2, key => 'noisy') for 1, 2;
    $one->ask($name, 100, queue => 2, key => 'quiet');
    is_deeply $two->sync($name, fair => 1)->{dropped}, [2], "$name: named";
    return $scripts->redis->cmd('PTTL', $state->named_key($name));
}

# a lease of 5 s; Redis may be unavailable for longer, and no lease ends then
my $ttl = left('short');
cmp_ok $ttl, '>', 10_000, 'longer than two leases';
cmp_ok $ttl, '<=', 60_000, 'a minute';

# another session has the longest lease that there may be
my $long = $scripts->session('long');
$long->{lease} = 3_600_000;
$long->enter;
$ttl = left('long');
cmp_ok $ttl, '>', 3_600_000, 'longer than the longest lease';
cmp_ok $ttl, '<=', 7_200_000, 'two of it';

# with the next drop
$long->bye;
cmp_ok left('ended'), '<=', 60_000, 'a minute again';

$scripts->done;
