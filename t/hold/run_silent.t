#!/usr/bin/perl

# bin/dsem-run: several nginx that are silent. The time for their answers, beyond
# the time to wait, is one for all of them, and the last one is asked, too.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(shells);
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
location /jobs {
    dsem jobs limit=1;
    dsem_hold;
}
EOF_CONF

my @silent = map { $t->proxy('127.0.0.1:' . $node->port) } 1 .. 3;
$_->freeze('s2c') for @silent;
my @urls = map { 'http://' . $_->address . '/jobs' } @silent;
my $said = join '', map { "dsem-run: $_: no answer\n" } @urls;

my $tmp = tempdir(CLEANUP => 1);

# A "sleep" that says for how long. Time itself is no measure of a busy machine,
# where an nginx that is not silent may need more of it, the fourth one here.
{
    open my $file, '>', "$tmp/sleep" or die;
    print $file <<"EOF_SLEEP";
#!/bin/sh
echo \$1 >> $tmp/slept
[ \$(wc -l < $tmp/slept) -le 3 ] || set -- 30
PATH=\${PATH#*:} exec sleep "\$@"
EOF_SLEEP
    close $file;
    chmod 0755, "$tmp/sleep" or die;
}

sub slept {
    open my $file, '<', "$tmp/slept" or return 0;
    my $sum = 0;
    $sum += $_ for readline $file;
    unlink "$tmp/slept";
    return $sum;
}

for my $shell (shells()) {
    my ($name) = $shell->[0] =~ m{(\w+)\z};

    local $ENV{PATH} = "$tmp:$ENV{PATH}";
    my ($status, $out) = Dsem::Program->start($shell, '-n', @urls, '--',
        'echo', 'in')->finish;
    is $status, 69, "$name: none can be asked";
    is $out, $said, "$name: three are silent";
    # 5 s, and little for the end of a dsem-run
    cmp_ok slept(), '<', 10, "$name: the time is one for all";
    eventually { !$t->state->held('jobs') } "$name: nothing is held";
}

local $ENV{PATH} = "$tmp:$ENV{PATH}";
my ($status, $out) = Dsem::Program->start((shells())[0], '-n', @urls,
    $node->url('/jobs'), '--', 'echo', 'in')->finish;
is $out, "${said}in\n", 'a permit of the fourth';

$t->done;
