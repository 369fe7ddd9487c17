#!/usr/bin/perl

# bin/dsem-run: a command that becomes another user's, as sudo does. It has the
# permit until it ends, also where /proc does not show it; and where it cannot
# be ended, as the permit is lost, that is said.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(inputs shells);
use Dsem::Test;

my @tools = qw(setpriv unshare mount);
plan(skip_all => 'needs root, setpriv and unshare')
    if $> != 0 || grep { !-x "/usr/bin/$_" } @tools;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);
chmod 01777, $tmp;

# becomes root for whoever runs it
system('cp', '/usr/bin/setpriv', "$tmp/root") == 0 or die;
chmod 04755, "$tmp/root" or die;

# the shell is that of a user who may not end its command
my @user = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups');
my @hidden = ('unshare', '--mount', 'sh', '-c',
    'mount -t proc -o hidepid=2 proc /proc && exec "$@"', 'sh');
my @command = ("$tmp/root", '--reuid=0', 'perl', '-MPOSIX', '-e',
    'POSIX::close($_) for 3 .. 255; syswrite STDOUT, "in\n";'
    . ' select undef, undef, undef, .05 until -e $ARGV[0]', "$tmp/end");

sub shows {
    my (@words) = @_;
    open my $out, '-|', @words or return '';
    return readline($out) // '';
}

my $hides = shows(@hidden, @user, 'sh', '-c', 'ls -d /proc/1 2>&1')
    =~ /No such/;

sub ended {
    my ($run) = @_;
    open my $end, '>', "$tmp/end" or die;
    my ($status) = $run->finish;
    unlink "$tmp/end";
    return $status;
}

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

  SKIP: {
        skip 'no hidepid', 4 if !$hides;
        my $run = Dsem::Program->start([ @hidden, @user, @$shell ], $jobs, '--',
            @command);
        is $run->line, "in\n", "$name: runs, and is not shown";
        wait_for {
            !grep { m{\A\Q$tmp\E/.*/alive} } inputs();
        } 15, 'the pipe to end';
        my $other = Dsem::Program->start($shell, '-w', 1, $jobs, '--', 'true');
        is(($other->finish)[0], 75, "$name: none beside it");
        is ended($run), 0, "$name: ended";
        eventually { !$t->state->held('jobs') } "$name: permit back";
    }

    my $run = Dsem::Program->start([ @user, @$shell ], $jobs, '--', @command);
    is $run->line, "in\n", "$name: runs";
    $node->kill_worker($_, 'KILL') for $node->workers;
    is $run->line, "dsem-run: the permit is lost\n", "$name: lost";
    like $run->line, qr/the command belongs to another user and runs on\n/,
        "$name: not ended";
    is ended($run), 0, "$name: ended by itself";
    wait_for { $t->state->session_count == 2 } 30, 'new workers';
}

$t->done;
