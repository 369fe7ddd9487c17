#!/usr/bin/perl

# The logical clock follows the clock of Redis, never goes back, and advances
# by a quarter of a lease per call at most: a clock that jumps expires no
# lease.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->enter;

sub moved {
    my ($wall) = @_;
    my $clock = $scripts->meta('clock');
    $scripts->meta('wall', $scripts->meta('wall') + $wall);
    $one->beat;
    return $scripts->meta('clock') - $clock;
}

my $moved = moved(-300);
cmp_ok $moved, '>=', 300, 'clock follows';
cmp_ok $moved, '<', 1250, 'clock bounded';

is moved(-3600000), 1250, 'jump forward bounded';
is moved(3600000), 0, 'jump backward ignored';
cmp_ok moved(0), '<', 1250, 'wall taken over';

# a missing clock begins at zero
$scripts->redis->cmd('FLUSHALL');
$one = $scripts->session('two')->enter;
cmp_ok $scripts->meta('clock'), '<', 1250, 'clock begins at zero';

my ($sec, $usec) = @{ $scripts->redis->cmd('TIME') };
my $off = $sec * 1000 + $usec / 1000 - $scripts->meta('wall');
cmp_ok abs $off, '<', 1250, 'wall in milliseconds';

# seconds and microseconds are two integers, not the digits of one decimal
unlike $scripts->t->script('beat'), qr/t\[1\] *\.\./, 'no joined decimal';

$scripts->done;
