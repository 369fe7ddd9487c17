#!/usr/bin/perl

# After an outage longer than a lease, new workers may have admitted requests by
# their shares, and are not counted: recovery lasts a quarter of a lease at least.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);

sub old {
    my ($node, $age) = @_;
    return $scripts->session($node)->enter(gen => 99, told => 2, age => $age);
}

old('one', 5100);
my $two = old('two', 5200);
my $recovery = $two->beat->{recovery};
cmp_ok $recovery, '>', 250, 'recovery goes on';
cmp_ok $recovery, '<=', 1250, 'a quarter of a lease';
is $two->ask('api', 1), 'recovering', 'no grant';
$scripts->pass(1250, $two);
is $two->ask('api', 1), 'granted', 'granted after it';

# a fresh session proves that the others were only cut off
$scripts->redis->cmd('FLUSHALL');
old('three', 5100);
old('four', 5200);
old('five', 100);
is $two->hello(gen => 99, told => 0)->{recovery} > 3000, 1,
    'one lease with a missing session';
old('six', 200);
is $two->beat->{recovery}, 0, 'ends without a pause';

# the pause after an outage without a loss stays
$scripts->redis->cmd('FLUSHALL');
my @both = map { $scripts->session($_)->enter } qw/seven eight/;
$scripts->meta('wall', $scripts->meta('wall') - 4000);
$_->enter(run => 'b00') for @both;
$recovery = $both[0]->beat->{recovery};
cmp_ok $recovery, '>', 250, 'pause kept';
cmp_ok $recovery, '<=', 1250, 'but no lease';

$scripts->done;
