#!/usr/bin/perl

# Jobs on three nodes share five permits, while random ones are killed or stopped
# for a while. Never more than five run at once, and all have their turn.

use lib 't/lib';
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
my $job = q{echo "begin $$" >> "$0"; sleep 0.2; echo "end $$" >> "$0"};

my %running;
for my $n (1 .. $JOBS) {
    my $pid = fork // die "fork: $!";
    if (!$pid) {
        open STDERR, '>>', $t->dir . '/stderr' or die;
        exec "$Dsem::Test::ROOT/bin/dsem-run",
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

sub reap {
    for my $pid (keys %running) {
        waitpid($pid, 1) or next;
        delete $running{$pid};
        print $out "end $pid\n" if $? & 127;
    }
    return !%running;
}

my ($killed, $stopped) = (0, 0);
wait_for {
    reap();
    my %began = began();
    my @now = grep { $began{$_} } keys %running;
    if (@now && rand() < 0.3) {
        my $pid = $now[rand @now];
        if (rand() < 0.5) {
            # stopped first: its end is written before its permit is free
            $killed += kill STOP => $pid;
            print $out "end $pid\n";
            kill KILL => $pid;
        } else {
            $stopped += kill STOP => $pid;
            select undef, undef, undef, 0.05;
            kill CONT => $pid;
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
cmp_ok $killed, '>', 0, 'some were killed';
cmp_ok $stopped, '>', 0, 'some were stopped';

$t->done;
