package Dsem::Suite;

# Runs test files for "make test", as the harness class of prove, with one
# metronome for all of them. A file that failed while the machine stalled for
# longer than it can stand runs again, alone and once, when all others have
# ended: that result counts, and the file is named. A file that failed without
# a stall has failed, and so has one in which a limit was exceeded: no stall
# that ends before the fence of a lease is the cause of that.
#
# Files of one folder use the machine alike: of many files, neighbours in the
# list do not run at one time. Short ones are last: no long file runs alone then.
# While the processors are idle more files run than -j says.
#
# Called by: prove --harness Dsem::Suite.

use strict;
use warnings;

use parent 'TAP::Harness';

use File::Temp ();
use List::Util qw(head max min);
use POSIX qw(_exit);
use TAP::Parser::Aggregator;

use Dsem::Metronome;
use Dsem::Suite::Browser;
use Dsem::Suite::File;
use Dsem::Suite::Jobs;
use Dsem::Wait qw(now wait_for);

# what a file can stand: a machine that is slower by this factor on average, and
# a stall of so many seconds at once
use constant { SLOWER => 2.5, AT_ONCE => 0.25 };

# s, of the shortest lease in a test; for so long a process of a file can stand,
# unless the file has shorter times
use constant FENCE => 0.75;

# files
use constant { MANY => 100, LAST => 30 };

sub multiplexer_class { 'Dsem::Suite::Jobs' }

sub aggregate_tests {
    my ($self, $aggregate, @tests) = @_;
    @tests = spread(@tests) if @tests >= MANY;
    $self->start_metronome;
    my $browser = Dsem::Suite::Browser->new(@tests);
    $self->callback(parser_args => sub {
        my ($args) = @_;
        $browser->before($args->{source});
        $args->{iterator} = Dsem::Suite::File->new(delete $args->{source});
    });
    my %met;
    $self->callback(made_parser => sub {
        my ($parser, $job) = @_;
        my $met = $met{ $job->[1] } = { from => now, file => $job->[0] };
        $parser->callback(comment => sub {
            $met->{exceeded} ||= $_[0]->comment eq Dsem::Suite::File::EXCEEDED;
        });
    });
    $self->callback(after_test => sub {
        my ($job, $parser) = @_;
        $browser->after($job->[0]);
        @{ $met{ $job->[1] } }{qw(to failed)} = (now, $parser->has_problems);
    });
    my $first = TAP::Parser::Aggregator->new;
    $self->SUPER::aggregate_tests($first, @tests);
    my %result = map { $_ => $first->parsers($_) } $first->descriptions;

    my @again = map {
        my $how = $met{$_}{failed} && $self->stalled($met{$_});
        $how ? [$_, $how] : ();
    } $first->descriptions;
    $self->{again} = \@again;
    if (@again) {
        my $second = TAP::Parser::Aggregator->new;
        $self->jobs(1);
        print STDERR "Again, alone, as the machine stalled:\n";
        $self->SUPER::aggregate_tests($second, map { $_->[0] } @again);
        ($result{$_}) = $second->parsers($_) for $second->descriptions;
        # the summary is as wide as all of them
        $self->formatter->prepare($first->descriptions);
    }
    $aggregate->add($_, $result{$_}) for $first->descriptions;
    $self->{ran} = [ $self->{began}, now ];
}

# Neighbours become distant; the order is the same in every run.
sub spread {
    my (@tests) = @_;
    my $step = int sqrt @tests;
    my @spread = map {
        my $first = $_;
        @tests[grep { $_ % $step == $first } 0 .. $#tests];
    } 0 .. $step - 1;
    my %last = map { $_ => 1 }
        head LAST, grep { m{(?:^|/)t/lua/} } reverse @spread;
    return (grep { !$last{$_} } @spread), grep { $last{$_} } @spread;
}

sub summary {
    my ($self, @args) = @_;
    my @again = @{ $self->{again} // [] };
    my $notes = $self->notes;
    if ($notes && $self->{ran}) {
        my ($from, $to) = @{ $self->{ran} };
        printf "The machine stalled for %.0f %% of the time, for %.1f s at"
            . " once.\n", 100 * $notes->stalled($from, $to) / ($to - $from),
            $notes->longest($from, $to);
    }
    printf "%d file%s ran again:\n", scalar @again, @again == 1 ? '' : 's'
        if @again;
    printf "  %s, the machine %s\n", @$_ for @again;
    return $self->SUPER::summary(@args);
}

# For how long one process of this file can stand, in seconds: for half of a
# "dsem_redis_timeout", as two processes may stand, and from the heartbeat of a
# lease that is due to its fence; for as long as the machine in any case.
sub stands {
    my ($file) = @_;
    my %part = (redis_timeout => 1 / 2, lease => 3 / 4 - 1 / 5);
    my @longest = FENCE;
    open my $fh, '<', $file or return FENCE;
    while (my $line = <$fh>) {
        push @longest, $part{$1} * $2 / ($3 eq 'ms' ? 1000 : 1)
            while $line =~ /\bdsem_(redis_timeout|lease) (\d+)(ms|s|)\b/g;
    }
    return max(AT_ONCE, min(@longest));
}

# In words, whether the machine stalled more than a file can stand.
sub stalled {
    my ($self, $met) = @_;
    my $notes = $self->notes or return;
    my ($from, $to) = @$met{qw(from to)};
    my $took = $to - $from;
    my $longest = $notes->longest($from, $to);
    my $others = $notes->longest_of_others($from, $to);
    $longest = max($longest, $others) if $others > stands($met->{file});
    # a beat that is overdue may be all of the time
    my $slower = $took / max(0.001, $took - $notes->stalled($from, $to));
    return unless $slower > SLOWER || $longest > AT_ONCE;
    return if $met->{exceeded} && $longest < FENCE;
    return sprintf 'was %.1f times slower and stalled %.1f s at once', $slower,
        $longest;
}

###########################################################################

# Unless there is one already.
sub start_metronome {
    my ($self) = @_;
    $self->{began} = now;
    return if $ENV{DSEM_METRONOME};
    $self->{directory} = File::Temp->newdir;
    my $path = $ENV{DSEM_METRONOME} = "$self->{directory}/metronome";
    my $parent = $$;
    my $pid = fork // die "fork: $!\n";
    if (!$pid) {
        $SIG{INT} = 'IGNORE';
        Dsem::Metronome::watch($path);
        Dsem::Metronome::run($path, $parent);
        _exit(0);
    }
    # the summary of a short run needs it, too
    wait_for { -e $path } undef, 'the metronome';
}

sub notes {
    my ($self) = @_;
    return $self->{notes} //=
        Dsem::Metronome->new($ENV{DSEM_METRONOME} // return);
}

1;
