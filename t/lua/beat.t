#!/usr/bin/perl

# The heartbeat renews the lease, replies with the number of live sessions, and
# removes sessions with an expired lease, 64 at most per call.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $two = $scripts->session('two')->enter;
my $state = $scripts->state;

$scripts->advance(3000);
my $reply = $one->beat;
is $reply->{status}, 'ok', 'beat accepted';
is $reply->{live}, 2, 'two sessions live';
is $reply->{removed}, 0, 'none removed';
is $state->lease_end($one->name), $scripts->meta('clock') + 5000,
    'lease renewed';

my $ended = $scripts->meta('ended');
$scripts->advance(2500);
$reply = $one->beat;
is $reply->{live}, 1, 'one session lives';
is $reply->{removed}, 1, 'one removed';
is $scripts->meta('ended'), $ended + 1, 'ended counted';
is $state->entry($two->name), undef, 'epoch forgotten';

is $two->beat->{status}, 'resync', 'removed session rejected';
is $two->ask('api', 1), 'resync', 'ask refused';
is $two->hello->{status}, 'ok', 'removed session may return';

# only hello and beat renew a lease
$two->declared;
my $ends = $state->lease_end($two->name);
$scripts->advance(1000);
$two->ask('api', 2);
$two->declare('api');
$two->declared;
is $state->lease_end($two->name), $ends, 'other calls renew nothing';

# a late beat removes all other sessions, but not its sender
$scripts->advance(6000);
is $two->beat->{status}, 'ok', 'late beat accepted';

$_->enter for map { $scripts->session("old$_") } 1 .. 100;
$scripts->advance(6000);
is $two->beat->{removed}, 64, 'not all removed at once';
is $two->beat->{removed}, 36, 'rest removed next time';

my $gen = $two->{gen};
$two->{gen} = $gen + 1;
is $two->beat->{status}, 'resync', 'other generation reported';
