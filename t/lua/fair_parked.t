#!/usr/bin/perl

# A ticket of a silent session keeps its place before later ones of its key, also
# where an earlier one of that key is dropped or cancelled meanwhile.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('a')->enter;
my $ticket = 0;

# Two tickets of one key, of sessions that are silent, are parked.
sub parked {
    my ($name) = @_;
    my @silent = map { $scripts->session("$name$_")->enter } 1, 2;
    $one->ask($name, ++$ticket, key => 'x');
    $one->ask($name, ++$ticket, key => 'k');
    $silent[0]->ask($name, 1, key => 'k', cost => 2000);
    $silent[1]->ask($name, 1, key => 'k');
    $scripts->pass(3000, $one);
    $one->sync($name, release => 1, fair => 1) for 1, 2;
    is $state->figure($name, 'parked'), 2, "$name: both parked";
    is $one->ask($name, ++$ticket, key => 'x'), 'granted', "$name: no permit";
    $_->beat for $silent[0], $one;
    return @silent;
}

# Another ticket of the key goes behind the one that is parked.
sub behind {
    my ($name, $silent) = @_;
    $one->ask($name, ++$ticket, key => 'k');
    $silent->beat;
    $silent->sync($name, fair => 1);
    is $state->figure($name, 'parked'), 0, "$name: place restored";
    is_deeply [ grep { $_ eq $silent->name || $_ eq $one->name }
        map { (split)[0] } grep { / k$/ } $scripts->queue($name) ],
        [ $silent->name, $one->name ], "$name: before the later ticket";
}

my @silent = parked('dropped');
$silent[0]->sync('dropped', fair => 1);
is $one->ask('dropped', ++$ticket, queue => 2, key => 'b'), 'queued',
    'dropped: room for another key';
is_deeply $silent[0]->sync('dropped', fair => 1)->{dropped}, [1],
    'dropped: the last one';
behind('dropped', $silent[1]);

@silent = parked('cancelled');
is $silent[0]->sync('cancelled', cancel => [ [ 1, 1, 2000, 'k' ] ])
    ->{cancelled}{1}, 1, 'cancelled: in time';
behind('cancelled', $silent[1]);
