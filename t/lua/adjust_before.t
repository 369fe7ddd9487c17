#!/usr/bin/perl

# A limit that was found before may be far too high: a third of it is tried first,
# once. Not where most permits are idle, nor with a new name.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my $scripts = Dsem::Scripts->new;
my $one = $scripts->session('one')->configured('a', { new => '10=1-1000',
    map { $_ => '200=1-1000' } qw(high right idle) });

my %of = (peak => sub { $_[0] });
my $auto = auto('high', 30);
is first($auto), 63, 'a third';
ok $auto->until(sub { $_[0]{kept} < 50 }, 10), 'and the next ones are lower';

$auto = auto('right', 200);
is first($auto), 63, 'a third of the right one';
$auto->until(sub { $_[0]{found} == 200 }, 10);
my $from = () = $auto->trace;
$auto->run(60);
my ($least) = sort { $a <=> $b } ($auto->trace)[$from .. $auto->trace - 1];
cmp_ok $least, '<', 200, 'later a lower one, too';
cmp_ok $least, '>=', 100, 'but half of it at least';

is first(auto('idle', 200, used => 0.2)), 100, 'permits idle: half';
is first(auto('new', 200)), 20, 'a new name: the double';

$scripts->done;

# a backend with this knee
sub auto {
    my ($name, $knee, @of) = @_;
    return Dsem::Auto->new($scripts, $name, [ $one ], %of, @of,
        latency => sub { 50 * ($_[0] > $knee ? $_[0] / $knee : 1) });
}

# the first limit that is tried
sub first {
    my ($auto) = @_;
    return $auto->until(sub { $_[0]{found} != $_[0]{kept} }, 20)->{found};
}
