#!/usr/bin/perl

# bin/dsem-run ends no process of another program that has the number of one of
# its own, which ended long ago: of curl, or of the command. Nor does what is left
# of a dsem-run that was killed.

# What follows gives numbers again, so it has numbers of its own.
BEGIN {
    my @own = qw(unshare --pid --fork --kill-child --mount-proc);
    if (!$^C && !$ENV{DSEM_NUMBERS} && system("@own true 2> /dev/null") == 0) {
        $ENV{DSEM_NUMBERS} = 1;
        # the shell reaps what others leave behind
        exec @own, 'sh', '-c', '"$@"; exit $?', 'sh', $^X, $0 or die;
    }
}

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(commands shells);
use Dsem::Test;

plan(skip_all => 'needs root, and unshare --pid') if !$ENV{DSEM_NUMBERS};

my $last = '/proc/sys/kernel/ns_last_pid';

# a number is in use, too, while a process group has it
my @alone = ('perl', '-e', 'if (!fork) { exec @ARGV } wait');

sub next_number {
    open my $file, '>', $last or return;
    syswrite $file, $_[0] - 1 or return;
    return 1;
}

plan(skip_all => "cannot write $last") if !next_number($$ + 1);

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
location /silent {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=1h;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my $silent = $node->url('/silent');
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);

# Another program gets the number. What a process leaves behind is reaped here.
sub reused {
    my ($number) = @_;
    waitpid $number, 0;
    for (1 .. 300) {
        next_number($number);
        my $pid = fork // die "fork: $!";
        if (!$pid) {
            open STDOUT, '>', '/dev/null';
            exec 'sleep', $$ == $number ? 120 : 0 or die;
        }
        return 1 if $pid == $number;
        waitpid $pid, 0;
    }
    return 0;
}

sub lives {
    my ($number) = @_;
    return waitpid($number, 1) == 0;    # WNOHANG
}

# that of a dsem-run
sub files {
    my @files = glob "$tmp/tmp.*";
    return @files;
}

# the numbers that it has noted, that of curl first
sub noted {
    my ($path) = glob "$tmp/tmp.*/processes" or return;
    open my $file, '<', $path or die "$path: $!";
    return map { /^(\d+) / ? $1 : () } readline $file;
}

sub lose {
    $node->kill_worker($_, 'KILL') for $node->workers;
}

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    # curl, while the command runs on

    my $run = Dsem::Program->start($shell, '--lost=warn', $jobs, '--', 'sh',
        '-c', "echo in; while ! test -e $tmp/go; do sleep .05; done");
    is $run->line, "in\n", "$name: runs";
    my ($curl) = noted();
    lose();
    is $run->line, "dsem-run: the permit is lost\n", "$name: lost";
  SKIP: {
        skip 'the number of curl is in use', 3 if !reused($curl);
        open my $go, '>', "$tmp/go" or die;
        is(($run->finish)[0], 0, "$name: ended");
        unlink "$tmp/go";
        eventually { !files() } "$name: the helpers have ended";
        ok lives($curl), "$name: the number of curl is another's";
        kill KILL => $curl;
        waitpid $curl, 0;
    }
    wait_for { $t->state->session_count == 2 } 30, 'new workers';

    # the command, while what it left behind has the permit; no line tells the
    # helper before the permit is lost

    $run = Dsem::Program->start([ @alone, @$shell ], $silent, '--', 'sh', '-c',
        "while ! test -e $tmp/go; do sleep .05; done > $tmp/out 2>&1 &"
        . ' echo $$');
    my $number = $run->line;
    like $number, qr/^\d+$/, "$name: runs in the background";
    waitpid $run->pid, 0;
  SKIP: {
        skip 'the number of the command is in use', 3 if !reused($number);
        lose();
        is $run->line, "dsem-run: the permit is lost\n", "$name: lost";
        is $run->line, undef, "$name: the helper has ended";
        ok lives($number), "$name: the number of the command is another's";
        kill KILL => $number;
        waitpid $number, 0;
    }
    open my $go, '>', "$tmp/go" or die;
    eventually { !files() } "$name: the other helper, too";
    unlink "$tmp/go", "$tmp/out";
    wait_for { $t->state->session_count == 2 } 30, 'new workers';

    # curl, of a dsem-run that was killed while it waited

    my $holder = $node->hold('/jobs');
    $run = Dsem::Program->start($shell, '-w', 3, $jobs, '--', 'true');
    eventually { $t->state->waiting('jobs') == 1 } "$name: waits";
    wait_for { noted() == 2 } 15, 'its helper';
    ($curl) = noted();
    kill STOP => $run->pid;
    kill KILL => $curl;
  SKIP: {
        skip 'the number of curl is in use', 3 if !reused($curl);
        kill KILL => $run->pid;
        eventually { !files() } "$name: the guard has ended";
        eventually {
            !grep { /dsem-run\x00-w\x003\x00\Q$jobs\E\x00/ } commands()
        } "$name: nothing is left";
        ok lives($curl), "$name: the number of curl is another's";
        kill KILL => $curl;
        waitpid $curl, 0;
    }
    kill KILL => $run->pid;
    waitpid $run->pid, 0;
    $holder->close;
    eventually { !$t->state->held('jobs') } "$name: permit back";
}

$t->done;
