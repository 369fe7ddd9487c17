#!/usr/bin/perl

# A limit that is only tried, or lowered because of errors and not yet judged, is
# not the one found where that ends: by other bounds, or by an order or a pause.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a',
    { low => '64=1-1000', map { $_ => '8=1-1000' } qw/high next plain/ });

# a lower maximum, between the limit found and the higher one that is tried
my ($auto, $found, $between) = tried('high', 1);
my $other = $scripts->session('other')->configured('b',
    { high => "2=2-$between" });
my $reply = $one->adjust('high');
is $reply->{found}, $found, 'lower maximum: the limit found';
isnt $reply->{reason}, 'bound', 'which is no bound';
ok $auto->until(sub { $_[0]{found} > $found }, 30), 'a higher one is tried';
is +($auto->trace)[-1], $between, 'up to the maximum';
$other->bye;
$one->beat;

# a maximum before the next turn of the higher one; neither is better
($auto, $found, $between) = tried('next', 1,
    above => 7, latency => sub { 50 * ($_[0] / 8) ** 0.6 });
ok $auto->until(sub { $_[0]{found} == $found }, 30), 'back, in a comparison';
$other = $scripts->session('other')->configured('c',
    { next => "2=2-$between" });
ok $auto->until(sub { $_[0]{found} > $found }, 30), 'a higher one is tried';
is +($auto->trace)[-1], $between, 'up to the new maximum';
$other->bye;
$one->beat;

# a plain limit is a maximum
($auto, $found, $between) = tried('plain', 1);
$other = $scripts->session('other')->configured('d', { plain => $between });
is $one->adjust('plain')->{found}, $found, 'plain limit: the limit found';
$other->bye;
$one->beat;

# a higher minimum, above the lower limit that is tried: a node has left
$other = $scripts->session('other')->configured('e', { low => '60=60-1000' });
($auto, $found) = tried('low', -1);
is $found, 64, 'half is tried first';
$one->bye;
$other->beat;
is $other->adjust('low', min => 60)->{found}, 64,
    'higher minimum: the limit found';

$scripts->done;

# Until a limit above (1) or below that found is tried. Returns that found, and
# a number in the middle.
sub tried {
    my ($name, $sign, %arg) = @_;
    my $auto = Dsem::Auto->new($scripts, $name, [ $one ], %arg);
    my $above = $arg{above} // 10;
    my $reply = $auto->until(sub {
        ($_[0]{found} <=> $_[0]{kept}) == $sign && $_[0]{kept} > $above;
    }, 60);
    ok $reply, "$name: a limit is tried";
    return $auto, $reply->{kept},
        int(($reply->{found} + $reply->{kept}) / 2);
}
