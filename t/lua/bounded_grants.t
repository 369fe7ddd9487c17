#!/usr/bin/perl

# A raised limit with 20,000 tickets waiting: some hundreds are granted per call,
# the rest by the next ones.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my @others = map { $scripts->session("other$_")->enter } 1 .. 9;
my $many = 20_000;

$scripts->order('api', undef, 1);
for (my $n = 1; $n <= $many; $n += 1000) {
    my $session = ($one, @others)[ $n / 1000 % 10 ];
    $session->sync('api', limit => $many,
        ask => [ map { [ $_, 1, 0, $many ] } $n .. $n + 999 ]);
}
is $scripts->state->waiting('api'), $many, 'queue filled';

$scripts->state->drop_orders;
my ($syncs, $most, $granted, $before, $reply) = (0, 0, 0, 0);
do {
    my $calls = $scripts->calls(sub {
        $reply = $one->sync('api', limit => $many);
    });
    $most = $calls->{all} if $calls->{all} > $most;
    $granted = $reply->{in_use} - $before
        if $reply->{in_use} - $before > $granted;
    $before = $reply->{in_use};
} while (++$syncs < 2000 && $reply->{more});
cmp_ok $granted, '<=', 100, 'some per call';
cmp_ok $most, '<', 60, 'few commands per call';
is $reply->{in_use}, $many, 'all granted';
is $reply->{waiting}, 0, 'none waits';
