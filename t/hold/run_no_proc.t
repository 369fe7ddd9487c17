#!/usr/bin/perl

# bin/dsem-run where there is no /proc: it learns from ps which processes run. The
# connection of a command is not ended for a silence that has ended, and ends with
# the command.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(shells write_program);
use Dsem::Test;

plan(skip_all => 'no ps') if !qx(ps -o lstart= -p $$ 2>&1) || $?;

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
location /jobs {
    dsem jobs limit=9;
    dsem_hold;
}
EOF_CONF

my $tmp = tempdir(CLEANUP => 1);
local $ENV{TMPDIR} = $tmp;
my ($ps) = grep { -x } map { "$_/ps" } split m{:}, $ENV{PATH};
mkdir "$tmp/bin" or die;
write_program("$tmp/bin/ps", <<"EOF_PS");
#!/bin/sh
# blanks behind the last column, as that of BSD
$ps "\$@" | sed 's/\$/   /'
EOF_PS
local $ENV{PATH} = "$tmp/bin:$ENV{PATH}";
{
    local @ARGV = $t->root . '/bin/dsem-run';
    local $/;
    $Dsem::Program::path =
        write_program("$tmp/dsem-run", <> =~ s{/proc\b}{/none}gr);
}

# longer than an nginx may be silent
my %shell = shells();
my %run = map {
    $_ => Dsem::Program->start($shell{$_}, '-n', $node->url('/jobs'), '--',
        'sleep', 8)
} keys %shell;

for my $name (sort keys %run) {
    my ($status, $out) = $run{$name}->finish;
    is $status, 0, "$name: the command runs to its end" or diag $out;
}
eventually { !$t->state->held('jobs') } 'the permits are back';
eventually { !(() = glob "$tmp/tmp.*") } 'no file left';

$t->done;
