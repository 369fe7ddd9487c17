#!/usr/bin/perl

# make bench-scale: what the scripts cost Redis, first edition and working tree
# compared in one run, and whether the working tree reaches its aims. One
# process calls the real scripts on a private Redis as simulated sessions. All
# is measured in Redis (INFO commandstats, SLOWLOG, its CPU time), so the speed
# of this process has no effect. Figures are medians of interleaved rounds; the
# ratio of two means is the median of the rounds' ratios.
#
# Environment: ROUNDS (25); SCALE (1), factor of all large numbers; EDITION,
# first or second: this edition on both sides, to see the noise; CLOCK=1, the
# clock of Redis is moved where sessions become silent, instead of a wait.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use List::Util qw(min);

use Bench::Bytes;
use Bench::Crowd;
use Bench::Cycle;
use Bench::Edition;
use Bench::Listener;
use Bench::Machine;
use Bench::Print qw(title number grouped);
use Bench::Proc;
use Bench::Queue;
use Bench::Rounds;
use Bench::Stage;
use Bench::Stats qw(median ratios);
use Bench::World;
use Dsem::Clock;

my $stage = Bench::Stage->program('scale');
my (@editions, @verdicts);

my $rounds = $ENV{ROUNDS} || 25;
my $scale = $ENV{SCALE} || 1;
my @kinds = $ENV{EDITION} ? ($ENV{EDITION}) x 2 : qw(first second);
# worlds with thousands of sessions take seconds to build
my $heavy_rounds = min($rounds, 3);

print "$_\n" for Bench::Machine::lines('Redis');
print "rounds  $rounds, of the heavy worlds $heavy_rounds, interleaved\n";
print "columns $kinds[0] and $kinds[1] edition\n";

my $clock = $ENV{CLOCK} && Dsem::Clock->new($stage);
Bench::World::settable($clock) if $clock;
($clock || $stage)->redis(Bench::World::redis_args());
apart();
@editions = map { Bench::Edition->new($stage, $_) } @kinds;
Bench::Listener::start($stage, map { $editions[0]->channel($_) }
    map { Bench::World::name($_) } 1 .. 10_000 * $scale);
means();
longest();
in_all();
bytes();
printf "\n%d of %d aims reached\n", scalar(grep { $_ } @verdicts),
    scalar @verdicts;

# Redis has the first CPU for itself.
sub apart {
    my ($first, @others) = Bench::Proc::cpus();
    return unless @others;
    Bench::Proc::pin($stage->redis->pid, $first);
    Bench::Proc::pin($$, @others);
}

###########################################################################
# means

# kind, batch, and lines: [label, what, at least so many times better, or
# a figure of that size is enough]
sub means {
    my @cases = (
        [ 'quiet', 1, ['quiet, 1 each', 'us', 2.5] ],
        [ 'quiet', 16, ['quiet, 16 each', 'us', 2.5] ],
        [ 'contended', 1, ['contended, 1 each', 'us', 2.2] ],
        [ 'quiet', 64, ['quiet, 64 each', 'us'],
            ['permits/s of a core', 'rate', 1.9, 500_000],
            ['permits/s, by CPU time', 'cpu_rate'] ],
        [ 'empty', 1, ['an empty script', 'us'] ],
    );
    my @seen = cycles(map { [ @$_[ 0, 1 ] ] } @cases);
    title('A sync: us of script on average, and what one core carries');
    head('first', 'second', 'ratio', 'aim');
    for my $i (0 .. $#cases) {
        my (undef, $batch, @lines) = @{ $cases[$i] };
        mean($batch, $_, @{ $seen[$i] }) for @lines;
    }
    print <<'EOF_LEGEND';
sync: releases and acquires so many permits.  quiet: permits are free;
contended: limit 10, 30 wait, the released permit goes to the head of the queue,
in another session, and the acquired one waits; of a core: by script time
EOF_LEGEND
}

# What was seen in each round: for each case a list of both editions.
sub cycles {
    my @cycles = map {
        my ($kind, $batch) = @$_;
        [ map { Bench::Cycle->new($stage, $_, kind => $kind, batch => $batch) }
            @editions ]
    } @_;
    my @seen = map { [ [], [] ] } @cycles;
    for my $round (1 .. $rounds) {
        for my $i (0 .. $#cycles) {
            push @{ $seen[$i][$_] }, $cycles[$i][$_]->measure($scale)
                for $round % 2 ? (0, 1) : (1, 0);
        }
    }
    $_->world->end for map { @$_ } @cycles;
    return @seen;
}

# The aim is a ratio, or (enough) a figure of the second edition.
sub mean {
    my ($batch, $line, @rounds_of) = @_;
    my ($label, $what, $aim, $enough) = @$line;
    my %figure = (us => sub { $_[0]{us} },
        rate => sub { 1e6 * $batch / $_[0]{us} },
        cpu_rate => sub { 1e6 * $batch / $_[0]{cpu} });
    my ($first, $second) = map {
        [ map { $figure{$what}->($_) } @$_ ]
    } @rounds_of;
    my $ratio = median($what eq 'us' ? ratios($first, $second)
        : ratios($second, $first));
    my $enough_by_figure = $enough && median(@$second) >= $enough;
    my $reached = defined $aim
        ? $ratio >= $aim || $enough_by_figure || 0 : undef;
    line($label, map({ $what eq 'us' ? number('%.1f', median(@$_))
        : grouped(median(@$_)) } $first, $second),
        number('%.2f', $ratio), defined $aim ? ">= $aim" : '', $reached);
}

sub head { line('', @_) }

sub line {
    my ($label, $first, $second, $ratio, $aim, $reached) = @_;
    show('%-34s%12s%12s%8s%7s', $aim, $reached, $label, $first, $second,
        $ratio);
}

# A line of a table; reached: undefined where there is no aim.
sub show {
    my ($format, $aim, $reached, @cells) = @_;
    push @verdicts, $reached if defined $reached;
    my $text = sprintf $format, @cells, $aim // '';
    print $text =~ s/ +$//r, defined $reached ? $reached ? ' OK' : ' MISSED'
        : '', "\n";
}

###########################################################################
# worlds

sub longest {
    title('The longest call of a script, ms, and the number of calls');
    cases('ms', Bench::Crowd::cases($scale), Bench::Queue::cases($scale));
    print <<'EOF_LEGEND';
longest: by the slow log, or by CPU time where that is less, then with reading
the command and writing the reply.  checks: of a ticket, one a second, until it
is granted; error: a script failed; cut: it took more than 30 s
EOF_LEGEND
}

sub in_all {
    title('Reconnects: hello, declared and one contended sync of each session');
    cases('s, ms', Bench::Crowd::storms($scale));
    print "with a permit each: that is declared, too\n";
}

sub cases {
    my ($unit, @cases) = @_;
    printf "%-32s%8s%6s%8s%6s%6s%7s\n", '', 'first', '', 'second', '', 'ratio',
        'aim';
    printf "%-32s%8s%6s%8s%6s\n", '', ($unit, 'calls') x 2;
    my $runner = Bench::Rounds->new($stage, $heavy_rounds, @editions);
    my @failed;
    for my $case (@cases) {
        for my $row ($runner->run($case)) {
            row($row);
            # an act has one line that is not indented
            push @failed, failures($row) if $row->{label} =~ /^\S/;
        }
    }
    print "$_\n" for @failed;
}

sub row {
    my ($row) = @_;
    my $value = median(@{ $row->{seen}[1]{all} });
    my $reached = defined $row->{aim} ? !$row->{seen}[1]{failed}
        && defined $value && $value <= $row->{aim} || 0 : undef;
    show('%-32s%8s%6s%8s%6s%6s%7s', $row->{aim} && "<= $row->{aim}", $reached,
        $row->{label},
        map({ cell($row->{what}, $_), grouped(median(@{ $_->{calls} })) }
            @{ $row->{seen} }),
        ratio($row));
}

sub cell {
    my ($what, $of) = @_;
    return $of->{failed} =~ /^more than/ ? 'cut' : 'error' if $of->{failed};
    my $value = median(@{ $of->{all} });
    return $what eq 'value' ? $value
        : sprintf '%.2f', $value;
}

# Of the medians, since three rounds are few; nothing where one is not known.
sub ratio {
    my ($row) = @_;
    return '-' if grep { $_->{failed} } @{ $row->{seen} };
    my ($first, $second) = map { median(@{ $_->{all} }) } @{ $row->{seen} };
    return $first && $second ? sprintf '%.1f', $first / $second : '-';
}

sub failures {
    my ($row) = @_;
    my @failed = map { $_->{failed} } @{ $row->{seen} };
    return map {
        my $text = "$kinds[$_], $row->{label}: "
            . ($failed[$_] =~ s/^Redis replied: | at \S+ line \d+.*//gsr);
        substr $text =~ s/\s+/ /gr, 0, 80;
    } grep { $failed[$_] } 0, 1;
}

###########################################################################
# memory

sub bytes {
    my ($first, $second) = map { [ Bench::Bytes::rows($stage, $_) ] }
        @editions;
    title('Bytes in Redis');
    head('first', 'second', 'ratio', '');
    for my $i (0 .. $#$first) {
        my ($label, $a) = @{ $first->[$i] };
        my $b = $second->[$i][1];
        line($label, map({ sprintf '%.0f', $_ } $a, $b),
            sprintf('%.2f', $a / $b), '');
    }
}
