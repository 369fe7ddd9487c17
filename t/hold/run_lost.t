#!/usr/bin/perl

# bin/dsem-run: the loss of a permit ends the command, whatever came before it:
# a terminal has stopped the process group, its directory was removed as an old
# one, the user's curl would ask again.

use lib 't/lib';
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);

use Dsem::Program qw(commands shells);
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 2;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);

# Such a command runs for so long that the test fails, and not for ever.
my @command = ('perl', '-e',
    '$| = 1; $SIG{TSTP} = "IGNORE"; print "in\n"; sleep 60; print "out\n"');

sub workers_lost {
    $node->kill_worker($_, 'KILL') for $node->workers;
}

sub lost_is {
    my ($name, $run) = @_;
    workers_lost();
    my ($status, $out) = $run->finish;
    is $status, 'signal 15', "$name: ended";
    like $out, qr/\Adsem-run: the permit is lost\n\z/, "$name: and says why";
    wait_for { $t->state->session_count == 2 } 30, 'new workers';
}

sub running {
    my ($shell) = @_;
    my $run = Dsem::Program->start($shell, $jobs, '--', @command);
    is $run->line, "in\n", 'runs';
    return $run;
}

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    my $run = running($shell);
    kill TSTP => -$run->pid;
    lost_is("$name: stopped", $run);

    $run = running($shell);
    remove_tree(glob "$tmp/*");
    lost_is("$name: no directory", $run);
}

{
    local $ENV{HOME} = $t->dir;
    open my $curlrc, '>', "$ENV{HOME}/.curlrc" or die;
    print $curlrc "retry = 5\nretry-all-errors\nretry-delay = 1\n";
    close $curlrc;
    lost_is('retry', running($shell{dash}));
}

eventually { !grep { /dsem-run\x00\Q$jobs\E\x00/ } commands() }
    'no helper left';

$t->done;
