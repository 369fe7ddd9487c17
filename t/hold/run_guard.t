#!/usr/bin/perl

# bin/dsem-run: the permit goes back without the helper that gives it back: it was
# killed, or no process can be started, or the temporary directory is full. No
# process stays behind.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(commands shells);
use Dsem::Test;

plan(skip_all => 'no /proc') if !-r '/proc/self/stat';

my $t = Dsem::Test->new;
$t->redis;
my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
location /jobs {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=60s;
}
location /soon {
    dsem jobs limit=1 queue=10 timeout=60s;
    dsem_hold interval=200ms;
}
EOF_CONF

my $jobs = $node->url('/jobs');
my $soon = $node->url('/soon');
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);
chmod 0777, $tmp or die;

sub nothing_left {
    my ($name) = @_;
    eventually { !$t->state->held('jobs') } "$name: permit back";
    eventually { !grep { /\x00(?:\Q$jobs\E|\Q$soon\E)\x00/ } commands() }
        "$name: no process left";
}

# the guard reads the processes that it ends
sub guards {
    return map { m{(\d+)/fd/\d+\z} } grep {
        (readlink($_) // '') =~ m{\A\Q$tmp\E/.*/processes}
    } glob '/proc/[0-9]*/fd/*';
}

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    my $run = Dsem::Program->start($shell, $soon, '--', 'sh', '-c',
        "echo in; while ! test -e $tmp/go; do sleep .05; done");
    is $run->line, "in\n", "$name: runs";
    my @guards = guards();
    is scalar @guards, 1, "$name: one guard";
    kill KILL => @guards;
    wait_for { !guards() } 15, 'the guard to end';
    $node->get('/soon', Prefer => 'wait=1');
    ok $t->state->held('jobs'), "$name: no guard: the permit is held";
    open my $go, '>', "$tmp/go" or die;
    my ($status, $out) = $run->finish;
    is $status, 0, "$name: no guard: status";
    is $out, '', "$name: no guard: nothing is said";
    nothing_left("$name: no guard");
    unlink "$tmp/go";
}

# a full directory

my @full = ('unshare', '--mount', 'sh', '-c',
    "mount -t tmpfs -o size=64k tmpfs $tmp && shift"
    . " && { cat /dev/zero > $tmp/zero; } 2> /dev/null; exec \"\$@\"", 'sh', '-');
SKIP: {
    skip 'no mount', 4 * keys %shell
        if system(@full, 'sh', '-c', "! echo 2> /dev/null > $tmp/file") >> 8;
    for my $name (sort keys %shell) {
        my ($status, $out) = Dsem::Program->start([ @full, @{ $shell{$name} } ],
            $jobs, '--', 'echo', 'in')->finish;
        is $status, 69, "$name: full: status";
        like $out, qr/^dsem-run: .*nothing be written to \Q$tmp\E/m,
            "$name: full: said";
        nothing_left("$name: full");
    }
}

# So few processes may run, those of a user that has no others: the ended ones of
# another run count until they are reaped. A bash tries for long.

my $user = 60000 + $$ % 4000;
sub user { return ('setpriv', "--reuid=$_[0]", qw(--regid=65534 --clear-groups)) }

for my $name (grep { $_ ne 'bash' } sort keys %shell) {
  SKIP: {
        skip 'no other user', 1 if system(user($user), 'true');
        my %ends;
        for my $limit (1 .. 16) {
            my $run = Dsem::Program->start([ 'prlimit', "--nproc=$limit",
                user($user++), @{ $shell{$name} } ],
                '-w', 60, $jobs, '--', 'echo', 'in');
            my ($status, $out) = $run->finish;
            $ends{$status}++;
            is $status, $out =~ /^in$/m ? 0 : 69, "$name: $limit processes: status";
            nothing_left("$name: $limit processes");
        }
        ok $ends{$_}, "$name: some end with $_" for 0, 69;
    }
}

$t->done;
