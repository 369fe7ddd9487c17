package Bench::Fair;

# The cases of make bench-fair: four tenants under one cap, the first of them
# noisy, without and with "fair="; and three with shares 1, 2 and 4. Rates are
# parts of the capacity that each round measures first.
#
# Called by: fair.pl.

use strict;
use warnings;

use List::Util qw(max min sum0);

use Bench::Stats qw(jain median);
use Bench::Tenants;

use constant {
    TENANTS => [qw(noisy a b c)], QUIET => [qw(a b c)],
    SHARES => { one => 1, two => 2, four => 4 },
    TIMES => 10,            # load of the noisy tenant / its share
    OVER => 2,              # of the others, where all are overloaded
    WITHIN => 0.85,         # of the others, where they are not
    SLOW => 10,             # service time of the noisy one / the others'
};

# load of the others / their share; service time of the noisy one / theirs;
# parts of a measurement before its begin, until the queue is full, and the hold
# times of slow requests are known
my %CASES = (
    capacity => [OVER, 1, 1 / 6], overload => [OVER, 1, 1 / 6],
    within => [WITHIN, 1, 1 / 6], slow => [WITHIN, SLOW, 1],
    pinned => [WITHIN, 1, 1 / 6],
);

# of the pinned tenants
my %NODE = (noisy => 0, a => 0, b => 1, c => 2);

# seconds; capacity: instead of the one that is measured
sub new {
    my ($class, $stage, %opt) = @_;
    return bless { tenants => Bench::Tenants->new($stage), peak => 0,
        seconds => $opt{seconds}, given => $opt{capacity}, seen => {} },
        $class;
}

sub end { $_[0]{tenants}->end }

sub names { qw(overload within slow pinned) }

# Where tenants are pinned to nodes, a fair queue of each node is compared.
sub paths { $_[1] eq 'pinned' ? qw(node fair) : qw(plain fair) }

sub round {
    my ($self) = @_;
    my $capacity = $self->measure_capacity;
    for my $case ($self->names) {
        for my $path ($self->paths($case)) {
            $self->keep($case, $path, $self->run($case, $path, $capacity));
        }
    }
    $self->keep('shares', 'fair', $self->run_shares($capacity));
}

# Requests per second of the whole fleet, while all tenants are overloaded:
# without or with "fair=", whichever is less.
sub measure_capacity {
    my ($self) = @_;
    my $ideal = 1000 * Bench::Tenants::LIMIT / Bench::Tenants::MS;
    my $capacity = min(map {
        my $seen = $self->run('capacity', $_, $ideal);
        $self->seen_peak($seen);
        $seen->{rate};
    } qw(plain fair));
    $capacity = $self->{given} // $capacity;
    push @{ $self->{capacity} }, $capacity;
    return $capacity;
}

sub run {
    my ($self, $case, $path, $capacity) = @_;
    my ($others, $slow, $warm_up) = @{ $CASES{$case} };
    my $share = $capacity / @{ TENANTS() };
    my $seconds = $self->{seconds} / ($case eq 'capacity' ? 2 : 1);
    return $self->{tenants}->run($warm_up * $seconds, $seconds, map {
        my $noisy = $_ eq 'noisy';
        {
            name => $_, path => $path,
            rate => $noisy ? TIMES * $share / $slow : $others * $share,
            ms => Bench::Tenants::MS * ($noisy ? $slow : 1),
            node => $case eq 'pinned' ? $NODE{$_} : undef,
        }
    } @{ TENANTS() });
}

# Each of the three sends as much as the fleet can serve.
sub run_shares {
    my ($self, $capacity) = @_;
    my %share = %{ SHARES() };
    my $seconds = $self->{seconds};
    return $self->{tenants}->run($seconds / 6, $seconds, map {
        { name => $_, path => "share$share{$_}", rate => $capacity,
            ms => Bench::Tenants::MS }
    } keys %share);
}

sub keep {
    my ($self, $case, $path, $seen) = @_;
    $self->seen_peak($seen, $path eq 'node');
    push @{ $self->{seen}{$case}{$path} }, $seen;
}

# parts: nodes have limits of their own, which are not all reached at a time.
sub seen_peak {
    my ($self, $seen, $parts) = @_;
    $self->{peak} = max($self->{peak}, $seen->{peak});
    $self->{lowest_peak} = min($self->{lowest_peak} // 1e9, $seen->{peak})
        if !$parts;
    my @other = grep { !/^(?:200|503)$/ } keys %{ $seen->{statuses} };
    $self->{failed}{$_} += $seen->{statuses}{$_} for @other;
}

###########################################################################
# figures

sub peak { $_[0]{peak} }
sub lowest_peak { $_[0]{lowest_peak} }
sub failed { %{ $_[0]{failed} // {} } }
sub capacity { median(@{ $_[0]{capacity} }) }

sub rounds {
    my ($self, $case, $path) = @_;
    return @{ $self->{seen}{$case}{$path} };
}

# The median over the rounds of a figure of these tenants.
sub figure {
    my ($self, $case, $path, $code, @tenants) = @_;
    return median(map {
        $code->(@{ $_->{tenant} }{@tenants})
    } $self->rounds($case, $path));
}

sub in_use { sum0(map { $_->{in_use} } @_) }

sub rejected {
    my $sent = sum0(map { $_->{sent} } @_) or return;
    return sum0(map { $_->{rejected} } @_) / $sent;
}

# A quantile of the waits, in ms.
sub wait_at {
    my ($part) = @_;
    return sub {
        my @waits = sort { $a <=> $b } map { @{ $_->{waits} } } @_;
        return @waits ? 1000 * $waits[ int $part * $#waits ] : undef;
    };
}

sub jain_in_use {
    my ($self, $case, $path) = @_;
    return $self->figure($case, $path,
        sub { jain(map { $_->{in_use} } @_) }, @{ TENANTS() });
}

# Rejections of the quiet tenants in all rounds: number, and part.
sub rejected_of_quiet {
    my ($self, $case, $path) = @_;
    my @all = map { @{ $_->{tenant} }{ @{ QUIET() } } }
        $self->rounds($case, $path);
    return sum0(map { $_->{rejected} } @all), rejected(@all);
}

# p99 wait of the quiet tenants, with "fair=" to without.
sub wait_ratio {
    my ($self, $case) = @_;
    my ($fair, $plain) = map {
        my $path = $_;
        [ map { wait_at(0.99)->(@{ $_->{tenant} }{ @{ QUIET() } }) }
            $self->rounds($case, $path) ]
    } qw(fair plain);
    return median(map { $plain->[$_] ? ($fair->[$_] // 0) / $plain->[$_]
        : () } 0 .. $#$plain);
}

# The largest distance of a tenant from its share, as a part of the share.
sub off_shares {
    my ($self) = @_;
    my %share = %{ SHARES() };
    my $sum = sum0(values %share);
    return median(map {
        my $of = $_->{tenant};
        my $all = sum0(map { $_->{in_use} } values %$of) || 1;
        max(map {
            abs($of->{$_}{in_use} / $all / ($share{$_} / $sum) - 1)
        } keys %share);
    } $self->rounds('shares', 'fair'));
}

1;
