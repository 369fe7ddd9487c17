#!/usr/bin/perl

# Some requests hang until a timeout, and have most of the permits. A higher limit
# is no worse because its new permits are used by quick requests at first. So a
# turn is longer; not where nothing fails, nothing hangs, or permits are idle.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a',
    { long => '4000=1-4000', slow => '4000=1-4000',
    map { $_ => '200=1-1000' } qw(api hang good idle heavy) });

# four of five permits are held by requests that hang
my %hang = (used => 0.2, peak => sub { $_[0] }, errors => sub { 0.05 });
my ($auto, $before, $raised) = (undef, 0, 0);
$auto = Dsem::Auto->new($scripts, 'api', [ $one ], %hang, latency => sub {
    my ($limit) = @_;
    $raised = $auto->{time} if $limit > $before;
    $before = $limit;
    return ($auto->{time} - $raised < 400 ? 300 : 50)
        * ($limit > 600 ? $limit / 600 : 1);
});
ok $auto->until(sub { $_[0]{kept} >= 500 }, 60), 'raised';

my $shortest = turn('hang', %hang);
cmp_ok $shortest, '>=', 1300, 'a turn: each permit is used some times';
$shortest = turn('good', %hang, errors => sub { 0 });
cmp_ok $shortest, '<=', 600, 'nothing fails: a shorter one';
$shortest = turn('idle', %hang, used => 0.6, peak => sub { 0 });
cmp_ok $shortest, '<=', 500, 'permits are idle: a shorter one';
$shortest = turn('heavy', %hang, weight => 5);
cmp_ok $shortest, '<=', 600, 'requests of five permits: a shorter one';

# at most so long, as few end
$shortest = turn('long', %hang, used => 0.01, max => 4000,
    latency => sub { 50 });
cmp_ok $shortest, '<=', 25000, 'not for minutes';
$shortest = turn('slow', %hang, used => 1, max => 4000, latency => sub { 5000 });
cmp_ok $shortest, '>=', 25000, 'but some latencies';

$scripts->done;

# ms of the shortest of some turns
sub turn {
    my ($name, %of) = @_;
    my $auto = Dsem::Auto->new($scripts, $name, [ $one ],
        latency => sub { 50 * ($_[0] > 200 ? $_[0] / 200 : 1) }, %of);
    my ($shortest, $found, $since) = (1e6);
    for (1 .. 8) {
        $found = $auto->{reply}{found} // 0;
        $auto->until(sub { $_[0]{found} != $found }, 120) or last;
        my $took = $auto->{time} - ($since // 0);
        $shortest = $took if $since && $took < $shortest;
        $since = $auto->{time};
    }
    return $shortest;
}
