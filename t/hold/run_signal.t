#!/usr/bin/perl

# bin/dsem-run: a signal before the command, while curl and the helpers start. The
# permit goes back, and no process stays behind.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(commands shells write_program);
use Dsem::Test;

plan(skip_all => 'no /proc') if !-r '/proc/self/stat';

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

# A "sed" that stands when the start of a process is read for the nth time.
my @starts = ('dsem-run, by the guard', 'curl', 'dsem-run, by the helper',
    'the helper');

mkdir "$tmp/bin" or die;
write_program("$tmp/bin/sed", <<"EOF_SED");
#!/bin/sh
for file; do :; done
case \$file in
/proc/*) read -r left < "$tmp/left" ;;
esac
if [ "\$left" ]; then
    rm "$tmp/left"
    if [ \$left -gt 0 ]; then
        echo \$((left - 1)) > "$tmp/left"
    else
        : > "$tmp/stands"
        while [ -e "$tmp/stands" ]; do sleep .05; done
    fi
fi 2> /dev/null
PATH=\${PATH#*:} exec sed "\$@"
EOF_SED

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    for my $case (map { [ TERM => $_ ], [ KILL => $_ ] } 0 .. $#starts) {
        my ($signal, $nth) = @$case;
        my $what = "$name: $signal while the start of $starts[$nth] is read";

        local $ENV{PATH} = "$tmp/bin:$ENV{PATH}";
        open my $left, '>', "$tmp/left" or die;
        print $left $nth;
        close $left;
        my $run = Dsem::Program->start($shell, $jobs, '--', @command);
        wait_for { -e "$tmp/stands" } 30, 'sed to stand';
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
        like $status, $signal eq 'KILL' ? qr/\Asignal 9\z/
            : qr/\A(?:143|signal 15)\z/, "$what: status";
        is $out, '', "$what: nothing is said";
    }
}

$t->done;
