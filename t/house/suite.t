#!/usr/bin/perl

# How test files are run: a stall of the machine is measured, and not counted
# by waits and bounds. A file that failed during a stall runs again once, alone,
# and is named; one that failed without a stall has failed.

use strict;
use warnings;

use File::Path qw(make_path);
use FindBin;
use lib "$FindBin::Bin/../lib";
use Test::More;

use Dsem::Metronome;
use Dsem::Process;
use Dsem::Suite;
use Dsem::Test;
use Dsem::Wait;

my $t = Dsem::Test->new;
my $dir = $t->dir;

# notes made by hand: a beat each 50 ms, one that is late by a second, then four
# times slower

my ($time, $stalled) = (100, 0);
my @notes = [$time, 0, 0];
push @notes, [$time += 0.05, $stalled, 0] for 1 .. 20;
push @notes, [$time += 1.05, $stalled += 1, 1];
push @notes, [$time += 0.05, $stalled += 0.0375, 0.003] for 1 .. 20;
write_notes(@notes);
my $notes = Dsem::Metronome->new("$dir/notes");

sub write_notes { write_notes_of('notes', @_) }

sub write_notes_of {
    my ($name, @records) = @_;
    open my $fh, '>', "$dir/$name" or die "$name: $!";
    print $fh pack 'd3', @$_ for @records;
    close $fh;
}

sub near {
    my ($got, $expected, $name) = @_;
    ok(abs($got - $expected) < 1e-6, $name) or diag "$got, not $expected";
}

near($notes->stalled(100, 101), 0, 'no stall');
near($notes->stalled(100.5, 102.05), 1, 'all of a stall');
near($notes->stalled(101, 101.525), 0.5, 'half of it');
near($notes->stalled(102.05, 103.05), 0.75, 'slower');
near($notes->stalled(102.05, 102.09), 0.03, 'less than a beat of it');
near($notes->stalled(103.05, 103.09), 0, 'next beat not yet due');
near($notes->stalled(103.05, 104.05), 1 - Dsem::Metronome::LATE,
    'a beat that is overdue');
near($notes->stalled(104.05, 105.05), 1, 'a stall that goes on');
is($notes->longest(100, 100.9), 0, 'no late beat');
is($notes->longest(100.5, 103), 1, 'the latest beat');
is($notes->longest(102.06, 103), 0.003, 'not before that time');

# one process of several

write_notes([100, 0, 0], [102, 0, 0.1]);
write_notes_of('notes.1', [100, 0, 0], [102, 0, 0.2]);
write_notes_of('notes.2', [100, 0, 0], [101, 0, 0.9], [102, 0, 0.1]);
$notes = Dsem::Metronome->new("$dir/notes");
is($notes->longest(100, 102), 0.1, 'one does not stand');
is($notes->longest_of_others(100, 102), 0.9, 'another one does');
is($notes->longest_of_others(101.5, 102), 0.2, 'and a third one later');
unlink "$dir/notes.1", "$dir/notes.2";

# a process that waits for a processor

my %waited;
sub waits { return Dsem::Metronome::waits("$dir/proc", '/tree', \%waited) }
sub process {
    my ($pid, $cwd, $ms, $comm) = @_;
    make_path("$dir/proc/$pid");
    symlink $cwd, "$dir/proc/$pid/cwd";
    my %text = (schedstat => 5e9 . ' ' . $ms * 1e6 . ' 7', comm => $comm);
    for (grep { defined $text{$_} } keys %text) {
        open my $fh, '>', "$dir/proc/$pid/$_" or die "$_: $!";
        print $fh "$text{$_}\n";
        close $fh;
    }
}
process(1, '/', 9000, 'init');
process(14, '/', 2000, 'ksoftirqd/0');
process(20, '/tree', 4000);
process(21, '/tree/build', 3000);
is(waits(), 0, 'waits: none known yet');
process(1, '/', 9900);
process(20, '/tree', 4100);
process(21, '/tree/build', 3800);
process(22, '/tree', 5000);
near(waits(), 0.8, 'waits: the longest of this tree, not of a new one');
is(waits(), 0, 'waits: once');
process(30, '/', 1000);
waits();
unlink "$dir/proc/30/cwd";
process(30, '/tree', 1000);
waits() for 1 .. 9;
process(30, '/tree', 1700);
near(waits(), 0.7, 'waits: of one that has come into this tree');
process(14, '/', 5000);
near(waits(), 3, 'waits: of sockets');
if (-e '/proc/self/schedstat') {
    my %real;
    Dsem::Metronome::waits('/proc', '/', \%real);
    like($real{$$}, qr/^\d+$/, 'waits: those of this process');
}

# a metronome that is stopped, as with the whole machine

my $metronome = Dsem::Process->spawn(name => 'stalled', log => "$dir/log",
    code => sub { Dsem::Metronome::run("$dir/real", getppid) });
wait_for { ($notes = Dsem::Metronome->new("$dir/real")) && $notes->count > 2 }
    15, 'beats';
my $before = now;
$metronome->signal('STOP');
wait_for { now > $before + 1 } 15, 'a second';
$metronome->signal('CONT');
my $count = $notes->count;
wait_for { $notes->count > $count + 1 } 15, 'beats again';
cmp_ok($notes->stalled($before, now), '>', 0.9, 'stall noted');
cmp_ok($notes->longest($before, now), '>', 0.9, 'as one');

# how it is used

is(ref $t, 'Dsem::Test', 'a test has one');
cmp_ok(took(now - 1), '<=', 1, 'no more than the time itself');
my $value = Dsem::Wait::poll(sub { 0 }, 0.1);
ok(!$value, 'a wait ends');

# files, on a machine of which the test has the notes

sub file {
    my ($name, $text) = @_;
    open my $fh, '>', "$dir/$name.t" or die "$name.t: $!";
    print $fh "use Test::More;\n$text\ndone_testing;\n";
    close $fh;
    return "$dir/$name.t";
}

# Output, and exit status. The notes say that the machine is so many times
# slower from now on, with beats as late as that.
sub run_files {
    my ($slower, $late, @files) = @_;
    write_notes([now - 1, 0, 0], [now + 1000, 1001 * (1 - 1 / $slower), $late]);
    local $ENV{DSEM_METRONOME} = "$dir/notes";
    return prove(@files);
}

sub prove {
    local $ENV{PERL5LIB} = "$FindBin::Bin/../lib";
    local $ENV{HARNESS_ACTIVE};
    my $said = qx(prove -j2 --harness Dsem::Suite @_ 2>&1);
    return ($said, $? >> 8);
}

my @quiet = (Dsem::Suite::SLOWER * 0.9, Dsem::Suite::AT_ONCE * 0.9);
my $passes = file('passes', 'ok 1;');
my $once = file('once', "my \$flag = '$dir/flag';"
    . 'ok -e $flag, "second time"; open my $fh, ">", $flag;');
my $never = file('never', "ok 0, 'never';");

my ($said, $status);
for ([slower => 10, 0.1], ['late once' => 1.1, 0.5]) {
    my ($how, @stall) = @$_;
    ($said, $status) = run_files(@stall, $passes, $once);
    is($status, 0, "$how: passes when it runs again") or diag $said;
    like($said, qr/^1 file ran again:\n  \S+once\.t, the machine was \d/m,
        "$how: named");
    like($said, qr/ times slower and stalled $stall[1] s at once$/m,
        "$how: with the stall");
    like($said, qr/^Result: PASS\n\z/m, "$how: result last");
    like($said, qr/^Files=2, Tests=2,/m, "$how: counted once");
    unlike($said, qr/passes\.t,/, "$how: the others not");
    unlink "$dir/flag";
}

($said, $status) = run_files(@quiet, $passes, $once);
is($status, 1, 'without a stall: failed') or diag $said;
unlike($said, qr/again/, 'not run again');
ok(-e "$dir/flag", 'was run');

($said, $status) = run_files(10, 0.1, $passes, $never);
is($status, 1, 'stalled: failed twice') or diag $said;
like($said, qr/^1 file ran again:\n  \S+never\.t,/m, 'named as well');
is(scalar(() = $said =~ /^# +Failed test 'never'/mg), 2, 'run twice');

# another process stands, for less than a lease and for longer

for ([0.5, 1, 'not run again'], [0.9, 0, 'run again']) {
    my ($late, $expected, $name) = @$_;
    unlink "$dir/flag";
    write_notes_of('notes.1', [now - 1, 0, 0], [now + 1000, 0, $late]);
    ($said, $status) = run_files(@quiet, $once);
    is($status, $expected, "another process $late s late: $name") or diag $said;
    unlink "$dir/notes.1";
}
like($said, qr/once\.t, the machine was \d\S* times slower and stalled 0\.9 s/,
    'with the stall of that process');

# unless the file has shorter times

my @of_file = (['redis_timeout 1s', 0.45, 1], ['redis_timeout 1s', 0.55, 0],
    ['redis_timeout 600ms', 0.35, 0], ['redis_timeout 20ms', 0.2, 1],
    ['redis_timeout 60s', 0.7, 1], ['redis_connect_timeout 100ms', 0.7, 1],
    ['lease 1s', 0.5, 1], ['lease 1', 0.6, 0], ['lease 1m', 0.7, 1]);
for (@of_file) {
    my ($time, $late, $expected) = @$_;
    unlink "$dir/flag";
    write_notes_of('notes.1', [now - 1, 0, 0], [now + 1000, 0, $late]);
    ($said, $status) = run_files(@quiet, file('short', "# dsem_$time;\n"
        . "my \$flag = '$dir/flag'; ok -e \$flag; open my \$fh, '>', \$flag;"));
    is($status, $expected, "$time, another process $late s late") or diag $said;
    unlink "$dir/notes.1";
}

# a limit that was exceeded, unless a lease may have ended

my $above = file('far_above', 'ok 1; is 7, 6, "limit reached, never exceeded";');
my $most = file('most', 'cmp_ok 7, "<=", 6, "limit never exceeded";');
my $peak = file('peak', 'sub up::peak { 7 } is "up"->peak, 6, "one at a time";');
my $below = file('below', 'is 5, 6, "limit reached, never exceeded";');
my $later = file('later', 'ok 0, "drained"; is 7, 6, "never exceeded";');
($said, $status) = run_files(10, 0.1, $above, $most, $peak, $below, $later);
is($status, 1, 'a limit: failed') or diag $said;
like($said, qr/^2 files ran again:$/m, 'a limit: not all again');
unlike($said, qr/(?:above|most|peak)\.t, the machine/, 'exceeded: not again');
like($said, qr/$_\.t, the machine/, "$_: again") for qw(below later);
unlike($said, qr/repeat count/, 'a summary for long names, too');
($said, $status) = run_files(10, 0.8, $above);
like($said, qr/^1 file ran again:$/m, 'after its lease: again');

# each in a process that prove has forked

my $forked = file('forked', 'use FindBin; is $0, __FILE__ =~ s{^\./}{}r;'
    . ' is $FindBin::Bin, "' . $dir . '", "folder";'
    . ' is_deeply \@ARGV, [], "no arguments"; print STDERR "an error\n";'
    . ' END { print STDERR "its end\n" }');
{
    local $ENV{DSEM_METRONOME} = "$dir/notes";
    ($said, $status) = prove($forked);
}
is($status, 0, 'as a program of its own') or diag $said;
like($said, qr/^$_$/m, 'errors shown') for 'an error', 'its end';
my %bad = (dies => 'ok 1; die "died\n";', early => 'ok 1; exit 3;',
    killed => 'ok 1; kill KILL => $$;', syntax => 'ok 1; {');
($said, $status) = run_files(@quiet, map { file($_, $bad{$_}) } sort keys %bad);
is($status, 1, 'failed') or diag $said;
like($said, qr/^\S+$_\.t +\(Wstat: [1-9]/m, "failed: $_") for sort keys %bad;
like($said, qr/^died$/m, 'cause shown');
like($said, qr/^Missing right curly/m, 'as that of a syntax error');

# the order

my @spread = Dsem::Suite::spread(1 .. 500);
is_deeply([sort { $a <=> $b } @spread], [1 .. 500], 'all files, once each');
is(scalar(grep { abs($spread[$_] - $spread[$_ - 1]) < 20 } 1 .. $#spread), 0,
    'neighbours are distant');
@spread = Dsem::Suite::spread(map { ("t/lua/$_.t", "t/other/$_.t") } 1 .. 100);
is(scalar(grep { m{/lua/} } @spread[-30 .. -1]), 30, 'short ones last');
ok((grep { m{/lua/} } @spread[0 .. 20]), 'others among all');

# more while the processors are idle

my ($idle, $all) = (0, 0);
my $jobs = Dsem::Suite::Jobs->new;
$jobs->{stat} = "$dir/stat";
for ([0.5, 0, 'at first'], [0.3, 1, 'idle'], [0.3, 2, 'idle still'],
    [0.2, 2, 'in use'], [0.05, 1, 'busy'], [0.05, 0, 'busy still'],
    [0.05, 0, 'no fewer'], (map { [0.9, $_ < 5 ? $_ : 5, 'no more'] } 1 .. 7))
{
    my ($share, $expected, $name) = @$_;
    ($all, $idle) = ($all + 100, $idle + $share * 100);
    open my $fh, '>', "$dir/stat" or die "stat: $!";
    printf $fh "cpu  %d 0 0 %d 5 0 0 0\ncpu0 0 0 0 0\n", $all - $idle, $idle;
    close $fh;
    $jobs->{seen}{at} = now - Dsem::Suite::Jobs::OVER;
    $jobs->{count} = 8;
    is($jobs->parsers, 8 - $expected, "$name: $expected more");
    $jobs->{count} = 1;
    is($jobs->parsers, 1, "$name: one runs");
    $jobs->{count} = 0;
    is($jobs->parsers, 0, "$name: none");
}
is(ref Dsem::Suite->new->_construct(Dsem::Suite->multiplexer_class), ref $jobs,
    'as the suite does');

# with a metronome of its own

{
    local $ENV{DSEM_METRONOME};
    delete $ENV{DSEM_METRONOME};
    ($said, $status) = prove($passes);
}
is($status, 0, 'passes by itself') or diag $said;
like($said, qr/^The machine stalled for \d+ % of the time, for \d/m,
    'stalls measured');
my $watching = Dsem::Process->spawn(name => 'watching', log => "$dir/log",
    code => sub {
        my $parent = getppid;
        Dsem::Metronome::watch("$dir/all");
        Dsem::Metronome::run("$dir/all", $parent);
    });
my @others = 1 .. Dsem::Metronome::ALL;
eventually { @others == grep { -s "$dir/all.$_" } @others } 'others have beats';
my @beats = map { Dsem::Metronome->new("$dir/all.$_") } @others;
$watching->signal('KILL');
eventually {
    my $before = now;
    my @count = map { $_->count } @beats;
    wait_for { now > $before + 0.5 } 15, 'some beats';
    "@count" eq join ' ', map { $_->count } @beats;
} 'that end with the metronome';

$t->done;
