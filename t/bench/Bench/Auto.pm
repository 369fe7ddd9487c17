package Bench::Auto;

# The cases of make bench-auto: the knee of the backend as a fixed limit, the
# limit that is found from 5 and from 200, a backend that halves and comes
# back, a single worker with all of the traffic, and six limiters of the same
# rule that know nothing of each other.
#
# Called by: auto.pl.

use strict;
use warnings;

use List::Util qw(sum0);

use Bench::AutoFleet;

use constant { KNEE => Bench::AutoFleet::KNEE, NEAR => 0.2 };

# fleet, location, first limit, phases of seconds (in units) and knee
my %CASES = (
    fixed => ['fleet', 'fixed', 0, [1, KNEE]],
    low => ['fleet', 'auto', 5, [1, KNEE]],
    high => ['fleet', 'auto', 200, [1, KNEE]],
    halves => ['fleet', 'auto', 20, [0.7, KNEE], [0.7, KNEE / 2],
        [0.9, KNEE]],
    one => ['one', 'auto', 5, [1, KNEE]],
    independent => ['independent', 'auto', 5, [1, KNEE]],
);

sub names { qw(fixed low high halves one independent) }

# seconds: of most phases; clients: of the load
sub new {
    my ($class, $stage, %opt) = @_;
    return bless {
        fleet => Bench::AutoFleet->new($stage, $opt{clients}),
        seconds => $opt{seconds}, seen => {}, statuses => {} }, $class;
}

sub run {
    my ($self, $name) = @_;
    my ($which, $path, $start, @phases) = @{ $CASES{$name} };
    @phases = map { [$self->{seconds} * $_->[0], $_->[1]] } @phases;
    my $seen = $self->{fleet}->run($which, $path, $start, @phases);
    $self->{seen}{$name} = $seen;
    $self->{phases}{$name} = \@phases;
    $self->{statuses}{$_} += $seen->{statuses}{$_}
        for keys %{ $seen->{statuses} };
    # independent ones have no limit in common
    $self->{exceeded} += Bench::AutoFleet::exceeded($seen)
        if $name ne 'independent';
}

sub exceeded { $_[0]{exceeded} }
sub statuses { %{ $_[0]{statuses} } }

# Limits between two times, the sum of all limiters.
sub limits {
    my ($self, $name, $from, $to) = @_;
    return map { sum0(@$_[1 .. $#$_]) }
        grep { $_->[0] >= $from && $_->[0] < $to }
        @{ $self->{seen}{$name}{limits} };
}

sub mean { return @_ ? sum0(@_) / @_ : 0 }

# The mean limit of the last fifth of the time; of one limiter: its number.
sub found {
    my ($self, $name) = @_;
    my $seconds = $self->{seconds};
    return mean($self->limits($name, 0.8 * $seconds, $seconds));
}

# The smallest and the largest one of independent limiters.
sub spread {
    my ($self, $name) = @_;
    my $seconds = $self->{seconds};
    my @of = grep { $_->[0] >= 0.8 * $seconds }
        @{ $self->{seen}{$name}{limits} };
    my @means = sort { $a <=> $b } map {
        my $i = $_;
        mean(map { $_->[$i] } @of);
    } 1 .. $#{ $of[0] };
    return @means[0, -1];
}

# Requests per second, and the 99th percentile of their time at the backend in
# ms, in the second half.
sub figures {
    my ($self, $name) = @_;
    my $seconds = $self->{seconds};
    my @times = sort { $a <=> $b } map { 1000 * ($_->[1] - $_->[0]) }
        grep { $_->[1] >= $seconds / 2 && $_->[1] < $seconds }
        @{ $self->{seen}{$name}{requests} };
    return @times / ($seconds / 2), $times[ int 0.99 * $#times ];
}

# Seconds from the beginning of a phase until the mean limit of a second is near
# its knee; undef: never.
sub reached {
    my ($self, $name, $phase) = @_;
    my @phases = @{ $self->{phases}{$name} };
    my $begin = sum0(map { $_->[0] } @phases[0 .. $phase - 1]);
    my ($seconds, $knee) = @{ $phases[$phase] };
    for (my $at = 0; $at + 1 <= $seconds; $at += 0.1) {
        my $limit = mean($self->limits($name, $begin + $at,
            $begin + $at + 1));
        return $at if abs($limit - $knee) <= NEAR * $knee;
    }
    return undef;
}

# The limit over time, in so many columns.
sub curve {
    my ($self, $name, $columns, $top) = @_;
    my $seconds = sum0(map { $_->[0] } @{ $self->{phases}{$name} });
    my @at = map {
        mean($self->limits($name, $_ * $seconds / $columns,
            ($_ + 1) * $seconds / $columns))
    } 0 .. $columns - 1;
    my @rows = map {
        my $row = $_;
        sprintf '%5d |%s', $row * $top / 10, join('', map {
            my $level = int($_ / $top * 10) + 1;
            $level == $row || $row == 10 && $level > 10 ? '*' : ' '
        } @at) =~ s/ +$//r
    } reverse 1 .. 10;
    return @rows, '      +' . '-' x $columns,
        sprintf '       0%*s', $columns - 1, sprintf '%.0f s', $seconds;
}

1;
