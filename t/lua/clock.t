#!/usr/bin/perl

# The logical clock follows the clock of Redis, never goes back, and advances
# by a quarter of a lease per call at most: a clock that jumps expires no
# lease.

use lib 't/lib';
use Dsem::Scripts;

my $t = Dsem::Test->new;
my $scripts = Dsem::Scripts->new($t);
my $one = $scripts->session('one')->enter;

sub moved {
    my ($wall) = @_;
    my $clock = $scripts->meta('clock');
    $scripts->meta('wall', $scripts->meta('wall') + $wall);
    $one->beat;
    return $scripts->meta('clock') - $clock;
}

is moved(-300), 300, 'clock follows';
is moved(-3600000), 1250, 'jump forward bounded';
is moved(3600000), 0, 'jump backward ignored';
is moved(0), 0, 'wall taken over';

# a missing clock begins at zero
$scripts->redis->cmd('FLUSHALL');
$one = $scripts->session('two')->enter;
is $scripts->meta('clock'), 0, 'clock begins at zero';

# seconds and microseconds are two integers, not the digits of one decimal
unlike $t->script('beat'), qr/t\[1\] *\.\./, 'no joined decimal';

# the wall clock is that of Redis
$scripts = Dsem::Scripts->new($t, clock => 'redis');
my $before = wall();
$scripts->session('three')->enter;
my $wall = $scripts->meta('wall');
cmp_ok $wall, '>=', $before, 'wall in milliseconds';
cmp_ok $wall, '<=', wall(), 'wall of Redis';

$scripts->done;

sub wall {
    my ($s, $us) = @{ $scripts->redis->cmd('TIME') };
    return $s * 1000 + int $us / 1000;
}
