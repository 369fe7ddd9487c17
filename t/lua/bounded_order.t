#!/usr/bin/perl

# An order with thousands of tickets or idle permits: some of the work per call,
# which says whether work is left.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->enter;
my @others = map { $scripts->session("other$_")->enter } 1 .. 4;
my $many = 2000;

# Calls until no work is left; returns the number of calls and the last reply.
sub all_calls {
    my ($what, @order) = @_;
    my ($calls, $most, $before, $served, $reply) = (0, 0, undef, 0);
    do {
        my $of = $scripts->calls(sub { $reply = $one->order(@order) });
        my $commands = $of->{all} - ($of->{publish} // 0);
        $most = $commands if $commands > $most;
        $served = $before - $reply->{waiting} if defined $before
            && $before - $reply->{waiting} > $served;
        $before = $reply->{waiting};
        @order = ($order[0], '=', '=');
    } while ($reply->{more} && ++$calls < 500);
    is $reply->{more}, 0, "$what: no work left";
    cmp_ok $most, '<', 30, "$what: few commands in a call";
    cmp_ok $served, '<=', 100, "$what: some tickets in a call";
    return $calls, $reply;
}

$one->ask('api', 1, limit => 1);
for my $session (@others) {
    $session->sync('api', limit => 1,
        ask => [ map { [ $_, 1, 0, $many ] } 1 .. $many / @others ]);
}
my ($calls, $reply) = all_calls('raised', 'api', $many + 1, '=');
cmp_ok $calls, '>', 10, 'many calls';
is "$reply->{held} $reply->{waiting}", $many + 1 . ' 0', 'all granted';

$one->ask('idle', 1, limit => $many + 1);
$state->set_account('idle', sprintf('idle:0:%x', $_), 1, 1, 0, 1)
    for 1 .. $many;
$state->set_figure('idle', held => $many + 1);
$state->set_figure('idle', active => $many);
($calls, $reply) = all_calls('paused', 'idle', '=', 1);
cmp_ok $calls, '>', 10, 'many calls';
is $state->figure('idle', 'recalled'), $many, 'all recalled';
is $reply->{held}, $many + 1, 'and still counted';

# accounts of ended sessions
$scripts->meta(ended => $scripts->meta('ended') + $many);
($calls, $reply) = all_calls('ended', 'idle', '=', '=');
cmp_ok $calls, '>', 10, 'many calls';
is $reply->{held}, 1, 'taken back';
