#!/usr/bin/perl

# A node names another one with each reply. One that is new is asked at once, but
# a worker does not follow without end: neither hosts that are always new, nor
# one that closes each connection and is named again and again. From then on
# there are two connections a second.

use lib 't/lib';
use IO::Select;
use IO::Socket::INET;

use Dsem::Cluster;
use Dsem::Process;
use Dsem::Test;

# questions until connections to nodes that were named are counted
my $ENOUGH = 60;

my $t = Dsem::Test->new;
my $slot = Dsem::Cluster->new($t, masters => 1, replicas => 0)->slot;

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%PEER%% mode=cluster;
    dsem_redis_connect_timeout 60s;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / { dsem api limit=1; }
    }
}
EOF_CONF

# $names: the host that is named next; $closes: it closes its connections. Returns
# the address, and a function for the connections to hosts that were named, and
# questions.
sub peer {
    my ($name, $names, $closes) = @_;
    my $port = $t->free_port;
    my $counts = $t->dir . "/$name.counts";
    my $listen = IO::Socket::INET->new(LocalAddr => '0.0.0.0',
        LocalPort => $port, Proto => 'tcp', Listen => 100, ReuseAddr => 1)
        or die "listen: $!";
    Dsem::Process->spawn(name => $name, log => $t->dir . "/$name.log",
        keep => [$listen], code => sub {
            my ($accepted, $asked) = (0, 0);
            my $select = IO::Select->new($listen);
            while (my @ready = $select->can_read) {
                for my $sock (@ready) {
                    if ($sock == $listen) {
                        my $new = $listen->accept or next;
                        my $first = $new->sockhost eq '127.0.0.1';
                        $accepted++ if !$first;
                        $select->add($new) if $first || !$closes;
                    } elsif (sysread $sock, my $data, 65536) {
                        $asked++;
                        syswrite $sock, "-MOVED $slot "
                            . $names->($asked) . ":$port\r\n";
                    } else {
                        $select->remove($sock);
                        close $sock;
                    }
                }
                open my $fh, '>', "$counts.new" or die "$counts: $!";
                print $fh "$accepted $asked";
                close $fh;
                rename "$counts.new", $counts;
            }
        });
    close $listen;
    return ("127.0.0.1:$port", sub {
        open my $fh, '<', $counts or return (0, 0);
        return split ' ', <$fh>;
    });
}

# $at_once: connections that need no turn
sub bounded {
    my ($name, $at_once, @peer) = @_;
    my ($address, $counted) = peer($name, @peer);
    my $began = now;
    my $node = $t->node($name, $conf, PEER => $address);
    wait_for { ($counted->())[1] >= $ENOUGH } 60, 'questions';
    my ($accepted) = $counted->();
    my $most = $at_once + 2 * (now - $began) + 1;
    cmp_ok $accepted, '<=', $most, "$name: connections bounded";
    note "$name: $accepted connections, $most at most";
    $node->stop;
}

bounded(endless => 9, sub { sprintf '127.1.%d.%d', $_[0] / 250, 1 + $_[0] % 250 });
bounded(closes => 1, sub { '127.0.0.9' }, 1);

$t->done;
