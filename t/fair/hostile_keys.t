#!/usr/bin/perl

# Keys are client data: any bytes, any length, none at all. Each is a key of
# its own, encoded in the log and in Redis; none can change the form of a
# command, forge a line of the log, or be taken for the empty key.

use Digest::SHA qw(sha1_hex);
use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
worker_processes 1;
large_client_header_buffers 4 32k;
proxy_pass_request_headers off;
proxy_set_header X-Nonce $http_x_nonce;
server {
    listen 127.0.0.1:%%PORT%%;
    location = /holder {
        dsem api limit=1 queue=50 timeout=30s fair=holder;
        proxy_pass http://%%UPSTREAM%%/?hang=1;
    }
    location ~ "(?s)^/decoded/(?<decoded>.*)$" {
        dsem api limit=1 queue=50 timeout=30s fair=$decoded;
        proxy_pass http://%%UPSTREAM%%;
    }
    location = /without {
        dsem api limit=1 queue=50 timeout=30s;
        proxy_pass http://%%UPSTREAM%%/?t=1;
    }
}
EOF_CONF

# what is in the path, and the key in the log
my $long = 'x' x 5000;
my @keys = (
    ['plain', 'plain'], ['a%20b', 'a%20b'], ['a%20b%20c', 'a%20b%20c'],
    ['-', '-'], ['~', '%7E'], ['0', '0'], ['7%20', '7%20'],
    ['%0d%0a*1%0d%0a$8%0d%0aFLUSHALL%0d%0a',
        '%0D%0A%2A1%0D%0A%248%0D%0AFLUSHALL%0D%0A'],
    ['%0a2026/01/01%2000:00:00%20%5balert%5d',
        '%0A2026%2F01%2F01%2000:00:00%20%5Balert%5D'],
    ['%7b1%7d', '%7B1%7D'], ['queue', 'queue'], ['%25V%25s', '%25V%25s'],
    ['%ff%fe%01', '%FF%FE%01'], ["x" x 200, 'x' x 200],
    [$long, ('x' x 64) . '~' . sha1_hex($long)],
    ["${long}y", ('x' x 64) . '~' . sha1_hex("${long}y")],
    ['%20' x 100, ('%20' x 100) =~ s/^(.{64}).*/$1/r . '~'
        . sha1_hex(' ' x 100)],
    ['', ''],
);

my $holder = $node->begin('/holder');
wait_for { $up->now == 1 } 15, 'the holder';
my @waiting;
for my $case (@keys) {
    push @waiting, $node->begin("/decoded/$case->[0]");
    wait_for { $t->state->waiting('api') == @waiting } 15, 'in the queue';
}
push @waiting, $node->begin('/without');
wait_for { $t->state->waiting('api') == @waiting } 15, 'all in the queue';

# all connections begin anew: they are declared with their keys

$redis->client_kill;
wait_for { grep { $_ > 1 } $t->state->declared } 15, 'a new epoch';
eventually { $t->state->waiting('api') == @waiting } 'all declared';

# one leaves

my $left = pop @waiting;
$left->abort;
eventually { $t->state->waiting('api') == @waiting } 'one has left';
my $gone = shift @waiting;
$gone->abort;
eventually { $t->state->waiting('api') == @waiting } 'another has left';

$up->release_all;
is $_->wait->status, 200, 'request served' for $holder, @waiting;
shift @keys;
for my $i (0 .. $#keys) {
    is $node->logged($waiting[$i])->{dsem_key}, $keys[$i][1],
        'key in the log: ' . substr $keys[$i][1], 0, 40;
}
is $node->logged($holder)->{dsem_key}, 'holder', 'literal key';
is $up->peak, 1, 'limit reached, never exceeded';
is scalar(grep { !m{^2\d\d\d/\d\d/\d\d .*\[\w+\] \d+#} } split /\n/,
    $node->error_log), 0, 'no line forged';
eventually { !grep { /:[sqf]:/ } @{ $redis->cmd('KEYS', '*') } }
    'no key left in redis';

$t->done;
