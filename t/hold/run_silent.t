#!/usr/bin/perl

# bin/dsem-run: several nginx that are silent. The time for their answers, beyond
# the time to wait, is one for all of them, and the last one is asked, too.

use lib 't/lib';
use File::Temp qw(tempdir);
use List::Util qw(sum0);

use Dsem::Program qw(shells write_program);
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

# A run with a "sleep" that says for how long. Time itself is no measure of a busy
# machine, where an nginx that is not silent may need more of it.
sub start {
    my ($name, $shell, @urls) = @_;
    mkdir "$tmp/$name" or die;
    write_program("$tmp/$name/sleep", <<"EOF_SLEEP");
#!/bin/sh
echo \$1 >> $tmp/$name/slept
[ \$(wc -l < $tmp/$name/slept) -le 3 ] || set -- 30
PATH=\${PATH#*:} exec sleep "\$@"
EOF_SLEEP
    local $ENV{PATH} = "$tmp/$name:$ENV{PATH}";
    return Dsem::Program->start($shell, '-n', @urls, '--', 'echo', 'in');
}

sub slept {
    my ($name) = @_;
    open my $file, '<', "$tmp/$name/slept" or return 0;
    return sum0(<$file>);
}

my %shell = shells();
my %run = map { $_ => start($_, $shell{$_}, @urls) } sort keys %shell;

for my $name (sort keys %run) {
    my ($status, $out) = $run{$name}->finish;
    is $status, 69, "$name: none can be asked";
    is $out, $said, "$name: three are silent";
    # 5 s, and little for the end of a dsem-run
    cmp_ok slept($name), '<', 10, "$name: the time is one for all";
}
eventually { !$t->state->held('jobs') } 'nothing is held';

my ($status, $out) = start('fourth', $shell{dash}, @urls,
    $node->url('/jobs'))->finish;
is $out, "${said}in\n", 'a permit of the fourth';
# a connection that the proxy still has is a holder, whoever made it
$_->cut for @silent;
eventually { !$t->state->held('jobs') } 'nothing is held any more';

$t->done;
