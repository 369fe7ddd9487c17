#!/usr/bin/perl

# Jobs on three nodes share five permits, while random ones are killed, cut off
# from nginx, or stopped for a while. Never more than five run at once, and all
# have their turn.

use lib 't/lib';
use Dsem::Pages;
use Dsem::Test;

my $LIMIT = 5;
my $JOBS = $ENV{DSEM_LONG} ? 200 : 60;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my @fleet = $t->fleet(3, <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=5 queue=1000 timeout=300s;
    dsem_hold;
}
EOF_CONF

# A job is a line in the log when it begins and one when it ends; one that is
# killed cannot write its end, so this test does, before its permit can be back.

my $log = $t->dir . '/log';
open my $out, '>>', $log or die "$log: $!";
$out->autoflush;
# The first ones end when as many run as may.
my $job = q{echo "begin $$" >> "$0"; until [ -e "$0.go" ]; do sleep 0.1; done}
    . q{; sleep 0.2; echo "end $$" >> "$0"};

my %running;
for my $n (1 .. $JOBS) {
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        open STDERR, '>>', $t->dir . '/stderr' or die;
        mkdir $ENV{TMPDIR} = $t->dir . "/job$n" or die;
        exec "$Dsem::Test::ROOT/bin/dsem-run", '--lost=kill',
            $fleet[$n % 3]->url('/jobs'), '--', 'sh', '-c',
            $job, $log or die;
    }
    $running{$pid} = $n;
}

sub lines {
    open my $in, '<', $log or die "$log: $!";
    return readline $in;
}

sub began { return map { /^begin (\d+)/ ? ($1 => 1) : () } lines() }

my %first;
wait_for { %first = began(); keys %first >= $LIMIT } 60, 'as many as may run';
open my $go, '>', "$log.go" or die "$log.go: $!";

sub reap {
    for my $pid (keys %running) {
        waitpid($pid, 1) or next;
        delete $running{$pid};
        print $out "end $pid\n" if $? & 127;
    }
    return !%running;
}

# the process that keeps the connection of a job, if it has not ended
sub curl {
    my ($pid) = @_;
    my ($path) = glob $t->dir . "/job$running{$pid}/*/processes" or return;
    open my $in, '<', $path or return;
    my ($curl) = split ' ', readline($in) // '';
    return $curl;
}

# each of them at least once
my @HOW = qw(stopped killed stopped cut);
my $done = 0;
wait_for {
    reap();
    my %began = began();
    my @now = grep { $began{$_} } keys %running;
    if (@now && (rand() < 0.3 || $done < @HOW)) {
        my $pid = $now[rand @now];
        my $how = $HOW[$done++ % @HOW];
        kill STOP => $pid;
        if ($how eq 'stopped') {
            select undef, undef, undef, 0.05;
            kill CONT => $pid;
        } else {
            # its end is written before its permit is free
            print $out "end $pid\n";
            kill KILL => $how eq 'cut' ? curl($pid) // () : $pid;
        }
    }
    reap();
} 120, 'all jobs';

my ($now, $peak, %open) = (0, 0);
for (lines()) {
    my ($what, $pid) = split;
    if ($what eq 'begin') {
        $now++ unless $open{$pid}++;
        $peak = $now if $now > $peak;
    } elsif (delete $open{$pid}) {
        $now--;
    }
}
is $peak, $LIMIT, 'limit reached, never exceeded';
is $now, 0, 'all have ended';
is scalar(grep { /^begin/ } lines()), $JOBS, 'each had its turn';
cmp_ok $done, '>=', @HOW, 'some were killed, cut off and stopped';
my $lost = grep { /the permit is lost/ } split /\n/,
    slurp($t->dir . '/stderr');
cmp_ok $lost, '>', 0, 'those cut off were ended';
note "$done of them, $lost cut off";

$t->done;
