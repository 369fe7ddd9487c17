#!/usr/bin/perl

# The load generator of compose.yaml: runs a scene against nodes that it is told
# (Fleet::Scene).
#
#   scene.pl --nodes=a:8080+b:8080 --redis=redis:6379 [--seconds=10] burst
#
# Redis is restarted by SHUTDOWN: whatever runs it must start it again.
#
# Exit status: 0 every request was answered or rejected, 1 otherwise.

use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin, "$FindBin::Bin/../lib";

use File::Temp qw(tempdir);
use Getopt::Long qw(GetOptions);
use IO::Socket::INET;
use Socket qw(inet_aton inet_ntoa);

use Dsem::Process;
use Dsem::Wait qw(wait_for);

use Fleet::Scene;
use Fleet::Screen;

my %opt = (redis => 'redis:6379', seconds => 10);
my %known = map { $_ => 1 } Fleet::Scene->names;
GetOptions(\%opt, 'nodes=s', 'redis=s', 'seconds=f')
    && defined $opt{nodes} && @ARGV == 1 && $known{ $ARGV[0] }
    or die 'usage: scene.pl --nodes=host:port+... [--redis=host:port]'
    . ' [--seconds=n] ' . join('|', Fleet::Scene->names) . "\n";

$SIG{PIPE} = 'IGNORE';
my $result = Fleet::Scene->new(
    dir => tempdir(CLEANUP => 1), seconds => $opt{seconds},
    nodes => [ map { numeric($_) } split /\+/, $opt{nodes} ],
    screen => Fleet::Screen->new, restart => \&restart_redis,
)->run($ARGV[0]);
Dsem::Process->end_all;
exit(grep({ !/^(?:200|503)$/ } keys %{ $result->{status} }) ? 1 : 0);

# The load generator waits for no name server.
sub numeric {
    my ($host, $port) = split /:/, $_[0];
    my $address = inet_aton($host) // die "$host: no such host\n";
    return inet_ntoa($address) . ":$port";
}

sub restart_redis {
    replied("SHUTDOWN NOSAVE\r\n");
    wait_for { (replied("PING\r\n") // '') =~ /^\+PONG/ } 60,
        'Redis to be started again';
}

# The first bytes of a reply; undefined where there is none.
sub replied {
    my ($command) = @_;
    my $sock = IO::Socket::INET->new(PeerAddr => $opt{redis}, Timeout => 2)
        // return;
    my $reply;
    syswrite $sock, $command;
    return sysread($sock, $reply, 64) ? $reply : undef;
}
