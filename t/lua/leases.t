#!/usr/bin/perl

# Sessions with different leases, as while old workers drain after a reload:
# whoever comes first after a standstill moves the clock by a quarter of the
# shortest lease, and nobody's lease ends.

use lib 't/lib';
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;

sub session {
    my ($node, $lease) = @_;
    my $session = $scripts->session($node);
    $session->{lease} = $lease;
    return $session;
}

sub leases { join ' ', $state->shard(qw/lease leases/) }

# A command after a standstill: by how much the clock moves, and how long
# nothing is granted.
sub moved {
    my ($standstill, $command) = @_;
    my $clock = $scripts->meta('clock');
    $scripts->meta(wall => $scripts->wall - $standstill);
    $command->();
    my ($now, $recover_until) = $state->shard(qw/clock recover_until/);
    return [ $now - $clock, $recover_until > $now ? $recover_until - $now : 0 ];
}

my $long = session(long => 60_000)->enter;
is leases(), '60000 60000 1', 'one lease';
is_deeply moved(8000, sub { $long->beat }), [ 8000, 0 ], 'long: whole step';

my @short = map { session(short => 5000)->enter } 1, 2;
is leases(), '5000 5000 2 60000 1', 'two leases';
is_deeply [ map { $_->beat->{longest} } $short[0], $long ], [ (60_000) x 2 ],
    'all know the longest';
is $short[0]->hello->{longest}, 60_000, 'with the first reply';
$short[0]->declared;
my %by = (
    beat => sub { $long->beat },
    hello => sub { $long->hello; $long->declared },
    bye => sub { $long->bye(session(other => 60_000)) },
);
for my $command (sort keys %by) {
    is_deeply moved(8000, $by{$command}), [ 1250, 1250 ],
        "$command: quarter of the shortest, and pause";
    is $long->beat->{removed}, 0, "$command: no lease ends";
    $_->beat for @short;
    $scripts->pass(2000, $long, @short);
}

# all who may have admitted requests by their shares have to declare
is_deeply moved(50_000, $by{beat}), [ 1250, 15_000 ],
    'long outage: quarter of the longest';
$scripts->pass(16_000, $long, @short);

# places in a new queue
my $clock = $scripts->meta('clock');
for my $asks (1, 2) {
    $scripts->meta(wall => $scripts->wall - 8000);
    $long->ask('api', $asks, limit => 1, queue => 9, weight => 1);
    is $state->figure('api', 'seq') - $clock, 1250, 'places by the same step'
        if $asks == 1;
}
$scripts->meta(wall => $scripts->wall);

# the queue is lost: the longest lease is waited for
$state->delete_queue('api');
$short[0]->sync('api', ask => [ [ 9, 1, 0, 9 ] ], limit => 1);
my ($now, $until) = $state->shard(qw/clock recover_until/);
is $until - $now, 60_000, 'queue lost: all leases';
is $short[0]->hello->{recovery}, 60_000, 'census as long';
for ($short[1], $long) { $_->hello; $_->declared }
$short[0]->declared;

# the short ones leave, by bye and by the end of their lease
$long->bye($short[0]);
is leases(), '5000 5000 1 60000 1', 'one left';
$scripts->pass(6000, $long);
is leases(), '60000 60000 1', 'lease ended: forgotten';
is_deeply moved(8000, $by{beat}), [ 8000, 0 ], 'long alone: whole step';

# a lease that changes
$long->{lease} = 5000;
$long->beat;
is leases(), '5000 5000 1', 'by beat';
$long->{lease} = 60_000;
$long->enter;
is leases(), '60000 60000 1', 'by hello';

# a bar is as long as the lease of the removed session
my $short = session(short => 5000)->enter;
my $gone = session(gone => 60_000)->enter;
$short->bye($gone);
$scripts->pass(30_000, $short, $long);
is $gone->hello->{status}, 'gone', 'bar of its own lease';

# a failover: a missing session is waited for as long as its lease
is $short->hello(restarted => 1)->{recovery}, 60_000, 'failover: all leases';

$_->bye for $long, $short;
is leases(), '0 ', 'no lease left';

# all state is lost: a session that stays away may have the longest one
$scripts->redis->cmd('FLUSHALL');
is $short->hello(told => 2, longest => 60_000)->{recovery}, 60_000,
    'state lost: the longest that was known';
