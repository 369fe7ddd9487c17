#!/usr/bin/perl

# Most sessions of a large fleet have no traffic for a while, then all have: each
# sends a sample of as many ms as it was told long ago, and they are not counted as
# many more, which would make samples rare for minutes.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my ($N, $PACE) = (600, 6000);

my $scripts = Dsem::Scripts->new;
# a sample does not say of whom it is
my $session = $scripts->session('n1')->configured('a', { api => '10=1-1000' });
my $few = Dsem::Auto->new($scripts, 'api', [ ($session) x 10 ]);
is $few->run(60)->{next}, 1000, 'few';

# all have their first request within two seconds
for (1 .. $PACE / 1000) {
    $scripts->advance(1000);
    $session->beat;
}
my $all = Dsem::Auto->new($scripts, 'api', [ ($session) x $N ],
    time => $few->{time} + $PACE);
for my $i (0 .. $N - 1) {
    $all->{next}[$i] = $all->{time} + int(2000 * $i / $N);
    $all->{last}[$i] = $all->{next}[$i] - $PACE;
}
my $most = 0;
$all->run(20, sub { $most = $_[0]{next} if $_[0]{next} > $most });
cmp_ok $most, '<=', $PACE * 2, 'not counted as many more';
like_pace($all->run(45)->{next}, 'all');

$scripts->done;

sub like_pace {
    my ($next, $what) = @_;
    cmp_ok abs($next - $PACE), '<=', $PACE * 0.15, $what or diag $next;
}
