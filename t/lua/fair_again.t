#!/usr/bin/perl

# All tickets are void, as those of a worker that took them back while Redis was
# unavailable: their keys have not paid for them when they are asked for again.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;

# One key waits, and all of its tickets become void: many more than one call
# reads, which would give their tags back.
sub begin {
    my ($name) = @_;
    $one->ask($name, 1, key => 'x');
    for my $first (map { 100 * $_ } 1 .. 6) {
        $two->sync($name, ask => [ map { [ $_, 1, 0, 1000, 1000, 'heavy' ] }
            $first .. $first + 99 ]);
    }
    $two->hello;
    $two->declared;
}

begin('api');
$two->ask('api', $_, key => 'heavy') for 2 .. 5;
$two->ask('api', $_, key => 'light') for 12 .. 15;
my $epoch = $two->epoch;
is join(' ', map { /^\S+ $epoch (\d+)/ ? $1 : () } $scripts->queue('api')),
    '2 12 3 13 4 14 5 15', 'keys take turns from the start';
is $state->waiting('api'), 8, 'all wait';
$one->sync('api', release => 1, fair => 1);
my @served;
for (1 .. 20) {
    # void tickets at the head take some calls
    my @granted = @{ $two->sync('api', release => @served ? 1 : 0, fair => 1)
        ->{granted} // [] };
    push @served, @granted;
    last if @served == 8;
}
is "@served", '2 12 3 13 4 14 5 15', 'served in turns';

# nothing is asked for again
begin('web');
$two->sync('web', fair => 1);
is $scripts->redis->cmd('EXISTS', $state->fair_key('web')), 0, 'no tags left';

# nor is anything declared again
begin('mail');
$two->hello;
$two->declare('mail', fair => 1);
is $state->waiting('mail'), 0, 'declared: nothing waits';
is $scripts->redis->cmd('EXISTS', $state->fair_key('mail')), 0,
    'declared: no tags left';
