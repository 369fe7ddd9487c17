#!/usr/bin/perl

# After a pause of the traffic, and with a new name, the sessions of a large fleet
# do not all send ten samples a second until they are counted, and they are not
# counted as many more.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

my ($N, $PACE) = (150, 1500);

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
my @sessions = map { $scripts->session("n$_")->configured('a',
    { api => '10=1-1000', new => '10=1-1000' }) } 1 .. $N;

my $auto = Dsem::Auto->new($scripts, 'api', \@sessions);
like_pace($auto->run(15)->{next}, 'as many');

# twenty minutes; then each has its first request in the same second, and sends
# what it has when the pace that it was told has passed
for my $minutes (20, 120) {
    $auto->pause($minutes * 60_000);
    for my $i (0 .. $N - 1) {
        my $first = $auto->{time} + 7 * $i;
        $auto->{last}[$i] = $first;
        $auto->{next}[$i] = $first + $PACE;
    }
    my ($least, $most) = (1e9, 0);
    $auto->run(15, sub {
        my $next = $_[0]{next};
        $least = $next if $next < $least;
        $most = $next if $next > $most;
    });
    cmp_ok $least, '>=', $PACE / 2, "$minutes minutes later: none sends at once";
    cmp_ok $most, '<=', $PACE * 2, 'not counted as many more';
    like_pace($auto->run(15)->{next}, 'counted');
}

# a new name: each of them may use it
$scripts->meta(sessions => 2000);
is $sessions[0]->adjust('new')->{next}, 1000, 'many sessions: one second';

$scripts->done;

sub like_pace {
    my ($next, $what) = @_;
    cmp_ok abs($next - $PACE), '<=', $PACE * 0.15, $what or diag $next;
}
