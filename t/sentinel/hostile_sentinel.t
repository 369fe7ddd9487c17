#!/usr/bin/perl

# Sentinels that reply with anything but an address: other types and shapes,
# bad hosts and ports, bytes of another protocol. None of them is followed or
# ends the worker, each leaves its turn to the next one, and no text of theirs
# forges a line of the log.

use lib 't/lib';
use IO::Select;
use IO::Socket::INET;

use Dsem::Process;
use Dsem::Test;

my $t = Dsem::Test->new;
my $set = $t->sentinel(servers => 1, sentinels => 0);
my $up = $t->upstream;
my $good = $set->watch('mymaster', $set->master->address);

sub bulk { return map { '$' . length($_) . "\r\n$_\r\n" } @_ }
sub array { return '*' . @_ . "\r\n" . join '', @_ }
sub pair { return array(bulk(@_)) }

my $shape = qr/unexpected reply/;
my $name = qr/is no address, set "announce-hostnames no"/;

my %case = (
    integer => [ ":1\r\n", $shape ],
    status => [ "+OK\r\n", $shape ],
    string => [ bulk('127.0.0.1'), $shape ],
    empty => [ array(), $shape ],
    single => [ array(bulk('127.0.0.1')), $shape ],
    triple => [ array(bulk(qw(127.0.0.1 6379 x))), $shape ],
    huge => [ "*1000000000\r\n", $shape ],
    integers => [ array(":1\r\n", ":2\r\n"), $shape ],
    'integer port' => [ array(bulk('127.0.0.1'), ":6379\r\n"), $shape ],
    'status host' => [ array("+127.0.0.1\r\n", bulk('6379')), $shape ],
    'nil inside' => [ array("\$-1\r\n", bulk('6379')), $shape ],
    nested => [ array(array(bulk('a', 'b')), bulk('6379')), $shape ],
    'long host' => [ pair('1' x 256, 6379), $shape ],
    message => [ array(bulk(qw(message +switch-master x))), $shape ],
    map => [ "%1\r\n+a\r\n+b\r\n", qr/./ ],
    push => [ ">2\r\n+a\r\n+b\r\n", qr/./ ],
    protocol => [ "HTTP/1.1 400 Bad Request\r\n\r\n", qr/./ ],
    nil => [ "*-1\r\n", qr/master "mymaster" is unknown/ ],
    'nil string' => [ "\$-1\r\n", qr/master "mymaster" is unknown/ ],
    error => [ "-NOAUTH Authentication required.\r\n", qr/NOAUTH / ],
    forged => [ "-ERR \n2026/01/01 [alert] forged\r\n", qr/./ ],
    'no host' => [ pair('', 6379), $name ],
    hostname => [ pair('redis-1.example.com', 6379), $name ],
    'longest hostname' => [ pair(join('.', ('a' x 63) x 3, 'b' x 61), 6379), $name ],
    'forged host' => [ pair("a\n[alert] forged", 6379), qr/a\?\[alert\]/ ],
    'short host' => [ pair('127.0.0', 6379), $name ],
    'port 0' => [ pair('127.0.0.1', 0), $name ],
    'port 65536' => [ pair('127.0.0.1', 65536), $name ],
    'port x' => [ pair('127.0.0.1', 'x'), $name ],
    'no port' => [ pair('127.0.0.1', ''), $name ],
);
my @case = sort keys %case;

# one process for all of them: each replies to whatever it is sent
my %listen = map {
    my $port = $t->free_port;
    $case{$_}[2] = "127.0.0.1:$port";
    $_ => IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        LocalPort => $port, Listen => 8, ReuseAddr => 1)
        // die "listen: $!";
} @case;

sub serve {
    my $select = IO::Select->new(values %listen);
    my %reply = map { $listen{$_} => $case{$_}[0] } @case;
    while (1) {
        for my $ready ($select->can_read) {
            if ($ready->sockport && !$ready->connected) {
                my $client = $ready->accept or next;
                $reply{$client} = $reply{$ready};
                $select->add($client);
            } elsif (sysread $ready, my $bytes, 65_536) {
                syswrite $ready, $reply{$ready};
            } else {
                $select->remove($ready);
                close $ready;
            }
        }
    }
}

Dsem::Process->spawn(name => 'hostile', log => $t->dir . '/hostile.log',
    keep => [ values %listen ], code => \&serve);

my $node = $t->node('a', <<'EOF_CONF',
%%GLOBALS%%
error_log %%DIR%%/debug.log debug;
worker_processes 1;
events { }
http {
    %%HTTP%%
    dsem_redis %%SENTINELS%% mode=sentinel master=mymaster;
    dsem_node %%NODE%%;
    server {
        listen 127.0.0.1:%%PORT%%;
        location / {
            dsem api limit=2 queue=10;
            proxy_pass http://%%UPSTREAM%%;
        }
    }
}
EOF_CONF
    SENTINELS => join ' ', map({ $case{$_}[2] } @case), $good->address);

my $state = Dsem::State->new($set->master);
eventually { $state->session_count == 1 } 'session by the last sentinel';
is $node->get('/?t=1')->status, 200, 'request served';
my ($worker) = $node->workers;
is scalar($node->grep_log(qr/exited on signal/)), 0, 'worker alive';

open my $log, '<', $node->dir . '/debug.log' or die "debug.log: $!";
my @line = <$log>;
SKIP: {
    skip 'nginx without debug', 2 * @case if !$node->debug;
    for (@case) {
        my (undef, $re, $address) = @{ $case{$_} };
        my @lost = grep { /dsem sentinel \Q$address\E lost: / } @line;
        is scalar(@lost), 1, "$_: asked once";
        like $lost[0] // '', qr/ lost: .*$re/, "$_: reason";
    }
}
is scalar(grep { /^\[alert\]|^2026\/01\/01/ } @line), 0, 'no line forged';

$t->done;
