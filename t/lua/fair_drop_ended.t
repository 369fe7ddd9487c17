#!/usr/bin/perl

# What is kept of dropped tickets in case that a reply is lost: of sessions that
# have ended it goes while tickets are dropped, some with each drop.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my ($state, $redis) = ($scripts->state, $scripts->redis);
my ($one, $two, $three) = map { $scripts->session($_)->enter }
    qw/one two three/;
my $ticket = 100;

# Tickets of these sessions are dropped, and named.
sub drop {
    my ($name, @of) = @_;
    my $waiting = $state->waiting($name);
    $_->ask($name, ++$ticket, queue => 99, key => 'noisy') for @of;
    $one->ask($name, ++$ticket, queue => $waiting + @of, cost => 1,
        key => "k$ticket") for @of;
    return map { @{ $_->sync($name, fair => 1)->{dropped} } } @of;
}

# The sessions for which numbers are kept.
sub kept {
    my ($name) = @_;
    my @of = sort grep { /:/ }
        @{ $redis->cmd('HKEYS', $state->named_key($name)) };
    return @of;
}

sub begin {
    my ($name) = @_;
    $one->ask($name, ++$ticket, key => 'x');
    $one->ask($name, ++$ticket, queue => 99, key => 'noisy');
}

# sessions that have said bye
begin('api');
my @gone = map { $scripts->session("gone$_")->enter } 1 .. 8;
is scalar(drop('api', $two, @gone)), 9, 'named to each';
is scalar(kept('api')), 9, 'kept for each';
$_->bye for @gone;
is scalar(kept('api')), 9, 'kept after the end';
drop('api', $three);
is_deeply [ kept('api') ], [ $three->name, $two->name ], 'gone with the next drop';

# many of which nothing else is left, among many live ones
begin('many');
drop('many', $two);
my $ends = $scripts->meta('clock') + 5000;
my @live = map { sprintf 'live%d:0:%016x', $_, $_ } 1 .. 400;
my @lost = map { sprintf 'lost%d:0:%016x', $_, $_ } 1 .. 800;
$redis->cmd('HSET', $state->key, map { ($_ => "1 1 5000 $ends 0 -") } @live);
$scripts->meta(sessions => 403);
$redis->cmd('HSET', $state->named_key('many'),
    map { ($_ => ' !1' . ';1234567' x 8) } @live, @lost);
my ($drops, $most) = (0, 0);
my $before = kept('many');
while ($before > 2 * 403 && $drops++ < 200) {
    drop('many', $three);
    my $gone = $before - kept('many');
    $most = $gone if $gone > $most;
    $before -= $gone;
}
cmp_ok $before, '<=', 2 * 403, 'many: as many as live ones are left';
cmp_ok $most, '<', 100, 'many: some with each drop';
my %kept = map { $_ => 1 } kept('many');
is scalar(grep { $kept{$_} } @live, $two->name, $three->name), 402,
    'many: all of live sessions are kept';
note "$drops drops, $most at once";

$scripts->done;
