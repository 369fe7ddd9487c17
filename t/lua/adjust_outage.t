#!/usr/bin/perl

# An outage: the limit is not raised while all requests fail, and is the one of
# before within seconds when they are answered again.

use warnings;
use strict;

use Test::More;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Dsem::Auto;
use Dsem::Scripts;
use Dsem::Test;

my $scripts = Dsem::Scripts->new(Dsem::Test->new);
my $one = $scripts->session('one')->configured('a', { api => '10=1-1000' });
my $auto = Dsem::Auto->new($scripts, 'api', [ $one ],
    latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });

for my $seconds (3, 60) {
    my $before = $auto->run(25)->{kept};
    cmp_ok abs($before - 20), '<=', 4, "$seconds s: the limit of before";
    my $from = () = $auto->trace;
    $auto->set(errors => sub { 1 })->run($seconds);
    my ($most) = sort { $b <=> $a } ($auto->trace)[$from .. $from + 10 *
        $seconds - 5];
    cmp_ok $most, '<=', $before * 1.25, "$seconds s: not raised";
    $auto->set(errors => sub { 0 });
    ok $auto->until(sub { $_[0]{found} >= 0.8 * $before }, 5),
        "$seconds s: back";
}

$scripts->done;
