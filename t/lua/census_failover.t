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
my $beat = $three->beat;
is $beat->{status}, 'ok', 'registry survived';
cmp_ok $beat->{term}, '>', $three->{term}, 'another term';
is $beat->{term}, $one->{term}, 'that of the first one';
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

# a hello whose connection is lost before "declared": the next one has the number
# of the new state, with a session that is new
sub anew {
    my ($before) = @_;
    $scripts->redis->cmd('FLUSHALL');
    my @all = map { $scripts->session($_)->enter } qw/one two three/;
    $_->beat for @all;
    $before->(@all);
    $all[0]->declared;
    return @all;
}

@old = anew(sub {
    my ($first, $second) = @_;
    $first->hello(restarted => 1);
    $scripts->session('new')->enter;
    $second->hello;
    $second->hello;
});
is $old[0]->ask('api', 1), 'recovering', 'second hello: two missing';
$old[1]->declared;
$old[2]->enter;
is $old[0]->ask('api', 1), 'granted', 'second hello: all declared';

# and an age since a reply of this state, after an outage
@old = anew(sub {
    my ($first) = @_;
    $first->hello(restarted => 1, age => 4000);
    $first->hello(age => 0);
});
$_->enter(age => 4000) for @old[1, 2];
is $old[0]->ask('api', 1), 'granted', 'outage before: all declared';
