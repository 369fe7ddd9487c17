#!/usr/bin/perl

# bin/dsem-run as process 1 of a container, which no signal of its own processes
# ends: the loss of its permit ends the command all the same. Its status, signals,
# input and descriptors are those that it has elsewhere, and what it leaves behind
# is reaped.

use lib 't/lib';
use Dsem::Program qw(shells);
use Dsem::Test;

my @container = qw(unshare --pid --fork --kill-child --mount-proc);
plan(skip_all => 'needs root, and unshare --pid')
    if system("@container true 2> /dev/null");

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my @prints = ('perl', '-e', '$| = 1; print "in\n"; sleep 30; print "out\n"');
my @catches = ('perl', '-e', <<'EOF_PERL');
$| = 1;
$SIG{$_} = sub { print "$_[0]\n" } for qw(HUP USR1);
$SIG{TERM} = sub { print "TERM\n"; exit 5 };
print "in\n";
select undef, undef, undef, .05 while 1;
EOF_PERL
my @orphans = ('perl', '-e', <<'EOF_PERL');
for (1 .. 3) {
    if (!fork) { fork // die; exit }
    wait;
}
for (1 .. 300) {
    @ARGV = glob '/proc/[0-9]*/stat';
    exit 0 if !grep { /\) Z 1 / } <>;
    select undef, undef, undef, .1;
}
exit 1;
EOF_PERL

sub start {
    my ($shell, @args) = @_;
    return Dsem::Program->start([ @container, @$shell ], @args);
}

sub first_process {
    my ($run) = @_;
    my $path = '/proc/' . $run->pid . '/task/' . $run->pid . '/children';
    open my $file, '<', $path or die "$path: $!";
    return readline($file) + 0;
}

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    for my $lost ([ term => 143 ], [ kill => 137 ]) {
        my ($action, $status) = @$lost;
        my $run = start($shell, "--lost=$action", $jobs, '--', @prints);
        is $run->line, "in\n", "$name: $action: runs";
        $node->kill_worker($_, 'KILL') for $node->workers;
        is $run->line, "dsem-run: the permit is lost\n",
            "$name: $action: says so";
        my ($ended, $out) = $run->finish;
        is $ended, $status, "$name: $action: its end";
        unlike $out, qr/^out/m, "$name: $action: ended";
        wait_for { $t->state->session_count == 2 } 30, 'new workers';
    }

    my $run = start($shell, $jobs, '--', @catches);
    is $run->line, "in\n", "$name: runs";
    for my $signal (qw(HUP USR1 HUP)) {
        kill $signal => first_process($run);
        is $run->line, "$signal\n", "$name: $signal reaches the command";
    }
    kill INT => first_process($run);
    is $run->line, "TERM\n", "$name: INT as TERM";
    is(($run->finish)[0], 5, "$name: its own status");

    my $holder = $node->hold('/jobs');
    $run = start($shell, $jobs, '--', 'true');
    eventually { $t->state->waiting('jobs') == 1 } "$name: waits";
    kill TERM => first_process($run);
    is(($run->finish)[0], 143, "$name: ended while it waits");
    eventually { $t->state->waiting('jobs') == 0 } "$name: its place is free";
    $holder->close;

    is((start($shell, $jobs, '--', @orphans)->finish)[0], 0,
        "$name: no zombie is left");
    my $words = "@container @$shell bin/dsem-run $jobs -- sh -c 'cat; cat <&9'";
    is `{ echo first; } | $words 9<<EOF\nsecond\nEOF`, "first\nsecond\n",
        "$name: input and descriptors";
    eventually { !$t->state->held('jobs') } "$name: permit back";
}

$t->done;
