#!/usr/bin/perl

# bin/dsem-run: a command holds a permit while it runs. Options, exit statuses,
# signals, and what happens when the permit is lost.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(commands inputs shells);
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold;
}
location /two {
    dsem two limit=2 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
location /dry {
    dsem_dry_run on;
    dsem $arg_name limit=1;
    dsem_hold;
}
location /page { return 200 "granted\n"; }
location /secret { return 403; }
EOF_CONF

my $jobs = $node->url('/jobs');
my $two = $node->url('/two');
my $nobody = 'http://127.0.0.1:' . $t->free_port . '/';
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);
my %shell = shells();

sub start { return Dsem::Program->start(@_) }
sub run { return start(@_)->finish }

sub run_is {
    my ($name, $shell, $args, $status, $out) = @_;
    my @got = run($shell, @$args);
    is $got[0], $status, "$name: status";
    like $got[1], $out, "$name: output";
}

sub all_back {
    my ($name) = @_;
    eventually { !$t->state->held('jobs') }
        "$name: permit back";
}

for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    # the command's own status, words, input and descriptors

    run_is "$name: words", $shell,
        [ $jobs, '--', 'printf', '<%s>', '', 'a b', '--', '*' ],
        0, qr/\A<><a b><--><\*>\z/;
    run_is "$name: status", $shell, [ $jobs, '--', 'sh', '-c', 'exit 7' ],
        7, qr/\A\z/;
    run_is "$name: killed", $shell, [ $jobs, '--', 'sh', '-c', 'kill -9 $$' ],
        'signal 9', qr/\A\z/;
    run_is "$name: no command", $shell, [ $jobs, '--', './none' ],
        127, qr/none/;
    {
        my @mine = map { "$_=mine" } qw(config conflict curl dir granted line
            lost option reason urls usage value wait word);
        local @ENV{map { /(\w+)/ } @mine} = ('mine') x @mine;
        my ($status, $out) = run($shell, $jobs, '--', 'env');
        is_deeply [sort grep { /=mine$/ } split /\n/, $out], \@mine,
            "$name: environment";
    }
    all_back($name);

    # a command that closes its descriptors holds the permit until it ends

    my $closes = start($shell, $jobs, '--', 'perl', '-MPOSIX', '-e',
        'POSIX::close($_) for 3 .. 255; syswrite STDOUT, "in\n";'
        . ' select undef, undef, undef, .05 until -e $ARGV[0]', "$tmp/end");
    is $closes->line, "in\n", "$name: descriptors are closed";
    wait_for { !grep { m{\A\Q$tmp\E/.*/alive} } inputs() } 15,
        'the pipe to end';
    run_is "$name: not beside it", $shell,
        [ '-w', 1, $jobs, '--', 'echo', 'in' ], 75, qr/no permit/;
    open my $end, '>', "$tmp/end" or die;
    is(($closes->finish)[0], 0, "$name: ended");
    unlink "$tmp/end";
    all_back($name);

    # URLs are tried in turn

    run_is "$name: second URL", $shell, [ $nobody, $jobs, '--', 'echo', 'in' ],
        0, qr/\A\Qdsem-run: $nobody\E: .*\nin\n\z/;
    run_is "$name: no nginx", $shell, [ $nobody, '--', 'echo', 'in' ],
        69, qr/\A\Qdsem-run: $nobody\E: curl: .*\n\z/;
    run_is "$name: refused access", $shell,
        [ $node->url('/secret'), '--', 'echo', 'in' ],
        69, qr/the answer is 403\n\z/;
    run_is "$name: another page", $shell,
        [ $node->url('/page'), '--', 'echo', 'in' ],
        69, qr/no permits are held there\n\z/;

    run_is "$name: a dry run without a limit", $shell,
        [ $node->url('/dry'), '--', 'echo', 'in' ], 0, qr/\Ain\n\z/;

    # no permit

    my $holder = $node->hold('/jobs');
    run_is "$name: not at once", $shell, [ '-n', $jobs, '--', 'echo', 'in' ],
        75, qr/\Adsem-run: no permit at \Q$jobs\E\n\z/;
    run_is "$name: not in time", $shell,
        [ '-w', 1, '--conflict-exit-code=3', $jobs, '--', 'echo', 'in' ],
        3, qr/no permit/;

    # signals, while it waits and while it runs

    my $waits = start($shell, '-w', 61, $jobs, '--', 'echo', 'in');
    eventually { $t->state->waiting('jobs') == 1 } "$name: waits";
    kill TERM => $waits->pid;
    is(($waits->finish)[0], 'signal 15', "$name: ended while it waits");
    eventually { $t->state->waiting('jobs') == 0 } "$name: its place is free";
    eventually { !grep { /dsem-run\x00-w\x0061\x00\Q$jobs\E\x00/ } commands() }
        "$name: nothing is left that would kill another process later";
    eventually { !grep { /\Asleep\x0066\x00/ } commands() }
        "$name: nor sleeps as long";
    my $next = start($shell, $jobs, '--', 'sh', '-c',
        'trap "echo caught; exit 5" TERM; echo in; while :; do sleep .1; done');
    eventually { $t->state->waiting('jobs') == 1 } "$name: the next one waits";
    $holder->close;
    is $next->line, "in\n", "$name: runs";
    kill TERM => -$next->pid;
    my ($status, $out) = $next->finish;
    is $status, 5, "$name: the group's signal is the command's";
    like $out, qr/caught\n\z/, "$name: and it says so";
    all_back($name);

    # the permit is lost

    my @lost = ([ 'term', 'signal 15', '' ]);
    push @lost, [ 'warn', 0, 'out' ], [ 'kill', 'signal 9', '' ]
        if $name eq 'dash';
    for my $lost (@lost) {
        my $run = start($shell, "--lost=$lost->[0]", $two, '--', 'sh', '-c',
            "echo in; while ! test -e $tmp/go; do sleep .05; done; echo out");
        is $run->line, "in\n", "$name: $lost->[0]: runs";
        $node->kill_worker($_, 'KILL') for $node->workers;
        is $run->line, "dsem-run: the permit is lost\n",
            "$name: $lost->[0]: says so";
        open my $go, '>', "$tmp/go" or die if $lost->[0] eq 'warn';
        ($status, $out) = $run->finish;
        is $status, $lost->[1], "$name: $lost->[0]: its end";
        is $out =~ s/\n//r, $lost->[2], "$name: $lost->[0]: output";
        unlink "$tmp/go";
        wait_for { $t->state->session_count == 2 } 30, 'new workers';
    }
}

# the user's curl does not wait for long

{
    local $ENV{HOME} = $t->dir;
    open my $curlrc, '>', "$ENV{HOME}/.curlrc" or die;
    print $curlrc "max-time = 1\n";
    close $curlrc;
    run_is 'own .curlrc', $shell{dash}, [ $jobs, '--', 'sleep', 2 ], 0, qr/\A\z/;
}

# called in a wrong way

for my $wrong (
    [ qr/a URL is missing/ ],
    [ qr/a URL is missing/, '--', 'true' ],
    [ qr/a command is missing/, $jobs ],
    [ qr/a command is missing/, $jobs, '--' ],
    [ qr/no option "-x"/, '-x', $jobs, '--', 'true' ],
    [ qr/-w needs a number/, '-w', 'x', $jobs, '--', 'true' ],
    [ qr/-E needs a number up to 255/, '-E', '256', $jobs, '--', 'true' ],
    [ qr/option "-n" must be before the URL/, $jobs, '-n', '--', 'true' ],
    [ qr/-E needs a value/, '-E' ],
    [ qr/--lost is/, '--lost=die', $jobs, '--', 'true' ])
{
    my ($like, @args) = @$wrong;
    run_is "wrong: @args", $shell{dash}, \@args, 64, $like;
}
run_is 'help', $shell{dash}, ['--help'], 0, qr/\AUsage: dsem-run/;

eventually { !(() = glob "$tmp/*") } 'no file left';

$t->done;
