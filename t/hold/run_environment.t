#!/usr/bin/perl

# bin/dsem-run: a permit needs the connection to nginx itself. The proxies of
# the environment are not asked, a file of options may name one. The connection
# has probes, so that a machine that is gone is missed. The descriptors that the
# command would have without it are there.

use lib 't/lib';
use File::Temp qw(tempdir);

use Dsem::Program qw(shells);
use Dsem::Test;

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
my $nobody = '127.0.0.1:' . $t->free_port;
my $tmp = $ENV{TMPDIR} = tempdir(CLEANUP => 1);

# the timers of the connections to nginx: number, and 1/100 s until it ends
sub timers {
    my $port = sprintf '%04X', $node->port;
    open my $tcp, '<', '/proc/net/tcp' or return;
    return map {
        /^ *\d+: \S+ \S+:$port 01 \S+ (\d\d):(\w+)/ ? [ $1, hex $2 ] : ()
    } readline $tcp;
}

my %shell = shells();
for my $name (sort keys %shell) {
    my $shell = $shell{$name};

    # proxies

    {
        local @ENV{qw(http_proxy HTTPS_PROXY ALL_PROXY all_proxy)} =
            ("http://$nobody/") x 4;
        delete local @ENV{qw(no_proxy NO_PROXY)};
        my ($status, $out) = Dsem::Program->start($shell, $jobs, '--', 'sh',
            '-c', 'echo $http_proxy')->finish;
        is $status, 0, "$name: a proxy of the environment is not asked";
        is $out, "http://$nobody/\n", "$name: and is there for the command";

        open my $file, '>', "$tmp/config" or die;
        print $file qq{proxy = "http://$nobody/"\n};
        close $file;
        ($status, $out) = Dsem::Program->start($shell, '-K', "$tmp/config",
            $jobs, '--', 'echo', 'in')->finish;
        is $status, 69, "$name: that of a file of options is";
    }

    # probes

    my $run = Dsem::Program->start($shell, $jobs, '--', 'sh', '-c',
        "echo in; while ! test -e $tmp/go; do sleep .05; done");
    is $run->line, "in\n", "$name: runs";
  SKIP: {
        skip 'no /proc/net/tcp', 1 if !-r '/proc/net/tcp';
        eventually {
            my @timers = timers();
            @timers == 1 && $timers[0][0] == 2 && $timers[0][1] < 1000;
        } "$name: the connection is probed soon";
    }
    open my $go, '>', "$tmp/go" or die;
    is(($run->finish)[0], 0, "$name: ended");
    unlink "$tmp/go";

    # descriptors: two are free

    for my $open ([3], [9], [8, 9], [3, 8], [3 .. 7], [3 .. 6, 9], [5 .. 9]) {
        my @open = @$open;
        my $files = join ' ', map { "$_<$tmp/$_" } @open;
        for my $fd (@open) {
            open my $file, '>', "$tmp/$fd" or die;
            print $file "$fd";
            close $file;
        }
        my $read = join ' ', map { "cat <&$_;" } @open;
        my $run = "@$shell bin/dsem-run $jobs -- sh -c '$read'";
        my $said = `exec $files; $run 2>&1`;
        is $said, join('', @open), "$name: descriptors @open are the command's";
    }
    eventually { !$t->state->held('jobs') } "$name: permit back";
}

$t->done;
