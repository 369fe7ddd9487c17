#!/usr/bin/perl

# A name with four addresses, of which one is a server that closes each
# connection: it is tried as often as if it had one. At once, three more times
# within half a second, and then each second at least: the workers of a fleet
# have to be back within a quarter of a lease. Nor is it tried too often. A
# server that is silent is tried again when that attempt has failed.

use lib 't/lib';
use IO::Socket::INET;

use Dsem::Clock;
use Dsem::Test;

# s
my ($STEP, $SECONDS) = (0.01, 8);
my $time = 0;

my $t = Dsem::Test->new;
$t->redis;
my $dns = $t->dns('four.dsem.test' => [ map { "127.0.0.$_" } 1 .. 4 ]);
my $clock = Dsem::Clock->new($t, monotonic => 1);

my $conf = <<'EOF_CONF';
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%SERVER%%;
    dsem_redis_timeout 1s;
    resolver %%DNS%% valid=60s;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=5;
            return 204;
        }
        location /turn {
            return 204;
        }
    }
}
EOF_CONF

sub peer {
    my ($name, $host, $closes) = @_;
    my $port = $t->free_port;
    return { name => $name, closes => $closes, tried => [],
        listen => IO::Socket::INET->new(LocalAddr => '127.0.0.2',
            LocalPort => $port, Listen => 100, Blocking => 0, ReuseAddr => 1),
        node => $clock->node($name, $conf, DNS => $dns->address,
            SERVER => "$host:$port") };
}

# all timers that have ended, and what their attempts have come to
sub turn {
    my ($peer) = @_;
    $peer->{node}->get('/turn') for 1 .. 2;
    while (my $client = $peer->{listen}->accept) {
        push @{ $peer->{tried} }, $time;
        push @{ $peer->{open} }, $client unless $peer->{closes};
    }
    return;
}

$clock->stop;
my ($four, $silent) = my @peers = (peer('four', 'four.dsem.test', 1),
    peer('silent', '127.0.0.2', 0));
# Another process replies to the two questions, in a time of its own. When it has
# counted them, it has replied.
wait_for {
    turn($_) for @peers;
    my $asked = $dns->questions;
    $clock->step($STEP) if !$asked;
    $asked == 2;
} 15, 'the addresses';
while ($time < $SECONDS) {
    turn($_) for @peers;
    $clock->step($STEP);
    $time += $STEP;
}
$clock->go;

for my $peer (@peers) {
    my ($name, $tried) = @$peer{qw(name tried)};
    note "$name: @$tried";
    my @gaps = map { $tried->[$_] - $tried->[ $_ - 1 ] } 1 .. $#$tried;
    is_deeply [ grep { $_ > 1.05 } @gaps ], [], "$name: each second";
    # two connections
    cmp_ok scalar(@$tried), '<=', 4 * $SECONDS, "$name: not too often";
}
cmp_ok scalar(grep { $_ < 0.65 } @{ $four->{tried} }), '>=', 4,
    'four times at first';

$t->done;
