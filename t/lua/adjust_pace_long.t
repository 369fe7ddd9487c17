#!/usr/bin/perl

# Sessions whose requests take seconds send fewer samples than they may. They are
# counted as many as they are, so a limit that is used is not taken for one that
# is not.

use lib 't/lib';
use Dsem::Auto;
use Dsem::Scripts;

# a request of 5 s each 13 s: 11.5 permits in use on average
my ($N, $WINDOW) = (30, 13_000);
my %long = (count => 1, sum => 5_000_000, window => $WINDOW);

my $scripts = Dsem::Scripts->new;
my $state = $scripts->state;
# a sample does not say of whom it is
my $session = $scripts->session('n1')->configured('a',
    { api => '20=1-1000', new => '20=1-1000' });

# counted while they had many
Dsem::Auto->new($scripts, 'api', [ ($session) x $N ])->run(15);
like_all(counts('api', 60), 'as many');
my ($reason, $sessions) = (reasons('api', 60), counts('api', 60));
is $reason->{unused}, undef, 'the limit is used';
like_all($sessions, 'still as many');

# a new name
counts('new', 60);
like_all(counts('new', 60), 'of a new name');

$scripts->done;

# Samples of all in turn, for so many seconds.
sub samples {
    my ($name, $seconds, $each) = @_;
    for (1 .. $seconds * 1000 * $N / $WINDOW) {
        $scripts->advance(int($WINDOW / $N));
        $each->($session->adjust($name, %long));
    }
}

sub counts {
    my ($name, $seconds) = @_;
    my %seen;
    samples($name, $seconds, sub { $seen{ $state->rule($name)->{sessions} }++ });
    return \%seen;
}

sub reasons {
    my ($name, $seconds) = @_;
    my %seen;
    samples($name, $seconds, sub { $seen{ $_[0]{reason} }++ });
    return \%seen;
}

sub like_all {
    my ($seen, $what) = @_;
    my @n = sort { $a <=> $b } keys %$seen;
    ok $n[0] >= $N * 0.85 && $n[-1] <= $N * 1.15, $what or diag "@n";
}
