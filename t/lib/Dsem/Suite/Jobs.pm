package Dsem::Suite::Jobs;

# The test files that run at one time: as many as prove is told by -j, and some
# more while the processors are idle, since a test mostly waits. On a machine
# that others use there is none.
#
# Called by: Dsem::Suite, as its multiplexer.

use strict;
use warnings;

use parent 'TAP::Parser::Multiplexer';

use List::Util qw(max min sum0);

use Dsem::Wait qw(now);

# the share of the time of all processors that is unused, over so many seconds:
# one more file runs at each time that it is above, one fewer when it is below
use constant { ABOVE => 0.25, BELOW => 0.1, OVER => 1 };

# additional files
use constant MOST => 5;

# the fields "idle" and "iowait" of the first line of /proc/stat
use constant UNUSED => (3, 4);

sub _initialize {
    my ($self, @args) = @_;
    @$self{qw(stat more seen)} = ('/proc/stat', 0, { at => -OVER() });
    return $self->SUPER::_initialize(@args);
}

# How many run, for the one who asks whether to start another: the additional
# ones do not count.
sub parsers {
    my ($self) = @_;
    my $running = $self->SUPER::parsers or return 0;
    return max 1, $running - $self->more;
}

sub more {
    my ($self) = @_;
    my $seen = $self->{seen};
    return $self->{more} if now < $seen->{at} + OVER;
    open my $fh, '<', $self->{stat} or return 0;
    my (undef, @ticks) = split ' ', <$fh> // '';
    my %new = (at => now, all => sum0(@ticks), unused => sum0(@ticks[UNUSED]));
    my $all = $new{all} - ($seen->{all} // $new{all});
    my $idle = $all ? ($new{unused} - $seen->{unused}) / $all : BELOW;
    $self->{seen} = \%new;
    return $self->{more} = $idle > ABOVE ? min(MOST, $self->{more} + 1)
        : $idle < BELOW ? max(0, $self->{more} - 1) : $self->{more};
}

1;
