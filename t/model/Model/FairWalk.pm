package Model::FairWalk;

# Walks of "fair=" beside its ideal: random traffic of some keys goes through the
# real scripts (Model::FairPlay) and through permits that can be divided
# (Model::FairFluid). Compared is the permit time of each key in each window.
#
# Keys: light ones use a part of their share, busy ones 0.85 of it, greedy ones
# more than all of it; others in turns, or in bursts. Requests of slow ones take
# six times as long; those of slower ones eight times, from 3 s on. A seed is a
# walk, the same at any time: simulated, and nothing depends on the order of a
# hash.
#
# Called by: t/lua/fair_fluid.t.

use warnings;
use strict;

use List::Util qw(max min sum);

use Model::FairFluid;
use Model::FairPlay;

use constant { SLOT => Model::FairPlay::SLOT };

my @KINDS = qw(light busy greedy turns bursts slow slower);

# scripts; seed; ms: time of the walk; kinds: of the keys, or they are random;
# any other: of Model::FairPlay
sub new {
    my ($class, $scripts, %arg) = @_;
    my $ms = delete $arg{ms} // 14_000;
    my $kinds = delete $arg{kinds};
    my $seed = $arg{seed} // 1;
    srand $seed;
    my $limit = $arg{limit} // (4, 8, 10)[rand 3];
    my $mean = $arg{mean} // (50, 100, 200)[rand 3];
    my $self = bless { keys => [], limit => $limit, mean => $mean, ms => $ms },
        $class;
    my @kinds = $kinds ? @$kinds : map { $KINDS[rand @KINDS] }
        1 .. 2 + int rand 5;
    my %play = (queue => 50 + int(rand 100), workers => 1 + int(rand 6),
        timeout => 60_000, limit => $limit, %arg);
    $self->{play} = Model::FairPlay->new($scripts, %play, seed => $seed + 1000);
    # names of sessions take some random numbers
    srand $seed + 1;
    $self->{queue} = $play{queue};
    $self->key($_, $kinds[$_]) for 0 .. $#kinds;
    my $sum = 0;
    $sum += $_->{share} for @{ $self->{keys} };
    $self->traffic($_, $sum) for @{ $self->{keys} };
    return $self;
}

sub key {
    my ($self, $n, $kind) = @_;
    my $mean = $self->{mean} * (0.5 + rand) * ($kind eq 'slow' ? 6 : 1);
    my $exponential = rand() < 0.3;
    my $ms = sub {
        my $time = $exponential ? min(-log(1 - rand) * $mean, 4 * $mean)
            : $mean * (0.8 + rand 0.4);
        $time *= 8 if $kind eq 'slower' && $self->{play}{now} > 3000;
        return 1 + int $time;
    };
    push @{ $self->{keys} }, { name => "$kind-$n", kind => $kind,
        mean => $mean, ms => $ms, share => 1 + int(rand() < 0.4 ? rand 4 : 0) };
}

# Requests at random times: parts of its share, or many times that.
sub traffic {
    my ($self, $key, $shares) = @_;
    my ($play, $to, $kind) = (@$self{qw(play ms)}, $key->{kind});
    my $part = $self->{limit} * $key->{share} / $shares;
    my $full = 1000 * $part / $key->{mean};
    my @how = (key => $key->{name}, ms => $key->{ms}, share => $key->{share});
    my $open = sub {
        my ($times, $from, $until) = @_;
        $play->open(@how, rate => $times * $full, from => $from, to => $until);
    };
    return $open->(0.2 + rand 0.4, 0, $to) if $kind eq 'light';
    return $open->(0.85, 0, $to) if $kind eq 'busy';
    return $open->(1.5 + rand 2, 0, $to) if $kind =~ /^(?:greedy|slow)$/;
    return $open->(0.3 + rand 0.7, 0, $to) if $kind eq 'slower';
    my $at = rand 2000;
    while ($at < $to) {
        my $length = 300 + rand 3000;
        if ($kind eq 'bursts') {
            $play->burst(@how, requests => 1 + int rand 2 * $self->{limit},
                from => $at);
        } else {
            $open->(0.5 + rand 3, $at, min($to, $at + $length));
        }
        $at += $length + rand 3000;
    }
}

sub run {
    my ($self) = @_;
    my $play = $self->{play}->run($self->{ms});
    my $fluid = Model::FairFluid->new(limit => $self->{limit},
        queue => $self->{queue}, slot => SLOT,
        share => { map { $_->{name} => $_->{share} } @{ $self->{keys} } });
    $self->{fluid} = $fluid->run($play->{came}, $self->{ms});
    return $self;
}

# ms of the longest request that came.
sub longest { max(map { $_->[2] } @{ $_[0]{play}{came} }) }

# In words.
sub text {
    my ($self) = @_;
    return "limit=$self->{limit} queue=$self->{queue}, "
        . @{ $self->{play}{worker} } . ' workers, '
        . @{ $self->{play}{came} } . ' requests up to ' . $self->longest
        . ' ms, ' . join ', ', map { "$_->{name} $_->{share}" }
        @{ $self->{keys} };
}

# The most by which the share of a key, in any window of so many ms, is less and
# more than the ideal.
sub error {
    my ($self, $window) = @_;
    my ($less, $more) = (0, 0);
    my $n = $window / SLOT;
    for my $key (map { $_->{name} } @{ $self->{keys} }) {
        my $sum = 0;
        my @at = (0);
        for my $i (0 .. $self->{ms} / SLOT - 1) {
            $sum += ($self->{play}{use}{$key}[$i] // 0)
                - ($self->{fluid}{use}{$key}[$i] // 0);
            push @at, $sum;
        }
        for my $i ($n .. $#at) {
            my $by = ($at[$i] - $at[ $i - $n ]) / $window / $self->{limit};
            $less = max($less, -$by);
            $more = max($more, $by);
        }
    }
    return $less, $more;
}

1;
