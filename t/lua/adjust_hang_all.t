#!/usr/bin/perl

# Beyond a limit all requests hang until a timeout. A turn there ends with the
# first of them. What is left of it fails as late, and lowers no limit below. As
# each attempt costs that much, the next one is twenty times as much later.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my ($WALL, $TIMEOUT) = (30, 2000);

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a',
    { map { $_ => '10=1-1000' } qw(api quick) });

my ($auto, $raised, $lowered, $over) = (undef, 0, -$TIMEOUT, 0);
$auto = Dsem::Auto->new($scripts, 'api', [ $one ], peak => sub { $_[0] },
    latency => sub {
        my $time = $auto->{time};
        $raised = $time if $_[0] > $WALL && !$over;
        $lowered = $time if $_[0] <= $WALL && $over;
        $over = $_[0] > $WALL;
        return 50 if !$over;
        return $time - $raised < $TIMEOUT ? 1e9 : $TIMEOUT;
    },
    errors => sub {
        return 1 if $over;
        return $auto->{time} - $lowered < $TIMEOUT ? 0.7 : 0;
    });
ok $auto->until(sub { $_[0]{found} == $WALL + 1 }, 60), 'up to it, and beyond';
attempt('the first attempt');
my ($least, $most) = ($WALL, 0);
$auto->run(20 * $TIMEOUT / 1000, sub {
    $least = $_[0]{kept} if $_[0]{kept} < $least;
    $most = $_[0]{found} if $_[0]{found} > $most;
});
is $least, $WALL, 'what is left of it lowers nothing';
is $most, $WALL, 'not tried again for twenty times as long';
ok $auto->until(sub { $_[0]{found} > $WALL }, 60), 'but later';
attempt('one more');

# what fails quickly ends first
my ($found, $since) = (0, 0);
$auto = Dsem::Auto->new($scripts, 'quick', [ $one ], peak => sub { $_[0] },
    latency => sub {
        ($found, $since) = ($_[0], $auto->{time}) if $found != $_[0];
        return 300;
    },
    errors => sub {
        my $passed = $auto->{time} - $since;
        return $found > $WALL && $passed > 600 && $passed < 850 ? 1 : 0;
    });
ok $auto->until(sub { $_[0]{found} > $WALL }, 60), 'quick errors: tried';
$since = $auto->{time};
ok $auto->until(sub { $_[0]{found} <= $WALL }, 10), 'given up';
cmp_ok $auto->{time} - $since, '>=', 1200, 'after some latencies';

$scripts->done;

# the time until the higher limit is given up
sub attempt {
    my ($name) = @_;
    my $time = $auto->{time};
    ok $auto->until(sub { $_[0]{found} <= $WALL }, 20), "$name: given up";
    cmp_ok $auto->{time} - $time, '<=', $TIMEOUT + 1200,
        'as the first requests have failed';
}
