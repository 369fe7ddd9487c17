package Dsem::Suite::Jobs;

# The test files that run at one time: as many as prove is told by -j, and one
# more while the processors are idle, since a test mostly waits. On a machine
# that others use there is none.
#
# Called by: Dsem::Suite, as its multiplexer.

use strict;
use warnings;

use parent 'TAP::Parser::Multiplexer';

use List::Util qw(sum0);

use Dsem::Wait qw(now);

# so much of the time of all processors is unused, over so many seconds
use constant { IDLE => 0.4, OVER => 1 };

# the fields "idle" and "iowait" of the first line of /proc/stat
use constant UNUSED => (3, 4);

sub _initialize {
    my ($self, @args) = @_;
    @$self{qw(stat idle seen)} = ('/proc/stat', 0, { at => -OVER() });
    return $self->SUPER::_initialize(@args);
}

# How many run, for the one who asks whether to start another: the additional
# one does not count.
sub parsers {
    my ($self) = @_;
    my $running = $self->SUPER::parsers;
    return $running && $self->idle ? $running - 1 : $running;
}

sub idle {
    my ($self) = @_;
    my $seen = $self->{seen};
    return $self->{idle} if now < $seen->{at} + OVER;
    open my $fh, '<', $self->{stat} or return 0;
    my (undef, @ticks) = split ' ', <$fh> // '';
    my %new = (at => now, all => sum0(@ticks), unused => sum0(@ticks[UNUSED]));
    my $all = $new{all} - ($seen->{all} // $new{all});
    $self->{idle} = $all && ($new{unused} - $seen->{unused}) / $all > IDLE;
    $self->{seen} = \%new;
    return $self->{idle};
}

1;
