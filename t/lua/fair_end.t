#!/usr/bin/perl

# A queue that is not empty for weeks: tags come near the end of their class.
# Keys still take turns by what their tickets cost, also where one of them
# floods, and its session is the first one by name.

use lib 't/lib';
use Dsem::Scripts;

# us; the place after the last one of a class
use constant { COST => 40_000_000, BEYOND => 1e13 };

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my ($ticket, $holder, %session);

for my $left (6e12, 1e11, 1e9, 1e6) {
    my $of = sprintf '%.0e places left', $left;
    begin($left, noisy => COST, quiet => COST);
    my %got = granted(300, noisy => COST, quiet => COST);
    cmp_ok abs($got{noisy} - 150), '<=', 6, "$of: in turns"
        or note explain \%got;
    begin($left, noisy => 3 * COST, quiet => COST);
    %got = granted(300, noisy => 3 * COST, quiet => COST);
    cmp_ok abs($got{quiet} - 225), '<=', 12, "$of: by their costs"
        or note explain \%got;
    my (undef, $virtual) = $state->tags('api');
    cmp_ok $virtual, '<', BEYOND - 1, "$of: not at the end";
}

# a cancelled ticket is not paid for
begin(1e11, noisy => COST, quiet => COST);
my $before = tag('quiet');
ask('quiet', COST);
cmp_ok tag('quiet'), '>', $before, 'another ticket';
$session{quiet}->sync('api', cancel => [ [ $ticket, 1, COST, 'quiet' ] ]);
is tag('quiet'), $before, 'cancelled: its tag is given back';

# the same on the shortcut and, with an order, on the rest
my @tags = map {
    begin(1e11, noisy => COST, quiet => COST);
    $scripts->order('api', 1) if $_;
    ask('quiet', COST) for 1 .. 3;
    tag('quiet');
} 0, 1;
is $tags[1], $tags[0], 'one rule';

$scripts->done;

sub tag { return ($state->tags('api'))[0]{ $_[0] } }

# Two tenants that wait for one permit, with so many places left.
sub begin {
    my ($left, %cost) = @_;
    $scripts->redis->cmd('FLUSHALL');
    %session = (noisy => $scripts->session('a')->enter,
        quiet => $scripts->session('z')->enter);
    ($ticket, $holder) = (0, 'noisy');
    is $session{noisy}->ask('api', ++$ticket, key => 'noisy'), 'granted',
        'a permit';
    ask('noisy', $cost{noisy});
    $state->set_figure('api', seq => BEYOND - $left);
    $state->delete_tags('api');
    ask('noisy', $cost{noisy}) for 1 .. 9;
    ask('quiet', $cost{quiet}) for 1 .. 3;
}

sub ask {
    my ($key, $cost) = @_;
    my $verdict = $session{$key}->ask('api', ++$ticket, key => $key,
        cost => $cost, queue => 99);
    die "$key: $verdict\n" if $verdict ne 'queued';
}

# Serves so many, each followed by another of its key. Returns their numbers.
sub granted {
    my ($n, %cost) = @_;
    my %got = map { $_ => 0 } keys %cost;
    for (1 .. $n) {
        my $next = (split ' ', ($scripts->queue('api'))[0])[4];
        $session{$holder}->sync('api', release => 1, fair => 1);
        $holder = $next;
        $got{$next}++;
        ask($next, $cost{$next});
    }
    return %got;
}
