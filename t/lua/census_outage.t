#!/usr/bin/perl

# After an outage longer than a lease, new workers may have admitted requests by
# their shares, and are not counted: recovery lasts a quarter of a lease at least.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new(undef, lease => 60_000);

sub old {
    my ($node, $age) = @_;
    return $scripts->session($node)->enter(gen => 99, told => 2, age => $age);
}

old('one', 61_000);
my $two = old('two', 62_000);
my $recovery = $two->beat->{recovery};
cmp_ok $recovery, '>', 0, 'recovery goes on';
cmp_ok $recovery, '<=', 15_000, 'a quarter of a lease';
is $two->ask('api', 1), 'recovering', 'no grant';
$scripts->pass(15_000, $two);
is $two->ask('api', 1), 'granted', 'granted after it';

# a fresh session proves that the others were only cut off
$scripts->redis->cmd('FLUSHALL');
old('three', 61_000);
old('four', 62_000);
old('five', 1000);
is $two->hello(gen => 99, told => 0)->{recovery} > 30_000, 1,
    'one lease with a missing session';
old('six', 2000);
is $two->beat->{recovery}, 0, 'ends without a pause';

# the pause after an outage without a loss stays
$scripts->redis->cmd('FLUSHALL');
my @both = map { $scripts->session($_)->enter } qw/seven eight/;
$scripts->meta('wall', $scripts->meta('wall') - 48_000);
$both[0]->enter(restarted => 1);
$both[1]->enter;
$recovery = $both[0]->beat->{recovery};
cmp_ok $recovery, '>', 0, 'pause kept';
cmp_ok $recovery, '<=', 15_000, 'but no lease';

# also while a session is missing
$scripts->redis->cmd('FLUSHALL');
my @known = map {
    $scripts->session($_)->enter(gen => 99, told => 3, age => 1000)
} qw/nine ten/;
$scripts->pass(54_000, @known);
cmp_ok $known[0]->beat->{recovery}, '<=', 6000, 'the end of the recovery is near';
is $known[0]->hello(age => 59_000, clock => $scripts->meta('clock'))->{recovery},
    15_000, 'the pause after an outage meanwhile';
$known[0]->declared;
is $known[0]->beat->{recovery}, 15_000, 'when it has declared, too';
