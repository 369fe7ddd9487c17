#!/usr/bin/perl

# Messages about grants of a pool are hints: the server of a permit is found
# without them, also of a permit that came when its request had left.

use lib 't/lib';
use Dsem::Test;

my $GRANT = '^\*3\r\n\$7\r\nmessage\r\n(?s:.*)\r\n[0-9a-f]{16} grant ';

my $t = Dsem::Test->new;
my $redis = $t->redis;
my @up = map { $t->upstream } 1 .. 3;
my $servers = join ' ', map { 'server ' . $_->address . ';' } @up;
my $proxy = $t->proxy($redis->address);

my $conf = <<"EOF_CONF";
dsem_reuse off;
upstream gpus {
    $servers
    dsem gpus limit=1/server queue=100 timeout=60s;
}
server {
    listen 127.0.0.1:%%PORT%%;
    location / {
        proxy_pass http://gpus;
        add_header X-Server "\$dsem_server \$upstream_addr";
    }
}
EOF_CONF
my $one = $t->node('one', $conf);
my $two = $t->node('two', $conf, REDIS => $proxy->address);

sub counts { return $t->state->counts('gpus') }

sub running {
    my ($pattern, $name) = @_;
    eventually { join(' ', map { $_->now } @up) eq $pattern } $name;
}

# all servers are full, two requests of the other node wait

$proxy->swallow(match => $GRANT);
my @held = map { $one->begin('/?hang=1') } @up;
running('1 1 1', 'all are full');
my @waits = map { $two->begin('/?hang=1') } 1, 2;
eventually { counts() eq '3 2' } 'two requests wait';

# two grants are lost

$_->release(1) for @up[ 1, 2 ];
eventually { counts() eq '3 0' } 'two were granted';
running('1 1 1', 'found without a message, each at its server');
eventually { $proxy->swallowed > 0 } 'messages really lost';
$_->release(1) for @up[ 1, 2 ];
is_deeply [ sort map { $_->wait->header('X-Server') } @waits ],
    [ sort map { "$_ $_" } map { $_->address } @up[ 1, 2 ] ],
    'each has the server of its permit';

# one is granted when its request has left: Redis has not heard of it

push @held, map { $one->begin('/?hang=1') } 1, 2;
running('1 1 1', 'all are full again');
my $leaves = $two->begin('/');
eventually { counts() eq '3 1' } 'a request waits';
$proxy->freeze('c2s');
$up[1]->release(1);
eventually { counts() eq '3 0' } 'it was granted';
$leaves->abort;
eventually {
    grep { $_->{status} eq '499' } $two->access_log
} 'its client has left';
$proxy->thaw('c2s');
eventually { counts() eq '2 0' } 'the permit went back';
is $two->get('/')->header('X-Server'), join(' ', ($up[1]->address) x 2),
    'and is that of the free server';
my $next = $one->begin('/?hang=1');
running('1 1 1', 'which the other node can use, too');

$_->release_all for @up;
is $_->wait->status, 200, 'request ended' for @held, $next;
is $_->peak, 1, 'limit of a server reached, not exceeded' for @up;
is scalar(grep { $_->grep_log(qr/counts differ/) } $one, $two), 0,
    'counts never differed';

# many of them: each that waits at the second node is found after a second

my $load = $t->load(urls => [ map { $_->url('/?t=5') } $one, $two ],
    clients => 12, requests => $ENV{DSEM_LONG} ? 200 : 60, timeout => 60);
is_deeply [ keys %{ $load->{statuses} } ], [200], 'all served';
is $_->peak, 1, 'limit of a server kept under load' for @up;
is scalar(grep { $_->grep_log(qr/DSEM argument/) } $one, $two), 0,
    'each permit went back at its server';

$t->done;
