#!/usr/bin/perl

# bin/dsem-run: what comes after the end of a command. The permit goes back without
# a process that has to be started for it, and soon where the command has closed its
# descriptors. What it leaves running has the permit, and the caller is not kept
# waiting for the end of its output.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(shells write_program);
use Dsem::Test;

plan(skip_all => 'no /proc') if !-r '/proc/self/stat';

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);

sub touch {
    my ($file) = @_;
    open my $out, '>', $file or die "$file: $!";
    return;
}

sub all_back {
    my ($name) = @_;
    eventually { !$t->state->held('jobs') } "$name: permit back";
}

# each program that the guard could use stands when the command has ended

my @tools = qw(sed cat ps grep tail);
for my $tool (@tools) {
    write_program("$tmp/$tool", <<"EOF_TOOL");
#!/bin/sh
while [ -e "$tmp/stand" ]; do PATH=\${PATH#*:} sleep .05; done
PATH=\${PATH#*:} exec $tool "\$@"
EOF_TOOL
}

# "sleep" notes for how long

mkdir "$tmp/bin" or die;
write_program("$tmp/bin/sleep", <<"EOF_SLEEP");
#!/bin/sh
echo \$1 >> "$tmp/slept"
PATH=\${PATH#*:} exec sleep "\$@"
EOF_SLEEP

sub slept {
    open my $file, '<', "$tmp/slept" or return 0;
    chomp(my @slept = readline $file);
    return @slept;
}

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    {
        local $ENV{PATH} = "$tmp:$ENV{PATH}";
        my $run = Dsem::Program->start($shell, $jobs, '--', 'sh', '-c',
            ": > $tmp/stand");
        wait_for { -e "$tmp/stand" } 30, 'the command to end';
        all_back("$name: no process is started");
        unlink "$tmp/stand" or die;
        is(($run->finish)[0], 0, "$name: ended");
    }

    my $closes = do {
        local $ENV{PATH} = "$tmp/bin:$ENV{PATH}";
        Dsem::Program->start($shell, $jobs, '--', 'perl', '-MPOSIX', '-e',
            'POSIX::close($_) for 3 .. 255;'
            . ' select undef, undef, undef, .05 until -e $ARGV[0]', "$tmp/end");
    };
    wait_for { slept() > 20 } 30, 'the guard to look often';
    touch("$tmp/end");
    is(($closes->finish)[0], 0, "$name: its descriptors were closed");
    is scalar(grep { $_ > .1 } (slept())[0 .. 20]), 0, "$name: looked for often";
    all_back("$name: closed");
    unlink "$tmp/end", "$tmp/slept";

    # such a daemon runs for so long that the test fails, and not for ever

    my $starts = Dsem::Program->start($shell, $jobs, '--', 'sh', '-c',
        'exec < /dev/null > /dev/null 2>&1; "$@" &', 'sh', 'perl', '-e',
        'for (1 .. 1200) { exit if -e $ARGV[0]; select undef, undef, undef, .05 }'
        . ' open my $late, ">", $ARGV[1]', "$tmp/end", "$tmp/late");
    my ($status, $out) = $starts->finish;
    is $status, 0, "$name: a daemon: status";
    is $out, '', "$name: a daemon: output";
    ok !-e "$tmp/late", "$name: a daemon: not waited for";
    ok $t->state->held('jobs'), "$name: a daemon: it has the permit";
    touch("$tmp/end");
    all_back("$name: a daemon");
    unlink "$tmp/end", "$tmp/late";
}

eventually { !(() = glob "$tmp/tmp.*") } 'no file left';

$t->done;
