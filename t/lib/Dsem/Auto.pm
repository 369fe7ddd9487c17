package Dsem::Auto;

# Samples of workers as adjust gets them, of a backend that is no more than a
# function, in the time of the clock in Redis.
#
#   my $auto = Dsem::Auto->new($scripts, 'api', [ $one, $two ],
#       latency => sub { 50 * ($_[0] > 20 ? $_[0] / 20 : 1) });
#   my $reply = $auto->run(30);         # s; the reply to the last sample
#   $auto->run(30, sub { ... });        # called with each reply
#   $auto->pause(7000);                 # ms without samples
#   $auto->until(sub { $_[0]{reason} eq 'errors' }, 10);    # s; or undef, or
#                                       # dies where nobody asks for the result
#
# Options: latency ($limit): ms; errors ($limit, $i): share of failed requests, of
#   the session of that index;
#   chance: of each request to fail; used: requests as a share of the limit, 1;
#   weight: permits of each, 1; peak ($limit): most permits in use at one time,
#   0; scatter: standard deviation of the logarithms of the times, 0; beats:
#   sessions that send heartbeats. set(%options) changes them. found: the
#   number in the shard. trace: the numbers found, of each sample.
#
# Called by: t/lua/adjust*.t.

use warnings;
use strict;

use List::Util qw(reduce);

sub new {
    my ($class, $scripts, $name, $sessions, %arg) = @_;
    return bless {
        scripts => $scripts, name => $name, sessions => $sessions, min => 1,
        max => 1000, latency => sub { 50 }, errors => sub { 0 }, used => 1,
        weight => 1, peak => sub { 0 }, scatter => 0, time => 0, beats => [],
        next => [ map { 100 } @$sessions ],
        last => [ map { 0 } @$sessions ], trace => [], %arg,
    }, $class;
}

sub set {
    my ($self, %arg) = @_;
    @$self{ keys %arg } = values %arg;
    return $self;
}

sub trace { @{ $_[0]{trace} } }
sub found { $_[0]{scripts}->state->lowest_limit($_[0]{name}) }

# The next sample of any session.
sub step {
    my ($self) = @_;
    my $next = $self->{next};
    my $i = reduce { $next->[$b] < $next->[$a] ? $b : $a } 0 .. $#$next;
    my $limit = $self->{scripts}->state->advance_and_look(
        $next->[$i] - $self->{time}, $self->{name});
    if (int($self->{time} / 1000) != int($next->[$i] / 1000)) {
        $_->beat for @{ $self->{beats} };
        $limit = $self->found if @{ $self->{beats} };
    }
    $self->{time} = $next->[$i];
    my $window = $self->{time} - $self->{last}[$i];
    $self->{last}[$i] = $self->{time};

    $limit ||= $self->{reply}{limit} || $self->{min};
    my $ms = $self->{latency}($limit);
    # what is left of a request goes to the next sample
    my $count = $limit * $self->{used} * $window / $ms / @$next
        + ($self->{left}[$i] // 0);
    $self->{left}[$i] = $count - int $count;
    my $failed = int(int($count) * $self->{errors}($limit, $i));
    $failed = grep { rand() < $self->{chance} } 1 .. $count
        if $self->{chance};
    my $good = int($count) - $failed;
    my $log = log(1000 * $ms);
    my $reply = $self->{sessions}[$i]->adjust($self->{name},
        count => int $count, errors => $failed,
        sum => int($good * $ms * 1000), window => $window,
        logs => int(1000 * $good * $log),
        squares => int(1000 * $good * ($log ** 2 + $self->{scatter} ** 2)),
        peak => $self->{peak}($limit), weight => 1000 * $self->{weight},
        min => $self->{min}, max => $self->{max});
    die "adjust: $reply->{status}\n" if $reply->{status} ne 'ok';
    $next->[$i] = $self->{time} + $reply->{next};
    push @{ $self->{trace} }, $reply->{found};
    return $self->{reply} = $reply;
}

sub run {
    my ($self, $seconds, $see) = @_;
    my $end = $self->{time} + 1000 * $seconds;
    while ($self->{time} < $end) {
        $self->step;
        $see->($self->{reply}) if $see;
    }
    return $self->{reply};
}

# No samples for so many ms.
sub pause {
    my ($self, $ms) = @_;
    $self->{scripts}->advance($ms);
    $self->{time} += $ms;
    $_ = $self->{time} for @{ $self->{last} };
    $_ = $self->{time} + 100 for @{ $self->{next} };
}

sub until {
    my ($self, $condition, $seconds) = @_;
    my $end = $self->{time} + 1000 * $seconds;
    while ($self->{time} < $end) {
        my $reply = $self->step;
        return $reply if $condition->($reply);
    }
    die "not reached in $seconds s, found $self->{reply}{found}\n"
        unless defined wantarray;
    return;
}

1;
