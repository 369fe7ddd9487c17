#!/usr/bin/perl

# What a key has paid for a ticket depends on the limit when that was queued. It
# gets as much back when the ticket is cancelled, or rejected by a check, at
# another limit.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my ($name, $limit, $ticket, %ticket) = ('', 0, 0);

# The position of a new ticket.
sub ask {
    my ($key, %arg) = @_;
    $one->ask($name, ++$ticket, queue => 2000, cost => 1e6, key => $key,
        limit => $limit, %arg);
    push @{ $ticket{$key} }, [ $ticket, $arg{weight} // 1, 1e6, $key, $limit ];
    return $one->{asked}{asked}{$ticket}{position};
}

sub credit {
    return -2e15 - $scripts->redis->cmd('ZSCORE', $state->fair_key($name),
        "!0 $_[0]");
}

# Tickets of two keys wait at a limit, then it is another one.
sub begin {
    ($name, $limit, my $other, my $count, my %arg) = @_;
    %ticket = ();
    ask('x', weight => $limit);
    for (1 .. $count) { ask('a', %arg); ask('b'); }
    $scripts->order($name, $other);
}

begin('higher', 1, 10, 50);
$one->sync($name, cancel => $ticket{a});
cmp_ok ask('a'), '<=', 2, 'higher limit: nothing is left to pay';

# the other way round it would be given more than it has paid
begin('lower', 10, 1, 50);
my @left = splice @{ $ticket{a} }, 40, 5;
$one->sync($name, cancel => \@left);
my ($tags) = $state->tags($name);
is $tags->{a} - $state->places($name)->{ $one->name . ' 1 '
    . "$ticket{a}[-1][0] 1 a" }, 8e5, 'lower limit: F stays';
is credit('a'), 5 * 8e5, 'credit of what was paid';

# without the limit that in force counts
$one->sync($name, cancel => [ [ @{ $ticket{a}[0] }[0 .. 3] ] ]);
is credit('a'), 5 * 8e5 + 8e6, 'unknown limit';

# a lowered limit is below the weight of waiting tickets
begin('heavy', 10, 1, 20, weight => 2);
my $checked = $one->sync($name, check => $ticket{a})->{checked};
is_deeply [ map { $checked->{ $_->[0] } } @{ $ticket{a} } ], [ (2) x 20 ],
    'too heavy: rejected';
cmp_ok ask('a'), '<=', 2, 'and not paid for';
my $waits = pop @{ $ticket{b} };
is $one->sync($name, check => [ $waits ])->{checked}{ $waits->[0] }, 1,
    'light ticket waits on';
