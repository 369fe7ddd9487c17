#!/usr/bin/perl

# Another process has taken over, with a registry: each session that is
# registered there, or was told of by another one, has to declare.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);

my @old = map { $scripts->session($_)->enter } qw/one two three/;
$_->beat for @old;
my ($one, $two, $three) = @old;

cmp_ok $one->hello(run => 'b00')->{recovery}, '>', 3000, 'recovery begins';
$one->declared;
is $three->beat->{status}, 'ok', 'registry survived';
$two->enter(run => 'b00');
is $one->ask('api', 1), 'recovering', 'third session missing';
my $new = $scripts->session('new')->enter(run => 'b00');
$new->enter(run => 'b00');
is $one->ask('api', 1), 'recovering', 'new session does not count';
$three->enter(run => 'b00');
is $one->ask('api', 1), 'granted', 'all declared';

# a replica that missed the last one
$scripts->state->forget($new->name);
$_->enter(run => 'c00', told => 3) for @old;
is $one->ask('free', 1), 'granted', 'four unknown to all';
$new->{told} = 4;
$new->hello(run => 'c00');
is $one->ask('free', 2, limit => 9), 'recovering', 'fourth one declares';
$new->declared;
is $one->ask('free', 2, limit => 9), 'granted', 'fourth one counted';

# registered there, but gone
$_->enter(run => 'd00') for @old[0 .. 1];
is $one->ask('free', 3, limit => 9), 'recovering', 'registered ones missing';
$scripts->pass(5000, @old[0 .. 1]);
is $one->ask('free', 3, limit => 9), 'granted', 'one lease at most';

# another takeover during recovery
$_->beat for @old[0 .. 1];
$one->enter(run => 'e00');
is $one->beat->{live}, 2, 'two registered';
$scripts->session('next')->enter(run => 'e00');
$one->enter(run => 'f00');
is $one->beat->{live}, 3, 'numbers kept';

$scripts->done;
