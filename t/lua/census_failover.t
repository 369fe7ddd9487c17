#!/usr/bin/perl

# Another process has taken over, with a registry: each session that is
# registered there, or was told of by another one, has to declare.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

my @old = map { $scripts->session($_)->enter } qw/one two three/;
$_->beat for @old;
my ($one, $two, $three) = @old;

cmp_ok $one->hello(restarted => 1)->{recovery}, '>', 3000,
    'recovery begins';
$one->declared;
is $three->beat->{status}, 'ok', 'registry survived';
$two->enter;
is $one->ask('api', 1), 'recovering', 'third session missing';
my $new = $scripts->session('new')->enter;
$new->enter;
is $one->ask('api', 1), 'recovering', 'new session does not count';
$three->enter;
is $one->ask('api', 1), 'granted', 'all declared';

# a replica that missed the last one
$scripts->state->forget($new->name);
$one->enter(restarted => 1, told => 3);
$_->enter(told => 3) for $two, $three;
is $one->ask('free', 1), 'granted', 'four unknown to all';
$new->{told} = 4;
$new->hello;
is $one->ask('free', 2, limit => 9), 'recovering', 'fourth one declares';
$new->declared;
is $one->ask('free', 2, limit => 9), 'granted', 'fourth one counted';

# registered there, but gone
$one->enter(restarted => 1);
$two->enter;
is $one->ask('free', 3, limit => 9), 'recovering', 'registered ones missing';
$scripts->pass(5000, @old[0 .. 1]);
is $one->ask('free', 3, limit => 9), 'granted', 'one lease at most';

# another takeover during recovery
$_->beat for @old[0 .. 1];
$one->enter(restarted => 1);
is $one->beat->{live}, 2, 'two registered';
$scripts->session('next')->enter;
$one->enter(restarted => 1);
is $one->beat->{live}, 3, 'numbers kept';
