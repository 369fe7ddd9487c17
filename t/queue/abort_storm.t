#!/usr/bin/perl

# Thousands of clients leave before the reply of Redis, in the queue or at the
# backend, over HTTP/1.1 and HTTP/2. nginx counts references to a request, and
# one reference too many keeps the request forever. Afterwards only the test's
# own connection is left, and no permit is out.

use lib 't/lib';
use Dsem::Http2;
use Dsem::Test;

my $ABORTS = $ENV{DSEM_LONG} ? 10_000 : 2000;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream(service => 0.005);

my $node = $t->node('a', <<'EOF_CONF');
worker_processes 1;
worker_connections 2048;
keepalive_requests 100000;
http2_max_concurrent_streams 1000;
server {
    listen 127.0.0.1:%%PORT%%;
    listen 127.0.0.1:%%PORT2%% http2;
    proxy_set_header X-Sem $dsem_name;
    location /waits {
        dsem api limit=2 queue=1000 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /redirected {
        dsem api limit=2 queue=1000 timeout=60s;
        try_files /nowhere @waits;
    }
    location @waits {
        dsem api limit=2 queue=1000 timeout=60s;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /with_body {
        dsem api limit=2 queue=1000 timeout=60s;
        mirror /mirrored;
        proxy_pass http://%%UPSTREAM%%;
    }
    location = /mirrored {
        internal;
        proxy_set_header X-Sem mirror;
        proxy_pass http://%%UPSTREAM%%/?t=1;
    }
    location /status {
        stub_status;
    }
}
EOF_CONF

my @path = qw(/waits /redirected /with_body);

# active connections, and reading, writing, waiting
sub active {
    my @n = $node->get('/status')->body =~ /(\d+)/g;
    return join ' ', @n[0, -3 .. -1];
}

sub keys_left { return $t->state->exists('api') }

is active(), '1 0 1 0', 'one connection before';

# some stay, so that they are served on a slow machine too
my $n = 0;
my $result = $t->load(clients => 80, requests => $ABORTS,
    request => sub { $node->url($path[ $_[0] % 3 ]) },
    abort => sub { $n++ % 20 ? rand 0.1 : undef });
my %status = %{ $result->{statuses} };
cmp_ok $status{aborted}, '>', $ABORTS / 4, 'many clients left';
cmp_ok $status{200}, '>', 0, 'some requests served';
is_deeply [ grep { !/^(?:200|aborted)$/ } keys %status ], [], 'no other results'
    or diag explain \%status;
note join ', ', map { "$_ $status{$_}" } sort keys %status;

# streams that are reset, in this turn of the event loop or a later one

my $h2 = Dsem::Http2->new($node->raw(2));
for my $round (1 .. $ABORTS / 40) {
    my ($bytes, @later) = '';
    for my $n (1 .. 20) {
        my ($stream, $frame) = $h2->request($path[ $n % 3 ]);
        $bytes .= $frame;
        $n % 2 ? $bytes .= $h2->rst_frame($stream) : push @later, $stream;
    }
    $h2->send($bytes);
    $h2->send(join '', map { $h2->rst_frame($_) } @later);
    $h2->status($h2->get('/status'));
}
is $h2->status($h2->get('/waits')), 200, 'HTTP/2: stream served afterwards';
$h2->close;

eventually { active() eq '1 0 1 0' } 'one connection afterwards';
eventually { !keys_left() } 'nothing held, none waiting';
is $up->peak('api'), 2, 'limit reached, never exceeded';
is scalar($node->grep_log(qr/request count is zero|open socket/)), 0,
    'no alert logged';

my @again = map { $node->begin('/waits?hang=1') } 1, 2;
eventually { $up->now('api') == 2 } 'all permits available';
$up->release_all;
is $_->wait->status, 200, 'request served' for @again;

$t->done;
