#!/usr/bin/perl

# What speaks another protocol than HTTP/1 reaches a pool as "proxy_pass" does:
# each server gets one request at a time, and what waits gets the one that is
# free.

use lib 't/lib';
use IO::Select;
use IO::Socket::INET;

use Dsem::Test;

# an answer with status 200; gRPC: SETTINGS, and HEADERS that end the stream
my %ANSWER = (
    fastcgi => "\1\6\0\1\0\x0f\0\0Status: 200\r\n\r\n"
        . "\1\3\0\1\0\x08\0\0" . "\0" x 8,
    grpc => "\0\0\0\4\0\0\0\0\0" . "\0\0\1\1\5\0\0\0\1\x88",
    memcached => "VALUE key 0 2\r\nok\r\nEND\r\n",
    scgi => "Status: 200\r\n\r\nok",
    uwsgi => "HTTP/1.1 200 OK\r\n\r\nok",
);
my @NAMES = sort keys %ANSWER;

my $t = Dsem::Test->new;
$t->redis;

# sees the bytes of any protocol
my @servers = map {
    IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10,
        Proto => 'tcp') // die "listen: $!";
} 1, 2;
my %address = map { $_ => '127.0.0.1:' . $_->sockport } @servers;

my $upstreams = join "\n", map {
    "upstream $_ { "
        . join('', map { "server $address{$_} max_fails=100; " } @servers)
        . "dsem $_ limit=1/server queue=10 timeout=60s; }"
} @NAMES;
my $locations = join "\n", map {
    "location /$_ { "
        . ($_ eq 'memcached' ? 'set $memcached_key key; ' : '')
        . "${_}_pass $_; }"
} @NAMES;

my $node = $t->node('a', <<"EOF_CONF");
worker_processes 1;
dsem_reuse off;
$upstreams
server {
    listen 127.0.0.1:%%PORT%%;
    add_header X-Server "\$dsem_server \$upstream_addr" always;
    $locations
}
EOF_CONF

# the connection of the next request at this server
sub arrived {
    my ($server) = @_;
    my $sock;
    wait_for { IO::Select->new($server)->can_read(0) } 15, 'a request';
    $sock = $server->accept or die "accept: $!";
    wait_for { IO::Select->new($sock)->can_read(0) } 15, 'its bytes';
    return $sock;
}

# Not closed: what nginx has sent meanwhile would reset the connection.
sub answer {
    my ($sock, $name) = @_;
    syswrite $sock, $ANSWER{$name};
    shutdown $sock, 1;
    return;
}

for my $name (@NAMES) {
    my @requests = map { $node->begin("/$name") } 1, 2;
    my %at = map { $_ => arrived($_) } @servers;
    push @requests, $node->begin("/$name");
    eventually { $t->state->counts($name) eq '2 1' } "$name: the third waits";
    is_deeply [ IO::Select->new(@servers)->can_read(0) ], [], 'at no server';

    my ($first, $second) = @servers;
    answer($at{$first}, $name);
    my $third = arrived($first);
    eventually { $t->state->counts($name) eq '2 0' }
        'it has the server that is free';
    answer($_, $name) for $third, $at{$second};
    # nginx may have cached a connection that is about to end: tried again
    my @seen = map {
        my $said = join ' ', $_->wait->status, $_->header('X-Server');
        $said =~ /^200 (\S+) (?:\1, )?\1$/ ? $1 : $said;
    } @requests;
    is_deeply [ sort @seen ], [ sort @address{$first, $first, $second} ],
        'each is where its permit is';
    eventually { $t->state->counts($name) eq '0 0' } 'all permits are back';
}

$t->done;
