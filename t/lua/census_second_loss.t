#!/usr/bin/perl

# A second loss, while the state recovers or soon after: sessions that were
# missing are still missed, and new ones do not replace them.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;

sub old {
    my ($node, $told) = @_;
    return $scripts->session($node)->enter(gen => 99, told => $told,
        age => 100);
}

# three sessions are registered, one of them stays away; one is new
my @old = map { old($_, 3) } qw/one two/;
my $new = $scripts->session('new')->enter;
is $_->beat->{live}, 4, 'number includes the missing one' for @old, $new;

$scripts->redis->cmd('FLUSHALL');
$_->enter for @old, $new;
is $new->ask('api', 1), 'recovering', 'three declared, one missing';
my $late = old('late', 3);
is $new->ask('api', 1), 'granted', 'ends with the missing one';

# a session that was not counted counts as new
$scripts->redis->cmd('FLUSHALL');
my @fresh = map { old($_, 3) } qw/one two/;
my $stale = $scripts->session('stale')->enter(gen => 99, told => 3,
    age => 4000);
$_->beat for @fresh, $stale;
$scripts->redis->cmd('FLUSHALL');
$_->enter for @fresh, $stale;
is $stale->ask('api', 1), 'recovering', 'stale one replaces no other';

# one that came between two losses, before any of the old ones
$scripts->redis->cmd('FLUSHALL');
my $between = $scripts->session('between')->enter(gen => 99, told => 0);
$between->enter(restarted => 1);
@old = map { old($_, 3) } qw/one two/;
is $between->ask('api', 1), 'recovering', 'one in between replaces no other';
$scripts->pass(5000, $between, @old);
is $between->ask('api', 1), 'granted', 'one lease at most';

# the same where new ones are alone between two losses of all state
$scripts->redis->cmd('FLUSHALL');
my @alone = map { $scripts->session("alone$_") } 1, 2;
$alone[0]->enter(gen => 99, told => 0);
$alone[0]->listen;
$alone[1]->enter(gen => 99, told => 0);
is $_->beat->{live}, -2, 'two have come, the number is unknown' for @alone;
is_deeply [ grep { /^sessions/ } $alone[0]->all_messages ], [],
    'and the one is not told of the other';
$scripts->redis->cmd('FLUSHALL');
$_->enter for @alone;
is $alone[0]->ask('api', 1), 'recovering', 'they replace no other';
@old = map { old($_, 3) } qw/one two three/;
is $alone[0]->ask('api', 1), 'granted', 'ends with the others';
is $alone[0]->beat->{live}, 5, 'number includes them';

# a third loss, and one after which the census does not know who was counted
for my $lost ('state', 'census') {
    $scripts->redis->cmd('FLUSHALL');
    my $one = old("$lost-one", 2);
    my $last = $scripts->session("$lost-new")->enter(gen => 99, told => 0);
    if ($lost eq 'state') {
        $last->enter(restarted => 1) for 1, 2;
    } else {
        $scripts->redis->cmd('DEL', $scripts->state->census_key);
        $last = $one;
        $last->enter(restarted => 1, told => 2);
    }
    old("$lost-$_", 2) for 1, 2;
    is $last->ask('api', 1), 'recovering', "$lost lost: decides nothing";
    $scripts->pass(5000, $last);
    is $last->ask('api', 1), 'granted', "$lost lost: one lease at most";
}

# after the end the number is that of the live sessions
$scripts->redis->cmd('FLUSHALL');
@old = map { old($_, 2) } qw/one two/;
is $_->beat->{live}, 2, 'live sessions' for @old;
$scripts->redis->cmd('FLUSHALL');
$_->enter for @old;
is $old[0]->ask('api', 1), 'granted', 'second recovery ends';
