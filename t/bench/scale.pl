#!/usr/bin/perl

# make bench-scale: the capacity of one Redis. One process calls the real
# scripts on a private Redis as simulated sessions. The cost is measured in
# Redis (INFO commandstats, and its CPU time), so the speed of this process has
# no effect. Of all rounds the cheapest counts: disturbances only add.
#
# Environment: ROUNDS (5); SCALE (1), factor of all large numbers.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use Carp qw(croak);
use List::Util qw(max min);

use Bench::Machine;
use Bench::Print qw(title number grouped);
use Bench::Stage;
use Bench::World;

my $stage;

$| = 1;
$SIG{PIPE} = 'IGNORE';
$SIG{$_} = sub { exit 1 } for qw(INT TERM HUP);
END { local $?; $stage->end if $stage }

my $rounds = $ENV{ROUNDS} || 5;
my $scale = $ENV{SCALE} || 1;
my $most_sessions = 2 * int 1000 * $scale;

print "$_\n" for Bench::Machine::lines('Redis');
print "rounds  $rounds, interleaved, the cheapest one of each counts\n";

$stage = Bench::Stage->new('scale');
$stage->redis(qw(--databases 64));
Bench::World::listen($stage, $most_sessions);
carried();
grown();

sub world {
    my (%spec) = @_;
    return Bench::World->new($stage, %spec);
}

# The cheapest round of each of these worlds.
sub cheapest {
    my (@worlds) = @_;
    my @seen;
    for (1 .. $rounds) {
        for my $i (0 .. $#worlds) {
            my $n = max(100, 4000 * $scale / $worlds[$i]->batch ** 0.5);
            my $seen = $worlds[$i]->measure(int $n);
            for (keys %$seen) {
                $seen[$i]{$_} = min($seen->{$_}, $seen[$i]{$_} // ());
            }
        }
    }
    return @seen;
}

###########################################################################
# permits per second

sub carried {
    my @specs = (
        map({ { batch => $_ } } 1, 16, 64),
        map({ { batch => $_, kind => 'alone' } } 1, 16, 64),
        { sessions => 10 }, { sessions => $most_sessions },
        map({ { semaphores => int } } 1, 10_000 * $scale, 100_000 * $scale),
        map({ { batch => $_, kind => 'contended', semaphores => 1,
            waiting => 50 } } 1, 16, 64),
        { sessions => $most_sessions, kind => 'contended', semaphores => 1,
            waiting => $most_sessions / 2 },
        { kind => 'recalled', semaphores => 1 },
        { kind => 'empty' },
    );
    my @worlds = map { world(%$_) } @specs;
    my @seen = cheapest(@worlds);

    title('Permits that one Redis core carries');
    printf "%-10s%10s%12s%7s%10s%9s%11s%11s\n", @$_ for
        ['', '', '', 'asks', 'script us', 'CPU us', 'permits/s', 'permits/s'],
        ['', qw(sessions semaphores each), 'each', 'each', 'by script',
            'by CPU'];
    for my $i (0 .. $#worlds) {
        my ($world, $seen) = ($worlds[$i], $seen[$i]);
        my $permits = $world->{batch} * ($world->{kind} eq 'alone' ? 1 / 2
            : $world->{kind} eq 'recalled' ? 2 / 3 : 1);
        printf "%-10s%10s%12s%7d%10.1f%9.1f%11s%11s\n", $world->{kind},
            grouped($world->{sessions}), grouped($world->{semaphores}),
            $world->{batch}, @$seen{qw(script cpu)},
            map { grouped(1e6 * $permits / $_) }
                @$seen{qw(script cpu)};
    }
    print <<'EOF_LEGEND';
each: sync.  steady: permits are released and acquired in one; alone: in two,
and the semaphore is created and deleted; contended: released permits go to the
head of the queue, in another session; recalled: an idle permit goes to another
session, which uses it twice, in three; empty: a script that does nothing, to
compare machines
EOF_LEGEND
}

###########################################################################
# growth

sub grown {
    my $many = int 10_000 * $scale;
    my %one = (semaphores => 1, sessions => 10);
    my %queue = (kind => 'contended', semaphores => 1, sessions => 20);
    my @pairs = (
        ['permits held', { %one }, { %one, held => $many / 10 - 1 }],
        ['tickets waiting', { %queue, waiting => 10 },
            { %queue, waiting => $many + 10 }],
        ['sessions', { %one }, { %one, registered => $many }],
        ['sessions with permits', { %one }, { %one, accounts => $many }],
        ['semaphores', { %one, semaphores => 10 },
            { %one, semaphores => 10, known => $many }],
    );
    my @worlds = map { world(%{ $_->[1] }), world(%{ $_->[2] }) } @pairs;
    my @seen = cheapest(@worlds);

    title("From 10 to $many: what a sync costs Redis, in us of CPU");
    printf "%-24s%10s%10s%10s\n", '', 10, $many, 'ratio';
    for my $i (0 .. $#pairs) {
        my ($few, $more) = map { $_->{cpu} } @seen[ 2 * $i, 2 * $i + 1 ];
        printf "%-24s%10.1f%10.1f%10.2f  %s\n", $pairs[$i][0], $few, $more,
            $more / $few, $more <= 1.5 * $few ? 'within 1.5' : 'MORE than 1.5';
    }
    memory($many, @worlds);
}

sub memory {
    my ($many, $ten, $held, $short, $long, undef, $registered, undef,
        $accounts, undef, $known) = @_;
    my ($empty) = world(kind => 'alone', sessions => 1, semaphores => 1);
    my $state = $empty->{scripts}->state;
    my %shard = $state->shard_keys;
    my @registry = @shard{qw(sessions epochs)};
    my ($s0, $q0) = $state->semaphore_keys('s0');

    title('Bytes in Redis');
    my @rows = (
        ['a semaphore with one permit held',
            $known->bytes($state->semaphore_key('k1'))],
        ['a semaphore without permits', $empty->bytes($s0, $q0)],
        ['one more permit of a session that holds some',
            ($held->bytes($s0) - $ten->bytes($s0)) / $many],
        ['one more session that holds some', ($accounts->bytes($s0)
            - $ten->bytes($s0)) / $many],
        ['a ticket', ($long->bytes($q0) - $short->bytes($q0)) / $many],
        ['a session in the registry', ($registered->bytes(@registry)
            - $ten->bytes(@registry)) / $many],
    );
    printf "%-56s%8.0f\n", @$_ for @rows;
}
