#!/usr/bin/perl

# A ticket that is cancelled gives its cost back: the key does not pay for
# requests that leave while they wait.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my $ticket = 0;

sub ask {
    my ($key, $cost) = @_;
    $one->ask('api', ++$ticket, queue => 2000, key => $key,
        cost => $cost // 1000);
    return $one->{asked}{asked}{$ticket}{place};
}

sub cancel {
    return $one->sync('api', cancel => [ map { [ $_, 1, 1000, 'a' ] } @_ ]);
}

ask('x');
my @place = map { ask('a') } 1 .. 4;            # tickets 2 to 5
is $place[3] - $place[0], 24000, 'each pays 8000';

# the last one gives its place back
cancel(5);
is ask('a'), $place[3], 'last one: its place is used again';

# another one: places of later ones stay, the next tickets are cheap
cancel(3);
is ask('a'), $place[3] + 8000, 'credit: no place before that of an older one';
is ask('a'), $place[3] + 8001, 'but a cheap one';
is ask('a'), $place[3] + 16000, 'rest of the credit';
is ask('a'), $place[3] + 24000, 'credit used up';

# through the shortcut as through the rest
cancel(4);
$one->sync('api', release => 1, fair => 1);
is ask('a'), $place[3] + 32000, 'behind the last one';
is ask('a'), $place[3] + 32001, 'credit again';

# of a key that has nothing to pay
my $place_b = ask('b');
$one->sync('api', cancel => [ [ $ticket, 1, 1000, 'b' ] ]);
is +($state->tags('api'))[0]{b}, $place_b, 'no debt left';
$one->sync('api', cancel => [ [ 999, 1, 1000, 'c' ], [ 998, 1 ] ]);
is +($state->tags('api'))[0]{c}, undef, 'unknown tickets have no credit';

# all have left, the oldest first: as if they had never come
for my $count (100, 400) {
    $one->bye;
    $one = $scripts->session('one')->enter;
    $scripts->advance(1000);
    ask('x');
    my $first = $ticket;
    for (1 .. $count) { ask('a'); ask('b'); }
    my @mine = map { $first + 2 * $_ - 1 } 1 .. $count;
    cancel(splice @mine, 0, 100) while @mine;
    ask('a');
    my $position = $one->{asked}{asked}{$ticket}{position};
    if ($count == 100) {
        cmp_ok $position, '<=', 2, 'key is new again';
        next;
    }
    cmp_ok $position, '<', 150, "by some steps ($position)";
    cancel($ticket);
    ask('a');
    cmp_ok $one->{asked}{asked}{$ticket}{position}, '<=', 2, 'then new again';
}

# but for one in the middle: behind that
$one->bye;
$one = $scripts->session('one')->enter;
ask('x');
my $first = $ticket;
my %at;
for (1 .. 20) { $at{$_} = ask('a'); ask('b'); }
cancel(map { $first + 2 * $_ - 1 } 1 .. 9, 11 .. 20);
is ask('a'), $at{11}, 'next one goes behind the one that still waits';

# clients that leave do not lower the share of their key
$one->bye;
$one = $scripts->session('one')->enter;
my (%key, %got);
ask('x');
for my $round (1 .. 60) {
    my @mine;
    for (1 .. 4) {
        ask('a');
        push @mine, $ticket;
        $key{$ticket} = 'a';
    }
    ask('b');
    $key{$ticket} = 'b';
    # the older ones have waited too long
    my %waits = map { (split)[2] => 1 } $scripts->queue('api');
    cancel(grep { $waits{$_} } @mine[0, 1]);
    $got{ $key{$_} }++ for @{ $one->sync('api', release => 1, fair => 1)
        ->{granted} };
}
cmp_ok abs($got{a} - $got{b}), '<=', 4, "a $got{a}, b $got{b}";

# with its credit a ticket may come before a heavy one at the head, and takes
# the permit that this one leaves
$one->bye;
$one = $scripts->session('one')->enter;
sub of_two {
    my ($key, $cost, $weight) = @_;
    return $one->ask('api', ++$ticket, limit => 2, queue => 2000,
        weight => $weight // 1, key => $key, cost => $cost);
}

is_deeply [ map { of_two('x', 10) } 1, 2 ], [qw/granted granted/],
    'all permits out';
of_two(@$_) for [ 'h', 1000 ], [ 'e', 4000 ], [ 'e', 10 ], [ 'h', 10, 2 ];
$one->sync('api', cancel => [ $_ ]) for [ $ticket - 3, 1, 1000, 'h' ],
    [ $ticket - 2, 1, 4000, 'e' ], [ $ticket - 1, 1, 10, 'e' ];
is_deeply $one->sync('api', release => 1)->{granted}, [], 'heavy one waits';
is of_two('e', 10), 'granted', 'credit: before it';
