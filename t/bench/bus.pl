#!/usr/bin/perl

# What messages cost a Redis Cluster: it sends each to all its nodes. The
# figures of docs/sizing.md; the bytes are those of the sockets of its bus.
#
#   perl -It/lib t/bench/bus.pl
#
# Half a minute. Needs ss(8). Exit status: 0 when everything was measured,
# whatever the results.

use strict;
use warnings;

use lib 't/lib';
use Dsem::Cluster;
use Dsem::Test;

my $t = Dsem::Test->new;
my $cluster = Dsem::Cluster->new($t);
my @nodes = $cluster->nodes;
my $up = $t->upstream(service => 0.05);

my $conf = <<'EOF_CONF';
worker_processes 2;
dsem_redis %%REDIS%% mode=cluster;
location / {
    dsem limit limit=10 queue=1000 timeout=60s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

# bytes that the bus of each node has sent, by the pid of the node
sub bus {
    my %bus = map { $_ => 1 } @{ $cluster->{bus} };
    my (%sent, $pid);
    for my $line (`ss -tinp`) {
        if ($line =~ /^\w.*:(\d+)\s+\S+:(\d+)\s/) {
            ($pid) = ($bus{$1} || $bus{$2}) ? $line =~ /pid=(\d+)/ : ();
        } elsif ($pid && $line =~ /bytes_sent:(\d+)/) {
            $sent{$pid} += $1;
        }
    }
    return \%sent;
}

sub figures {
    my %all = (at => now, bytes => 0, calls => 0, sent => 0);
    my $bytes = bus();
    for my $node (@nodes) {
        $all{bytes} += $bytes->{ $node->pid } // 0;
        $all{calls} += $node->calls->{publish} // 0;
        my ($sent) = $node->cmd(qw(CLUSTER INFO))
            =~ /messages_publish_sent:(\d+)/;
        $all{sent} += $sent // 0;
    }
    return \%all;
}

# $n: requests served meanwhile
sub show {
    my ($what, $from, $to, $n) = @_;
    my %d = map { $_ => $to->{$_} - $from->{$_} } keys %$from;
    printf "%-40s %.1f s, %d published, %d sent, %.1f KB/s", $what,
        @d{qw(at calls sent)}, $d{bytes} / $d{at} / 1000;
    printf ', for each request %.2f published', $d{calls} / $n if $n;
    print "\n";
    return \%d;
}

sub rest {
    my ($seconds) = @_;
    my $begin = now;
    wait_for { now > $begin + $seconds } 60 + $seconds, 'time';
}

my $from = figures();
rest(10);
my $alone = show('a Cluster of ' . @nodes . ' nodes', $from, figures());
my @fleet = $t->fleet(2, $conf);
my $state = Dsem::State->new($cluster->at('limit'));
wait_for { $state->session_count == 4 } 20, 'all sessions';
rest(3);
$from = figures();
rest(10);
show('two nginx of two workers at rest', $from, figures());
$from = figures();
my $load = $t->load(urls => [ map { $_->url('/') } @fleet ], clients => 60,
    requests => 2000, keepalive => 1);
my $to = figures();
my $d = show('limit reached, 60 clients', $from, $to, $load->{count});
printf "bytes of a message to another node: %.0f\n", ($d->{bytes}
    - $d->{at} * $alone->{bytes} / $alone->{at}) / $d->{sent};

$t->done;
