#!/usr/bin/perl

# An upgraded connection holds its permit until it ends, whichever side ends it
# and how. The only permit is not free before, and is free at once afterwards.
# A failed upgrade is a response like any other.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
proxy_http_version 1.1;
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /idle {
        dsem one limit=1 queue=10 timeout=30s;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade;
        proxy_read_timeout 300ms;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /impatient {
        dsem one limit=1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection upgrade;
        proxy_pass http://%%UPSTREAM%%;
    }
}
EOF_CONF

my %end = (
    'client closes' => sub { $_[0]->close },
    'client resets' => sub { $_[0]->reset },
    'client says no more' => sub { $_[0]->shutdown },
    'backend closes' => sub { $up->release_all },
    'client closes, data under way' =>
        sub { $_[0]->send('x' x 1_000_000)->close },
    'client resets, data under way' =>
        sub { $_[0]->send('x' x 1_000_000)->reset },
);
for my $what (sort keys %end) {
    my $socket = upgrade('/');
    $socket->send('hello');
    is($socket->read_until(qr/hello/), 'hello', 'data echoed');
    my $other = $node->raw->send(request('/impatient'));
    like($other->read, qr/^HTTP\/1.1 503/, 'second upgrade rejected');
    my $next = $node->begin('/?t=1');
    eventually { state() eq '1 1' } 'next request queued';
    $socket->send('hello');
    is($socket->read_until(qr/hello/), 'hello', 'data still echoed');
    $end{$what}->($socket);
    is($next->wait->status, 200, "$what: next one served");
    # the backend sees the end only behind the data
    is($up->peak, 1, 'one at a time') unless $what =~ /data/;
    eventually { state() eq '0 0' && $up->now == 0 } 'nothing left';
    $up->reset;
}

my $idle = upgrade('/idle');
is($node->get('/?t=1')->status, 200, 'idle too long: next one served');
is($idle->read_eof, '', 'idle connection closed');

# upgrades in the queue, and their abort

my $first = upgrade('/');
my @waiting = map { $node->raw } 1 .. 3;
for my $n (1 .. 3) {
    $waiting[$n - 1]->send(request('/'));
    wait_for { state() eq "1 $n" };
}
$waiting[0]->close;
$waiting[1]->reset;
eventually { state() eq '1 1' } 'two waiting clients left';
$first->close;
like($waiting[2]->read_until(qr/\r\n\r\n/), qr/^HTTP\/1.1 101/,
    'third client served');
$waiting[2]->close;
eventually { state() eq '0 0' } 'nothing left';
is($up->peak, 1, 'one at a time');

done_testing();

sub request {
    my ($path) = @_;
    return "GET $path HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
        . "Connection: Upgrade\r\n\r\n";
}

sub upgrade {
    my ($path) = @_;
    my $socket = $node->raw;
    $socket->send(request($path));
    like($socket->read_until(qr/\r\n\r\n/), qr/^HTTP\/1.1 101/,
        'connection upgraded');
    return $socket;
}

# permits held and tickets waiting
sub state { return $t->state->counts('one') }
