#!/usr/bin/perl

# make run: an exceeded limit, a leaked permit or an unexpected status fails on
# any machine. What a busy machine keeps from happening is no failure, and is
# said. On a quiet machine it is one.

###############################################################################

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../run";

use Fleet;
use Fleet::Judge;
use Fleet::Screen;
use Fleet::Third;

###############################################################################

my %quiet = (baseline => 470, target => 500, stalled => 0.1, longest => 0.02);
my %slow = (%quiet, baseline => 232);

# the machine

is(Fleet::Judge::busy(\%quiet), undef, 'a quiet machine');
is(Fleet::Judge::busy(\%slow), '232/s of 500/s', 'a slow one');
is(Fleet::Judge::busy({ %quiet, baseline => 0 }), '0/s of 500/s',
    'one that answers nothing');
is(Fleet::Judge::busy({ %quiet, stalled => 0.8 }),
    'it stalled for 80 % of the time', 'busy later');
is(Fleet::Judge::busy({ %quiet, longest => 0.5 }),
    'it stalled for 0.50 s at once', 'stalled once');

# the first act

sub first {
    my ($machine, %figure) = @_;
    return Fleet::Judge::first({ peak => 10, limit => 10,
        status => { 200 => 90, 503 => 30 }, machine => $machine, %figure });
}

for ([\%quiet, 'quiet'], [\%slow, 'busy']) {
    my ($machine, $how) = @$_;
    is_deeply(first($machine)->{wrong}, [], "$how: the limit held");
    is_deeply(first($machine, peak => 11)->{wrong},
        ['the backend served 11 at once'], "$how: limit exceeded");
    is_deeply(first($machine, status => { 200 => 1, 502 => 1, reset => 1 })
        ->{wrong}, ['some requests ended with 502, reset'],
        "$how: other statuses");
}
is_deeply(first(\%quiet, peak => 9)->{wrong},
    ['the limit was not reached, the peak was 9'], 'quiet: not reached');
is_deeply(first(\%slow, peak => 9)->{wrong}, [], 'busy: not reached');
my @timeout = (status => { 200 => 1, timeout => 1 });
is_deeply(first(\%quiet, @timeout)->{wrong},
    ['some requests ended with timeout'], 'quiet: a client gave up');
is_deeply(first(\%slow, @timeout)->{unjudged},
    ['some requests ended with timeout'], 'busy: a client gave up');
is_deeply(first(\%slow, @timeout)->{wrong}, [], 'busy: no failure');
is_deeply(shown(first(\%slow)), ['This machine is too busy to judge '
    . '(232/s of 500/s); the limit held: 10 of 10.'], 'busy: said');
is_deeply(shown(first(\%slow, peak => 9), 9), ['This machine is too busy to '
    . 'judge (232/s of 500/s); the limit held: 9 of 10.', 'Not judged: the '
    . 'limit was not reached, the peak was 9.'], 'busy: not judged');
is_deeply(shown(first(\%quiet)), ['The limit held: never more than 10 requests '
    . 'at once over both nodes.'], 'quiet: said');
is_deeply(shown(first(\%slow, peak => 11), 11),
    ['The limit failed: the backend served 11 at once.'], 'busy: failure said');

# Its lines on the screen, unwrapped.
sub shown {
    my ($verdict, $peak) = @_;
    my $said = '';
    open my $to, '>', \$said or die $!;
    my $out = select $to;
    Fleet::Screen->new->verdict({ verdict => $verdict, peak => $peak // 10,
        limit => 10 });
    select $out;
    unlike($said, qr/^.{81}/m, '80 columns');
    return [ split /\n/, $said =~ s/\n +/ /gr ];
}

# the second act: without "fair=", with it, and a fixed limit

sub second {
    my ($machine, %of) = @_;
    my @part = map { {
        name => $_, peak => 10, limit => 10, status => { 200 => 1, 503 => 1 },
        rejected => $_ eq 'shared' ? 20 : 0, machine => $machine,
        %{ $of{$_} // {} },
    } } qw(shared fair fixed5);
    return Fleet::Judge::second(@part);
}

for ([\%quiet, 'quiet'], [\%slow, 'busy']) {
    my ($machine, $how) = @$_;
    is_deeply(second($machine)->{wrong}, [], "$how: shares are fair");
    is_deeply(second($machine, $_ => { peak => 11 })->{wrong},
        ["the backend served 11 requests of $_ at once"],
        "$how: limit of $_ exceeded") for qw(shared fair fixed5);
    is_deeply(second($machine, $_ => { status => { 504 => 1 } })->{wrong},
        ["requests of $_ ended with 504"], "$how: other statuses of $_")
        for qw(shared fair fixed5);
}
my %timed = (
    'the limit was not reached' => [shared => { peak => 9 }],
    'without "fair=" no request of a quiet tenant was rejected' =>
        [shared => { rejected => 0 }],
    'with "fair=" requests of quiet tenants were rejected' =>
        [fair => { rejected => 2 }],
    map { ("requests of $_ ended with timeout" =>
        [$_ => { status => { 200 => 1, timeout => 1 } }]) } qw(shared fair),
);
for my $sentence (sort keys %timed) {
    my ($part, $figures) = @{ $timed{$sentence} };
    is_deeply(second(\%quiet, $part, $figures)->{wrong}, [$sentence],
        "quiet: $sentence");
    my $verdict = second(\%slow, $part, $figures);
    is_deeply([@$verdict{qw(wrong unjudged busy)}],
        [[], [$sentence], '232/s of 500/s'], "busy: $sentence");
    # the machine was busy in the other part only
    my ($other) = grep { $_ ne $part } qw(shared fair);
    is_deeply(second(\%quiet, $part, $figures,
        $other => { machine => \%slow })->{wrong}, [$sentence],
        "busy elsewhere: $sentence");
}

# the third act: a limit of the total, and of each server

sub third {
    my (%of) = @_;
    my @part = map { {
        name => $_, peak => 1, limit => $_ eq 'pool' ? 1 : 4,
        status => { 200 => 1, 503 => 1, timeout => 1 }, %{ $of{$_} // {} },
    } } qw(total pool);
    return Fleet::Judge::third(@part)->{wrong};
}

is_deeply(third(), [], 'each server held');
is_deeply(third(total => { peak => 4 }), [], 'a server has the total');
is_deeply(third($_->[0] => { peak => $_->[1] }),
    ["a server had $_->[1] requests of $_->[0] at once"],
    "limit of $_->[0] exceeded") for ['total', 5], ['pool', 2];
is_deeply(third(pool => { status => { 502 => 1 } }),
    ['requests of pool ended with 502'], 'third act: other statuses');

# requests at a server that has not finished the one before
is(scalar Fleet::Third::taken(map { { start => $_->[0], end => $_->[1] } }
    [4, 5], [0, 2], [1, 3], [3, 4], [6], [7, 8]), 2, 'at a taken server');

# permits that do not come back

{
    package Fleet::Held;
    our @ISA = ('Fleet');
    our %held = (one => 1, other => 1);
    sub state { $_[0] }
    sub exists { $held{ $_[1] } }
}
my $fleet = bless {}, 'Fleet::Held';
$fleet->expect_settled('one', 'other');
$fleet->look;
is_deeply([$fleet->unsettled], ['one', 'other'], 'held at first');
delete $Fleet::Held::held{other};
$fleet->look;
is_deeply([$fleet->unsettled], ['one'], 'one is held');
is_deeply([$fleet->leaked], [], 'not yet too long');
$fleet->{unsettled}{one} -= 1e6;
$fleet->look;
is_deeply([$fleet->leaked], ['one'], 'leaked');
is_deeply([$fleet->unsettled], [], 'not awaited any more');

done_testing();
