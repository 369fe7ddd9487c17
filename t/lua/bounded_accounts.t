#!/usr/bin/perl

# Thousands of accounts of dead sessions are removed a few per call, also by
# calls that acquire nothing.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->enter;
my $state = $scripts->state;
my $dead = 8000;

$one->ask('api', 1, limit => 2);
$state->set_account('api', sprintf('dead:0:%x', $_), 1, 1, 0) for 1 .. $dead;
$state->set_figure('api', held => $dead + 1);
$scripts->meta(ended => $scripts->meta('ended') + $dead);

is $one->ask('api', 2, limit => 2), 'queued', 'all permits in use';
is $one->{asked}{more}, 1, 'work is left';

sub fields {
    return $scripts->redis->cmd('HLEN', $state->semaphore_key('api'));
}

my ($syncs, $most, $removed) = (0, 0, 0);
my @granted;
my $reply;
do {
    my $before = fields();
    my $calls = $scripts->calls(sub { $reply = $one->sync('api') });
    push @granted, @{ $reply->{granted} };
    my $less = $before - fields();
    $removed = $less if $less > $removed;
    $most = $calls->{all} if $calls->{all} > $most;
} while ($reply->{more} && ++$syncs < 400);

is $reply->{more}, 0, 'all looked at';
is_deeply \@granted, [2], 'waiting ticket granted';
is $state->held('api'), 2, 'permits of dead sessions released';
is_deeply [ keys %{ $state->accounts('api') } ], [ $one->name ],
    'live account kept';
cmp_ok $removed, '<=', 200, 'few accounts per call';
cmp_ok $most, '<', 20, 'few commands per call';
