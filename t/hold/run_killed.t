#!/usr/bin/perl

# bin/dsem-run is killed while it waits, however long it would: its place in the
# queue is free at once, and nothing of it stays behind.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(commands shells);
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=60s;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);
my $holder = $node->hold('/jobs');

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    for my $options ([], [ '-w', 50 ]) {
        my $what = "$name: @$options";
        my $run = Dsem::Program->start($shell, @$options, $jobs, '--', 'true');
        wait_for { $t->state->waiting('jobs') == 1 } 15, 'it waits';
        kill KILL => $run->pid;

        eventually { $t->state->waiting('jobs') == 0 } "$what: its place is free";
        eventually { !grep { /\x00\Q$jobs\E\x00/ } commands() }
            "$what: no process left";
        eventually { !(() = glob "$tmp/tmp.*") } "$what: no file left";
        my ($status, $out) = $run->finish;
        is $status, 'signal 9', "$what: its end";
        is $out, '', "$what: nothing is said";
    }
}

$holder->close;
$node->hold('/jobs', Prefer => 'wait=0')->close;

$t->done;
