#!/usr/bin/perl

# The shortcuts of sync and the rest of it have the same rules: the same calls
# are made without an order, and with one that changes nothing, which is left
# to the rest.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $name;

sub verdicts {
    my ($session, $release, @asks) = @_;
    my $reply = $session->sync($name, limit => 2, release => $release,
        ask => \@asks);
    return join ' ', map { $reply->{asked}{ $_->[0] }{verdict} } @asks;
}

for (qw/shortcuts rest/) {
    $name = $_;
    $scripts->order($name, 2) if $name eq 'rest';

    is verdicts($one, 0, [1], [2]), 'granted granted', "$name: up to the limit";
    is verdicts($one, 0, [ 3, 1, 0, 0 ]), 'refused', "$name: not more";
    is verdicts($one, 1, [ 4, 1, 0, 0 ]), 'granted',
        "$name: released permits are acquired";
    is verdicts($one, 0, [ 5, 3 ]), 'refused', "$name: heavier than the limit";

    # one permit is free
    is verdicts($one, 1, [ 6, 2 ], [ 7, 1 ]), 'queued queued',
        "$name: a lighter ticket of the same call waits";
    is verdicts($two, 0, [8]), 'queued', "$name: and one of another call";
    is verdicts($two, 0, [ 9, 1, -1 ]), 'granted', "$name: a better class";
    is verdicts($two, 0, [ 10, 1, 0, 3 ]), 'refused', "$name: queue full";

    my $reply = $two->sync($name, limit => 2, release => 1);
    is $reply->{in_use}, 1, "$name: head waits for its whole weight";
    is_deeply $one->sync($name, limit => 2, release => 1)->{granted}, [6],
        "$name: head served";
    is_deeply $one->sync($name, limit => 2, release => 1)->{granted}, [7],
        "$name: next one";
    is $two->sync($name, limit => 2)->{waiting}, 1, "$name: one waits";
    is_deeply $scripts->state->account($name, $one->name)->{held}, 2,
        "$name: account counted";

    $one->sync($name, limit => 2, release => 2);
    is $scripts->state->account($name, $one->name), undef,
        "$name: no empty account left";
    $two->sync($name, limit => 2, release => 1);
    is $scripts->state->exists($name), 0, "$name: nothing left";
}
