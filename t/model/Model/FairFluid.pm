package Model::FairFluid;

# The ideal of "fair=": permits that can be divided at any moment. Each key that
# has requests has its part of them, by its shares; what a key cannot use, as a
# request takes one permit at most, is divided among the others. The requests of
# a key are served in order. Where more wait than the queue takes, the last
# request of the key leaves whose requests need longest with its shares.
#
# It knows how long each request will take, stops requests whenever another key
# is to be served, and goes on with them later: nginx can do nothing of this.
#
# Called by: Model/FairWalk.pm.

use warnings;
use strict;

use List::Util qw(min sum0);

# limit, queue; share => { key => number }, 1 where it is missing; slot: ms
sub new {
    my ($class, %arg) = @_;
    return bless { share => {}, now => 0, left => {}, sum => {}, use => {},
        requests => 0, slot => 100, %arg }, $class;
}

# Requests [ms at which it comes, key, ms that it takes], in order.
sub run {
    my ($self, $requests, $until) = @_;
    for my $request (@$requests) {
        my ($at, $key, $ms) = @$request;
        last if $at >= $until;
        $self->go($at);
        push @{ $self->{left}{$key} }, $ms;
        $self->{sum}{$key} += $ms;
        $self->{requests}++;
        $self->drop if $self->{requests} > $self->{limit} + $self->{queue};
    }
    $self->go($until);
    return $self;
}

sub share { $_[0]{share}{ $_[1] } // 1 }

# The last request of the key with the longest backlog leaves.
sub drop {
    my ($self) = @_;
    my ($longest, $key) = (-1);
    for my $of (sort keys %{ $self->{left} }) {
        my $time = $self->{sum}{$of} / $self->share($of);
        ($longest, $key) = ($time, $of) if $time > $longest;
    }
    $self->{sum}{$key} -= pop @{ $self->{left}{$key} };
    $self->ended($key);
}

sub ended {
    my ($self, $key) = @_;
    $self->{requests}--;
    delete $self->{left}{$key}, $self->{sum}{$key} = 0
        if !@{ $self->{left}{$key} };
}

# Permits of each key now: those that need fewest, by their shares, have all
# that they need.
sub permits {
    my ($self) = @_;
    my $left = $self->{left};
    my ($free, $shares) = ($self->{limit}, sum0(map { $self->share($_) }
        sort keys %$left));
    my %permits;
    for my $key (sort { @{ $left->{$a} } / $self->share($a)
        <=> @{ $left->{$b} } / $self->share($b) || $a cmp $b } keys %$left)
    {
        my $share = $self->share($key);
        $permits{$key} = min(scalar @{ $left->{$key} },
            $free * $share / $shares);
        $free -= $permits{$key};
        $shares -= $share;
    }
    return \%permits;
}

# To this time, from one change of the permits to the next.
sub go {
    my ($self, $until) = @_;
    while ($self->{now} < $until) {
        my $permits = $self->permits;
        my $step = $until - $self->{now};
        for my $key (keys %$permits) {
            my ($list, $whole) = ($self->{left}{$key}, int $permits->{$key});
            my $part = $permits->{$key} - $whole;
            $step = min($step, @$list[0 .. $whole - 1],
                $part > 1e-9 ? $list->[$whole] / $part : ());
        }
        $self->serve($_, $permits->{$_}, $step) for sort keys %$permits;
        $self->{now} += $step;
    }
}

# Some permits of a key for some ms.
sub serve {
    my ($self, $key, $permits, $ms) = @_;
    my ($list, $whole) = ($self->{left}{$key}, int $permits);
    $_ -= $ms for @$list[0 .. $whole - 1];
    $list->[$whole] -= $ms * ($permits - $whole) if $permits - $whole > 1e-9;
    $self->{sum}{$key} -= $ms * $permits;
    for my $i (reverse 0 .. min($whole, $#$list)) {
        next if $list->[$i] > 1e-6;
        splice @$list, $i, 1;
        $self->ended($key);
    }
    my ($from, $slot) = @$self{qw(now slot)};
    my $to = $from + $ms;
    while ($from < $to) {
        my $n = int $from / $slot;
        my $end = min($to, $slot * ($n + 1));
        $self->{use}{$key}[$n] += ($end - $from) * $permits;
        $from = $end;
    }
}

1;
