#!/usr/bin/perl

# Ten thousand tickets of a silent session at the head: a live ticket is granted
# by its first check. The next sync of the session restores their places.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $silent = $scripts->session('silent')->enter->listen;
my $many = 10_000;

$one->ask('api', 1);
for (my $n = 1; $n <= $many; $n += 500) {
    $silent->sync('api',
        ask => [ map { [ $_, 1, 0, 99_999 ] } $n .. $n + 499 ]);
}
my @order = $scripts->queue('api');
is @order, $many, 'queue filled';
$one->ask('api', 2, queue => 99_999);
$scripts->pass(3000, $one);
my @all = $scripts->queue('api');

my ($reply, @checked, @granted);
my ($syncs, $most) = (0, 0);
do {
    my $calls = $scripts->calls(sub {
        $reply = $one->sync('api', $syncs ? () : (release => 1));
    });
    push @granted, @{ $reply->{granted} };
    $most = $calls->{all} if $calls->{all} > $most;
} while (++$syncs < 300 && $reply->{more});
is_deeply \@granted, [2], 'live ticket granted';
cmp_ok $syncs, '<=', 200, 'within the calls of one check';
cmp_ok $most, '<', 30, 'few commands per call';
is $scripts->state->figure('api', 'parked'), $many, 'others parked';
is_deeply [ $silent->messages ], [], 'silent session granted nothing';

# a call of another session does not meet them again
my $calls = $scripts->calls(sub { $reply = $one->sync('api') });
is $reply->{more}, 0, 'nothing left';
cmp_ok $calls->{all}, '<', 10, 'not met again';

# a word of their session
$most = 0;
$syncs = 0;
do {
    my $calls = $scripts->calls(sub { $reply = $silent->sync('api') });
    $most = $calls->{all} if $calls->{all} > $most;
} while (++$syncs < 300 && $reply->{more});
cmp_ok $most, '<', 30, 'few commands per call';
is $scripts->state->figure('api', 'parked'), 0, 'none parked';
is_deeply [ $scripts->queue('api') ], \@order, 'places restored';
$silent->beat;
$one->sync('api', release => 1);
is_deeply [ grep { /^grant/ } $silent->messages ], ['grant api 1 1 1 1'],
    'first one served';
