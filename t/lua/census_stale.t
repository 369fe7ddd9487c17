#!/usr/bin/perl

# A session that was silent for three quarters of a lease before the loss may have
# been removed by then. Recovery neither counts it nor believes its number.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

sub old {
    my ($node, $told, $age) = @_;
    return $scripts->session($node)->enter(gen => 99, told => $told,
        age => $age);
}

for my $order ('stale first', 'stale last') {
    $scripts->redis->cmd('FLUSHALL');
    my @fresh = map { [ $_, 2, 100 ] } qw/one two/;
    my $stale = [ 'stale', 3, 4000 ];
    my $last = pop @fresh;
    old(@$_) for $order eq 'stale first' ? ($stale, @fresh)
        : (@fresh, $stale);
    my $one = $scripts->session('asks')->enter;
    is $one->ask('api', 1), 'recovering', "$order: not counted";
    old(@$last);
    is $one->ask('api', 1), 'granted', "$order: not waited for";
}

# after the end, too
my $one = $scripts->session('asks')->enter;
old('old', 9, 6000);
is $one->ask('free', 1), 'granted', 'recovery not reopened';

# silence is relative: after an outage all sessions have been silent
$scripts->redis->cmd('FLUSHALL');
old('three', 2, 4500);
$one = old('four', 2, 4600);
is $one->ask('api', 1), 'granted', 'all silent: all counted';

# a shorter lease ends earlier
$scripts->redis->cmd('FLUSHALL');
my $short = $scripts->session('short');
$short->{lease} = 1000;
$short->enter(gen => 99, told => 2, age => 900);
$one = old('five', 2, 100);
is $one->ask('api', 1), 'recovering', 'short lease: not counted';
