#!/usr/bin/perl

# After an hour without traffic the limit found counts, not one that was tried or
# lowered because of errors when the traffic ended; nothing else is left.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $HOUR = 3_600_000;

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my $one = $scripts->session('one')->configured('a',
    { map { $_ => '64=1-1000' } qw/job errors/ });

# jobs of some seconds that end while half of the limit is tried
my $auto = Dsem::Auto->new($scripts, 'job', [ $one ]);
for (1 .. 3) {
    ok $auto->until(sub { $_[0]{found} < $_[0]{kept} }, 10), 'a trial';
    isnt inspect(), undef, 'shown';
    $scripts->advance(2 * $HOUR);
    is inspect(), undef, 'two hours later: no more';
    my $reply = $one->adjust('job');
    is "@$reply{qw/found limit kept reason floor/}", '64 64 64 none 0',
        'begins with the limit found';
    is $state->lowest_limit('job'), 64, 'in force';
    $auto->pause(1000);
}

# less than an hour ends nothing
ok $auto->until(sub { $_[0]{found} < $_[0]{kept} }, 10), 'a trial';
my $tried = $auto->found;
$scripts->advance($HOUR - 10_000);
isnt inspect(), undef, 'within the hour: shown';
is $one->adjust('job')->{found}, $tried, 'goes on';

# what is known of nodes, and the changes, are of before
$scripts->redis->cmd('HSET', $state->auto_key('job'), 'usual', '90000.000 9');
$scripts->advance(2 * $HOUR);
$one->adjust('job');
is $scripts->redis->cmd('HLEN', $state->auto_key('job')), 1, 'nothing else';

# traffic that ends in an outage
$auto = Dsem::Auto->new($scripts, 'errors', [ $one ], errors => sub { 1 });
ok $auto->until(sub { $_[0]{found} < 10 }, 10), 'lowered because of errors';
$scripts->advance(2 * $HOUR);
is $one->adjust('errors')->{found}, 64, 'the limit found before';

$scripts->done;

sub inspect { return $one->inspect([ 'job' ])->{semaphores}[0]{auto} }
