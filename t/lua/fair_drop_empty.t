#!/usr/bin/perl

# The semaphore becomes empty before a session is told of its dropped tickets:
# it is told all the same, by its next sync, check or cancel, and then nothing is
# left. A cancel that is answered as if it came too late would release a permit
# that is in use.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my ($one, $two, $three) =
    map { $scripts->session($_)->enter } qw/one two three/;

# Ticket 7 is all that session two has, and is dropped; then all permits are
# released, at last by the short path, or by the long one.
sub empty {
    my ($name, $long) = @_;
    $one->ask($name, 1);
    $three->ask($name, 6, queue => 2, key => 'noisy');
    $two->ask($name, 7, queue => 2, key => 'noisy');
    is $three->ask($name, 8, queue => 2, key => 'quiet'), 'queued',
        "$name: another one dropped";
    is $state->untold($name), 1, "$name: one session to be told";
    $one->sync($name, release => 1);
    $three->sync($name, release => 1);
    $three->sync($name, release => 1, $long ? (check => [ [9] ]) : ());
    is $state->counts($name), '0 0', "$name: empty";
}

for my $long (0, 1) {
    empty('sync', $long);
    my $reply = $two->sync('sync');
    is_deeply $reply->{dropped}, [7], 'told by a sync';
    is $state->exists('sync'), 0, 'nothing left';

    empty('check', $long);
    $reply = $two->sync('check', check => [ [ 7, 1, 9, 'noisy' ] ]);
    is $reply->{checked}{7}, 2, 'told by a check';
    is $state->exists('check'), 0, 'nothing left';

    empty('cancel', $long);
    is $two->ask('cancel', 9), 'granted', 'permit granted';
    is_deeply $two->{asked}{dropped}, [7], 'told by an acquire';
    $two->sync('cancel', release => 1);
    empty('cancel', $long);
    $three->ask('cancel', 10);
    is $two->sync('cancel', cancel => [ [ 7, 1, 9, 'noisy' ] ])
        ->{cancelled}{7}, 1, 'a cancel is in time';
    is_deeply [ $state->counts('cancel'), $state->untold('cancel') ],
        [ '1 0', 0 ], 'all told';
    $three->sync('cancel', release => 1);
    is $state->exists('cancel'), 0, 'nothing left';
}

# a session that is gone is told no more
empty('gone', 0);
$one->bye($two);
$one->ask('gone', 9);
is $state->untold('gone'), 0, 'session gone: not told';
$one->sync('gone', release => 1);
is $state->exists('gone'), 0, 'nothing left';

# of a session that has ended no ticket is noted, also by the call that finds that,
# and drops live tickets behind one of its own
my ($ends, $many, $more, $last) =
    map { $scripts->session($_)->enter } qw/ends many more last/;
$one->ask('behind', 1);
$one->ask('behind', $_, queue => 99, key => "k$_") for 2, 3;
$ends->ask('behind', 1, queue => 99, key => 'x');
for my $n (1 .. 20) {
    $_->ask('behind', $n, queue => 99, key => 'x') for $many, $more;
}
$one->bye($ends);
is $last->ask('behind', 1, class => -1, queue => 2, key => 'y'), 'queued',
    'room by many drops';
is $state->untold('behind'), 3, 'those of live sessions are noted';
$_->sync('behind') for $one, $many, $more;
is $state->untold('behind'), 0, 'and named';
