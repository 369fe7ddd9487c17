#!/usr/bin/perl

# A thousand reconnects make a semaphore look at the sessions that have
# reconnected, and not at all of its accounts.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $state = $scripts->state;
my @crowd = map { $scripts->session("crowd$_")->enter } 1 .. 100;

$one->ask('api', 1, limit => 102);
$state->set_account('api', $_->name, 1, 1, 0) for $two, @crowd;
$state->set_figure('api', held => 102);
is $one->ask('api', 2, limit => 102), 'queued', 'all permits in use';

my %calls;
my $most = 0;
for my $round (1 .. 10) {
    for (@crowd) {
        $_->hello;
        $_->declare('api', held => 1);
        $_->declared;
    }
    my $calls = $scripts->calls(sub {
        is $one->sync_all('api', 5, check => [ [2] ])->{in_use}, 102,
            "round $round: all permits in use";
    });
    $calls{$_} += $calls->{$_} for keys %$calls;
    $most = $calls->{all} if $calls->{all} > $most;
}
is $calls{hscan} // 0, 0, 'no scan';
is $calls{hgetall} // 0, 0, 'accounts not read together';
cmp_ok $most, '<', 30, 'few commands per call';
is $state->figures('api')->{seen}, $scripts->meta('ended'),
    'all ended sessions looked at';

# a permit that a reconnect has left behind
$two->hello;
$two->declared;
is_deeply $one->sync_all('api', 5)->{granted}, [2], 'permit found by the log';
