#!/usr/bin/perl

# A bye removes a session at once, in O(1), whatever the session holds. Its
# semaphores are not touched; the next ask for its permits finds them free. That
# of an operator may leave a session alone that is heard from.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

$one->ask('api', $_, limit => 2) for 1 .. 4;
my @keys = $scripts->state->semaphore_keys('api');
my $before = $scripts->dump(@keys);
my $ended = $scripts->meta('ended');
$two->bye($one);
is $scripts->dump(@keys), $before, 'semaphore not touched';
is $scripts->meta('ended'), $ended + 1, 'ended counted';

is $two->ask('api', 1, limit => 2), 'granted', 'permits free';
my $reply = $two->sync('api', limit => 2);
is $reply->{in_use}, 1, 'one in use';
is $reply->{waiting}, 0, 'none waiting';

# also in a semaphore without a queue
my $three = $scripts->session('three')->enter;
$three->ask('quiet', 1, weight => 3, limit => 3);
$two->bye($three);
is $two->ask('quiet', 2, limit => 3, queue => 0), 'granted',
    'permits free without queue';
is $two->sync('quiet')->{in_use}, 1, 'only live sessions counted';

# to a ticket that waits
my $six = $scripts->session('six')->enter;
$_->ask('waits', 1, limit => 2) for $two, $six;
$two->ask('waits', 2, limit => 2);
$two->bye($six);
is_deeply $two->sync('waits', limit => 2)->{granted}, [2],
    'permit to the head of the queue';

# by an operator
my ($four, $five) = map { $scripts->session($_)->enter } qw/four five/;
$scripts->pass(1000, $two);
my $entries = keys %{ $scripts->state->entries };
is $two->bye($four, 1)->{removed}, 2, 'heard from: stays';
is $four->ask('own', 1), 'granted', 'and goes on';
$scripts->pass(1500, $two);
is $two->bye($four, 1)->{removed}, 1, 'silent: removed';
is $four->hello->{status}, 'gone', 'and barred';
is $two->bye($two, 1)->{removed}, 2, 'heard from, itself';
$five->beat;
is $two->bye($five, 0)->{removed}, 1, 'forced: removed';
is $five->ask('api', 1), 'resync', 'removed session unknown';
is keys %{ $scripts->state->entries }, $entries, 'two bars';
for my $careful (0, 1) {
    is $two->bye($scripts->session('none'), $careful)->{removed}, 0,
        "unknown session, $careful";
    is $two->bye($five, $careful)->{removed}, 0, "barred session, $careful";
}
is keys %{ $scripts->state->entries }, $entries, 'no bar for unknown ones';
is $two->bye($scripts->session('none'))->{removed}, 0, 'dead worker: unknown';
is keys %{ $scripts->state->entries }, $entries + 1, 'and barred';
