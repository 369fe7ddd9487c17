#!/usr/bin/perl

# Every timeout of nginx towards its backend (connect, send, read, between two
# pieces of a response) ends the upstream request and releases the permit: the
# next request in the queue is served at once. So does a timeout towards the
# client.

use lib 't/lib';
use IO::Socket::INET;
use Socket qw(SOL_SOCKET SO_RCVBUF);

use Dsem::Client::Raw;
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

# servers that never accept: connections are made until the backlog is full,
# and sent data is never read
my ($full, $deaf) = map {
    IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => $_)
        or die "listen: $!";
} 1, 100;
setsockopt $deaf, SOL_SOCKET, SO_RCVBUF, 4096;
my @fill = map {
    IO::Socket::INET->new(PeerAddr => '127.0.0.1',
        PeerPort => $full->sockport, Blocking => 0)
} 1 .. 5;

my $node = $t->node('n1', <<'EOF_CONF', FULL => $full->sockport,
# all at the same time, each with a semaphore of its own
dsem "s$arg_n" limit=1 queue=10 timeout=30s;
proxy_set_header X-Sem $arg_n;
client_max_body_size 10m;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://%%UPSTREAM%%;
    }
    location /connect {
        proxy_connect_timeout 2s;
        proxy_pass http://127.0.0.1:%%FULL%%;
    }
    location /send {
        proxy_send_timeout 2s;
        proxy_pass http://127.0.0.1:%%DEAF%%;
    }
    location /read {
        proxy_read_timeout 2s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /unbuffered {
        proxy_buffering off;
        proxy_read_timeout 2s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /client {
        send_timeout 2s;
        proxy_buffering off;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF
    DEAF => $deaf->sockport);

my $body = 'x' x 5_000_000;
my $n = 0;
my @all;
for my $case (
    ['/connect?', 504],
    ['/send?', 504, -method => 'POST', -body => $body],
    ['/read?hang=1', 504],
    ['/unbuffered?hang=1', 504],
    ['/read?stream=2&every=5000', 200],
    ['/unbuffered?stream=2&every=5000', 200])
{
    my ($path, $status, @option) = @$case;
    $n++;
    my $request = $node->begin("$path&n=$n", @option);
    wait_for { state($n) eq '1 0' };
    my $next = $node->begin("/?t=1&n=$n");
    eventually { state($n) eq '1 1' } "$path: next request queued";
    push @all, [$n, $path, $status, $request, $next];
}
my $slow = Dsem::Client::Raw->new('127.0.0.1', $node->port, rcvbuf => 4096);
$slow->send("GET /client?size=20000000&n=0 HTTP/1.1\r\nHost: a\r\n\r\n");
wait_for { state(0) eq '1 0' };
my $behind = $node->begin('/?t=1&n=0');

for my $case (@all) {
    my ($n, $path, $status, $request, $next) = @$case;
    is($next->wait->status, 200, "$path: next request served");
    is($request->wait->status, $status, 'served after the timeout');
    is($request->error // '', $status == 200 ? 'closed early' : '',
        'partial response received');
    cmp_ok($next->took, '<', 15, 'backend timeout applied');
    eventually { state($n) eq '0 0' && $up->now($n) == 0 } 'nothing left';
    is($up->peak($n), 1, 'one at a time');
    $request->close;
}

is($behind->wait->status, 200, 'served after client timeout');
eventually { state(0) eq '0 0' && $up->now(0) == 0 } 'nothing left';
$slow->close;
is($up->peak(0), 1, 'one at a time');

done_testing();

# permits held and tickets waiting
sub state { return $t->state->counts("s$_[0]") }
