#!/usr/bin/perl

# bin/dsem-run: a signal before the command, while curl and the helpers start. The
# permit goes back, and no process stays behind. dsem-run ends by that signal, so
# that a script which calls it ends, too.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(commands shells write_program);
use Dsem::Test;

plan(skip_all => 'no /proc') if !-r '/proc/self/stat';
plan(skip_all => 'no ps') if !qx(ps -o lstart= -p $$ 2>&1) || $?;

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=60s;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);
my @command = ('perl', '-e', 'sleep 60; print "out\n"');

# Where there is no /proc, a "ps" reads the start of a process: one that stands when
# it does so for the nth time.
my @starts = ('dsem-run, by the guard', 'the guard', 'curl',
    'dsem-run, by the helper', 'the helper');

mkdir "$tmp/bin" or die;
write_program("$tmp/bin/ps", <<"EOF_PS");
#!/bin/sh
if read -r left < "$tmp/left"; then
    rm "$tmp/left"
    if [ \$left -gt 0 ]; then
        echo \$((left - 1)) > "$tmp/left"
    else
        : > "$tmp/stands"
        while [ -e "$tmp/stands" ]; do sleep .05; done
    fi
fi 2> /dev/null
PATH=\${PATH#*:} exec ps "\$@"
EOF_PS

my $program = $Dsem::Program::path;
my $portable = do {
    local @ARGV = $program;
    local $/;
    write_program("$tmp/dsem-run", <> =~ s{/proc\b}{/none}gr);
};

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    for my $case (map { [ TERM => $_ ], [ KILL => $_ ] } 0 .. $#starts) {
        my ($signal, $nth) = @$case;
        my $what = "$name: $signal while the start of $starts[$nth] is read";

        local $ENV{PATH} = "$tmp/bin:$ENV{PATH}";
        local $Dsem::Program::path = $portable;
        open my $left, '>', "$tmp/left" or die;
        print $left "$nth\n";
        close $left;
        my $run = Dsem::Program->start($shell, $jobs, '--', @command);
        wait_for { -e "$tmp/stands" } 30, 'ps to stand';
        kill $signal => $run->pid;
        unlink "$tmp/stands" or die;

        eventually { !$t->state->held('jobs') } "$what: permit back";
        eventually {
            !grep { /\x00(?:\Q$jobs\E|\Q$tmp\E.*)\x00/ } commands()
        } "$what: no process left";
        # by the last of them, which may have begun meanwhile
        eventually { !(() = glob "$tmp/tmp.*") } "$what: no file left";
        kill KILL => -$run->pid;

        # the command itself may run already
        my ($status, $out) = $run->finish;
        is $status, $signal eq 'KILL' ? 'signal 9' : 'signal 15',
            "$what: status";
        is $out, '', "$what: nothing is said";
    }
}

# a terminal's signal to a script in a loop: bash ends if its program did so by it

my $holder = $node->hold('/jobs');
for my $name (sort keys %shell) {
    for my $signal (qw(HUP INT QUIT TERM)) {
        my $run = Dsem::Program->start($shell{$name}, $jobs, '--', 'true');
        wait_for { $t->state->waiting('jobs') == 1 } 15, 'it waits';
        kill $signal => $run->pid;
        my %number = (HUP => 1, INT => 2, QUIT => 3, TERM => 15);
        my ($status) = $run->finish;
        # some shells ignore this one
        $status = 'signal 3' if $signal eq 'QUIT' && $status eq '131';
        is $status, "signal $number{$signal}", "$name: $signal while it waits";
        eventually { !$t->state->waiting('jobs') } "$name: its place is free";
    }

  SKIP: {
        skip 'no bash', 2 if !$shell{bash};
        my $run = Dsem::Program->start([ '/bin/bash', '-c',
            "for task in 1 2; do @{ $shell{$name} } \"\$@\"; echo next; done",
            'bash' ], $jobs, '--', 'true');
        wait_for { $t->state->waiting('jobs') == 1 } 15, 'it waits';
        kill INT => -$run->pid;
        my ($status, $out) = $run->finish;
        is $status, 'signal 2', "$name: a script in a loop: ended";
        is $out, '', "$name: a script in a loop: no other task";
    }
    eventually { !$t->state->waiting('jobs') } "$name: no program waits";
}
$holder->close;
eventually { !(() = glob "$tmp/tmp.*") } 'no file left';

$t->done;
