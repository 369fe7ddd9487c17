#!/usr/bin/perl

# A ticket that leaves gives its cost back, but never so that the next ticket of
# its key passes one of that key which waits, whatever the tag of the key has
# become meanwhile.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my @session = my ($hold, $one, $two)
    = map { $scripts->session($_)->enter } qw/hold one two/;
my ($name, $limit, $ticket, %place) = ('', 0, 0);

# Queues a ticket of key a, or of another one; returns its number.
sub ask {
    my ($session, $cost, %arg) = @_;
    $session->ask($name, ++$ticket, limit => $limit, queue => 2000, key => 'a',
        cost => $cost, %arg);
    $place{$ticket} = $session->{asked}{asked}{$ticket}{place};
    return $ticket;
}

sub cancel {
    my ($number, $cost, $of) = @_;
    return $one->sync($name, limit => $limit,
        cancel => [ [ $number, 1, $cost, 'a', $of ] ])->{cancelled}{$number};
}

# All permits are out.
sub begin {
    ($name, $limit) = @_;
    $hold->ask($name, ++$ticket, limit => $limit, weight => $limit, key => 'x');
}

sub tag {
    return +($state->tags($name))[0]{a};
}

# A failover at a lower limit: by the declarations the tag of the key is that of
# its first ticket at this limit. others: tickets of two other keys each.
sub failover {
    my ($others) = @_;
    begin('failover', 4);
    my ($first, $second) = (ask($one, 1000), ask($two, 100));
    my @others = map { my $key = $_;
        map { [ ask($hold, 10, key => $key), $key ] } 1 .. $others } qw/o p/;
    $limit = 1;
    my $last = ask($two, 10);
    is $two->sync($name, limit => 1, cancel => [ [ $last, 1, 10, 'a', 1 ] ])
        ->{cancelled}{$last}, 1, "lower limit, $others others";
    my $epoch = $hold->epoch;
    for my $session (@session) {
        $session->hello($session == $hold ? (restarted => 1) : ());
    }
    $hold->declare($name, limit => 1, held => 4, tickets => [
        map { [ $_->[0], 1, $place{ $_->[0] }, $epoch, 10, $_->[1] ] } @others
    ]);
    $one->declare($name, limit => 1,
        tickets => [ [ $first, 1, $place{$first}, $epoch, 1000, 'a' ] ]);
    $two->declare($name, limit => 1,
        tickets => [ [ $second, 1, $place{$second}, $epoch, 100, 'a' ] ]);
    $_->declared for @session;
    is tag(), $place{$first} + 8000, 'the tag is that of the first one';
    is cancel($first, 1000, 0), 1, 'the first one leaves';
    cmp_ok $place{ ask($one, 1000) }, '>', $place{$second},
        'the next one is behind the one that waits';
    $_->bye for @session;
    @session = ($hold, $one, $two)
        = map { $scripts->session($_)->enter } qw/hold one two/;
}

failover(0);
# more between them than a call looks at
failover(300);

# The same by credits: at a limit of 8 the tags move by the costs.
begin('credit', 8);
my ($first, $second) = map { ask($one, $_) } 1000, 101;
cancel($first, 1000, 8);
my $third = ask($one, 100);
is tag(), $place{$second} + 101, 'by credits: the tag is that of the second';
cancel($second, 101, 8);
cmp_ok $place{ ask($one, 100) }, '>', $place{$third},
    'by credits: behind the one that waits';

# And where its cost fits, and more tickets of other keys wait up to the tag of
# the key than a cancel looks at.
for my $others (0, 20, 40, 60) {
    begin("near $others", 8);
    my ($leaves) = map { ask($one, 1000) } 1 .. 12;
    for my $key (map { "k$_" } 1 .. $others) {
        ask($one, 1000, key => $key) for 1 .. 15;
    }
    cancel($leaves, 1000, 8);
    my ($last, $waits) = map { ask($one, 1000) } 1, 2;
    is tag(), $place{$last} + 1000, "$others other keys: its cost fits";
    cancel($last, 1000, 8);
    cmp_ok $place{ ask($one, 1000) }, '>', $place{$waits},
        "$others other keys: behind the one that waits";
}

# And by a check, of a ticket that a lowered limit has made too heavy, with an
# acquire of the key in the same call.
begin('check', 8);
($first, $second) = (ask($one, 1000), ask($one, 801, weight => 2));
cancel($first, 1000, 8);
$scripts->order($name, 1);
$third = ++$ticket;
my $reply = $one->sync($name, limit => 8,
    ask => [ [ $third, 1, 0, 2000, 100, 'a' ] ],
    check => [ [ $second, 2, 801, 'a', 8 ] ]);
is $reply->{checked}{$second}, 2, 'too heavy';
cmp_ok $place{ ask($one, 100) }, '>', $reply->{asked}{$third}{place},
    'by a check: behind the one that waits';

# one that is parked, elsewhere in the order, is none of them
my $silent = $scripts->session('silent')->enter;
begin('parked', 1);
$silent->ask($name, ++$ticket, key => 'z', class => -1);
$scripts->pass(3000, $hold, $one, $two);
$hold->sync($name, release => 1, fair => 1) for 1, 2;
is $state->figure($name, 'parked'), 1, 'one is parked';
$hold->ask($name, ++$ticket, key => 'x');
my $last = ask($one, 1000);
cancel($last, 1000, 1);
is tag(), $place{$last}, 'a ticket that was the last one is not paid for';
